"""Scales: the worst and the best score of a term, known or observed.

A check's threshold is a part of the scale's span: 0.1 means 5 marks on a scale from 0 to 50.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.figures.terms import TermFigures
from trl_grpo_ext.support.estimate import Estimate, Grouped
from trl_grpo_ext.verdict import UNIT, ScoreRange, Status, check_score_range

# Standard deviations that hold nearly all scores, one outlier left out. Ours: of normal scores they hold 95 %, and of
# scores that are 0 or 1, and not mostly the same, they reach beyond both.
SPREAD = 4.0
# Of all scores: so many that equal the highest are at a ceiling, and so many that equal the lowest at a floor. Ours: of
# scores without bounds hardly two are equal, and of bounded ones these were 4 % and more at the end of healthy runs.
CEILED, FLOORED = 0.1, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A worst and a best score.

    Examples:
        >>> scale = Scale(low=-1.0, high=0.0)
        >>> scale.unit(Estimate(-0.25, 0.1, 9)), scale.part(Estimate(0.5, 0.1, 9)).mean
        (Estimate(mean=0.75, error=0.1, count=9), 0.5)
    """

    low: float
    high: float
    # False for an observed scale: then no score is known to be the best.
    is_known: bool = True
    # True for an observed scale whose highest score many share exactly: that may well be the best one.
    is_ceiled: bool = False

    @property
    def span(self) -> float:
        return self.high - self.low

    def unit(self, level: Estimate) -> Estimate:
        """Place a score on the scale: worst 0, best 1."""
        return self.part(replace(level, mean=level.mean - self.low))

    def part(self, change: Estimate) -> Estimate:
        """Express a score change as part of the span."""
        return replace(change, mean=change.mean / self.span, error=change.error / self.span)

    @property
    def digits(self) -> int:
        """Digits after the point: two for scores from 0 to 1, more for smaller scales."""
        return max(2, math.floor(2 - math.log10(self.span)))


NO_NUMBERS = Grouped()
CORRECTNESS = Scale(low=UNIT[0], high=UNIT[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Scores and values seen from a term during a run."""

    scores: Grouped = NO_NUMBERS
    values: Grouped = NO_NUMBERS
    # Number of scores without a range, and so neither right nor wrong.
    unplaced: int = 0

    def __add__(self, other: Seen) -> Seen:
        return Seen(
            scores=self.scores + other.scores,
            values=self.values + other.values,
            unplaced=self.unplaced + other.unplaced,
        )

    @classmethod
    def of(cls, figures: TermFigures) -> Seen:
        """Read scores and values of a batch."""
        unplaced = figures.statuses.get(Status.SCORED, 0)
        return cls(scores=figures.scores, values=figures.values, unplaced=unplaced)


def scale_of(seen: Seen, declared: ScoreRange | None) -> Scale:
    """Return the scale of a term's scores.

    * The declared range, if all scores lie in it.
    * Else 0 to 1, if all scores lie there and every verdict says right, partly right or wrong.
    * Else the observed spread of the scores, up to the ceiling if many share the highest score exactly.
    """
    if (
        declared is not None
        and declared[0] <= seen.scores.low
        and seen.scores.high <= declared[1]
    ):
        return Scale(low=declared[0], high=declared[1])
    if seen.scores.in_unit and not seen.unplaced:
        return CORRECTNESS
    return _ceiled(seen.scores) or observed_scale(seen.scores)


def _ceiled(scores: Grouped) -> Scale | None:
    """Return a ceiled scale, from the scores' floor (else their spread) to their ceiling; None without ceiling."""
    observed = observed_scale(scores)
    count = scores.numbers.count
    is_spread = scores.low < scores.high
    if not is_spread or scores.at_high < CEILED * count:
        return None
    low = scores.low if scores.at_low >= FLOORED * count else scores.high - observed.span
    return Scale(low=low, high=scores.high, is_known=False, is_ceiled=True)


def observed_scale(numbers: Grouped) -> Scale:
    """Return the observed scale of numbers: their spread, or 1 for equal numbers."""
    found = numbers.numbers
    if not found.count or not found.is_known:
        return replace(CORRECTNESS, is_known=False)
    deviation = math.sqrt(found.squared_deviations / found.count)
    span = min(numbers.high - numbers.low, SPREAD * deviation)
    is_usable = 0 < span < math.inf
    return Scale(
        low=numbers.low, high=numbers.low + (span if is_usable else 1.0), is_known=False
    )


def common_scale(
    seen: Mapping[str, Seen], terms: Iterable[str], declared: Mapping[str, ScoreRange]
) -> Scale:
    """Return the common scale of several terms, or the spread of all their scores."""
    known = {term: seen[term] for term in terms if term in seen}
    scales = {scale_of(one, declared.get(term)) for term, one in known.items()}
    if len(scales) > 1:
        return observed_scale(sum((one.scores for one in known.values()), start=NO_NUMBERS))
    return scales.pop() if scales else CORRECTNESS


def declared_ranges(settings: Mapping[str, Any]) -> dict[str, ScoreRange]:
    """Read the ranges that the run's terms have declared, by term."""
    found: dict[str, ScoreRange] = {}
    for reward in settings.get("rewards") or ():
        # A run's folder may have been written by another version, or by hand.
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            bounds = check_score_range(reward.get("score_range"))
            if bounds is not None:
                found[reward["name"]] = bounds
    return found
