"""A mean with its 95 % confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist, fmean, stdev

Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the bounds of its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def to_record(self) -> dict[str, float]:
        """A dict of plain numbers."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.mean:z.3f} [{self.low:z.3f}, {self.high:z.3f}]"


def mean_interval(groups: Sequence[Sequence[float]]) -> Interval | None:
    """The mean over all scores, and an interval that allows for the scores of one prompt being alike.

    Scores in [0, 1] get Wilson's interval (Wilson 1927) with the number of prompts, not of scores, as its sample
    size. That is on the safe side: a mean of scores in [0, 1] varies no more than one such score that is 0 or 1.
    Other scores get the normal interval over the prompts' means.

    Args:
        groups: The scores of each prompt's completions; prompts without a score count for nothing.

    Returns:
        None if there is no score, or too few prompts to say how they vary.

    Example:
        >>> print(mean_interval([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]]))
        0.750 [0.301, 0.954]
    """
    scored = [group for group in groups if group]
    if not scored:
        return None
    scores = [score for group in scored for score in group]
    mean = fmean(scores)
    if all(0.0 <= score <= 1.0 for score in scores):
        return _wilson(mean, len(scored))
    if len(scored) < 2:
        return None
    half = Z * stdev(fmean(group) for group in scored) / math.sqrt(len(scored))
    return Interval(mean, mean - half, mean + half)


def _wilson(mean: float, size: int) -> Interval:
    scale = 1 + Z**2 / size
    centre = (mean + Z**2 / (2 * size)) / scale
    half = Z / scale * math.sqrt(mean * (1 - mean) / size + Z**2 / (4 * size**2))
    # At 0 and 1 rounding would leave the mean outside.
    return Interval(mean, max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half)))
