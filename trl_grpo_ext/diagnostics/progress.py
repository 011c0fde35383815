"""Progress: start and end score of a run, and whether the score rises, stays flat or is stuck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.diagnostics.levels import (
    LevelOf,
    fitted_rise,
    gain,
    gain_within,
    score_level,
)
from trl_grpo_ext.diagnostics.window import Window
from trl_grpo_ext.support.estimate import NOTHING, SURE, Estimate, Interval

# Parts of the scale, and steps. Ours, set by benchmarks/false_alarms.py: how often runs that learn are called stuck,
# and runs that are stuck are told.
# Fewer cannot show that a score is flat.
FLAT_BATCHES = 8
# Optimizer steps: until then a slow rise looks flat.
EARLY = 24
# Optimizer steps until a score that is not 0 can be called stuck.
PATIENCE = 96
# From a lower score, nothing is learned.
NEXT_TO_NOTHING = 0.01
# Over the whole run, and from a score near the worst one.
LEAST_RISE, LEAST_LOW_RISE = 0.05, 0.015
# Ours, tried in test_fault_injection.py and test_healthy_runs.py.
# A score that surely rises by less over a window is flat.
LEAST_GAIN = 0.1
# A smaller gain is not worth much.
HARDLY = 0.05


def score_text(score: float, digits: int = 2) -> str:
    """Round half up, as people do: 0.415 (binary 0.41499...) gives 0.42.

    Examples:
        >>> score_text(0.415), score_text(-0.001), score_text(0.00125, 4)
        ('0.42', '0.00', '0.0013')
    """
    return f"{score + 1e-9:z.{digits}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Start and end score of a run, as headline, report and `summary.json` name them.

    Examples:
        >>> ends = Ends(start=Estimate.of([0.4]), end=Estimate.of([0.8]), start_at="at step 0", end_at="at step 9")
        >>> str(ends), ends.change
        ('0.40 at step 0 and 0.80 at step 9', 'from 0.40 at step 0 to 0.80 at step 9')
    """

    # The score of the first batches, or of the first evaluation; `NOTHING` where there is only one.
    start: Estimate
    # The score of the last batches, or of the last evaluation; `NOTHING` if nothing was judged.
    end: Estimate
    # Where both scores were measured, in words; empty for a missing first score.
    start_at: str
    end_at: str
    # Digits after the point, as people read the score.
    digits: int = 2

    @property
    def score_texts(self) -> tuple[str, str]:
        """Start and end as displayed text; an unknown start is empty."""
        start = score_text(self.start.mean, self.digits) if self.start.count else ""
        end = score_text(self.end.mean, self.digits) if self.end.count else ""
        return start, end

    @property
    def moves(self) -> str:
        """Direction of a sure, visible change: `risen`, `fallen`, or empty."""
        gain = self.end - self.start
        start, end = self.score_texts
        if not gain.count or start == end or abs(gain.mean) <= SURE * gain.error:
            return ""
        return "risen" if gain.mean > 0 else "fallen"

    @property
    def places(self) -> str:
        """`at step 0 and at step 9`."""
        return " and ".join(filter(None, (self.start_at, self.end_at)))

    @property
    def gain(self) -> Interval | None:
        """Change from start to end with its interval; None without a start or an error."""
        gain = self.end - self.start
        has_interval = gain.count and gain.is_known and gain.error
        return gain.interval if has_interval else None

    @property
    def gain_told(self) -> str:
        """`, a change of +0.40 (95 % interval +0.35 to +0.45)`; empty where it is unknown."""
        gain = self.gain
        if gain is None:
            return ""
        mean = f"{gain.mean:+z.{self.digits}f}"
        low = f"{gain.low:+z.{self.digits}f}"
        high = f"{gain.high:+z.{self.digits}f}"
        return f", a change of {mean} (95 % interval {low} to {high})"

    @property
    def change(self) -> str:
        """`from 0.40 at step 0 to 0.80 at step 9`."""
        start, end = self.score_texts
        return f"from {start} {self.start_at} to {end} {self.end_at}"

    def __str__(self) -> str:
        start, end = self.score_texts
        if not start:
            return f"{end} {self.end_at}"
        if start == end:
            return f"{start} {self.start_at} and {self.end_at}"
        return f"{start} {self.start_at} and {end} {self.end_at}"

    def to_record(self) -> dict[str, Any]:
        """Convert to plain JSON values; unknown start or interval becomes null."""
        return {
            "start": self.start.mean if self.start.count else None,
            "start_at": self.start_at,
            "end": self.end.mean,
            "end_at": self.end_at,
            "change": self.gain and self.gain.to_record(),
        }


