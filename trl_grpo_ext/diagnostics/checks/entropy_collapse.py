"""The policy has stopped trying things, short of the goal."""

from __future__ import annotations

import statistics

from trl_grpo_ext.diagnostics.check import LEAST_SAMPLES, Outcome, Window, is_flat, percent, score_level
from trl_grpo_ext.diagnostics.checks import kl_blowup
from trl_grpo_ext.diagnostics.diversity_view import ONE_ANSWER, distinct_answers
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity

LEFT = 0.1  # of the entropy at the start; rl-doctor
LATEST = 5  # logs; ours
CEILING = 0.95  # a score above has nowhere to go; ours
LEAST_GAIN = 0.05  # a score that surely rises by less over the window is flat; ours


def check(window: Window) -> Outcome:
    """Little entropy is left, groups give one answer, and the score is flat below its ceiling."""
    logged, opening = window.logged("entropy"), window.logged("entropy", opening=True)
    if not logged or not opening:
        return NotChecked("the entropy in TRL's logs") if window.batches else None
    now, before = statistics.median(logged[-LATEST:]), opening[0]
    level, distinct = score_level(window.batches), distinct_answers(window.batches)
    if level is None or level.count < LEAST_SAMPLES or level.mean >= CEILING:
        return None
    if now > LEFT * before or (distinct is not None and distinct >= ONE_ANSWER):
        return None
    if not is_flat(window.batches, LEAST_GAIN) or isinstance(kl_blowup.check(window), Finding):
        return None  # too large an update is the cause of both
    answers = "" if distinct is None else f" and a group gives {distinct:.1f} different answers"
    return Finding(
        code="entropy_collapse",
        step=window.step,
        severity=Severity.WARNING,
        sentence=(
            f"The policy has stopped exploring: {percent(now / before)} of its entropy is left{answers}, while "
            f"the score stays at {level.mean:.2f}."
        ),
        numbers={"entropy": now, "entropy_at_the_start": before, "score": level.mean}
        | ({} if distinct is None else {"distinct_answers": distinct}),
        action="Go back to a checkpoint from before, with a higher epsilon_high or temperature, or a lower learning "
        "rate.",
    )
