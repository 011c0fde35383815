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
EXPLORE = "Go back to a checkpoint from before, with a higher epsilon_high or temperature, or a lower learning rate."
# By the setting at which one text prevails.
HOW_TO_EXPLORE = {
    "do_sample": "Take do_sample out of generation_kwargs: without sampling the likeliest token is always taken.",
    "top_k": "Set top_k to 0, TRL's default: with 1 the likeliest token is taken at any temperature.",
    "temperature": "Set temperature to 1, TRL's default.",
    "top_p": "Set top_p to 1, TRL's default: with so low a value only the likeliest tokens are taken.",
    "min_p": "Take min_p out: with so high a value only the likeliest tokens are taken.",
    "": "Raise the temperature, or top_p.",
}


def never_explored(window: Window) -> CheckResult:
    """Find groups of identical completions, from the first batch to the latest."""
    narrow = _narrow_setting(window)
    is_learned = window.is_solved or has_risen(window)
    least = MOSTLY_SAME if narrow and not is_learned else SAME_TEXT
    if not never_explores(window, least):
        return None
    share = repeated_share(window.batches)
    at = f", with {narrow} {_in_force(window, narrow)}" if narrow else ""
    return Finding(
        severity=Severity.CRITICAL,
        sentence=(
            f"The policy does not explore, and did not from the start: {percent(share)} of the completions are a "
            f"sibling's, word for word{at}."
        ),
        numbers={"repeated": share},
        action=HOW_TO_EXPLORE[narrow],
    )


def _narrow_setting(window: Window) -> str:
    """Name the setting at which one text prevails; empty without such a setting."""
    top_p = window.number("top_p")
    min_p = window.number("min_p")
    temperature = window.number("temperature")
    narrow = {
        "do_sample": _in_force(window, "do_sample") is False,
        "top_k": window.number("top_k") == 1,
        "temperature": temperature is not None and temperature < COLD,
        "top_p": top_p is not None and top_p < NARROW,
        "min_p": min_p is not None and min_p > 1 - NARROW,
    }
    return next((name for name, is_narrow in narrow.items() if is_narrow), "")


def _in_force(window: Window, name: str) -> object:
    """Return a setting of generation; None if it is unknown."""
    generation = window.settings.get("generation_kwargs") or {}
    return window.settings.get(name, generation.get(name))


def collapsed(window: Window) -> CheckResult:
    """Find little entropy and one answer a group, while the score is flat below its ceiling."""
    now = window.median_logged("entropy")
    before = window.first_logged("entropy")
    if now is None or before is None:
        return _without_entropy(window)
    level = window.score
    if level.count < LEAST_SAMPLES or window.is_solved:
        return None
    if before <= 0 or now > LEFT * before or not _gives_one_answer(window):
        return None
    is_stuck = is_flat(window, HARDLY) and not has_risen(window)
    # Else the policy learns, or has converged.
    if not (is_stuck or _has_settled_on_wrong_answers(window)):
        return None
    # Where no answer is right, the policy has found what the other terms pay for.
    if window.scale.unit(level).mean < HARDLY and kl_blowup.obeys_other_terms(window):
        return None
    left = f"{percent(now / before)} of its entropy is left{_answers(window)}"
    settled = _settled(window)
    if settled:
        sentence = (
            f"The policy has settled, and some of the gold may be wrong: {settled}; {left}."
        )
        action = f"{COMPARE} {EXPLORE}"
    else:
        sentence = f"The policy has stopped exploring: {left}, while the score stays at {level.mean:.2f}."
        action = EXPLORE
    return Finding(
        severity=Severity.WARNING,
        sentence=sentence,
        numbers={"entropy": now, "entropy_at_the_start": before, "score": level.mean},
        action=action,
    )


def _without_entropy(window: Window) -> CheckResult:
    if not window.batches:
        return None
    if not window.logs:
        return NO_LOGS
    return NotChecked("the entropy, which TRL has not logged")


def _gives_one_answer(window: Window) -> bool:
    """Test whether a group gives one answer; True where no answer is extracted."""
    distinct = distinct_answers(window.batches)
    return distinct is None or distinct < ONE_ANSWER


def _answers(window: Window) -> str:
    """Tell the number of answers a group gives; empty where no answer is extracted."""
    distinct = distinct_answers(window.batches)
    if distinct is None:
        return ""
    return f" and a group gives {distinct:.1f} different answers"


def _settled(window: Window) -> str:
    """Describe a settled policy: groups all right, groups agreeing on a wrong answer; empty if answers scatter.

    A policy that is right on most prompts, and sure of another answer on the rest, puts the gold of the rest in doubt.
    """
    wrong = group_share(window.batches, GroupOutcome.ALL_WRONG)
    right = group_share(window.batches, GroupOutcome.ALL_RIGHT)
    if not wrong or agreeing_share(window.batches) < MOST or right < MOST * (1 - wrong):
        return ""
    return f"{percent(right)} of the groups are all right, {percent(wrong)} agree on a wrong answer"


def _has_settled_on_wrong_answers(window: Window) -> bool:
    """Test for groups with one answer each, often wrong, and a score that hardly rises.

    False where no answer is extracted. Groups all right or all wrong differ so much that a score is never surely flat.
    """
    if distinct_answers(window.batches) is None or len(window.batches) < FLAT_BATCHES:
        return False
    rise = window.scale.part(gain_within(window.batches)).mean
    wrong = group_share(window.batches, GroupOutcome.ALL_WRONG)
    return rise < HARDLY and wrong >= MOSTLY_WRONG
