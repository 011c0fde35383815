"""Success rates of rows: verdicts as successes, and the share of groups that Beta distributed rates make live."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Status, Verdict

Floats = npt.NDArray[np.float64]


def success(verdict: Verdict | None) -> float | None:
    """Return a verdict's share of a success, in [0, 1]; None if there is no verdict, or no range for its score.

    Examples:
        >>> success(Verdict(status=Status.PARTIAL, score=0.25)), success(None)
        (0.25, None)
        >>> success(Verdict(status=Status.SCORED, score=37.5)) is None
        True
    """
    if verdict is None or verdict.score is None or verdict.status is Status.SCORED:
        return None
    return min(1.0, max(0.0, verdict.score))


def group_successes(card: Scorecard) -> tuple[Floats, Floats]:
    """Sum successes and judged completions by group: two arrays, (G,). Void samples count nothing."""
    shares = np.array([success(verdict) for verdict in card.primary], dtype=float)
    shares[~card.kept] = np.nan
    groups = card.by_group(shares)
    return np.nansum(groups, axis=1), np.count_nonzero(~np.isnan(groups), axis=1).astype(float)


def live_share(rates: Floats, group_size: int) -> Floats:
    """Return the chance of a live group, one right and one wrong completion at least, for rates in [0, 1].

    Examples:
        >>> live_share(np.array([0.0, 0.5, 1.0]), 2).tolist()
        [0.0, 0.5, 0.0]
    """
    return 1 - rates**group_size - (1 - rates) ** group_size


def expected_live_share(right: Floats, wrong: Floats, group_size: int) -> Floats:
    """Return the mean of `live_share` over rates that are Beta(right, wrong) distributed; arrays of equal shape.

    The moments of a Beta distribution are exact: the mean of rate^G is a product of G fractions.

    Examples:
        >>> expected_live_share(np.array([1.0]), np.array([1.0]), 2).round(3).tolist()
        [0.333]
    """
    all_right, all_wrong = np.ones_like(right), np.ones_like(right)
    for drawn in range(group_size):
        both = right + wrong + drawn
        all_right *= (right + drawn) / both
        all_wrong *= (wrong + drawn) / both
    return 1 - all_right - all_wrong
