"""Means and deviations over the last axis that leave NaN out, without numpy's warnings where nothing is left."""

from __future__ import annotations

import numpy as np

from trl_grpo_ext.figures.batch import FloatArray


def mean(values: FloatArray) -> FloatArray:
    """The mean along the last axis, kept as an axis of length 1; NaN where there is no value.

    Example:
        >>> mean(np.array([[1.0, 3.0, np.nan]])).tolist()
        [[2.0]]
    """
    counts = np.isfinite(values).sum(axis=-1, keepdims=True)
    sums = np.where(np.isfinite(values), values, 0.0).sum(axis=-1, keepdims=True)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def centred(values: FloatArray) -> FloatArray:
    """The values less their mean along the last axis; exactly 0 where all are the same.

    Example:
        >>> centred(np.array([0.3, 0.3, 0.3, np.nan])).tolist()
        [0.0, 0.0, 0.0, nan]
    """
    highest = np.where(np.isnan(values), -np.inf, values).max(axis=-1, keepdims=True, initial=-np.inf)
    lowest = np.where(np.isnan(values), np.inf, values).min(axis=-1, keepdims=True, initial=np.inf)
    return np.where(np.isnan(values) | (highest != lowest), values - mean(values), 0.0)


def deviation(values: FloatArray) -> FloatArray:
    """The sample deviation along the last axis, kept as an axis of length 1; NaN for fewer than two values.

    TRL takes the same one, with n - 1.

    Example:
        >>> deviation(np.array([1.0, 0.0, 0.0, 0.0])).tolist()
        [0.5]
    """
    counts = np.isfinite(values).sum(axis=-1, keepdims=True)
    squares = (np.nan_to_num(centred(values)) ** 2).sum(axis=-1, keepdims=True)
    return np.where(counts > 1, np.sqrt(squares / np.maximum(counts - 1, 1)), np.nan)


def overall(values: FloatArray) -> float:
    """The mean of all values that are not NaN; NaN if there are none."""
    present = values[~np.isnan(values)]
    return float(present.mean()) if present.size else float("nan")
