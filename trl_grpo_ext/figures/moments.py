"""Moments: what the mean of some numbers, and how sure it is, can be told from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from trl_grpo_ext.sample import Sample


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, sum and sum of squares; those of two batches add up.

    Attributes:
        count: How many numbers there are.
        total: Their sum.
        squares: The sum of their squares.

    Example:
        >>> Moments.sum([Moments.of([1.0, 2.0]), Moments.of([3.0])])
        Moments(count=3, total=6.0, squares=14.0)
    """

    count: int
    total: float
    squares: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Moments:
        """The moments of numbers of any size."""
        # Not fsum, which raises where numbers are so large that their sum is infinite.
        return cls(len(numbers), sum(numbers), sum(number * number for number in numbers))

    @classmethod
    def sum(cls, parts: Sequence[Moments]) -> Moments:
        """The moments of all the numbers of some parts together."""
        return cls(
            sum(part.count for part in parts), sum(part.total for part in parts), sum(part.squares for part in parts)
        )


def group_moments(samples: Sequence[Sample], column: Sequence[float | None]) -> Moments:
    """The moments of the groups' means of a column with one value a sample; a sample of no group is one by itself."""
    members: dict[object, list[float]] = {}
    for row, (sample, value) in enumerate(zip(samples, column, strict=True)):
        if value is not None:
            members.setdefault(("row", row) if sample.group is None else sample.group, []).append(value)
    return Moments.of([sum(values) / len(values) for values in members.values()])


def known(number: float) -> float | None:
    """The number; None for NaN and infinity."""
    return number if math.isfinite(number) else None


def is_finite(value: object) -> TypeGuard[float]:
    """Whether this is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
