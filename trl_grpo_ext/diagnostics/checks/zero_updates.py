"""There is something to learn, and the weights do not move."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.diagnostics.evidence.window import LEAST_GROUPS, NO_LOGS, Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.group_outcome import GroupOutcome

LATEST = 5  # logs in a row, or more: a schedule may begin or end at 0; ours
STILL = 1e-7  # nats of KL from the reference, below what single precision tells apart; ours
STILL_LOGS = 16  # so many of the latest without a move; ours


def check(window: Window) -> Outcome:
    """Live groups, and a learning rate, gradient or KL divergence of 0."""
    if not window.logs:
        return NO_LOGS if window.batches else None
    numbers: dict[str, float]
    if live := _live_while_zero(window, "learning_rate"):
        why, action = "the learning rate is 0", "Set learning_rate, or a schedule that does not end so early."
        numbers = {"learning_rate": 0.0}
    elif live := _live_while_zero(window, "grad_norm"):
        why, action = "the gradient is 0", "See whether any parameter is trained: frozen layers, adapters, masks."
        numbers = {"grad_norm": 0.0}
    elif live := _live_while_still(window):
        rate = window.logged("learning_rate")
        shown = f" (learning rate {rate[-1]:.2g})" if rate else ""
        why, action = f"the policy is where it began{shown}", "Raise the learning rate."
        numbers = {"kl": statistics.median(window.logged("kl")[-STILL_LOGS:])}
    else:
        return None
    return Finding(
        code="zero_updates",
        step=window.step,
        severity=Severity.CRITICAL,
        sentence=f"The signal is there and the update is not: {live} groups had something to teach, but {why}.",
        numbers={"live_groups": live} | numbers,
        action=action,
    )


def _live_while_zero(window: Window, figure: str) -> int:
    """The live groups of the latest logs in which a figure is 0; 0 for too few of either."""
    count = 0
    for entry in reversed(window.logs):
        if entry.get(figure) != 0:
            break
        count += 1
    return _live_groups(window, window.logs[:-count]) if count >= LATEST else 0


def _live_while_still(window: Window) -> int:
    """The live groups of the latest logs, if the KL divergence, where it is measured, has stayed at 0 in them.

    During a warm-up that is what there should be.
    """
    logged = window.logged("kl")[-STILL_LOGS:]
    if len(logged) < STILL_LOGS or any(abs(kl) >= STILL for kl in logged) or _is_warming_up(window):
        return 0
    return _live_groups(window, window.logs[:-STILL_LOGS])


def _is_warming_up(window: Window) -> bool:
    rates = window.logged("learning_rate")[-LATEST:]
    return len(rates) > 1 and rates[-1] > rates[0]


def _live_groups(window: Window, earlier: Sequence[Mapping[str, Any]]) -> int:
    """The live groups of the batches that came after these logs; 0 for too few: then no update is as it should be.

    A log has the number of steps that were done, a batch that of those before it.
    """
    done = earlier[-1]["step"] if earlier else None
    batches = [batch for batch in window.batches if done is None or batch.step is None or batch.step >= done]
    live = sum(batch.outcomes.get(GroupOutcome.LIVE, 0) for batch in batches)
    return live if live >= LEAST_GROUPS else 0
