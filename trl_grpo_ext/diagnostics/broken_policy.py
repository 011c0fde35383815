"""A policy that has broken: its score was above 0, and has fallen to nearly 0."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trl_grpo_ext.diagnostics.levels import gain, level_of, reward_level, score_level
from trl_grpo_ext.diagnostics.progress import FLAT_BATCHES, HARDLY, LEAST_GAIN
from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, LEAST_SAMPLES, Check, CheckResult, Window
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.runs.recorder import OPENING_BATCHES
from trl_grpo_ext.support.estimate import SURE, Estimate

# Ours, tried in tests/test_fault_injection.py (a learning rate that breaks the policy) and tests/test_healthy_runs.py.
GONE = 0.02  # a score below this is as good as 0
LEFT = 0.1  # of the best score: less is as good as nothing
LATEST = 5  # logs: the estimate of the KL divergence is noisy; ours
FAR = 0.5  # nats a token of KL from the reference; rl-doctor and rlprobe
RARE, MOST = 0.15, 0.5  # of the completions are cut: seldom at first, and mostly now; ours, tried in the same tests


@dataclass(frozen=True, slots=True)
class Fall:
    """A score that has gone to nothing.

    Attributes:
        best: The best that the run had.
        now: What is left.
        is_sure: Whether it is more than the luck of a few groups.
    """

    best: float
    now: float
    is_sure: bool


def fall_to_nothing(window: Window) -> Fall | None:
    """The fall of the score to next to nothing; None if it has some, or never had any to speak of.

    A run whose reward has risen is no such: its policy does what it is paid for.
    """
    recent = window.later[-FLAT_BATCHES:] or window.batches[1:]
    now, levels = score_level(recent), _levels(window)
    if now is None or now.count < LEAST_SAMPLES or not levels:
        return None
    best = max(level.mean for level in levels)
    paid = gain(window.opening, recent, reward_level)
    if best < LEAST_GAIN or now.mean > max(GONE, LEFT * best) or (paid is not None and paid.is_sure):
        return None
    surely = max((level.mean - SURE * level.error for level in levels if 2 * level.count >= LEAST_GROUPS), default=0.0)
    return Fall(best, now.mean, surely > max(HARDLY, now.mean + SURE * now.error))


def broken_by(window: Window) -> Fall | None:
    """The fall of the score to nothing, if that is the policy's doing, as far as can be seen.

    Where no KL divergence is measured, it must be sure, or the completions are cut that were not at first.
    """
    fall, kl = fall_to_nothing(window), kl_level(window)
    if fall is None:
        return None
    is_of_policy = kl >= FAR if kl is not None else fall.is_sure or _has_come_to_be_cut(window)
    return fall if is_of_policy else None


def kl_level(window: Window) -> float | None:
    """The KL divergence from the reference by the latest logs, in nats a token; None if it is not measured."""
    logged = window.logged("kl")
    return statistics.median(logged[-LATEST:]) if logged else None


def unless_broken(check: Check) -> Check:
    """A check of what a broken policy does too: long, looped, unreadable and wrong completions are its effects."""

    def held_back(window: Window) -> CheckResult:
        return check(window) if broken_by(window) is None else None

    return held_back


def _has_come_to_be_cut(window: Window) -> bool:
    """Whether most completions are cut, and few were in the first batch, which no update has touched."""
    return _cut_share(window.opening[:1]) < RARE and _cut_share(window.batches[1:][-OPENING_BATCHES:]) >= MOST


def _cut_share(batches: Sequence[BatchFigures]) -> float:
    """The share of the completions that were cut, in [0, 1]; 0 if it is unknown."""
    cut, ended = sum(batch.primary.cut for batch in batches), sum(batch.primary.ended for batch in batches)
    return cut / (cut + ended) if cut + ended else 0.0


def _levels(window: Window) -> list[Estimate]:
    """How high the scores were: of the first batch, of the stretches of the run, and of the evaluations."""
    scores = [stretch.scores for stretch in window.history]
    parts = [[batch.primary.group_scores for batch in window.opening[:1]]]
    parts += [scores[start : start + OPENING_BATCHES] for start in range(0, len(scores), OPENING_BATCHES)]
    return [level for part in parts if (level := level_of(part)) is not None] + [one for _, one in window.evaluations]
