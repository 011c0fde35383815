"""How long completions are by what was found, and whether the longer ones of a group get the higher totals."""

from __future__ import annotations

import numpy as np

from trl_grpo_ext.figures.batch import Batch, FloatArray
from trl_grpo_ext.figures.deviations import centred, overall
from trl_grpo_ext.verdict import Status

STATUSES = (Status.CORRECT, Status.INCORRECT, Status.UNPARSEABLE)


def mean_lengths(batch: Batch) -> dict[str, float]:
    """Mean length in tokens by primary verdict, `correct`, `incorrect`, `unparseable`, and of those `truncated`.

    NaN where there are none, or nobody knows their length. A truncated completion counts under its verdict too.
    """
    statuses = [None if verdict is None else verdict.status for verdict in batch.primary]
    chosen = {str(kind): [status is kind for status in statuses] for kind in STATUSES}
    chosen["truncated"] = [sample.truncated is True for sample in batch.card.samples]
    return {kind: overall(batch.tokens[np.array(rows, dtype=bool)]) for kind, rows in chosen.items()}


def length_correlation(batch: Batch) -> float:
    """Spearman's correlation of length and total within groups, in [-1, 1]: the mean over groups where both vary.

    Void samples are left out; NaN if there is no such group.
    """
    lengths, totals = batch.by_group(batch.tokens), batch.by_group(batch.totals)
    known = ~np.isnan(lengths) & ~np.isnan(totals)
    length_ranks, total_ranks = (centred(ranks(np.where(known, of, np.nan))) for of in (lengths, totals))
    length_ranks, total_ranks = np.nan_to_num(length_ranks), np.nan_to_num(total_ranks)
    spread = np.sqrt((length_ranks**2).sum(axis=1) * (total_ranks**2).sum(axis=1))
    varies = spread > 0
    return overall((length_ranks * total_ranks).sum(axis=1)[varies] / spread[varies])


def ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1 along the last axis, equals sharing the mean of theirs; NaN where there is no value.

    Example:
        >>> ranks(np.array([[7.0, 3.0, 7.0, np.nan]])).tolist()
        [[2.5, 1.0, 2.5, nan]]
    """
    one, other = values[..., :, None], values[..., None, :]
    below, equal = (other < one).sum(axis=-1), (other == one).sum(axis=-1)
    return np.where(np.isnan(values), np.nan, below + (equal + 1) / 2)
