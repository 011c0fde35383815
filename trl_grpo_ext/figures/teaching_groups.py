"""Groups that teach, groups that do not, and groups in which only the small terms speak."""

from __future__ import annotations

import math

import numpy as np

from trl_grpo_ext.figures.batch import Batch

# TRL computes in single precision: the advantage of a sample at the mean of its group is this close to 0.
NO_ADVANTAGE = 1e-6


def secondary_only(batch: Batch) -> float:
    """The share of live groups in which the primary term tells no two members apart; NaN if no group is live.

    Under `scale_rewards="group"` a term of weight 0.01 moves such a group as far as a right answer would.
    """
    live = batch.live
    return float((~batch.primary_differs[live]).mean()) if live.any() else math.nan


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
