"""There is something to learn, and the weights do not move."""

from __future__ import annotations

import statistics

from trl_grpo_ext.diagnostics.check import Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.group_outcome import GroupOutcome

LATEST = 5  # logs in a row: a schedule may begin or end at 0; ours
LEAST_LIVE = 8  # groups: without any, no update is what there should be; ours
STILL = 1e-7  # nats of KL from the reference, below what single precision tells apart; ours
STILL_LOGS = 16  # so many of the latest without a move; ours


def check(window: Window) -> Outcome:
    """Live groups, and a learning rate, gradient or KL divergence of 0."""
    if not window.logs:
        return NotChecked("TRL's logs") if window.batches else None
    live = sum(batch.outcomes.get(GroupOutcome.LIVE, 0) for batch in window.batches)
    if live < LEAST_LIVE:
        return None
    latest = window.logs[-LATEST:]
    numbers: dict[str, float] = {"live_groups": live}
    if len(latest) == LATEST and all(entry.get("learning_rate") == 0 for entry in latest):
        why, action = "the learning rate is 0", "Set learning_rate, or a schedule that does not end so early."
        numbers["learning_rate"] = 0.0
    elif len(latest) == LATEST and all(entry.get("grad_norm") == 0 for entry in latest):
        why, action = "the gradient is 0", "See whether any parameter is trained: frozen layers, adapters, masks."
        numbers["grad_norm"] = 0.0
    elif _is_still(window):
        rate = window.logged("learning_rate")
        shown = f" (learning rate {rate[-1]:.2g})" if rate else ""
        why, action = f"the policy is where it began{shown}", "Raise the learning rate."
        numbers["kl"] = statistics.median(window.logged("kl")[-STILL_LOGS:])
    else:
        return None
    return Finding(
        code="zero_updates",
        step=window.step,
        severity=Severity.CRITICAL,
        sentence=f"The signal is there and the update is not: {live} groups had something to teach, but {why}.",
        numbers=numbers,
        action=action,
    )


def _is_still(window: Window) -> bool:
    """Whether the KL divergence, where it is measured, has stayed at 0."""
    logged = window.logged("kl")[-STILL_LOGS:]
    return len(logged) == STILL_LOGS and all(abs(kl) < STILL for kl in logged)
