"""Groups that teach, groups that do not, and groups in which only the small terms speak."""

from __future__ import annotations

import math

import numpy as np

from trl_grpo_ext.diagnostics.statistics.batch import Batch, FloatArray

# TRL computes in single precision: the advantage of a sample at the mean of its group is this close to 0.
NO_ADVANTAGE = 1e-6


def secondary_only(batch: Batch) -> float:
    """The share of live groups in which the primary term tells no two members apart; NaN if no group is live.

    The primary term of a sample is the first in force that applies to it. Under `scale_rewards="group"` a term of
    weight 0.01 moves such a group as far as a right answer would.
    """
    live = batch.live
    if not live.any():
        return math.nan
    values = batch.by_group(_primary_values(batch))[live]
    present = ~np.isnan(values)
    highest = np.where(present, values, -np.inf).max(axis=1)
    lowest = np.where(present, values, np.inf).min(axis=1)
    return float((highest <= lowest).mean())


def effective_completions(batch: Batch) -> float:
    """The share of completions with an advantage; NaN before advantages are known, and for no completions.

    Only live groups count: in single precision, the advantages of a group of equals may be 3e-4 instead of 0.
    """
    if batch.card.advantages is None or not len(batch.card):
        return math.nan
    live = np.zeros(len(batch.card), dtype=bool)
    rows = batch.rows[batch.live].ravel()
    live[rows[rows >= 0]] = True
    return float((live & (np.abs(np.array(batch.card.advantages)) > NO_ADVANTAGE)).mean())


def _primary_values(batch: Batch) -> FloatArray:
    """Each sample's value by its primary term; NaN where none applies, and for void samples."""
    values = np.full(len(batch.card), np.nan)
    for column, (term, weight) in reversed(list(enumerate(batch.card.weights.items()))):
        if weight != 0:
            applies = np.array([verdict is not None for verdict in batch.card.verdicts[term]], dtype=bool)
            values = np.where(applies, batch.values[:, column], values)
    return values
