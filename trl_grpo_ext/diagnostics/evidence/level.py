"""Levels: how high the scores, rewards and lengths of some batches are, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.support.estimate import ROUNDING, Estimate

LevelOf = Callable[[Sequence[BatchFigures]], Estimate | None]


def score_level(batches: Sequence[BatchFigures]) -> Estimate | None:
    """The mean primary score of some batches; None if nothing was judged."""
    return _level((batch.primary.scores for batch in batches), (batch.primary.group_scores for batch in batches))


def reward_level(batches: Sequence[BatchFigures]) -> Estimate | None:
    """The mean total of some batches, void samples left out; None if nothing was judged."""
    return _level((batch.rewards for batch in batches), (batch.group_rewards for batch in batches))


def length_level(batches: Sequence[BatchFigures]) -> Estimate | None:
    """The mean length in tokens of the groups of some batches; None if it is unknown."""
    return level_of(batch.group_tokens for batch in batches)


def level_of(parts: Iterable[Estimate]) -> Estimate | None:
    """The mean of numbers that do not depend on each other; None for none, and for numbers too large to square."""
    together = Estimate.together(parts)
    if not together.count or not together.is_known:
        return None
    return replace(together, error=max(together.error, ROUNDING * abs(together.mean)))


def _level(parts: Iterable[Estimate], groups: Iterable[Estimate]) -> Estimate | None:
    """A mean of completions with the error of the groups; that of completions where few groups happen to agree."""
    alone, grouped = level_of(parts), level_of(groups)
    if alone is None or grouped is None:
        return None
    return replace(alone, error=max(alone.error, grouped.error) if grouped.count > 1 else alone.error)


def gain(
    earlier: Sequence[BatchFigures], later: Sequence[BatchFigures], level: LevelOf = score_level
) -> Estimate | None:
    """How much the score, or another level, has risen; None if it cannot be told."""
    before, after = level(earlier), level(later)
    return None if before is None or after is None else after - before


def gain_within(batches: Sequence[BatchFigures]) -> Estimate | None:
    """How much the score has risen from the first half of the batches to the second; None if it cannot be told."""
    half = len(batches) // 2
    return gain(batches[:half], batches[half:])
