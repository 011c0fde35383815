"""A check: a pure function of a window of a run, which finds one kind of trouble or none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from trl_grpo_ext.diagnostics.batch_facts import BatchFacts
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked
from trl_grpo_ext.diagnostics.history import Stretch, fitted_rise
from trl_grpo_ext.diagnostics.moments import Moments
from trl_grpo_ext.diagnostics.statistics.batch import ROUNDING
from trl_grpo_ext.diagnostics.term_facts import TermFacts

RECENT_BATCHES = 16
OPENING_BATCHES = 4
RECENT_LOGS = 32
OPENING_LOGS = 4
EVALUATIONS = 16
CLIFF_STEPS = 4  # optimizer steps

LEAST_SAMPLES = 32  # completions, for a share to mean anything; ours
LEAST_GROUPS = 8  # groups, for a share of them to mean anything; ours
CEILING = 0.95  # a score above has nowhere to go; ours
FLAT_BATCHES = 8  # for a score to be called flat; ours
PATIENCE = 96  # training batches until a score that is not 0 can be called stuck; ours
LEAST_RISE, LEAST_LOW_RISE = 0.05, 0.015  # of a score over the whole run, and of one near 0; ours
SURE = 2.0  # standard errors: beyond them, chance is below 5 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What a check may look at.

    Attributes:
        batches: The last training batches, oldest first, at most `RECENT_BATCHES`.
        opening: The first training batches of the run, at most `OPENING_BATCHES`.
        history: The scores of the whole run, oldest first, in few stretches.
        evaluations: The first evaluation and the last, oldest first, at most `EVALUATIONS`: step and primary score.
        trained_at_first_evaluation: The primary score of the training batches just before the first evaluation; None
            if nobody kept it.
        logs: The last of TRL's logs of training steps, oldest first, at most `RECENT_LOGS`; figures that were not
            finite are NaN, or None if they come from disk.
        opening_logs: The first of them, at most `OPENING_LOGS`.
        entropy_cliff: The largest share of the first entropy that was lost within `CLIFF_STEPS` steps, ever; None if
            it was not logged.
        settings: The run's, as `run_settings` or `RecordedRun.settings` give them.
    """

    batches: Sequence[BatchFacts] = ()
    opening: Sequence[BatchFacts] = ()
    history: Sequence[Stretch] = ()
    evaluations: Sequence[tuple[int | None, Level]] = ()
    trained_at_first_evaluation: Level | None = None
    logs: Sequence[Mapping[str, Any]] = ()
    opening_logs: Sequence[Mapping[str, Any]] = ()
    entropy_cliff: float | None = None
    settings: Mapping[str, Any]

    @property
    def step(self) -> int | None:
        """The step of the latest batch, or log."""
        if self.batches:
            return self.batches[-1].step
        return self.logs[-1].get("step") if self.logs else None

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms of the latest batch."""
        return tuple(self.batches[-1].terms) if self.batches else ()

    @property
    def in_force(self) -> tuple[str, ...]:
        """Those with weight in the latest batch; the first is the primary term."""
        return tuple(term for term in self.terms if self.batches[-1].terms[term].in_force)

    @property
    def later(self) -> tuple[BatchFacts, ...]:
        """The recent batches that are not among the opening ones; none until there are as many of them as of those."""
        known = {id(batch) for batch in self.opening}
        later = tuple(batch for batch in self.batches if id(batch) not in known)
        return later if len(later) >= OPENING_BATCHES else ()

    def of_term(self, term: str) -> list[TermFacts]:
        """A term's facts in the recent batches."""
        return [batch.terms[term] for batch in self.batches if term in batch.terms]

    def logged(self, name: str, *, opening: bool = False) -> list[float]:
        """The finite values of a figure in the recent logs, or in the first."""
        values = (entry.get(name) for entry in (self.opening_logs if opening else self.logs))
        return [value for value in values if is_finite(value)]


Outcome = Finding | NotChecked | None
Check = Callable[[Window], Outcome]


@dataclass(frozen=True, slots=True)
class Level:
    """A mean of 0-to-1 scores, and how sure it is.

    Attributes:
        mean: The mean, in [0, 1] for scores of correctness.
        error: Its standard error, from the spread of the groups: the completions of a prompt are alike.
        count: The number of scores.
    """

    mean: float
    error: float
    count: int


LevelOf = Callable[[Sequence[BatchFacts]], Level | None]


def score_level(batches: Sequence[BatchFacts]) -> Level | None:
    """The mean primary score of some batches; None if nothing was judged."""
    return _level([batch.primary.scores for batch in batches], [batch.primary.group_scores for batch in batches])


def reward_level(batches: Sequence[BatchFacts]) -> Level | None:
    """The mean total of some batches, void samples left out; None if nothing was judged."""
    return _level([batch.rewards for batch in batches], [batch.group_rewards for batch in batches])


