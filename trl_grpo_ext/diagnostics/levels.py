"""Levels: scores, rewards and lengths of batches and periods, with errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, TypeVar

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.support.estimate import NOTHING, ROUNDING, Estimate, Grouped
from trl_grpo_ext.support.setting_checks import is_number

# First training batches of a run, with which checks compare later batches; our choice.
OPENING_BATCHES = 4
# Latest training batches that a check reads; our choice.
RECENT_BATCHES = 16

LevelOf = Callable[[Sequence[BatchFigures]], Estimate]


T = TypeVar("T")


def ends_of(items: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """Split a sequence, such as batches of a run, into opening items and last items.

    Whatever is said of how a run began and of how it ended is of these.

    Examples:
        >>> ends_of(range(5)), ends_of(range(60))
        ((range(0, 2), range(2, 5)), (range(0, 4), range(44, 60)))
    """
    first = min(OPENING_BATCHES, len(items) // 2)
    return items[:first], items[first:][-RECENT_BATCHES:]


def score_level(batches: Sequence[BatchFigures]) -> Estimate:
    """The mean primary score of some batches; `NOTHING` if nothing was judged."""
    return _level([batch.primary.scores for batch in batches])


def reward_level(batches: Sequence[BatchFigures]) -> Estimate:
    """The mean total of some batches, void samples left out; `NOTHING` if nothing was judged."""
    return _level([batch.rewards for batch in batches])


def length_level(batches: Sequence[BatchFigures]) -> Estimate:
    """Mean group length in tokens; `NOTHING` if unknown."""
    return level_of(batch.tokens.groups for batch in batches)


def term_level(batches: Sequence[BatchFigures], term: str) -> Estimate:
    """The mean value of a term in some batches; `NOTHING` for batches without the term."""
    return _level([batch.terms[term].values for batch in batches if term in batch.terms])


def level_of(parts: Iterable[Estimate]) -> Estimate:
    """Mean of independent numbers; `NOTHING` without numbers, or for numbers too large to square.

    Nothing can be said of `NOTHING`: no comparison with its mean holds, and it has a count of 0.
    """
    together = Estimate.together(parts)
    if not together.is_known:
        return NOTHING
    error = max(together.error, ROUNDING * abs(together.mean))
    return Estimate(together.mean, error, together.count)


def _level(parts: Sequence[Grouped]) -> Estimate:
    """Mean over completions, with the error of group means, or the larger error if few groups agree."""
    alone = level_of(part.numbers for part in parts)
    grouped = level_of(part.groups for part in parts)
    if not alone.count or grouped.count <= 1:
        return alone
    return replace(alone, error=max(alone.error, grouped.error))


def gain(
    earlier: Sequence[BatchFigures],
    later: Sequence[BatchFigures],
    level: LevelOf = score_level,
) -> Estimate:
    """Gain of the score, or another level, between two lists of batches; count 0 if unknown."""
    end = level(later)
    return end - _as_unsure(level(earlier), like=end)


def _as_unsure(found: Estimate, like: Estimate) -> Estimate:
    """Lend a constant level the error of another level: the score after 64 zeros may be 1."""
    if found.error > ROUNDING * abs(found.mean) or not (found.count and like.count):
        return found
    return replace(found, error=like.error * math.sqrt(like.count / found.count))


def gain_within(batches: Sequence[BatchFigures]) -> Estimate:
    """Score gain between first and second half of the batches."""
    half = len(batches) // 2
    return gain(batches[:half], batches[half:])


# Ours: enough for the shape of a run, in bounded memory.
MOST_PERIODS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Levels of figures beside the score in one period, possible reasons for a changed score."""

    # The length of a completion, in tokens.
    tokens: Estimate = NOTHING
    # The share of completions that were cut.
    cut: Estimate = NOTHING
    # The share of completions without a verdict.
    void: Estimate = NOTHING
    # Values within groups, by term.
    values: Mapping[str, Estimate] = field(default_factory=dict)
    # Weights by term.
    weights: Mapping[str, Estimate] = field(default_factory=dict)
    # TRL's logged figures of updates, by TRL's names.
    logged: Mapping[str, Estimate] = field(default_factory=dict)

    def __add__(self, other: Levels) -> Levels:
        """Join the levels of two periods."""
        return Levels(
            tokens=self.tokens + other.tokens,
            cut=self.cut + other.cut,
            void=self.void + other.void,
            values=together((self.values, other.values)),
            weights=together((self.weights, other.weights)),
            logged=together((self.logged, other.logged)),
        )

    @classmethod
    def of_batch(cls, batch: BatchFigures) -> Levels:
        values, weights = {}, {}
        for name, term in batch.terms.items():
            values[name] = term.values.groups
            weights[name] = Estimate.of([term.weight])
        return cls(
            tokens=batch.tokens.groups,
            cut=batch.primary.cut_share,
            void=Estimate.share(batch.void, batch.size),
            values=values,
            weights=weights,
        )

    @classmethod
    def of_logs(cls, entry: Mapping[str, Any]) -> Levels:
        """Read figures from a TRL log that may explain a changed score."""
        logged = {}
        for name in LOGGED:
            figure = entry.get(name)
            if is_number(figure):
                logged[name] = Estimate.of([figure])
        return cls(logged=logged)


