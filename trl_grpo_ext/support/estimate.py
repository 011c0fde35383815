"""Estimates: means with standard errors and counts. Adding two estimates merges their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist, fmean

# Half the width of a 95 % interval, in standard errors.
Z = NormalDist().inv_cdf(0.975)
# Standard errors: chance causes a larger difference in less than 5 % of cases.
SURE = 2.0

# The maximum relative rounding error between two sums of equal numbers in different order.
ROUNDING = 1e-9


def mean_of_known(numbers: Iterable[float | None]) -> float | None:
    """Return the mean of the numbers, ignoring None; None if every number is None.

    Examples:
        >>> mean_of_known([1.0, None, 2.0])
        1.5
    """
    known = [number for number in numbers if number is not None]
    if not known:
        return None
    return fmean(known)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, or a difference of two means, with its standard error.

    Attributes:
        mean: The mean; NaN without numbers.
        error: The standard error of the mean, 0 or more; NaN without numbers, 0 for a single number.
        count: How many numbers were averaged. The error assumes that they are independent.

    Examples:
        >>> Estimate.of([1.0, 2.0]) + Estimate.of([3.0])
        Estimate(mean=2.0, error=0.5773502691896257, count=3)
        >>> Estimate.share(1, 4).mean
        0.25
    """

    mean: float
    error: float
    count: float

    @classmethod
    def of(cls, numbers: Iterable[float | None]) -> Estimate:
        """Estimate the mean of finite numbers, ignoring None, NaN and infinity.

        The error is infinite if the squares of the numbers overflow.
        """
        known = [
            number for number in numbers if number is not None and math.isfinite(number)
        ]
        if not known:
            return NOTHING
        mean = sum(known) / len(known)
        # A product instead of a power: `**` raises an OverflowError where `*` gives infinity.
        squares = sum([(number - mean) * (number - mean) for number in known])
        return cls._of_deviations(mean, squares, len(known))

    @classmethod
    def share(cls, part: float, whole: float) -> Estimate:
        """Estimate a share: the mean of `part` ones and `whole - part` zeros."""
        if not whole:
            return NOTHING
        mean = part / whole
        squares = part * (1 - mean)
        return cls._of_deviations(mean, squares, whole)

    @classmethod
    def together(cls, parts: Iterable[Estimate]) -> Estimate:
        """Merge several estimates into a single mean over all numbers (Chan et al. 1979)."""
        known = [part for part in parts if part.count]
        if len(known) < 2:
            return known[0] if known else NOTHING
        count = sum([part.count for part in known])
        mean = sum([part.mean * part.count for part in known]) / count
        squares = 0.0
        for part in known:
            apart = part.mean - mean
            squares += part.squared_deviations + apart * apart * part.count
        return cls._of_deviations(mean, squares, count)

    @classmethod
    def _of_deviations(cls, mean: float, squares: float, count: float) -> Estimate:
        # At least 1: the error of a single number is 0, not undefined.
        freedom = max(1, count - 1)
        error = math.sqrt(squares / count / freedom)
        return cls(mean, error, count)

    @property
    def total(self) -> float:
        """The numbers' sum."""
        if not self.count:
            return 0.0
        return self.mean * self.count

    @property
    def known_mean(self) -> float | None:
        """The mean; None without numbers."""
        return self.mean if self.count else None

    @property
    def squared_deviations(self) -> float:
        """The sum of squared differences from the mean."""
        if not self.count:
            return 0.0
        freedom = max(1, self.count - 1)
        return self.error * self.error * self.count * freedom

    @property
    def is_known(self) -> bool:
        """Whether mean and error are finite numbers."""
        return math.isfinite(self.mean) and math.isfinite(self.error)

    def __add__(self, other: Estimate) -> Estimate:
        """Merge two estimates: the mean of the numbers of both."""
        return Estimate.together((self, other))

    def __sub__(self, earlier: Estimate) -> Estimate:
        """Subtract an earlier mean from this mean; the smaller of the counts remains."""
        return Estimate(
            mean=self.mean - earlier.mean,
            error=math.hypot(self.error, earlier.error),
            count=min(self.count, earlier.count),
        )

    @property
    def at_least(self) -> float:
        """The lower bound of the mean: `SURE` standard errors below it."""
        return self.mean - SURE * self.error

    @property
    def interval(self) -> Interval:
        """The mean with its 95 % interval, for normally distributed means."""
        half = Z * self.error
        return Interval(self.mean, self.mean - half, self.mean + half)

    @property
    def is_sure(self) -> bool:
        """Whether a difference exceeds 0 significantly, by more than `SURE` standard errors."""
        return self.mean > SURE * self.error

    def is_surely_below(self, least: float) -> bool:
        """Return whether a difference is significantly below `least`, by more than `SURE` standard errors."""
        return self.mean + SURE * self.error < least


