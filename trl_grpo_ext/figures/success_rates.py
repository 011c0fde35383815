"""Success rates of rows: verdicts as successes, and the share of groups that Beta distributed rates make live."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Status, Verdict

Floats = npt.NDArray[np.float64]


def success(verdict: Verdict | None) -> float | None:
    """Convert a verdict to a share of a success, in [0, 1]; None without verdict, score or score range.

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
    # None becomes NaN.
    shares = np.array(list(map(success, card.primary)), dtype=float)
    shares[~card.kept] = np.nan
    groups = card.by_group(shares)
    successes = np.nansum(groups, axis=1)
    judged = np.count_nonzero(~np.isnan(groups), axis=1)
    return successes, judged.astype(float)


def live_share(rates: Floats, group_size: int) -> Floats:
    """Compute the chance of live groups, with right and wrong completions, from success rates in [0, 1].

    Examples:
        >>> live_share(np.array([0.0, 0.5, 1.0]), 2).tolist()
        [0.0, 0.5, 0.0]
    """
    all_right = rates**group_size
    all_wrong = (1 - rates) ** group_size
    return 1 - all_right - all_wrong


# Bounds of the fitted correlation within a row; ours, tried in benchmarks/probe_coverage.py.
LEAST_SPREAD = 0.001
MOST_SPREAD = 0.98
# Keeps Beta distributions proper where no completion, or each, is right.
TINY = 1e-6


def fitted_beta(right: Floats, judged: Floats) -> tuple[Floats, Floats]:
    """Fit a Beta distribution of success rates by the moments of the beta-binomial distribution.

    Args:
        right: (..., P) successes of P prompts.
        judged: (..., P) judged completions of P prompts, 2 or more each.

    Returns:
        The two parameters, (...).

    Examples:
        >>> right, wrong = fitted_beta(np.array([0.0, 2.0, 4.0, 2.0]), np.full(4, 4.0))
        >>> round(float(right / (right + wrong)), 3)
        0.5
    """
    successes = right.sum(axis=-1)
    mean = successes / judged.sum(axis=-1)
    # The variance of the rates if each were 0 or 1.
    most = mean * (1 - mean)
    squares = (right / judged - mean[..., None]) ** 2
    # Chance alone spreads the observed rates by this much.
    by_chance = most[..., None] / judged
    between = (squares - by_chance).sum(axis=-1)
    freedom = (1 - 1 / judged).sum(axis=-1)
    possible = np.maximum(most * freedom, TINY)
    correlation = np.clip(between / possible, LEAST_SPREAD, MOST_SPREAD)
    strength = 1 / correlation - 1
    right_parameter = mean * strength + TINY
    wrong_parameter = (1 - mean) * strength + TINY
    return right_parameter, wrong_parameter


def expected_live_share(right: Floats, wrong: Floats, group_size: int) -> Floats:
    """Average `live_share` over Beta(right, wrong) distributed rates; arrays of equal shape.

    The moments of a Beta distribution are exact: the mean of rate^G is a product of G fractions.

    Examples:
        >>> expected_live_share(np.array([1.0]), np.array([1.0]), 2).round(3).tolist()
        [0.333]
    """
    all_right = np.ones_like(right)
    all_wrong = np.ones_like(right)
    for drawn in range(group_size):
        both = right + wrong + drawn
        all_right *= (right + drawn) / both
        all_wrong *= (wrong + drawn) / both
    return 1 - all_right - all_wrong
