"""Means, deviations and ranks along the last axis that ignore NaN, without numpy's warnings for empty axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def mean(values: Array) -> Array:
    """Average finite values along the last axis, keeping it with length 1; NaN without values.

    Examples:
        >>> mean(np.array([[1.0, 3.0, np.nan]])).tolist()
        [[2.0]]
    """
    zero = values.dtype.type(0)
    unknown = values.dtype.type(np.nan)
    counts = _counts(values)
    known = np.where(np.isfinite(values), values, zero)
    sums = known.sum(axis=-1, keepdims=True)
    means: Array = np.where(
        counts > 0,
        # At least 1: a division by zero would warn even where `where` does not choose it.
        sums / np.maximum(counts, 1),
        unknown,
    )
    return means


def _counts(values: Array) -> Array:
    """Count finite values along the last axis, in the values' precision."""
    counts = np.isfinite(values).sum(axis=-1, keepdims=True)
    in_precision: Array = counts.astype(values.dtype)
    return in_precision


def centred(values: Array) -> Array:
    """Subtract the mean along the last axis; exactly 0 if all values are equal.

    Examples:
        >>> centred(np.array([0.3, 0.3, 0.3, np.nan])).tolist()
        [0.0, 0.0, 0.0, nan]
    """
    missing = np.isnan(values)
    # A missing value is never the highest or the lowest.
    for_highest = np.where(missing, -np.inf, values)
    for_lowest = np.where(missing, np.inf, values)
    highest = for_highest.max(axis=-1, keepdims=True, initial=-np.inf)
    lowest = for_lowest.min(axis=-1, keepdims=True, initial=np.inf)
    # The mean of equal values may differ from them by a rounding error.
    differs = missing | (highest != lowest)
    zero = values.dtype.type(0)
    differences: Array = np.where(differs, values - mean(values), zero)
    return differences


def deviation(values: Array, lost: int = 1) -> Array:
    """Compute the standard deviation along the last axis, keeping it with length 1; NaN for `lost` or fewer values.

    TRL's GRPO uses the sample deviation, `lost=1`; its AsyncGRPO the population deviation, `lost=0`.

    Examples:
        >>> deviation(np.array([1.0, 0.0, 0.0, 0.0])).tolist()
        [0.5]
    """
    counts = _counts(values)
    differences = np.nan_to_num(centred(values))
    squares = (differences**2).sum(axis=-1, keepdims=True)
    freedom = np.maximum(counts - lost, 1)
    spread = np.sqrt(squares / freedom)
    unknown = values.dtype.type(np.nan)
    deviations: Array = np.where(counts > lost, spread, unknown)
    return deviations


def ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rank values from 1 along the last axis; equal values share their mean rank, NaN stays NaN.

    Examples:
        >>> ranks(np.array([[7.0, 3.0, 7.0, np.nan]])).tolist()
        [[2.5, 1.0, 2.5, nan]]
    """
    one = values[..., :, None]
    other = values[..., None, :]
    below = (other < one).sum(axis=-1)
    equal = (other == one).sum(axis=-1)
    mean_rank = below + (equal + 1) / 2
    return np.where(np.isnan(values), np.nan, mean_rank)