NOTHING = Estimate(math.nan, math.nan, 0)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with lower and upper bound of its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def to_record(self) -> dict[str, float]:
        return asdict(self)

    def __str__(self) -> str:
        return format(self, "z.3f")

    def __format__(self, spec: str) -> str:
        """Format mean and bounds alike: `f"{interval:.0%}"` is `50% [25%, 75%]`."""
        return (
            f"{self.mean:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"
            if spec
            else str(self)
        )


@dataclass(frozen=True, slots=True)
class Grouped:
    """The mean of grouped numbers, such as scores grouped by prompt.

    Numbers of one group resemble each other, so the uncertainty follows from the differences between groups.

    Attributes:
        numbers: The estimate over all numbers.
        groups: The estimate over the means of the groups.
        low: The lowest number; infinity without numbers.
        high: The highest number; minus infinity without numbers.
        at_low: How many numbers equal the lowest; 0 if it was not counted.
        at_high: How many numbers equal the highest; 0 if it was not counted.

    Examples:
        >>> print((Grouped(Estimate.share(3, 4), Estimate.of([0.5, 1.0])) + Grouped()).interval)
        0.750 [0.198, 0.973]
    """

    numbers: Estimate = NOTHING
    groups: Estimate = NOTHING
    low: float = math.inf
    high: float = -math.inf
    at_low: int = 0
    at_high: int = 0

    @classmethod
    def alone(cls, numbers: Sequence[float]) -> Grouped:
        """Average numbers, each number a group by itself."""
        estimate = Estimate.of(numbers)
        return cls(
            estimate,
            estimate,
            min(numbers, default=math.inf),
            max(numbers, default=-math.inf),
        )

    @classmethod
    def share(cls, part: float, whole: float, groups: float) -> Grouped:
        """Make a share as certain as `groups` independent numbers, since numbers of one group resemble each other."""
        return cls(Estimate.share(part, whole), Estimate(0.0, 0.0, groups), 0.0, 1.0)

    @property
    def in_unit(self) -> bool:
        """True if every number lies in [0, 1]."""
        return self.low >= 0 and self.high <= 1

    def __add__(self, other: Grouped) -> Grouped:
        """Merge the numbers of two values that share no group."""
        low = min(self.low, other.low)
        high = max(self.high, other.high)
        return Grouped(
            numbers=self.numbers + other.numbers,
            groups=self.groups + other.groups,
            low=low,
            high=high,
            at_low=sum(part.at_low for part in (self, other) if part.low == low),
            at_high=sum(part.at_high for part in (self, other) if part.high == high),
        )

    @property
    def interval(self) -> Interval | None:
        """Mean and 95 % interval; None without numbers, and without a second group where a variance needs one.

        Numbers in [0, 1] get Wilson's interval (Wilson 1927), with the number of groups as its sample size. This
        interval is conservative: a mean of numbers in [0, 1] varies no more than a mean of zeros and ones. Other
        numbers get the normal interval over the group means, from two groups on.
        """
        if not self.numbers.count:
            return None
        if self.in_unit:
            return _wilson(self.numbers.mean, self.groups.count)
        if self.groups.count <= 1:
            return None
        return replace(self.numbers, error=self.groups.error).interval


def _wilson(mean: float, size: float) -> Interval:
    scale = 1 + Z**2 / size
    centre = (mean + Z**2 / (2 * size)) / scale
    # Rounding may put a mean slightly outside [0, 1].
    variance = max(0.0, mean * (1 - mean))
    half = Z / scale * math.sqrt(variance / size + Z**2 / (4 * size**2))
    # For a mean of 0 or 1, rounding could put the mean outside the interval.
    low = min(mean, centre - half)
    high = max(mean, centre + half)
    return Interval(mean, max(0.0, low), min(1.0, high))