def training_ends(window: Window) -> Ends:
    """Start and end of the training score."""
    first, last = window.ends
    start_at = ""
    end_at = "in the only batch"
    if first:
        start_at = (
            f"in the first {len(first)} batches" if len(first) > 1 else "in the first batch"
        )
        end_at = f"in the last {len(last)}" if len(last) > 1 else "in the last one"
    return Ends(
        start=score_level(first),
        end=score_level(last),
        start_at=start_at,
        end_at=end_at,
        digits=window.scale.digits,
    )


def evaluation_ends(window: Window) -> Ends | None:
    """First and last evaluation score; None without evaluations."""
    if not window.evaluations:
        return None
    last = window.evaluations[-1]
    start = NOTHING
    start_at = ""
    if len(window.evaluations) > 1:
        first = window.evaluations[0]
        start = first.score
        start_at = "at the start" if first.step is None else f"at step {first.step}"
    return Ends(
        start=start,
        end=last.score,
        start_at=start_at,
        end_at="at the end" if last.step is None else f"at step {last.step}",
        digits=window.scale.digits,
    )


def is_flat(window: Window, least_gain: float = LEAST_GAIN) -> bool:
    """Test whether recent batches surely gained less than `least_gain` from first half to second.

    `least_gain` is a part of the scale. False for fewer than `FLAT_BATCHES`.
    """
    if len(window.batches) < FLAT_BATCHES:
        return False
    least = _least_gain(window, score_level(window.batches), least_gain)
    gained = window.scale.part(gain_within(window.batches))
    return gained.is_surely_below(least)


def _least_gain(window: Window, level: Estimate, least_gain: float = LEAST_GAIN) -> float:
    """Return the least gain that matters: near a known best score, half of the missing score."""
    missing = 1 - window.scale.unit(level).mean
    # An unknown level is NaN, and nothing is known to be missing.
    if not window.scale.is_known or not missing > 0:
        return least_gain
    return min(least_gain, missing / 2)


def is_known_flat(window: Window) -> bool:
    """Test whether the whole run's trend excludes a worthwhile rise.

    It is too early to tell, and False, for fewer steps than `EARLY`, in which a slow rise looks flat, and where the
    interval of the trend reaches as far as `LEAST_GAIN`.
    """
    trend = fitted_rise(window.history)
    if trend is None or steps_so_far(window) < EARLY:
        return False
    least = _least_gain(window, window.score)
    return window.scale.part(trend).is_surely_below(least)


def has_risen(window: Window, level: LevelOf = score_level) -> bool:
    """Test whether the score, or another level, has surely risen since the opening."""
    gained = gain(window.opening, window.later, level)
    if gained.is_sure or level is not score_level or not gained.mean > 0:
        return gained.is_sure
    # The opening is too short to show a slow rise.
    trend = fitted_rise(window.history)
    return trend is not None and trend.is_sure


def is_stuck(window: Window, patience: int = PATIENCE) -> bool:
    """Test for a stuck score: no recent rise, hardly any rise in the whole run.

    A slow run rises by little over any window. Its gain over all steps tells it from a stuck run, which takes
    `patience` optimizer steps, and fewer for a score next to 0. `benchmarks/false_alarms.py` measures how well.
    """
    trend = fitted_rise(window.history)
    if not window.score.count or trend is None or len(window.batches) < FLAT_BATCHES:
        return False
    level = window.scale.unit(window.score).mean
    if level < NEXT_TO_NOTHING:
        patience = EARLY if level > 0 else 0
    if steps_so_far(window) < patience:
        return False
    for gained in (gain(window.opening, window.later), gain_within(window.batches)):
        if gained.mean > gained.error:
            return False
    rise = window.scale.part(trend)
    # Of a low score, a quarter of itself is a gain.
    least = min(LEAST_RISE, max(LEAST_LOW_RISE, level / 4))
    return rise.mean + rise.error < least


def has_hardly_gained(window: Window) -> bool:
    """Test whether the visible gain since the opening stays below `HARDLY`.

    Sure proof is not asked for: another figure has moved a lot, and the question is whether it was worth it.
    """
    return window.scale.part(gain(window.opening, window.later)).mean < HARDLY


def is_learning(window: Window) -> bool:
    """Test whether the score rises, or the run is too young to tell.

    The worst score teaches nothing, however early it is.
    """
    if not window.score.count or window.scale.unit(window.score).mean <= 0:
        return False
    if steps_so_far(window) < EARLY:
        return True
    return has_risen(window) and not is_flat(window)


def steps_so_far(window: Window) -> float:
    """Count optimizer steps from the first training batch to the last: 20 for 21 batches of a step each."""
    if not window.history:
        return 0.0
    return window.history[-1].middle - window.history[0].middle
