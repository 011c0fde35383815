"""A level: how high the scores of some batches are, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trl_grpo_ext.figures.batch import ROUNDING
from trl_grpo_ext.figures.batch_facts import BatchFacts
from trl_grpo_ext.figures.moments import Moments
from trl_grpo_ext.figures.rise import Rise


@dataclass(frozen=True, slots=True)
class Level:
    """A mean of 0-to-1 scores, and how sure it is.

    Attributes:
        mean: The mean, in [0, 1] for scores of correctness.
        error: Its standard error, from the spread of the groups: the completions of a prompt are alike.
        count: The number of scores.
    """

    mean: float
    error: float
    count: int


LevelOf = Callable[[Sequence[BatchFacts]], Level | None]


def score_level(batches: Sequence[BatchFacts]) -> Level | None:
    """The mean primary score of some batches; None if nothing was judged."""
    return _level([batch.primary.scores for batch in batches], [batch.primary.group_scores for batch in batches])


def reward_level(batches: Sequence[BatchFacts]) -> Level | None:
    """The mean total of some batches, void samples left out; None if nothing was judged."""
    return _level([batch.rewards for batch in batches], [batch.group_rewards for batch in batches])


def length_level(batches: Sequence[BatchFacts]) -> Level | None:
    """The mean length in tokens of the groups of some batches, and their number; None if nobody knows."""
    return level_of([batch.group_tokens for batch in batches])


def level_of(parts: Sequence[Moments]) -> Level | None:
    """The mean of numbers that do not depend on each other; None for none, and for numbers too large to square."""
    together = Moments.sum(parts)
    if not together.count:
        return None
    mean = together.total / together.count
    variance = together.squares / together.count - mean * mean
    if not math.isfinite(variance):  # scores of any size are allowed
        return None
    chance = math.sqrt(max(0.0, variance) / max(1, together.count - 1))
    return Level(mean, max(chance, ROUNDING * abs(mean)), together.count)


def _level(parts: Sequence[Moments], groups: Sequence[Moments]) -> Level | None:
    """A mean of completions with the error of the groups; that of completions where few groups happen to agree."""
    alone, grouped = level_of(parts), level_of(groups)
    if alone is None or grouped is None:
        return None
    error = max(alone.error, grouped.error) if grouped.count > 1 else alone.error
    return Level(alone.mean, error, alone.count)


def gain(earlier: Sequence[BatchFacts], later: Sequence[BatchFacts], level: LevelOf = score_level) -> Rise | None:
    """How much the score, or another level, has risen; None if it cannot be told."""
    before, after = level(earlier), level(later)
    if before is None or after is None:
        return None
    return Rise(after.mean - before.mean, math.hypot(before.error, after.error))


def gain_within(batches: Sequence[BatchFacts]) -> Rise | None:
    """How much the score has risen from the first half of the batches to the second; None if it cannot be told."""
    half = len(batches) // 2
    return gain(batches[:half], batches[half:])
