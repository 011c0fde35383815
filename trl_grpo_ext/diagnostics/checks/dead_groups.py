"""Check `dead_groups`: groups without a difference, all wrong, all right or mixed."""

from __future__ import annotations

import math

from trl_grpo_ext.diagnostics.batches import (
    AGREEING,
    agreeing_share,
    are_enough,
    compare_with_gold,
    distinct_answers,
    group_count,
    group_share,
    is_one_answer,
    judged,
    names,
    of_template,
    percent,
    told_gold,
)
from trl_grpo_ext.diagnostics.checks import inert_term
from trl_grpo_ext.diagnostics.example import safe_reason
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.progress import FLAT_BATCHES, has_risen, is_flat, is_stuck
from trl_grpo_ext.diagnostics.term_totals import added
from trl_grpo_ext.diagnostics.window import CheckResult, Window, finds
from trl_grpo_ext.figures.terms import without_names
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.rewards.unit_tests.scoring import missing_module

# Of the groups. Ours, set by benchmarks/false_alarms.py; above rl-doctor's 0.5, since hard data starts so.
WRONG_WARN, WRONG_CRITICAL = 0.6, 0.9
# Of the groups, where they have `GROUP_SIZE` members: rl-doctor's critical level, and ours.
RIGHT_WARN, RIGHT_CRITICAL = 0.75, 0.95
# TRL's default.
GROUP_SIZE = 8
# Of the groups. Ours, set by benchmarks/false_alarms.py.
LEAST_LIVE, CRITICAL = 0.3, 0.05
# Recent groups a prompt; data that is enough has fewer. Ours, tried in test_diagnosis_cases.py.
SAME_PROMPTS = 5
# Different answers in a group: so many are hardly all right. Ours, tried in test_diagnosis_cases.py.
SEVERAL = 3.0
# Ours, tried in test_diagnosis_cases.py (gold of other rows, a wrong entry point).
# Of the verdicts that are not right.
ONE_CAUSE = 0.9
BEYOND = " None of the completions is right, and their answers scatter, as guesses do: the task is beyond the model."
UNDEFINED_NAME = (
    "Say in the prompt which name the tests call, or mend the entry point in the data: none defines that name."
)


def all_wrong(window: Window) -> CheckResult:
    """Find mostly all-wrong groups with readable answers while the score stays flat."""
    wrong = _understood_wrong(window)
    if not are_enough(window.batches) or wrong < WRONG_WARN:
        return None
    if is_one_answer(window) or not is_stuck(window):
        return None
    live, agreeing = group_share(window.batches, GroupOutcome.LIVE), agreeing_share(window.batches)
    cause, is_beyond = _cause(window), _is_beyond(window, agreeing)
    return Finding(
        severity=Severity.critical_if(wrong >= WRONG_CRITICAL),
        terms=tuple(window.primary_terms),
        sentence=(
            f"{percent(wrong)} of the groups are all wrong and teach nothing; {percent(live)} are live"
            f"{_why(agreeing, cause)}.{BEYOND if is_beyond else ''}{told_gold(window.batches)}"
        ),
        numbers={"all_wrong": wrong, "agreeing": agreeing, "live": live, "groups": group_count(window.batches)},
        action=_action_of_wrong(window, cause, agreeing),
    )


def _action_of_wrong(window: Window, cause: str, agreeing: float) -> str:
    module = missing_module(cause)
    if module:
        return f"Install `{safe_reason(module)}` where the programs run, or say in the prompt what they may import."
    if cause.startswith("NameError"):
        return UNDEFINED_NAME
    if agreeing >= AGREEING:
        return compare_with_gold(agreeing)
    size = judged(window.batches) / group_count(window.batches)
    more = f" or groups of more than {size:.0f} (num_generations)"
    if _is_beyond(window, agreeing):
        more = ", or train on worked examples first"
    judge = "First judge a few right answers by hand with the verifier; if it passes them, take easier data"
    return f"{of_template(window)}{judge}{more}."


def _is_beyond(window: Window, agreeing: float) -> bool:
    """Test whether no completion is right, and siblings answer differently.

    A model that knows the answer repeats it, even if the gold or the verifier is wrong; guesses scatter.
    """
    right = sum(batch.primary.right for batch in window.batches)
    distinct = distinct_answers(window.batches)
    return not right and agreeing < AGREEING and distinct is not None and distinct >= SEVERAL


def _understood_wrong(window: Window) -> float:
    """Share of all-wrong groups with readable, uncut answers."""
    return group_share(window.batches, GroupOutcome.ALL_WRONG) - _misread(window)


def _misread(window: Window) -> float:
    """Share of groups whose members were cut, unparseable or timed out."""
    return sum(batch.misread_groups for batch in window.batches) / max(1, group_count(window.batches))


def _cause(window: Window) -> str:
    """Find the common reason of nearly all wrong verdicts, ignoring names and numbers.

    Empty where they differ otherwise, or say nothing.
    """
    causes = added(window.of_term(term).causes for term in window.primary_terms)
    alike = added({without_names(why): count} for why, count in causes.most_common())
    for why, count in (*causes.most_common(1), *alike.most_common(1)):
        if count >= ONE_CAUSE * causes.total():
            return why
    return ""


def _why(agreeing: float, cause: str) -> str:
    """Finish the sentence: features shared by wrong answers."""
    if agreeing >= AGREEING:
        return f", and in {percent(agreeing)} of them most completions agree on one answer: the gold may be wrong"
    return f". Nearly all fail for one reason, `{safe_reason(cause)}`" if "Error" in cause else ""