def length_level(batches: Sequence[BatchFacts]) -> Level | None:
    """The mean length in tokens of the groups of some batches, and their number; None if nobody knows."""
    return level_of([batch.group_tokens for batch in batches])


def level_of(parts: Sequence[Moments]) -> Level | None:
    """The mean of numbers that do not depend on each other; None for none, and for numbers too large to square."""
    together = Moments.sum(parts)
    if not together.count:
        return None
    mean = together.total / together.count
    variance = together.squares / together.count - mean * mean
    if not math.isfinite(variance):  # scores of any size are allowed
        return None
    chance = math.sqrt(max(0.0, variance) / max(1, together.count - 1))
    return Level(mean, max(chance, ROUNDING * abs(mean)), together.count)


def _level(parts: Sequence[Moments], groups: Sequence[Moments]) -> Level | None:
    """A mean of completions with the error of the groups; that of completions where few groups happen to agree."""
    alone, grouped = level_of(parts), level_of(groups)
    if alone is None or grouped is None:
        return None
    error = max(alone.error, grouped.error) if grouped.count > 1 else alone.error
    return Level(alone.mean, error, alone.count)


def gain(
    earlier: Sequence[BatchFacts], later: Sequence[BatchFacts], level: LevelOf = score_level
) -> tuple[float, float] | None:
    """How much the score, or another level, has risen, and the standard error of that; None if it cannot be told."""
    before, after = level(earlier), level(later)
    if before is None or after is None:
        return None
    return after.mean - before.mean, math.hypot(before.error, after.error)


def is_flat(batches: Sequence[BatchFacts], least_gain: float) -> bool:
    """Whether the score has surely not risen by `least_gain` from the first half of the batches to the second.

    A score near 1 need rise by half of what it lacks only. False for fewer than `FLAT_BATCHES`.
    """
    level = score_level(batches)
    if level is None or len(batches) < FLAT_BATCHES:
        return False
    if level.mean < 1:
        least_gain = min(least_gain, (1 - level.mean) / 2)
    found = gain(batches[: len(batches) // 2], batches[len(batches) // 2 :])
    return found is not None and found[0] + SURE * found[1] < least_gain


def has_risen(window: Window, level: LevelOf = score_level) -> bool:
    """Whether the score, or another level, has surely risen since the opening."""
    found = gain(window.opening, window.later, level)
    if found is None:
        return False
    rise, error = found
    return rise > SURE * error or (level is score_level and rise > 0 and _rises_slowly(window))


def _rises_slowly(window: Window) -> bool:
    """Whether the scores of the whole run surely show a rise, which the opening is too short to tell."""
    fitted = fitted_rise(window.history)
    return fitted is not None and fitted[0] > SURE * fitted[1]


def is_stuck(window: Window, patience: int = PATIENCE) -> bool:
    """Whether the score does not rise now, and has hardly risen in the whole run.

    A slow run rises by little over any window: what it has gained in all is what tells it from one that is stuck, and
    that takes patience (training batches), but for a score of 0. `benchmarks/false_alarms.py` measures how well.
    """
    level, fitted = score_level(window.batches), fitted_rise(window.history)
    if level is None or fitted is None or len(window.batches) < FLAT_BATCHES:
        return False
    if level.mean != 0 and window.history[-1].middle < patience:
        return False
    half = len(window.batches) // 2
    parts = (window.opening, window.later), (window.batches[:half], window.batches[half:])
    gains = [found for earlier, later in parts if (found := gain(earlier, later)) is not None]
    rise, error = fitted
    least = min(LEAST_RISE, max(LEAST_LOW_RISE, level.mean / 4))  # of a low score, a quarter of itself is a gain
    return all(gained <= chance for gained, chance in gains) and rise + error < least


def has_not_gained(window: Window, least_gain: float, level: LevelOf = score_level) -> bool:
    """Whether the score, or another level, has surely not risen by `least_gain` since the opening."""
    found = gain(window.opening, window.later, level)
    return found is not None and found[0] + SURE * found[1] < least_gain


def has_hardly_gained(window: Window, least_gain: float) -> bool:
    """Whether the score has, as far as can be seen, not risen by `least_gain` since the opening.

    Enough where another figure has moved a lot: the question is whether it was worth it.
    """
    found = gain(window.opening, window.later)
    return found is not None and found[0] < least_gain


def judged(batches: Sequence[BatchFacts]) -> int:
    """The samples with a primary score."""
    return sum(batch.primary.judged for batch in batches)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether this is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def most_common(counters: Sequence[Mapping[Any, int]]) -> list[tuple[Any, int]]:
    """The keys of several counters together, the most frequent first."""
    together: Counter[Any] = Counter()
    for counter in counters:
        together.update(counter)
    return together.most_common()


def percent(part: float) -> str:
    """A share as people read it.

    Example:
        >>> percent(0.123), percent(0.0312), percent(1.0)
        ('12 %', '3.1 %', '100 %')
    """
    return f"{part:.1%}".replace("%", " %") if part < 0.1 else f"{part:.0%}".replace("%", " %")
