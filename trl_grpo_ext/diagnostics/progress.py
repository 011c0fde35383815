"""Whether a run gets better by itself: what looks like trouble may be what is being learned."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.check import Window, has_risen, is_flat, score_level

EARLY = 24  # training batches: until then a slow rise looks flat; ours
LEAST_GAIN = 0.1  # a score that surely rises by less over the window is flat; ours


def is_learning(window: Window) -> bool:
    """Whether the score has risen and is not flat now, or it is too early to tell of a score that is not 0.

    A score of 0 teaches nothing, however early it is.
    """
    level = score_level(window.batches)
    if level is None or level.mean == 0:
        return False
    is_early = window.history[-1].middle < EARLY
    return is_early or (has_risen(window) and not is_flat(window.batches, LEAST_GAIN))
