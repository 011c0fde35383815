"""Check `zero_updates`: weights that stay still though groups have something to teach."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trl_grpo_ext.diagnostics.batches import groups_of, percent
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.levels import score_level
from trl_grpo_ext.diagnostics.progress import has_risen
from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, NO_LOGS, CheckResult, Window
from trl_grpo_ext.figures.logged import WEIGHTS_CHANGED, WEIGHTS_MOVED
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.support.setting_checks import is_number

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
# Of the run: so long a warm-up leaves no step at the rate that is set.
WHOLE_RUN = 0.9
# Of the parameters; an adapter has about as many.
FEW_TRAINED = 0.01
# A learning rate, TRL's default: with it, and a gradient, trained weights move.
ENOUGH = 1e-6
# Ours: TRL's defaults are 1 and 1e-8. Adam divides by the gradient's size, and `adam_epsilon` bounds that.
SMALL_NORM, LARGE_EPSILON = 1e-3, 1e-6
# A deviation of rewards: a tenth of what TRL adds to it, which leaves a tenth of the advantages.
SMALL_SPREAD = 1e-5

# Of the trainable parameters. Ours: an optimizer of matrices only, such as Muon, holds more than half of them.
FEW_HELD = 0.5

BUILD_IT_LATER = (
    "Build it of the model that is trained, after its adapter is added, or leave `optimizers` out: then the trainer "
    "builds it."
)
RAISE = "Raise the learning rate."
ENLARGE = (
    "Take TRL's defaults for what shrinks the updates (optim, max_grad_norm, adam_epsilon), "
    "or raise the learning rate."
)
SHORTER_WARM_UP = "Set warmup_steps well below max_steps."
FROZEN = (
    "A larger learning rate would not help: see whether the optimizer holds the parameters that are used, and whether "
    "an adapter is frozen or not active."
)

Entry = Mapping[str, Any]


class Standstill(NamedTuple):
    """A possible reason for weights that stay still: live groups meanwhile, 0 for no standstill; reason; action."""

    live: int
    why: str
    action: str


def zero(window: Window) -> CheckResult:
    """Find live groups whose updates move nothing: learning rate, gradient or KL divergence are 0, or too small."""
    if not window.logs:
        return NO_LOGS if window.batches else None
    if _steps(window, len(window.logs)) < LATEST_STEPS or len(window.logs) < LEAST_LOGS:
        return NotChecked(
            f"{LEAST_LOGS} logs of TRL, of {LATEST_STEPS} optimizer steps or more"
        )
    for standstill in _standstills(window):
        if standstill.live:
            return _finding(window, standstill)
    return None


def _finding(window: Window, standstill: Standstill) -> Finding:
    numbers: dict[str, float] = {"live_groups": standstill.live}
    for name in ("learning_rate", "grad_norm", "kl"):
        value = window.last_logged(name)
        if value is not None:
            numbers[name] = value
    return Finding(
        severity=Severity.CRITICAL,
        sentence=(
            f"The signal is there and the update is not: {standstill.live} groups had something to teach, but "
            f"{standstill.why}."
        ),
        numbers=numbers,
        action=standstill.action,
    )


def _standstills(window: Window) -> Iterator[Standstill]:
    """Yield possible standstills, the plainest first."""
    if holds_few(window.settings) and not has_risen(window):
        yield Standstill(
            live=_live_groups(window, ()),
            why=told_held(window.settings),
            action=BUILD_IT_LATER,
        )
    yield Standstill(
        live=_live_while(
            window, lambda entry: entry.get("learning_rate") == 0, LATEST_STEPS
        ),
        why="the learning rate is 0",
        action="Set learning_rate, or a schedule that does not end so early.",
    )
    yield _without_gradient(window)
    if _is_held_back(window):
        yield Standstill(
            live=_live_groups(window, ()),
            why=f"a beta of {window.settings['beta']:.3g} holds the policy at its reference",
            action="Lower beta; TRL's default is 0.",
        )
    too_long = long_warm_up(window)
    if too_long and not has_risen(window):
        yield Standstill(
            live=_live_groups(window, ()),
            why=f"the warm-up takes {too_long} steps and the run has {window.settings['max_steps']}",
            action=SHORTER_WARM_UP,
        )
    yield from _by_spread(window)
    yield from _by_rate(window)


def holds_few(settings: Mapping[str, Any]) -> bool:
    """Test whether the optimizer holds few of the trainable parameters, or none; False if that is unknown."""
    trainable = settings.get("trainable_tensors") or 0
    return bool(settings.get("optimized_tensors", trainable) < FEW_HELD * trainable)


def told_held(settings: Mapping[str, Any]) -> str:
    """Tell of an optimizer that holds few of the trainable parameters, or none."""
    held = settings["optimized_tensors"] or "none"
    return f"the optimizer holds {held} of the {settings['trainable_tensors']} trainable parameters"


def _without_gradient(window: Window) -> Standstill:
    live = _live_without_gradient(window)
    if window.number("lora_alpha") == 0:
        return Standstill(
            live=live,
            why="the gradient is 0, and a lora_alpha of 0 multiplies the adapter by 0",
            action="Set lora_alpha to lora_r, or to twice as much.",
        )
    return Standstill(
        live=live,
        why="the gradient is 0",
        action="See whether any parameter is trained: frozen layers, adapters, masks.",
    )


def _by_spread(window: Window) -> Iterator[Standstill]:
    """Yield a standstill of rewards that differ by next to nothing."""
    spread = window.median_logged("reward_std")
    # A lesser term alone, such as a tie-break, may well be small.
    live = groups_of(window.batches, GroupOutcome.LIVE) - sum(
        batch.secondary_groups for batch in window.batches
    )
    if spread is not None and _is_lost(window, spread) and live >= LEAST_GROUPS:
        yield Standstill(
            # So small totals look equal, as if terms cancelled each other.
            live=live,
            why=f"rewards differ by {spread:.1g} only, and the advantages are next to nothing: TRL adds 0.0001 to that",
            action="Multiply the scores, or raise the weights, so that rewards of a group differ by 0.01 or more.",
        )


def _is_lost(window: Window, spread: float) -> bool:
    """Test whether TRL's added constant drowns the rewards' deviation, unless the score rises all the same."""
    is_sample = window.settings.get("advantage_deviation") != "population"
    return is_sample and 0 < spread < SMALL_SPREAD and not has_risen(window)


def _by_rate(window: Window) -> Iterator[Standstill]:
    """Yield standstills of a low learning rate, or of parameters without an optimizer."""
    rate = window.last_logged("learning_rate")
    is_enough = rate is not None and rate > ENOUGH
    if not _is_warming_up(window):
        shown = "" if rate is None else f" (learning rate {rate:.2g})"
        yield Standstill(
            live=_live_while(window, _is_still, STILL_STEPS),
            why=f"the policy is where it began{shown}",
            action=FROZEN if is_enough else RAISE,
        )
    if rate is None:
        return
    if not _may_move(window):
        yield Standstill(
            live=_live_while(window, _is_tiny, STILL_STEPS),
            why=f"a learning rate of {highest_rate(window):.2g} moves next to nothing",
            action=RAISE,
        )
    if _has_hardly_moved(window):
        moved = max(window.logged(WEIGHTS_MOVED))
        why = f"with a learning rate of {highest_rate(window):.2g} the weights have moved by {100 * moved:.1g} % in all"
        action = ENLARGE if is_enough else RAISE
        if not moved:
            action = FROZEN
        elif trained_part(window):
            action = f"{action[:-1]}, or train more parameters: see which are frozen."
        yield Standstill(
            live=_live_groups(window, ()),
            why=why + trained_part(window) + _shrunk_by(window),
            action=action,
        )


def trained_part(window: Window) -> str:
    """Name the number of trained parameters, if few are."""
    trained = window.settings.get("trained_parameters")
    parameters = window.settings.get("parameters")
    if not trained or not parameters or trained >= FEW_TRAINED * parameters:
        return ""
    return f" ({trained:,} of {parameters:,} parameters are trained)"


def highest_rate(window: Window) -> float | None:
    """Return the learning rate as it was set, or else the highest in recent logs; a schedule lowers it."""
    full = window.number("learning_rate")
    if full is not None:
        return full
    return max(window.logged("learning_rate"), default=None)


def long_warm_up(window: Window) -> int:
    """Count warm-up steps of a linear schedule that takes the whole run, or more; 0 for other schedules."""
    most = window.number("max_steps")
    if most is None or most <= 0:
        return 0
    steps = window.number("warmup_steps")
    # Below 1 it is a part of the run.
    if steps is None or steps < 1:
        steps = _estimated_warm_up(window)
    return round(steps) if steps >= WHOLE_RUN * most else 0


def _estimated_warm_up(window: Window) -> float:
    """Estimate warm-up steps from recent learning rates; 0 unless the rate rises below its setting."""
    full = window.number("learning_rate")
    logs = [entry for entry in window.logs if is_number(entry.get("learning_rate"))]
    if full is None or len(logs) < LATEST_STEPS or has_risen(window):
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
    if (
        not moved
        or max(moved) >= HARDLY_MOVED
        or _steps(window, len(window.logs)) < STILL_STEPS
    ):
        return False
    if _is_warming_up(window) or has_risen(window):
        return False
    # Rounded updates are a finding of their own.
    return _changed(window) >= MOSTLY_LOST


def _shrunk_by(window: Window) -> str:
    """Name settings that shrink the updates: `, with an optim of sgd`; empty without such a setting."""
    found = []
    optimizer = str(window.settings.get("optim") or "")
    if optimizer.startswith("sgd"):
        found.append(f"an optim of {optimizer}")
    norm = window.number("max_grad_norm")
    if norm is not None and 0 < norm < SMALL_NORM:
        found.append(f"a max_grad_norm of {norm:g}")
    epsilon = window.number("adam_epsilon")
    if epsilon is not None and epsilon > LARGE_EPSILON:
        found.append(f"an adam_epsilon of {epsilon:g}")
    if not found:
        return ""
    return f", with {' and '.join(found)}"


def rounded(window: Window) -> CheckResult:
    """Find 16-bit weights that most updates leave unchanged, while the score is below its ceiling."""
    if not window.logs:
        return NO_LOGS if window.batches else None
    changed = _changed(window)
    dtype = window.settings.get("trained_dtype")
    if (
        changed >= MOSTLY_LOST
        or dtype not in ROUNDED_DTYPES
        or _steps(window, len(window.logs)) < LATEST_STEPS
    ):
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
    shares = []
    for entry, rate in zip(known, rates, strict=True):
        # A schedule ends at 0, where no precision is enough.
        if rate > HIGH * highest:
            shares.append(entry[WEIGHTS_CHANGED])
    return statistics.median(shares) if shares else 1.0


def warming_up(window: Window) -> CheckResult:
    """Find a warm-up longer than the run, though the score has risen, or nothing was recorded yet."""
    steps = long_warm_up(window)
    if steps <= (window.number("max_steps") or 0) or (
        window.batches and not has_risen(window)
    ):
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
    if not count:
        return 0
    return _live_groups(window, window.logs[:-count])


def _latest_logs(window: Window, holds: Callable[[Entry], bool], least: int) -> int:
    """Count latest logs in a row that satisfy a condition; 0 for too few logs or steps."""
    count = 0
    for entry in reversed(window.logs):
        if not holds(entry):
            break
        count += 1
    if count < LEAST_LOGS or _steps(window, count) < least:
        return 0
    return count


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
    """Test a log for a KL divergence of 0."""
    kl = entry.get("kl")
    return is_number(kl) and abs(kl) < STILL


def _is_held_back(window: Window) -> bool:
    """Test whether a large beta pins the policy to its reference while the score stays flat."""
    beta = window.number("beta")
    if beta is None or beta < LARGE_BETA or _steps(window, len(window.logs)) < STILL_STEPS:
        return False
    kl = window.logged("kl")
    return bool(kl) and statistics.median(kl) < CLOSE and not has_risen(window)


def _is_tiny(entry: Entry) -> bool:
    rate = entry.get("learning_rate")
    return is_number(rate) and rate <= TINY


def _may_move(window: Window) -> bool:
    """Test for a larger learning rate earlier or to come, or a risen score."""
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
    if not earlier:
        return _live_in(window.batches)
    done = earlier[-1]["step"]
    return _live_in(
        [batch for batch in window.batches if batch.step is None or batch.step >= done]
    )


def _live_in(batches: Sequence[BatchFigures]) -> int:
    live = groups_of(batches, GroupOutcome.LIVE) - sum(
        batch.cancelled_groups for batch in batches
    )
    return live if live >= LEAST_GROUPS else 0
