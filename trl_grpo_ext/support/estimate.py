"""An estimate: a mean, how sure it is, and of how many numbers. Every figure of a run is one, and two add up."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist, fmean

Z = NormalDist().inv_cdf(0.975)  # of a 95 % interval
SURE = 2.0  # standard errors: a difference beyond them is chance in less than 5 % of cases

# Sums in another order differ by this much and no more, relative to what was summed.
ROUNDING = 1e-9


def mean_of_known(numbers: Iterable[float | None]) -> float | None:
    """The mean of the numbers that are known; None if none is.

    Examples:
        >>> mean_of_known([1.0, None, 2.0])
        1.5
    """
    known = [number for number in numbers if number is not None]
    return fmean(known) if known else None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of some numbers, or a difference of two means.

    Attributes:
        mean: The mean; NaN of no numbers.
        error: Its standard error, 0 or more; NaN of no numbers, 0 of one.
        count: How many numbers there are. They are taken to be independent of each other.

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
        """The mean of the numbers that are known: None is not, nor what is not finite.

        Where they are too large to be squared, the error is infinite.
        """
        known = [number for number in numbers if number is not None and math.isfinite(number)]
        if not known:
            return NOTHING
        mean = sum(known) / len(known)
        return cls._of_deviations(mean, sum((number - mean) * (number - mean) for number in known), len(known))

    @classmethod
    def share(cls, part: float, whole: float) -> Estimate:
        """How many of `whole` are one of `part`: the mean of as many ones among zeros."""
        if not whole:
            return NOTHING
        mean = part / whole
        return cls._of_deviations(mean, part * (1 - mean), whole)

    @classmethod
    def together(cls, parts: Iterable[Estimate]) -> Estimate:
        """The mean of all the numbers of some parts."""
        return sum(parts, start=NOTHING)

    @classmethod
    def _of_deviations(cls, mean: float, squares: float, count: float) -> Estimate:
        return cls(mean, math.sqrt(squares / count / max(1, count - 1)), count)

    @property
    def total(self) -> float:
        """The sum of the numbers."""
        return self.mean * self.count if self.count else 0.0

    @property
    def squared_deviations(self) -> float:
        """The sum of the squared differences from the mean."""
        return self.error * self.error * self.count * max(1, self.count - 1) if self.count else 0.0

    @property
    def is_known(self) -> bool:
        """Whether mean and error are finite numbers."""
        return math.isfinite(self.mean) and math.isfinite(self.error)

    def __add__(self, other: Estimate) -> Estimate:
        """The mean of the numbers of both (Chan et al. 1979)."""
        if not (self.count and other.count):
            return self if self.count else other
        count, apart = self.count + other.count, other.mean - self.mean
        between = apart * apart * self.count * other.count / count
        squares = self.squared_deviations + other.squared_deviations + between
        return Estimate._of_deviations((self.total + other.total) / count, squares, count)

    def __sub__(self, earlier: Estimate) -> Estimate:
        """How much higher this mean is than another."""
        error = math.hypot(self.error, earlier.error)
        return Estimate(self.mean - earlier.mean, error, min(self.count, earlier.count))

    @property
    def at_least(self) -> float:
        """What the mean is at least, chance left out."""
        return self.mean - SURE * self.error

    @property
    def interval(self) -> Interval:
        """The mean with its 95 % interval, of a mean that is normally distributed."""
        return Interval(self.mean, self.mean - Z * self.error, self.mean + Z * self.error)

    @property
    def is_sure(self) -> bool:
        """Whether a difference is above 0 by more than chance."""
        return self.mean > SURE * self.error

    def is_surely_below(self, least: float) -> bool:
        """Whether a difference is less than `least`, even if chance has hidden some of it."""
        return self.mean + SURE * self.error < least


NOTHING = Estimate(math.nan, math.nan, 0)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the bounds of its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def to_record(self) -> dict[str, float]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.mean:z.3f} [{self.low:z.3f}, {self.high:z.3f}]"


@dataclass(frozen=True, slots=True)
class Grouped:
    """The mean of numbers that come in groups, as the scores of one prompt do: these are alike.

    Attributes:
        numbers: Of all numbers.
        groups: Of the means of their groups, which are what chance is told from.
        low: The lowest number; infinity of no numbers.
        high: The highest number; minus infinity of no numbers.

    Examples:
        >>> print((Grouped(Estimate.share(3, 4), Estimate.of([0.5, 1.0])) + Grouped()).interval)
        0.750 [0.198, 0.973]
    """

    numbers: Estimate = NOTHING
    groups: Estimate = NOTHING
    low: float = math.inf
    high: float = -math.inf

    @property
    def in_unit(self) -> bool:
        """Whether all numbers are in [0, 1]."""
        return self.low >= 0 and self.high <= 1

    def __add__(self, other: Grouped) -> Grouped:
        """The numbers of both, which are of different groups."""
        return Grouped(
            self.numbers + other.numbers,
            self.groups + other.groups,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @property
    def interval(self) -> Interval | None:
        """The mean with its 95 % interval; None if there is no number, or too few groups to say how they vary.

        Numbers in [0, 1] get Wilson's interval (Wilson 1927) with the number of groups as its sample size. That is on
        the safe side: a mean of numbers in [0, 1] varies no more than one that is 0 or 1. Others get the normal
        interval over the groups' means.
        """
        if not self.numbers.count:
            return None
        if self.in_unit:
            mean, size = self.numbers.mean, self.groups.count
            scale = 1 + Z**2 / size
            centre = (mean + Z**2 / (2 * size)) / scale
            half = Z / scale * math.sqrt(max(0.0, mean * (1 - mean)) / size + Z**2 / (4 * size**2))
            # At 0 and 1 rounding would leave the mean outside.
            return Interval(mean, max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half)))
        return replace(self.numbers, error=self.groups.error).interval if self.groups.count > 1 else None
