"""Shadows: terms of weight 0 that watch what is trained on. A rising disagreement is how reward hacking looks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from trl_grpo_ext.figures.batch import Batch
from trl_grpo_ext.verdict import Status, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Two judges on the same completions: how many are right by both, by one, by neither.

    Example:
        >>> agreement = Agreement(both=40, primary_only=10, shadow_only=0, neither=50)
        >>> agreement.fails_where_primary_passes, agreement.kappa
        (0.2, 0.8)
    """

    both: int
    primary_only: int
    shadow_only: int
    neither: int

    @property
    def size(self) -> int:
        """How many completions both have judged."""
        return self.both + self.primary_only + self.shadow_only + self.neither

    @property
    def fails_where_primary_passes(self) -> float:
        """The share of the completions right by the primary term that are not by the shadow; NaN if none is right."""
        passed = self.both + self.primary_only
        return self.primary_only / passed if passed else math.nan

    @property
    def kappa(self) -> float:
        """Cohen's kappa, at most 1, and 0 for an agreement that is chance; NaN where each says one thing only."""
        if not self.size:
            return math.nan
        primary, shadow = (self.both + self.primary_only) / self.size, (self.both + self.shadow_only) / self.size
        by_chance = primary * shadow + (1 - primary) * (1 - shadow)
        agreed = (self.both + self.neither) / self.size
        return (agreed - by_chance) / (1 - by_chance) if by_chance < 1 else math.nan


def shadow_agreements(batch: Batch) -> dict[str, Agreement]:
    """Each shadow against the primary verdicts, over the completions that both could judge; right is CORRECT."""
    return {
        term: _agreement(zip(batch.primary, batch.card.verdicts[term], strict=True))
        for term, weight in batch.card.weights.items()
        if weight == 0
    }


def _agreement(pairs: Iterable[tuple[Verdict | None, Verdict | None]]) -> Agreement:
    counts = Counter(
        (primary.status is Status.CORRECT, shadow.status is Status.CORRECT)
        for primary, shadow in pairs
        if primary is not None and shadow is not None and primary.score is not None and shadow.score is not None
    )
    return Agreement(
        both=counts[True, True],
        primary_only=counts[True, False],
        shadow_only=counts[False, True],
        neither=counts[False, False],
    )
