"""Groups without one right answer: nothing to prefer, so nothing is learned from them."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.evidence.distinct_answers import is_one_answer
from trl_grpo_ext.diagnostics.evidence.figures import group_count, groups_of, judged, percent
from trl_grpo_ext.diagnostics.evidence.gold_doubt import agreeing_share, compare_with_gold
from trl_grpo_ext.diagnostics.evidence.progress import is_stuck
from trl_grpo_ext.diagnostics.evidence.window import LEAST_GROUPS, LEAST_SAMPLES, Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.group_outcome import GroupOutcome

WARN, CRITICAL = 0.6, 0.9  # of the groups; ours, above rl-doctor's .5, since hard data that is being learned starts so


def check(window: Window) -> Outcome:
    """Most groups all wrong though their answers were understood, and the score does not rise."""
    groups = group_count(window.batches)
    wrong = groups_of(window.batches, GroupOutcome.ALL_WRONG)
    wrong -= sum(batch.misread_groups for batch in window.batches)
    if groups < LEAST_GROUPS or judged(window.batches) < LEAST_SAMPLES or wrong < WARN * groups:
        return None
    if is_one_answer(window.batches, window.opening) or not is_stuck(window):
        return None
    agreeing = agreeing_share(window)
    live = groups_of(window.batches, GroupOutcome.LIVE)
    return Finding(
        code="all_wrong_groups",
        step=window.step,
        severity=Severity.CRITICAL if wrong >= CRITICAL * groups else Severity.WARNING,
        sentence=(
            f"{percent(wrong / groups)} of the groups are all wrong and teach nothing; "
            f"{percent(live / groups)} are live."
        ),
        numbers={"all_wrong": wrong / groups, "agreeing": agreeing, "live": live / groups, "groups": groups},
        action=compare_with_gold(agreeing)
        or "First judge a few right answers by hand with the verifier; if it passes them, take easier data or more "
        "num_generations.",
    )