LOGGED = ("entropy", "grad_norm", "kl", "clip_ratio/region_mean")


@dataclass(frozen=True, slots=True)
class Period:
    """Period: consecutive training batches or logs."""

    # The mean of their optimizer steps.
    middle: float
    # The mean scores of their groups.
    scores: Estimate
    # Other figures of the same batches.
    levels: Levels = Levels()

    @classmethod
    def of(cls, parts: Sequence[Period]) -> Period:
        """Join consecutive periods."""
        return cls(
            middle=fmean(part.middle for part in parts),
            scores=Estimate.together(part.scores for part in parts),
            levels=sum((part.levels for part in parts), start=Levels()),
        )


def together(parts: Iterable[Mapping[T, Estimate]]) -> dict[T, Estimate]:
    """Join the figures of several parts, by name."""
    found: dict[T, Estimate] = {}
    for part in parts:
        for name, figure in part.items():
            found[name] = found.get(name, NOTHING) + figure
    return found


@dataclass(slots=True)
class History:
    """History of scores: all training batches in at most `MOST_PERIODS` periods of equal length.

    When there would be more, neighbours become one: a run of any length is held, and its shape is kept.

    Attributes:
        last: The step of the latest batch; a batch without a step counts as the next step. -1 without a batch.
    """

    last: float = -1.0
    _full: list[Period] = field(default_factory=list)
    _open: list[Period] = field(default_factory=list)
    _length: int = 1

    def add(self, step: int | None, scores: Estimate, levels: Levels | None = None) -> None:
        """Take the next training batch in: its group scores, and other figures; an unknown step is one more."""
        self.last = self.last + 1.0 if step is None else float(step)
        self._open.append(Period(self.last, scores, levels or Levels()))
        if len(self._open) < self._length:
            return
        self._full.append(Period.of(self._open))
        self._open = []
        if len(self._full) == MOST_PERIODS:
            self._full = [
                Period.of(pair)
                for pair in zip(self._full[::2], self._full[1::2], strict=True)
            ]
            self._length *= 2

    @property
    def periods(self) -> tuple[Period, ...]:
        """The periods, oldest first; the last may be shorter."""
        if not self._open:
            return tuple(self._full)
        return (*self._full, Period.of(self._open))


def fitted_rise(periods: Sequence[Period]) -> Estimate | None:
    """Fit a straight line to the group scores, and return its rise from the first period to the last.

    Least squares, each group one observation; the standard error is of what the line leaves unexplained and of what
    groups differ by within a period.

    Returns:
        The rise, in units of score; None for fewer than three periods with groups.
    """
    known = [period for period in periods if period.scores.count]
    if len({period.middle for period in known}) < 3:
        return None
    count = sum(period.scores.count for period in known)
    centre = sum(period.scores.count * period.middle for period in known) / count
    spread = covariance = 0.0
    for period in known:
        distance = period.middle - centre
        spread += period.scores.count * distance**2
        covariance += period.scores.total * distance
    slope = covariance / spread
    scores = Estimate.together(period.scores for period in known)
    unexplained = scores.squared_deviations - slope * slope * spread
    # Scores of any size are allowed, so squares may overflow.
    if not math.isfinite(unexplained):
        return None
    total = sum(period.scores.total for period in known)
    rounding = ROUNDING * abs(total / count)
    span = known[-1].middle - known[0].middle
    rise = slope * span
    if abs(rise) <= rounding:
        rise = 0.0
    chance = math.sqrt(max(0.0, unexplained) / (count - 2) / spread) * span
    return Estimate(rise, max(chance, rounding), count)
