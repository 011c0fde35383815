"""Driver shares: how much of what tells the members of a group apart comes from each term.

TRL's advantage of a sample is a sum over the terms, `A_i = sum_k a_ki`, with

| setting | the part of term k |
|---|---|
| `sum_then_normalize`, `scale_rewards: group` | `a_ki = w_k (v_ki - mean_g v_k) / (std_g R + 1e-4)` |
| `sum_then_normalize`, `batch` or `none` | `a_ki = c w_k (v_ki - mean_g v_k)`, one c for the whole batch |
| `normalize_then_sum` | `a_ki = c w_k (v_ki - mean_g v_k) / (std_g v_k + 1e-4)` |

where R is the total, g the sample's group, and void samples are left out. The share of term k is

    sum_i a_ki A_i / sum_i A_i^2

and the shares add up to 1. With groups of one size this is `sum_g s_g w_k Cov_g(v_k, R) / sum_g s_g Var_g(R)`, with
`s_g = 1 / (std_g R + 1e-4)^2` under `group` and 1 under `batch` and `none`: scaled to one spread, each live group
weighs as much as another. One c for all cancels. A term that pulls against the total has a share below 0, and then
another one above 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trl_grpo_ext.figures.batch import Batch, FloatArray
from trl_grpo_ext.figures.deviations import centred, deviation

TRL_EPSILON = 1e-4  # what TRL adds to a deviation before it divides by it

# Parts that cancel leave rounding, whose shares would be noise; relative to the parts' own squares.
NOTHING_LEFT = 1e-20


def driver_shares(batch: Batch, settings: Mapping[str, Any]) -> dict[str, float]:
    """Each term's share of the advantages; what the shares lack of 1 is due to reward functions beside the mix.

    Args:
        batch: A batch.
        settings: The run's `scale_rewards` and `multi_objective_aggregation`; TRL's defaults if they are not there.

    Returns:
        A share a term; NaN for all if no group is live, or if it cannot be told. A shadow's is 0.
    """
    nothing = dict.fromkeys(batch.card.terms, math.nan)
    if not batch.live.any():
        return nothing
    with np.errstate(over="ignore", invalid="ignore"):  # of rewards too large to be squared nothing can be told
        if settings.get("multi_objective_aggregation") == "normalize_then_sum":
            parts, whole = _normalized_columns(batch)
        else:
            parts, whole = _summed(batch, per_group=settings.get("scale_rewards") in ("group", True, None))
        squares = whole @ whole
        if not squares > NOTHING_LEFT * (parts**2).sum():
            return nothing
        shares = parts.T @ whole / squares
    return dict(zip(batch.card.terms, shares.tolist(), strict=True)) if np.isfinite(shares).all() else nothing


def _summed(batch: Batch, *, per_group: bool) -> tuple[FloatArray, FloatArray]:
    """The terms' parts of the advantages, (N, K), and their sum with that of other functions, (N,)."""
    # TRL counts a missing value as 0 in the sum.
    counted = np.where(batch.kept[:, None], np.nan_to_num(batch.values) * batch.weights, np.nan)
    own = centred(_by_group(batch, counted))
    whole = np.nan_to_num(own).sum(axis=0) + np.nan_to_num(centred(batch.by_group(batch.others)))
    if per_group:
        present = np.where(np.isnan(batch.by_group(batch.others)), np.nan, whole)
        scale = 1 / (np.nan_to_num(deviation(present)) + TRL_EPSILON)
        own, whole = own * scale, whole * scale
    return np.nan_to_num(own).reshape(len(own), -1).T, whole.ravel()


def _normalized_columns(batch: Batch) -> tuple[FloatArray, FloatArray]:
    """As `_summed`, where each column is brought to one spread before it is weighed."""
    columns = _by_group(batch, batch.values)
    # A column with one value in a group has no deviation: NaN, which TRL's sum leaves out.
    own = np.nan_to_num(centred(columns) / (deviation(columns) + TRL_EPSILON))
    parts = (own * batch.weights[:, None, None]).reshape(len(own), -1).T
    if not batch.has_others:
        return parts, parts.sum(axis=1)
    return parts, _whole_by_advantages(batch)


def _by_group(batch: Batch, columns: FloatArray) -> FloatArray:
    """The columns as (K, G, M); no terms are no columns."""
    grouped = [batch.by_group(column) for column in columns.T]
    return np.array(grouped).reshape(len(grouped), *batch.rows.shape)


def _whole_by_advantages(batch: Batch) -> FloatArray:
    """The sum of all normalised columns, those of other functions too, which only the advantages know.

    They are `A = S / (std S + 1e-4)`, so that `std A = std S / (std S + 1e-4)`, and 1 - std A tells the divisor.
    """
    if batch.card.advantages is None:
        return np.full(batch.rows.size, np.nan)
    advantages = np.where(batch.kept, np.array(batch.card.advantages), np.nan)
    divisor = TRL_EPSILON / (1 - deviation(advantages)[0])
    return np.nan_to_num(batch.by_group(advantages * divisor)).ravel()
