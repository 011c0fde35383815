"""Figures of several batches together, and how they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.figures.batch_facts import BatchFacts
from trl_grpo_ext.group_outcome import GroupOutcome


def judged(batches: Sequence[BatchFacts]) -> int:
    """The samples with a primary score."""
    return sum(batch.primary.judged for batch in batches)


def group_count(batches: Sequence[BatchFacts]) -> int:
    """The groups that could be judged."""
    return sum(batch.groups for batch in batches)


def groups_of(batches: Sequence[BatchFacts], outcome: GroupOutcome) -> int:
    """The groups of one kind."""
    return sum(batch.outcomes.get(outcome, 0) for batch in batches)


def most_common(counters: Sequence[Mapping[Any, int]]) -> list[tuple[Any, int]]:
    """The keys of several counters together, the most frequent first."""
    together: Counter[Any] = Counter()
    for counter in counters:
        together.update(counter)
    return together.most_common()


def percent(part: float) -> str:
    """A share as people read it.

    Example:
        >>> percent(0.123), percent(0.0312), percent(1.0)
        ('12 %', '3.1 %', '100 %')
    """
    return f"{part:.1%}".replace("%", " %") if part < 0.1 else f"{part:.0%}".replace("%", " %")
