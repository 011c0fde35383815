"""Check `zero_updates`: weights that stay still though groups have something to teach."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trl_grpo_ext.diagnostics.batches import groups_of, percent
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.levels import score_level
from trl_grpo_ext.diagnostics.progress import has_risen
from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, NO_LOGS, CheckResult, Window
from trl_grpo_ext.figures.logged import WEIGHTS_CHANGED, WEIGHTS_MOVED
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.protocol import is_number

# Ours, tried in test_fault_injection.py (zero_updates) and test_healthy_runs.py (a long warm-up, a learning
# rate that ends at 0).
# Optimizer steps in a row, or more: a schedule may begin or end at 0.
LATEST_STEPS = 5
# Of the latest steps, all without a move.
STILL_STEPS = 16
# Each may stand for several steps.
LEAST_LOGS = 2
# 25 times that of DeepSeekMath; ours, tried in test_diagnosis_cases.py.
LARGE_BETA = 1.0
# Nats of KL from the reference.
CLOSE = 0.01
# Nats of KL from the reference: single precision tells no less apart.
STILL = 1e-7
# A learning rate. Adam moves a weight by about so much a step, and a weight of 0.02 by a ten-thousandth in 100 steps.
# Ours, a thirtieth of TRL's default; tried in test_diagnosis_cases.py.
TINY = 3e-8
# Of their norm. Ours: of the bundled model, 2e-5 in 30 steps at 1e-6, where it learns nothing, and 3e-4 at 5e-5 in
# bfloat16, where it learns.
HARDLY_MOVED = 1e-4
# Of the weights with a gradient are changed by a step. Ours: 0.97 and more in single precision at any usual rate, and
# 0.14 in bfloat16 at 5e-5.
MOSTLY_LOST = 0.5
ROUNDED_DTYPES = ("bfloat16", "float16")
# Of the highest learning rate.
HIGH = 0.5
# A learning rate, TRL's default: with it, and a gradient, trained weights move.
ENOUGH = 1e-6

Entry = Mapping[str, Any]


def zero(window: Window) -> CheckResult:
    """Live groups, and a learning rate, gradient or KL divergence of 0, or a learning rate that moves nothing."""
    if not window.logs:
        return NO_LOGS if window.batches else None
    if _steps(window, len(window.logs)) < LATEST_STEPS or len(window.logs) < LEAST_LOGS:
        return NotChecked(f"{LEAST_LOGS} logs of TRL, of {LATEST_STEPS} optimizer steps or more")
    for live, why, action in _standstills(window):
        if live:
            return _still_finding(window, live, why, action)
    return None


def _still_finding(window: Window, live: int, why: str, action: str) -> Finding:
    numbers: dict[str, float] = {"live_groups": live}
    for name in ("learning_rate", "grad_norm", "kl"):
        values = window.logged(name)
        if values:
            numbers[name] = values[-1]
    return Finding(
        severity=Severity.CRITICAL,
        sentence=f"The signal is there and the update is not: {live} groups had something to teach, but {why}.",
        numbers=numbers,
        action=action,
    )


def _standstills(window: Window) -> Iterator[tuple[int, str, str]]:
    """Yield live groups, reason and action of every possible standstill; 0 groups mean no standstill."""
    rates, beta = window.logged("learning_rate"), window.settings.get("beta")
    yield (
        _live_while(window, lambda entry: entry.get("learning_rate") == 0, LATEST_STEPS),
        "the learning rate is 0",
        "Set learning_rate, or a schedule that does not end so early.",
    )
    yield (
        _live_without_gradient(window),
        "the gradient is 0",
        "See whether any parameter is trained: frozen layers, adapters, masks.",
    )
    if _is_held_back(window):
        why = f"a beta of {beta:.3g} holds the policy at its reference"
        yield _live_groups(window, ()), why, "Lower beta; TRL's default is 0."
    too_long = long_warm_up(window)
    if too_long and not has_risen(window):
        why = f"the warm-up takes {too_long} steps and the run has {window.settings['max_steps']}"
        yield _live_groups(window, ()), why, SHORTER_WARM_UP
    if not _is_warming_up(window):
        shown = f" (learning rate {rates[-1]:.2g})" if rates else ""
        is_enough = bool(rates) and rates[-1] > ENOUGH
        live = _live_while(window, _is_still, STILL_STEPS)
        yield live, f"the policy is where it began{shown}", FROZEN if is_enough else RAISE
    if rates and not _may_move(window):
        live = _live_while(window, _is_tiny, STILL_STEPS)
        yield live, f"a learning rate of {highest_rate(window):.2g} moves next to nothing", RAISE
    if rates and _has_hardly_moved(window):
        moved = max(window.logged(WEIGHTS_MOVED))
        why = f"with a learning rate of {highest_rate(window):.2g} the weights have moved by {100 * moved:.1g} % in all"
        yield _live_groups(window, ()), why + _shrunk_by(window), RAISE if rates[-1] <= ENOUGH else ENLARGE


def highest_rate(window: Window) -> float | None:
    """Return the learning rate as it was set, or else the highest in recent logs; a schedule lowers it."""
    full = window.settings.get("learning_rate")
    return full if is_number(full) else max(window.logged("learning_rate"), default=None)


RAISE = "Raise the learning rate."
ENLARGE = (
    "Take TRL's defaults for what shrinks the updates (optim, max_grad_norm, adam_epsilon), or raise the learning rate."
)
SHORTER_WARM_UP = "Set warmup_steps well below max_steps."
FROZEN = (
    "A larger learning rate would not help: see whether the optimizer holds the parameters that are used, and whether "
    "an adapter is frozen or not active."
)


def long_warm_up(window: Window) -> int:
    """Return the steps of a linear warm-up that is longer than the run; 0 for other schedules."""
    most = window.settings.get("max_steps")
    if not is_number(most) or most <= 0:
        return 0
    steps = window.settings.get("warmup_steps")
    # Below 1 it is a part of the run.
    if not is_number(steps) or steps < 1:
        steps = _estimated_warm_up(window)
    return round(steps) if steps > most else 0


def _estimated_warm_up(window: Window) -> float:
    """Estimate the steps of a linear warm-up from the rates so far; 0 for another schedule."""
    full = window.settings.get("learning_rate")
    logs = [entry for entry in window.logs if is_number(entry.get("learning_rate"))]
    if not is_number(full) or len(logs) < LATEST_STEPS or has_risen(window):
        return 0.0
    first, last = logs[0]["step"], logs[-1]["step"]
    began, now = logs[0]["learning_rate"], logs[-1]["learning_rate"]
    if last <= first or not began < now < full:
        return 0.0
    return float(last + (full - now) * (last - first) / (now - began))


def _has_hardly_moved(window: Window) -> bool:
    """Test whether weights in single precision have moved by next to nothing, and nothing was learned."""
    moved = window.logged(WEIGHTS_MOVED)
    # The largest: a resumed run measures from where it resumed.
    if not moved or max(moved) >= HARDLY_MOVED or _steps(window, len(window.logs)) < STILL_STEPS:
        return False
    return not (_is_warming_up(window) or has_risen(window) or _changed(window) < MOSTLY_LOST)


# Ours: TRL's defaults are 1 and 1e-8. Adam divides by the gradient's size, and `adam_epsilon` bounds that.
SMALL_NORM, LARGE_EPSILON = 1e-3, 1e-6


def _shrunk_by(window: Window) -> str:
    """Name settings that shrink the updates: `, with an optim of sgd`; empty without such a setting."""
    found = []
    optimizer = str(window.settings.get("optim") or "")
    if optimizer.startswith("sgd"):
        found.append(f"an optim of {optimizer}")
    norm = window.settings.get("max_grad_norm")
    if is_number(norm) and 0 < norm < SMALL_NORM:
        found.append(f"a max_grad_norm of {norm:g}")
    epsilon = window.settings.get("adam_epsilon")
    if is_number(epsilon) and epsilon > LARGE_EPSILON:
        found.append(f"an adam_epsilon of {epsilon:g}")
    return f", with {' and '.join(found)}" if found else ""


def rounded(window: Window) -> CheckResult:
    """Find weights of 16 bits that most updates leave as they are, below the ceiling of the score."""
    if not window.logs:
        return NO_LOGS if window.batches else None
    changed = _changed(window)
    dtype = window.settings.get("trained_dtype")
    if changed >= MOSTLY_LOST or dtype not in ROUNDED_DTYPES or _steps(window, len(window.logs)) < LATEST_STEPS:
        return None
    # At 0, the updates are lost for another reason.
    if window.is_solved or _learns_well(window) or not window.logged("learning_rate"):
        return None
    return Finding(
        severity=Severity.INFO if has_risen(window) else Severity.CRITICAL,
        sentence=(
            f"The weights are {dtype}, which rounds most of the updates away: at this learning rate a step changes "
            f"{percent(changed)} of the weights that have a gradient."
        ),
        numbers={"changed": changed},
        action="Train in single precision (dtype: float32, with bf16: true for the speed), or raise the learning rate.",
    )


def _learns_well(window: Window) -> bool:
    """Test whether the score has gained half of the distance to the best score."""
    start = window.scale.unit(score_level(window.opening)).mean
    end = window.scale.unit(window.score).mean
    return has_risen(window) and end - start >= (1 - start) / 2


def _changed(window: Window) -> float:
    """Share of sampled weights that a step changes, while the learning rate is high; 1 if unknown."""
    logs = {entry["step"]: entry for entry in (*window.opening_logs, *window.logs)}
    known = [entry for entry in logs.values() if is_number(entry.get(WEIGHTS_CHANGED))]
    rates = [entry.get("learning_rate") or 0.0 for entry in known]
    highest = max(rates, default=0.0)
    # A schedule ends at 0, where no precision is enough.
    shares = [entry[WEIGHTS_CHANGED] for entry, rate in zip(known, rates, strict=True) if rate > HIGH * highest]
    return statistics.median(shares) if shares else 1.0


def warming_up(window: Window) -> CheckResult:
    """Find a warm-up longer than the run, in a run whose score has risen."""
    steps = long_warm_up(window)
    if not steps or not window.batches or not has_risen(window):
        return None
    most = window.settings["max_steps"]
    return Finding(
        severity=Severity.INFO,
        sentence=(
            f"The warm-up takes {steps} steps and the run has {most}, so the learning rate ends at "
            f"{percent(most / steps)} of what is set."
        ),
        numbers={"warmup_steps": steps, "max_steps": most},
        action=SHORTER_WARM_UP,
    )


def _live_while(window: Window, holds: Callable[[Entry], bool], least: int) -> int:
    """Count live groups during the latest logs that satisfy a condition; 0 for too few logs or groups."""
    count = _latest_logs(window, holds, least)
    return _live_groups(window, window.logs[:-count]) if count else 0


def _latest_logs(window: Window, holds: Callable[[Entry], bool], least: int) -> int:
    """Count the latest logs that satisfy a condition; 0 if these are too few logs or steps."""
    count = 0
    for entry in reversed(window.logs):
        if not holds(entry):
            break
        count += 1
    return 0 if count < LEAST_LOGS or _steps(window, count) < least else count


def _live_without_gradient(window: Window) -> int:
    """Count live groups in the batches whose update had a gradient of 0; fewer than `LEAST_GROUPS` give 0.

    transformers logs the gradient of a log's last step only. The batches of the steps before it may have had one.
    """
    count = _latest_logs(window, lambda entry: entry.get("grad_norm") == 0, LATEST_STEPS)
    batches: dict[int, BatchFigures] = {}
    for entry in window.logs[len(window.logs) - count :]:
        batch = _batch_of(window, entry["step"] - 1)
        if batch is not None:
            batches[id(batch)] = batch
    return _live_in([*batches.values()])


def _batch_of(window: Window, step: int) -> BatchFigures | None:
    """Return the batch of an optimizer step; None if it is unknown, or also served other steps with dead groups.

    A batch that serves several steps is split between them: the groups of one step may all be dead.
    """
    numbered = [(batch.step, batch) for batch in window.batches if batch.step is not None]
    before = [(first, batch) for first, batch in numbered if first <= step]
    if not before:
        return None
    first, batch = before[-1]
    following = next((after for after, _ in numbered if after > first), first + 1)
    is_all_live = batch.outcomes.get(GroupOutcome.LIVE, 0) == batch.groups
    return batch if following - first == 1 or is_all_live else None


def _steps(window: Window, count: int) -> int:
    """Count optimizer steps behind the latest logs; a log covers steps since the previous log."""
    latest = window.logs[-count:]
    if count < len(window.logs):
        return int(latest[-1]["step"] - window.logs[-count - 1]["step"])
    between = latest[-1]["step"] - latest[0]["step"]
    # The steps before the first of these logs count as one interval more.
    return int(between + between // max(1, count - 1))


def _is_still(entry: Entry) -> bool:
    """Test whether a log has a KL divergence of 0."""
    kl = entry.get("kl")
    return is_number(kl) and abs(kl) < STILL


def _is_held_back(window: Window) -> bool:
    """Test whether a large beta pins the policy to its reference while the score stays flat."""
    beta = window.settings.get("beta")
    if not is_number(beta) or beta < LARGE_BETA or _steps(window, len(window.logs)) < STILL_STEPS:
        return False
    kl = window.logged("kl")
    return bool(kl) and statistics.median(kl) < CLOSE and not has_risen(window)


def _is_tiny(entry: Entry) -> bool:
    rate = entry.get("learning_rate")
    return is_number(rate) and rate <= TINY


def _may_move(window: Window) -> bool:
    """Test whether updates once had a larger learning rate, will have one, or taught something."""
    began_larger = not all(map(_is_tiny, window.opening_logs))
    return began_larger or _is_warming_up(window) or has_risen(window)


def _is_warming_up(window: Window) -> bool:
    """Test whether the learning rate rises, as in a warm-up."""
    rates = window.logged("learning_rate")[-LATEST_STEPS:]
    return len(rates) > 1 and rates[-1] > rates[0]


def _live_groups(window: Window, earlier: Sequence[Entry]) -> int:
    """Count live groups of batches after these logs; fewer than `LEAST_GROUPS` give 0.

    A log has the number of steps that were done, a batch that of those before it.
    """
    done = earlier[-1]["step"] if earlier else None
    return _live_in([batch for batch in window.batches if done is None or batch.step is None or batch.step >= done])


def _live_in(batches: Sequence[BatchFigures]) -> int:
    live = groups_of(batches, GroupOutcome.LIVE) - sum(batch.cancelled_groups for batch in batches)
    return live if live >= LEAST_GROUPS else 0