def all_right(window: Window) -> CheckResult:
    """Find data that was all right from the first batch; learned data does not count."""
    if not are_enough(window.batches) or not group_count(window.opening):
        return None
    now, opening = (group_share(batches, GroupOutcome.ALL_RIGHT) for batches in (window.batches, window.opening))
    size = judged(window.batches) / group_count(window.batches)
    error = math.sqrt(opening * (1 - opening) / group_count(window.opening))
    # A few groups only tell how it began.
    if min(now, opening - error) < _least(RIGHT_WARN, size):
        return None
    term, answers = names(window.primary_terms, "or"), _several_answers(window)
    return Finding(
        severity=Severity.critical_if(now >= _least(RIGHT_CRITICAL, size)),
        terms=tuple(window.primary_terms),
        sentence=(
            f"{percent(now)} of the groups are all right, as they were when the run began ({percent(opening)})"
            + (
                f", though {answers}: {term} may accept any answer."
                if answers
                else ": there is little to learn from this data."
            )
        ),
        numbers={"all_right": now, "at_the_start": opening, "groups": group_count(window.batches)},
        action=f"Judge a few answers that you know to be wrong with {term}, or run `trl-grpo-ext check-data`."
        if answers
        else "Take harder data, or drop the prompts that the model already solves.",
    )


def _least(share: float, size: float) -> float:
    """Adapt an all-right threshold to the group size.

    A policy that is right with probability p has p ** size by chance: a pair is all right where a larger group is live.

    Examples:
        >>> [round(_least(0.75, size), 2) for size in (2, 4, 8, 16)]
        [0.93, 0.87, 0.75, 0.75]
    """
    return max(share, float(share ** (size / GROUP_SIZE)))


def _several_answers(window: Window) -> str:
    """Describe groups with several answers; empty for few answers or none extracted."""
    distinct = distinct_answers(window.batches)
    return f"a group gives {distinct:.1f} different answers" if distinct is not None and distinct >= SEVERAL else ""


def of_both_kinds(window: Window) -> CheckResult:
    """Few live groups while the score is flat, and neither kind of dead group prevails.

    That the score is surely flat is not asked: where prompts are always right or always wrong, chance alone moves it.
    """
    live = live_share(window)
    if live is None or not are_enough(window.batches) or live + _misread(window) >= LEAST_LIVE:
        return None
    right = group_share(window.batches, GroupOutcome.ALL_RIGHT)
    if _understood_wrong(window) >= WRONG_WARN or right >= RIGHT_WARN or _is_inert(window):
        # Another check judges these groups.
        return None
    if not _is_stuck(window, live):
        return None
    answers, term = _several_answers(window), names(window.primary_terms, "or")
    reads_prompt = f"; {answers}, so {term} may judge the prompt alone" if answers and live < CRITICAL else ""
    return Finding(
        severity=Severity.critical_if(live < CRITICAL),
        terms=tuple(window.primary_terms),
        sentence=f"Most groups teach nothing: {group_mix(window)}{reads_prompt}.",
        numbers={"all_right": right, "live": live, "groups": group_count(window.batches)},
        action="First judge a few completions of both kinds by hand; if the verifier is right, drop the prompts that "
        "are always right and take easier ones for those that are always wrong, or more num_generations.",
    )


def live_share(window: Window) -> float | None:
    """Share of live groups; None without judged groups."""
    return group_share(window.batches, GroupOutcome.LIVE) if group_count(window.batches) else None


def group_mix(window: Window) -> str:
    """Describe groups in words: `50 % all wrong, 50 % all right, 0 % live, all of the same 6 prompts`."""
    kinds = {
        "all wrong": GroupOutcome.ALL_WRONG,
        "all right": GroupOutcome.ALL_RIGHT,
        "tied": GroupOutcome.TIED,
        "live": GroupOutcome.LIVE,
    }
    shares = {name: group_share(window.batches, kind) for name, kind in kinds.items()}
    mix = [f"{percent(share)} {name}" for name, share in shares.items() if share or name == "live"]
    prompts = same_prompts(window)
    if prompts:
        mix.append("all of the same prompt" if prompts == 1 else f"all of the same {prompts} prompts")
    return ", ".join(mix)


def same_prompts(window: Window) -> int:
    """Count distinct prompts of recent groups; 0 unless each prompt came back `SAME_PROMPTS` times."""
    prompts = len(frozenset[int]().union(*(batch.prompts for batch in window.batches)))
    return prompts if group_count(window.batches) >= SAME_PROMPTS * prompts else 0


def _is_inert(window: Window) -> bool:
    """Test whether most groups are tied because of an inert term."""
    is_tied = group_share(window.batches, GroupOutcome.TIED) > 1 / 2
    return is_tied and finds(window, inert_term.closed_gate, inert_term.flattened, inert_term.flat)


def _is_stuck(window: Window, live: float) -> bool:
    """Test whether the score is flat for another reason than success.

    Next to no live groups, or the same few prompts again and again, are proof enough, where nothing speaks for a rise.
    """
    if window.is_solved or is_one_answer(window) or has_risen(window):
        return False
    is_shown = live < CRITICAL or (same_prompts(window) > 0 and is_flat(window))
    return is_stuck(window) or (is_shown and len(window.batches) >= FLAT_BATCHES)
