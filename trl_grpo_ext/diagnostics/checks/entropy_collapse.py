"""Check `entropy_collapse`: exploration ends before the goal is reached."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.batches import (
    ONE_ANSWER,
    agreeing_share,
    distinct_answers,
    group_share,
    never_explores,
    percent,
    repeated_share,
)
from trl_grpo_ext.diagnostics.checks import kl_blowup
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.levels import gain_within
from trl_grpo_ext.diagnostics.progress import FLAT_BATCHES, HARDLY, has_risen, is_flat
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, NO_LOGS, CheckResult, Window
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.protocol import is_number

# Of the entropy at the start; rl-doctor.
LEFT = 0.1
# Ours, tried in test_fault_injection.py (a third of the gold is wrong) and test_healthy_runs.py (a tenth is).
# Of the groups are all wrong, so their one answer is wrong.
MOSTLY_WRONG = 0.25
# Of the all-wrong groups agree on an answer, and of the other groups are all right.
MOST = 0.5

# Of the completions that could be a sibling's. Ours, tried in test_diagnosis_cases.py (temperature 0).
SAME_TEXT = 0.98
# A top_p at which one text prevails, and 1 less a min_p.
NARROW = 0.5
# A temperature at which one text prevails.
COLD = 0.3
# Enough of them where it is so cold, and nothing is learned. Ours: of the bundled model, 0.9 at 0.05, where it
# learns nothing, and 0.8 at 0.1, where it learns.
MOSTLY_SAME = 0.85

COMPARE = "First compare answers and gold of the groups that are all wrong: it may be the gold. If the gold is right:"


def collapsed(window: Window) -> CheckResult:
    """Little entropy is left, groups give one answer, and the score is flat below its ceiling."""
    now, opening = window.logged_level("entropy"), window.logged("entropy", opening=True)
    if now is None or not opening:
        missing = NotChecked("the entropy, which TRL has not logged") if window.logs else NO_LOGS
        return missing if window.batches else None
    level, distinct, before = window.score, distinct_answers(window.batches), opening[0]
    if level.count < LEAST_SAMPLES or window.is_solved:
        return None
    if before <= 0 or now > LEFT * before or (distinct is not None and distinct >= ONE_ANSWER):
        return None
    is_stuck = is_flat(window, HARDLY) and not has_risen(window)
    if not (is_stuck or _has_settled_on_wrong_answers(window)):
        # The policy learns, or has converged.
        return None
    if window.scale.unit(level).mean < HARDLY and kl_blowup.obeys_other_terms(window):
        # Where no answer is right, it has found what the other terms pay for.
        return None
    answers = "" if distinct is None else f" and a group gives {distinct:.1f} different answers"
    left, settled = f"{percent(now / before)} of its entropy is left{answers}", _settled(window)
    return Finding(
        severity=Severity.WARNING,
        sentence=(
            f"The policy has stopped exploring: {left}, while the score stays at {level.mean:.2f}."
            if settled is None
            else f"The policy has settled, and some of the gold may be wrong: {settled}; {left}."
        ),
        numbers={"entropy": now, "entropy_at_the_start": before, "score": level.mean},
        action=("" if settled is None else f"{COMPARE} ") + "Go back to a checkpoint from before, with a higher "
        "epsilon_high or temperature, or a lower learning rate.",
    )


def never_explored(window: Window) -> CheckResult:
    """Find groups of identical completions, from the first batch to the latest."""
    temperature = window.settings.get("temperature")
    cold = is_number(temperature) and temperature < COLD
    top_p = window.settings.get("top_p")
    narrow = is_number(top_p) and top_p < NARROW
    is_learned = window.is_solved or has_risen(window)
    if not never_explores(window, MOSTLY_SAME if (cold or narrow) and not is_learned else SAME_TEXT):
        return None
    return Finding(
        severity=Severity.CRITICAL,
        sentence=(
            "The policy does not explore, and did not from the start: "
            f"{percent(repeated_share(window.batches))} of the completions are a sibling's, word for word"
            + (f", at a temperature of {temperature:g}." if cold else ".")
        ),
        numbers={"repeated": repeated_share(window.batches)},
        action=_how_to_explore(window, cold=cold),
    )


def _how_to_explore(window: Window, *, cold: bool) -> str:
    if window.settings.get("top_k") == 1:
        return "Set top_k to 0, TRL's default: with 1 the likeliest token is taken at any temperature."
    if cold:
        return "Set temperature to 1, TRL's default."
    top_p, min_p = window.settings.get("top_p"), window.settings.get("min_p")
    if is_number(top_p) and top_p < NARROW:
        return f"Set top_p to 1, TRL's default: with {top_p:g} only the likeliest tokens are taken."
    if is_number(min_p) and min_p > 1 - NARROW:
        return f"Take min_p out: with {min_p:g} only the likeliest tokens are taken."
    return "Raise the temperature, or top_p."


def _settled(window: Window) -> str | None:
    """Describe a settled policy: groups all right, groups agreeing on a wrong answer; None if answers scatter.

    A policy that is right on most prompts, and sure of another answer on the rest, puts the gold of the rest in doubt.
    """
    wrong, right = (group_share(window.batches, kind) for kind in (GroupOutcome.ALL_WRONG, GroupOutcome.ALL_RIGHT))
    if not wrong or agreeing_share(window.batches) < MOST or right < MOST * (1 - wrong):
        return None
    return f"{percent(right)} of the groups are all right, {percent(wrong)} agree on a wrong answer"


def _has_settled_on_wrong_answers(window: Window) -> bool:
    """Test for groups with one answer each, often wrong, and a score that hardly rises.

    False where no answer is extracted. Groups all right or all wrong differ so much that a score is never surely flat.
    """
    if distinct_answers(window.batches) is None:
        return False
    rise = window.scale.part(gain_within(window.batches)).mean
    hardly = len(window.batches) >= FLAT_BATCHES and rise < HARDLY
    return hardly and group_share(window.batches, GroupOutcome.ALL_WRONG) >= MOSTLY_WRONG
