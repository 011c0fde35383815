"""Levels: how high scores, rewards and lengths are, over some batches and over the whole run, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from types import MappingProxyType
from typing import TypeVar

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.runs.recorder import OPENING_BATCHES, RECENT_BATCHES
from trl_grpo_ext.support.estimate import NOTHING, ROUNDING, Estimate, Grouped

LevelOf = Callable[[Sequence[BatchFigures]], Estimate]


T = TypeVar("T")


def ends_of(items: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """The start and the end of a run's batches, or of other things in order: the first few, and the last after them.

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
    """The mean length in tokens of the groups of some batches; `NOTHING` if it is unknown."""
    return level_of(batch.tokens.groups for batch in batches)


def level_of(parts: Iterable[Estimate]) -> Estimate:
    """The mean of numbers that do not depend on each other; `NOTHING` for none, or for numbers too large to square.

    Nothing can be said of `NOTHING`: no comparison with its mean holds, and it has a count of 0.
    """
    together = Estimate.together(parts)
    if not together.is_known:
        return NOTHING
    return replace(together, error=max(together.error, ROUNDING * abs(together.mean)))


def _level(parts: Sequence[Grouped]) -> Estimate:
    """A mean of completions with the error of the groups; that of completions where few groups happen to agree."""
    alone, grouped = level_of(part.numbers for part in parts), level_of(part.groups for part in parts)
    return replace(alone, error=max(alone.error, grouped.error)) if alone.count and grouped.count > 1 else alone


def gain(earlier: Sequence[BatchFigures], later: Sequence[BatchFigures], level: LevelOf = score_level) -> Estimate:
    """How much the score, or another level, has risen; of a count of 0 if it cannot be told."""
    return level(later) - level(earlier)


def gain_within(batches: Sequence[BatchFigures]) -> Estimate:
    """How much the score has risen from the first half of the batches to the second; as for `gain`."""
    half = len(batches) // 2
    return gain(batches[:half], batches[half:])


UNKNOWN: Mapping[str, Estimate] = MappingProxyType({})
MOST_STRETCHES = 64  # ours: enough for the shape of a run, in bounded memory


@dataclass(frozen=True, slots=True)
class Stretch:
    """A few training batches that follow each other."""

    middle: float  # where they are in the run: the mean of their optimizer steps
    scores: Estimate  # the mean scores of their groups
    beside: Mapping[str, Estimate] = field(default_factory=dict)  # other figures of the same time, by name

    @classmethod
    def of(cls, parts: Sequence[Stretch]) -> Stretch:
        """The stretch that several make together."""
        scores = Estimate.together(part.scores for part in parts)
        return cls(fmean(part.middle for part in parts), scores, together(part.beside for part in parts))


def together(parts: Iterable[Mapping[T, Estimate]]) -> dict[T, Estimate]:
    """The figures of several parts as one, by name."""
    found: dict[T, Estimate] = {}
    for part in parts:
        for name, figure in part.items():
            found[name] = found.get(name, NOTHING) + figure
    return found


@dataclass(slots=True)
class History:
    """The scores of all training batches, in at most `MOST_STRETCHES` stretches of as many batches each.

    When there would be more, neighbours become one: a run of any length is held, and its shape is kept.
    """

    _full: list[Stretch] = field(default_factory=list)
    _open: list[Stretch] = field(default_factory=list)
    _length: int = 1
    _last: float = -1.0

    def add(self, step: int | None, scores: Estimate, beside: Mapping[str, Estimate] = UNKNOWN) -> None:
        """Take the next training batch in: its group scores, and other figures; an unknown step is one more."""
        self._last = self._last + 1.0 if step is None else float(step)
        self._open.append(Stretch(self._last, scores, beside))
        if len(self._open) < self._length:
            return
        self._full.append(Stretch.of(self._open))
        self._open = []
        if len(self._full) == MOST_STRETCHES:
            self._full = [Stretch.of(pair) for pair in zip(self._full[::2], self._full[1::2], strict=True)]
            self._length *= 2

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The stretches, oldest first; the last may be shorter."""
        return (*self._full, Stretch.of(self._open)) if self._open else tuple(self._full)


def fitted_rise(stretches: Sequence[Stretch]) -> Estimate | None:
    """How much a straight line through the group scores rises from the first stretch to the last.

    Least squares, each group one observation; the error is a standard error, from what the line leaves unexplained and
    what groups differ by within a stretch.

    Returns:
        The rise, in units of score; None for fewer than three stretches with groups.
    """
    known = [stretch for stretch in stretches if stretch.scores.count]
    count = sum(stretch.scores.count for stretch in known)
    if len({stretch.middle for stretch in known}) < 3:
        return None
    centre = sum(stretch.scores.count * stretch.middle for stretch in known) / count
    total = sum(stretch.scores.total for stretch in known)
    spread = sum(stretch.scores.count * (stretch.middle - centre) ** 2 for stretch in known)
    slope = sum(stretch.scores.total * (stretch.middle - centre) for stretch in known) / spread
    scores = Estimate.together(stretch.scores for stretch in known)
    unexplained = scores.squared_deviations - slope * slope * spread
    if not math.isfinite(unexplained):  # scores of any size are allowed
        return None
    span, rounding = known[-1].middle - known[0].middle, ROUNDING * abs(total / count)
    chance = math.sqrt(max(0.0, unexplained) / (count - 2) / spread) * span
    return Estimate(slope * span if abs(slope * span) > rounding else 0.0, max(chance, rounding), count)
