"""pass@k: how likely it is that one of k completions of a prompt is right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.figures.batch import NO_SAMPLE, Batch
from trl_grpo_ext.verdict import Status


def pass_at_k(size: int, right: int, k: int) -> float:
    """The share of the subsets of `k` among `size` completions that hold one of the `right` ones: unbiased.

    NaN if there are fewer than k (Chen et al. 2021, "Evaluating Large Language Models Trained on Code").

    Example:
        >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 0, 4)
        (0.25, 0.5, 0.0)
    """
    return 1 - math.comb(size - right, k) / math.comb(size, k) if 0 < k <= size else math.nan


def pass_rates(batch: Batch, ks: tuple[int, ...]) -> dict[int, float]:
    """pass@k for each of `ks`, the mean over groups with at least k completions that could be judged.

    Right is CORRECT by the primary verdict. NaN where no group has as many.
    """
    judged = [
        [verdict.status is Status.CORRECT for verdict in members if verdict is not None and verdict.score is not None]
        for members in ([batch.primary[row] for row in rows if row != NO_SAMPLE] for rows in batch.rows)
    ]
    rates = {}
    for k in ks:
        found = [pass_at_k(len(group), sum(group), k) for group in judged if len(group) >= k]
        rates[k] = sum(found) / len(found) if found else math.nan
    return rates


def ks_for(settings: Mapping[str, Any], mode: str) -> tuple[int, ...]:
    """Powers of two below the group size, and the group size: fixed for a run and a mode.

    Example:
        >>> ks_for({"num_generations": 12, "num_generations_eval": 1}, "train")
        (1, 2, 4, 8, 12)
    """
    size = int(settings.get("num_generations") or 1)
    if mode == "eval":
        size = int(settings.get("num_generations_eval") or size)
    return tuple(sorted({2**power for power in range(size.bit_length()) if 2**power < size} | {size}))
