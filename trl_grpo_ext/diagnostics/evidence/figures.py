"""Figures of several batches together, and how they are written."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.group_outcome import GroupOutcome


def judged(batches: Sequence[BatchFigures]) -> int:
    """The samples with a primary score."""
    return sum(batch.primary.judged for batch in batches)


def group_count(batches: Sequence[BatchFigures]) -> int:
    """The groups that could be judged."""
    return sum(batch.groups for batch in batches)


def groups_of(batches: Sequence[BatchFigures], outcome: GroupOutcome) -> int:
    """The groups of one kind."""
    return sum(batch.outcomes.get(outcome, 0) for batch in batches)


def most_common(counters: Sequence[Mapping[Any, int]]) -> list[tuple[Any, int]]:
    """The keys of several counters together, the most frequent first."""
    together: Counter[Any] = Counter()
    for counter in counters:
        together.update(counter)
    return together.most_common()


def is_finite(value: object) -> TypeGuard[float]:
    """Whether this is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def percent(part: float) -> str:
    """A share as people read it.

    Example:
        >>> percent(0.123), percent(0.0312), percent(1.0)
        ('12 %', '3.1 %', '100 %')
    """
    return f"{part:.1%}".replace("%", " %") if part < 0.1 else f"{part:.0%}".replace("%", " %")
