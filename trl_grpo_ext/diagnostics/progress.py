"""Progress: whether the score of a run rises, is flat, or is stuck."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.levels import LevelOf, fitted_rise, gain, gain_within, score_level
from trl_grpo_ext.diagnostics.window import Window
from trl_grpo_ext.figures.reduction import BatchFigures

# Ours, set by benchmarks/false_alarms.py: how often runs that learn are called stuck, and runs that are stuck are told.
FLAT_BATCHES = 8  # fewer cannot show that a score is flat
EARLY = 24  # optimizer steps: until then a slow rise looks flat
PATIENCE = 96  # optimizer steps until a score that is not 0 can be called stuck
NEXT_TO_NOTHING = 0.01  # of a score: from less, nothing is learned
LEAST_RISE, LEAST_LOW_RISE = 0.05, 0.015  # of a score over the whole run, and of one near 0
# Ours, tried in tests/test_fault_injection.py and tests/test_healthy_runs.py.
LEAST_GAIN = 0.1  # of the score: one that surely rises by less over a window is flat
HARDLY = 0.05  # of the score: a smaller gain is not worth much


def is_flat(batches: Sequence[BatchFigures], least_gain: float = LEAST_GAIN) -> bool:
    """Whether the score has surely not risen by `least_gain` from the first half of the batches to the second.

    A score near 1 need rise by half of what it lacks only. False for fewer than `FLAT_BATCHES`.
    """
    level = score_level(batches)
    if level.mean < 1:
        least_gain = min(least_gain, (1 - level.mean) / 2)
    return len(batches) >= FLAT_BATCHES and gain_within(batches).is_surely_below(least_gain)


def has_risen(window: Window, level: LevelOf = score_level) -> bool:
    """Whether the score, or another level, has surely risen since the opening."""
    found = gain(window.opening, window.later, level)
    return found.is_sure or (level is score_level and found.mean > 0 and _rises_slowly(window))


def _rises_slowly(window: Window) -> bool:
    """Whether the scores of the whole run surely show a rise, which the opening is too short to tell."""
    fitted = fitted_rise(window.history)
    return fitted is not None and fitted.is_sure


def is_stuck(window: Window, patience: int = PATIENCE) -> bool:
    """Whether the score does not rise now, and has hardly risen in the whole run.

    A slow run rises by little over any window: what it has gained in all is what tells it from one that is stuck, and
    that takes patience (optimizer steps), less for one of next to 0. `benchmarks/false_alarms.py` measures how well.
    """
    level, fitted = window.score, fitted_rise(window.history)
    if not level.count or fitted is None or len(window.batches) < FLAT_BATCHES:
        return False
    if level.mean < NEXT_TO_NOTHING:
        patience = EARLY if level.mean else 0
    if steps_so_far(window) < patience:
        return False
    gains = gain(window.opening, window.later), gain_within(window.batches)
    least = min(LEAST_RISE, max(LEAST_LOW_RISE, level.mean / 4))  # of a low score, a quarter of itself is a gain
    return not any(found.mean > found.error for found in gains) and fitted.mean + fitted.error < least


def has_hardly_gained(window: Window) -> bool:
    """Whether the score has, as far as can be seen, not risen by `HARDLY` since the opening.

    Enough where another figure has moved a lot: the question is whether it was worth it.
    """
    return gain(window.opening, window.later).mean < HARDLY


def is_learning(window: Window) -> bool:
    """Whether the score has risen and is not flat now, or it is too early to tell of a score that is not 0.

    A score of 0 teaches nothing, however early it is.
    """
    if not window.score.count or window.score.mean == 0:
        return False
    is_early = steps_so_far(window) < EARLY
    return is_early or (has_risen(window) and not is_flat(window.batches))


def steps_so_far(window: Window) -> float:
    """The optimizer steps that the run has gone on for, as far as it is known."""
    return window.history[-1].middle - window.history[0].middle if window.history else 0.0
