"""The scores of a whole run in little memory: what tells a slow rise from a run that is stuck."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from trl_grpo_ext.diagnostics.facts.moments import Moments
from trl_grpo_ext.diagnostics.facts.rise import Rise
from trl_grpo_ext.diagnostics.statistics.batch import ROUNDING

MOST_STRETCHES = 64


@dataclass(frozen=True, slots=True)
class Stretch:
    """A few training batches that follow each other.

    Attributes:
        middle: Where they are in the run, in training batches from its start.
        scores: The mean scores of their groups.
    """

    middle: float
    scores: Moments


@dataclass(slots=True)
class History:
    """The scores of all training batches, in at most `MOST_STRETCHES` stretches of the same length.

    When there would be more, neighbours become one: a run of any length is held, and its shape is kept.
    """

    _full: list[Stretch] = field(default_factory=list)
    _open: list[Moments] = field(default_factory=list)
    _length: int = 1

    def add(self, scores: Moments) -> None:
        """Take the group scores of the next training batch in."""
        self._open.append(scores)
        if len(self._open) < self._length:
            return
        self._full.append(Stretch((len(self._full) + 0.5) * self._length, Moments.sum(self._open)))
        self._open = []
        if len(self._full) == MOST_STRETCHES:
            pairs = zip(self._full[::2], self._full[1::2], strict=True)
            self._full = [Stretch((a.middle + b.middle) / 2, Moments.sum((a.scores, b.scores))) for a, b in pairs]
            self._length *= 2

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The stretches, oldest first; the last may be shorter."""
        if not self._open:
            return tuple(self._full)
        middle = len(self._full) * self._length + len(self._open) / 2
        return (*self._full, Stretch(middle, Moments.sum(self._open)))


def fitted_rise(stretches: Sequence[Stretch]) -> Rise | None:
    """How much a straight line through the group scores rises from the first stretch to the last.

    Least squares, each group one observation; the error is a standard error, from what the line leaves unexplained and
    what groups differ by within a stretch.

    Returns:
        The rise, in units of score; None for fewer than three stretches with groups.
    """
    known = [stretch for stretch in stretches if stretch.scores.count]
    count = sum(stretch.scores.count for stretch in known)
    if len(known) < 3:
        return None
    centre = sum(stretch.scores.count * stretch.middle for stretch in known) / count
    total = sum(stretch.scores.total for stretch in known)
    spread = sum(stretch.scores.count * (stretch.middle - centre) ** 2 for stretch in known)
    slope = sum(stretch.scores.total * (stretch.middle - centre) for stretch in known) / spread
    squares = sum(stretch.scores.squares for stretch in known) - total * total / count
    unexplained = squares - slope * slope * spread
    if not math.isfinite(unexplained):  # scores of any size are allowed
        return None
    span, rounding = known[-1].middle - known[0].middle, ROUNDING * abs(total / count)
    chance = math.sqrt(max(0.0, unexplained) / (count - 2) / spread) * span
    return Rise(slope * span if abs(slope * span) > rounding else 0.0, max(chance, rounding))
