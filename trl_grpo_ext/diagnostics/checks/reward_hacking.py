"""Check `reward_hacking`: a training score that rises without a second opinion or the evaluation."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.batches import (
    agreement,
    group_count,
    judged,
    percent,
    second_opinions,
)
from trl_grpo_ext.diagnostics.checks.dead_groups import same_prompts
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.levels import OPENING_BATCHES, score_level
from trl_grpo_ext.diagnostics.progress import has_risen
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, CheckResult, Window
from trl_grpo_ext.support.estimate import Estimate

# Of the passed completions that the shadow fails, or of the rise; rl-doctor.
GAP, WIDE_GAP = 0.15, 0.30
# Ours, tried in test_fault_injection.py (reward_hacking) and test_healthy_runs.py (a first evaluation in
# the middle).
# Completions.
LEAST_PASSED = 16
# The first and two more.
LEAST_EVALUATIONS = 3
# Of the scale: an evaluation above it has little room to follow.
CEILING = 0.9
# Of the reward's rise: the least by which what is real follows it.
FOLLOWS = 0.5
# Times its first score: an evaluation that rises so far follows, however hard it is.
HARDER = 1.5
# Of the scale: two digits show a smaller fall as 0.
NOT_FALLEN = -0.005

READ = "Read the training completions with the highest advantage; if they are honest, the data is too small."
BY_HEART = (
    "Take more data, with many prompts that each come back a few times: so few are learned by heart. Then see whether "
    "the evaluation follows."
)


def hacking(window: Window) -> CheckResult:
    """Find a rising training score without a rising second opinion or evaluation."""
    shadows = second_opinions(window)
    if (
        window.batches
        and not (shadows or _is_watched(window))
        and len(window.evaluations) < LEAST_EVALUATIONS
    ):
        return NotChecked(
            "a second opinion (a stricter verifier of weight 0), or three evaluations"
        )
    if not has_risen(window):
        return None
    for shadow in shadows:
        found = _against_shadow(window, shadow)
        if found is not None:
            return found
    outcome = _against_evaluation(window)
    return None if shadows and isinstance(outcome, NotChecked) else outcome


def _is_watched(window: Window) -> bool:
    """Test for a shadow that reads answers where the primary term reads none.

    Check `getting_worse` finds the falls of such a shadow.
    """
    if not window.in_force or window.has_read_answers(window.in_force[0]):
        return False
    shadows = [term for term in window.terms if term not in window.trained_on]
    return any(map(window.has_read_answers, shadows))


def _against_shadow(window: Window, shadow: str) -> Finding | None:
    before = agreement(window.opening, shadow)
    now = agreement(window.later, shadow)
    passed = now.both + now.primary_only
    if before.size < LEAST_SAMPLES // 2 or passed < LEAST_PASSED:
        return None
    rise = passed / now.size - (before.both + before.primary_only) / before.size
    shadow_rise = (now.both + now.shadow_only) / now.size - (
        before.both + before.shadow_only
    ) / before.size
    fails = now.fails_where_primary_passes
    if rise <= 0 or fails < GAP or shadow_rise >= FOLLOWS * rise:
        return None
    primary = window.in_force[0]
    return Finding(
        severity=Severity.critical_if(fails >= WIDE_GAP),
        terms=(primary, shadow),
        sentence=(
            f"The reward is not to be trusted: `{primary}` passes {percent(passed / now.size)} of the completions, up "
            f"by {percent(rise)}, and `{shadow}` fails {percent(fails)} of those."
        ),
        numbers={
            "passed": passed / now.size,
            "rise": rise,
            "shadow_rise": shadow_rise,
            "shadow_fails": fails,
        },
        action=f"Read the completions that `{primary}` passes and `{shadow}` fails, then train on the stricter one.",
    )


def _against_evaluation(window: Window) -> CheckResult:
    if len(window.evaluations) < LEAST_EVALUATIONS:
        return None
    first = window.evaluations[0].score
    last = window.evaluations[-1].score
    trained = _training_beside_evaluations(window)
    if trained is None:
        return NotChecked(
            "training batches beside the first evaluation and the last: eval_on_start, or more of them"
        )
    before, after = trained
    rise = after - before
    held_out = last - first
    risen = window.scale.part(rise)
    followed = window.scale.part(held_out)
    if not rise.is_sure or risen.mean < GAP or not _may_follow(window, first, last):
        return None
    room = risen.mean
    if window.scale.is_known:
        room = 1 - window.scale.unit(first).mean
    if not followed.is_surely_below(FOLLOWS * min(risen.mean, room)):
        return None
    by = f"has fallen by {-held_out.mean:.2f}"
    if followed.mean > NOT_FALLEN:
        by = f"by {held_out.mean:z.2f}"
    return Finding(
        severity=Severity.critical_if(risen.mean - followed.mean >= WIDE_GAP),
        sentence=(
            f"The training score has risen by {rise.mean:.2f} and that of the evaluation {by}: what is "
            f"learned does not carry over{_few_prompts(window)}."
        ),
        numbers={"rise": rise.mean, "evaluation_rise": held_out.mean},
        action=BY_HEART if same_prompts(window) else READ,
    )


def _few_prompts(window: Window) -> str:
    """Tell how often each of a few prompts was answered: ` from 6 prompts, each answered 800 times`; else empty."""
    prompts = same_prompts(window)
    if not prompts:
        return ""
    size = judged(window.batches) / group_count(window.batches)
    # The periods reach over the whole run, and their scores are of groups.
    groups = sum(period.scores.count for period in window.history)
    times = f"{size * groups / prompts:,.0f} times"
    return (
        f" from one prompt, answered {times}"
        if prompts == 1
        else f" from {prompts} prompts, each answered {times}"
    )


def _may_follow(window: Window, first: Estimate, last: Estimate) -> bool:
    """Test for an evaluation with room to rise that has not clearly followed training."""
    began = window.scale.unit(first).mean
    ended = window.scale.unit(last).mean
    is_at_ceiling = window.scale.is_known and ended >= CEILING
    has_followed = (last - first).is_sure and ended >= HARDER * began
    return not is_at_ceiling and not has_followed


def _training_beside_evaluations(window: Window) -> tuple[Estimate, Estimate] | None:
    """Training scores at the first evaluation and at the last; None if unknown."""
    first = window.evaluations[0].step
    last = window.evaluations[-1].step
    if first is None or last is None:
        return None
    before = window.trained_at_first_evaluation
    opened = window.opening[-1].step
    if not before.count and opened is not None and first <= opened:
        before = score_level(window.opening)
    up_to_last = [
        batch for batch in window.later if batch.step is not None and batch.step <= last
    ]
    if not before.count or len(up_to_last) < OPENING_BATCHES:
        return None
    return before, score_level(up_to_last)
