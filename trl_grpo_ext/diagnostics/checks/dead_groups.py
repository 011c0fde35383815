"""Check `dead_groups`: groups without a difference, all wrong, all right or mixed."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    knows_something,
    names,
    of_template,
    or_a_tool,
    percent,
)
from trl_grpo_ext.diagnostics.checks import inert_term
from trl_grpo_ext.diagnostics.example import safe_reason
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.golds import are_far_from_gold, same_answer, told_gold
from trl_grpo_ext.diagnostics.levels import score_level
from trl_grpo_ext.diagnostics.progress import (
    EARLY,
    FLAT_BATCHES,
    has_risen,
    is_flat,
    is_stuck,
    steps_so_far,
)
from trl_grpo_ext.diagnostics.term_totals import added
from trl_grpo_ext.diagnostics.window import CheckResult, Window, finds
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.terms import without_names
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.rewards.unit_tests.scoring import missing_module

# Of the groups. Ours, set by benchmarks/false_alarms.py; above rl-doctor's 0.5, since hard data starts so.
WRONG_WARN, WRONG_CRITICAL = 0.6, 0.9
# Of the groups, where they have `GROUP_SIZE` members: rl-doctor's critical level, and ours.
RIGHT_WARN, RIGHT_CRITICAL = 0.75, 0.95
# TRL's default.
GROUP_SIZE = 8
# Ours, tried in test_named_causes.py (half of the rows are too hard).
# Of the groups: a third is worth a look, and chance adds so many since the first batches.
NEVER_RIGHT, MORE = 0.33, 0.15
# Of their share in the earlier half: if less is left in the later half, the model is learning them.
STAYS = 0.6
# Batches: in fewer, learning looks like this.
LONG = 12
# Times as many groups without a right answer as by chance.
UNLIKELY = 4.0
# Mean score of the other groups: where it is lower, rates of prompts spread as in any data that is still learned.
MASTERED = 0.7
# Of the groups. Ours, set by benchmarks/false_alarms.py.
LEAST_LIVE, CRITICAL = 0.3, 0.05
# Recent groups a prompt; data that is enough has fewer. Ours, tried in test_diagnosis_cases.py.
SAME_PROMPTS = 5
# Different answers in a group: so many are hardly all right. Ours, tried in test_diagnosis_cases.py.
SEVERAL = 3.0
# Ours, tried in test_diagnosis_cases.py (gold of other rows, a wrong entry point).
# Of the verdicts that are not right.
ONE_CAUSE = 0.9
BEYOND = " None of the completions is right, and the answers are guesses: the task is beyond the model."
COMPARE = (
    "Compare a few prompts, as the model gets them, with answers and gold by hand: look for rows that have moved, and "
    "for prompts that are cut."
)
# Of the completions: as many are right by chance, where a sum has the value of another one.
HARDLY_RIGHT = 0.05
HARDER = "Take harder data, or drop the prompts that the model already solves."
UNDEFINED_NAME = (
    "Say in the prompt which name the tests call, or mend the entry point in the "
    "data: none defines that name."
)
ONE_ERROR = (
    "Run `trl-grpo-ext check-data` with the recipe: where references fail alike (reference_fails), mend the tests or "
    "the entry point in the data; else read a completion as the tests get it."
)


def all_wrong(window: Window) -> CheckResult:
    """Find mostly all-wrong groups with readable answers while the score stays flat.

    Programs that fail by one and the same error do not show that the task is too hard.
    """
    wrong = _understood_wrong(window)
    if not are_enough(window.batches) or wrong < WRONG_WARN:
        return None
    # Where the model knows better than the gold, a gain is chance: a sum that has the value of another one.
    is_unlearned = _knows_better(window) and steps_so_far(window) >= EARLY
    if is_one_answer(window) or not (is_stuck(window) or is_unlearned):
        return None
    live = group_share(window.batches, GroupOutcome.LIVE)
    agreeing = _doubtful(window)
    cause = _cause(window)
    beyond = BEYOND if not _is_error(cause) and _is_beyond(window, agreeing) else ""
    return Finding(
        severity=Severity.critical_if(wrong >= WRONG_CRITICAL),
        terms=tuple(window.primary_terms),
        sentence=(
            f"{percent(wrong)} of the groups are all wrong and teach nothing; {percent(live)} are live"
            f"{_why(window, agreeing, cause)}.{beyond}{told_gold(window.batches)}"
        ),
        numbers={
            "all_wrong": wrong,
            "agreeing": agreeing,
            "live": live,
            "groups": group_count(window.batches),
        },
        action=_action_of_wrong(window, cause, agreeing),
    )


def _action_of_wrong(window: Window, cause: str, agreeing: float) -> str:
    module = missing_module(cause)
    if module:
        return f"Install `{safe_reason(module)}` where the programs run, or say in the prompt what they may import."
    if cause.startswith("NameError"):
        return UNDEFINED_NAME
    if _is_error(cause):
        return f"{of_template(window)}{ONE_ERROR}"
    if agreeing >= AGREEING:
        return compare_with_gold(agreeing)
    if _knows_better(window):
        return f"{of_template(window)}{COMPARE}"
    size = judged(window.batches) / group_count(window.batches)
    more = f" or groups of more than {size:.0f} (num_generations)"
    if _is_beyond(window, agreeing):
        more = ", or train on worked examples first"
    judge = "First judge a few right answers by hand with the verifier; if it passes them, take easier data"
    return f"{of_template(window)}{judge}{more}."


def _doubtful(window: Window) -> float:
    """Share of unsolved groups whose agreement casts doubt on the gold."""
    if are_far_from_gold(window.batches) or same_answer(window.batches):
        return 0.0
    return agreeing_share(window.batches)


def _is_beyond(window: Window, agreeing: float) -> bool:
    """Test whether no completion is right, and siblings answer differently.

    A model that knows the answer repeats it, even if the gold or the verifier is wrong; guesses scatter.
    """
    right = sum(batch.primary.right for batch in window.batches)
    distinct = distinct_answers(window.batches)
    scatters = distinct is not None and distinct >= SEVERAL
    if right or agreeing >= AGREEING or _knows_better(window):
        return False
    return scatters or are_far_from_gold(window.batches)


def _understood_wrong(window: Window) -> float:
    """Share of all-wrong groups with readable, uncut answers."""
    return group_share(window.batches, GroupOutcome.ALL_WRONG) - _misread(window)


def _misread(window: Window) -> float:
    """Share of groups whose members were cut, unparseable or timed out."""
    return sum(batch.misread_groups for batch in window.batches) / max(
        1, group_count(window.batches)
    )


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


def _is_error(cause: str) -> bool:
    """Test whether a cause names an exception, raised by programs."""
    return "Error" in cause


def _why(window: Window, agreeing: float, cause: str) -> str:
    """Finish the sentence: features shared by wrong answers."""
    if agreeing >= AGREEING:
        return f", and in {percent(agreeing)} of them most completions agree on one answer: the gold may be wrong"
    if _is_error(cause):
        return f". Nearly all fail for one reason, `{safe_reason(cause)}`"
    if _knows_better(window):
        return (
            f", though siblings agree far more often than guesses would: the gold may be wrong, or of other rows, or "
            f"the prompts may lack a part{or_a_tool(window)}"
        )
    return ""


def _knows_better(window: Window) -> bool:
    """Test whether answers depend on the prompt, are as large as the golds, and are hardly ever right."""
    right = sum(batch.primary.right for batch in window.batches)
    if right >= HARDLY_RIGHT * judged(window.batches) or not knows_something(window):
        return False
    return not are_far_from_gold(window.batches) and not same_answer(window.batches)


def all_right(window: Window) -> CheckResult:
    """Find data that was all right from the first batch; learned data does not count."""
    if not are_enough(window.batches) or not group_count(window.opening):
        return None
    now = group_share(window.batches, GroupOutcome.ALL_RIGHT)
    opening = group_share(window.opening, GroupOutcome.ALL_RIGHT)
    size = judged(window.batches) / group_count(window.batches)
    error = math.sqrt(opening * (1 - opening) / group_count(window.opening))
    # A few groups only tell how it began.
    if min(now, opening - error) < _least(RIGHT_WARN, size):
        return None
    term = names(window.primary_terms, "or")
    answers = _several_answers(window)
    readers = _unused_readers(window)
    if readers:
        accepts = f", but {term} reads no answers, and {names(readers)}, which does, has no weight."
        action = f"Give {names(readers)} a weight: right answers are not rewarded."
    elif answers:
        accepts = f", though {answers}: {term} may accept any answer."
        action = f"Judge a few answers that you know to be wrong with {term}, or run `trl-grpo-ext check-data`."
    elif any(window.of_term(one).has_answers for one in window.primary_terms):
        accepts = ": there is little to learn from this data."
        action = HARDER
    else:
        accepts = (
            f": either {term} accepts anything, or there is little to learn from this data."
        )
        action = f"First judge a few completions that you know to be wrong with {term}. If it turns them down: {HARDER}"
    return Finding(
        severity=Severity.critical_if(now >= _least(RIGHT_CRITICAL, size)),
        terms=tuple(window.primary_terms),
        sentence=(
            f"{percent(now)} of the groups are all right, as they were when the run began ({percent(opening)}){accepts}"
        ),
        numbers={
            "all_right": now,
            "at_the_start": opening,
            "groups": group_count(window.batches),
        },
        action=action,
    )


def _unused_readers(window: Window) -> list[str]:
    """List the terms that read answers and have no weight in most batches, where the terms with weight read none."""
    middle = window.batches[len(window.batches) // 2]
    if any(window.of_term(term).has_answers for term in middle.in_force):
        return []
    return [
        term
        for term in middle.terms
        if term not in middle.in_force and window.of_term(term).has_answers
    ]


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
    if distinct is None or distinct < SEVERAL:
        return ""
    return f"a group gives {distinct:.1f} different answers"


def of_both_kinds(window: Window) -> CheckResult:
    """Find few live groups while the score is flat, and neither kind of dead group prevails.

    Sure proof of a flat score is not asked for: where prompts are always right or always wrong, chance alone moves it.
    """
    live = live_share(window)
    if (
        live is None
        or not are_enough(window.batches)
        or live + _misread(window) >= LEAST_LIVE
    ):
        return None
    right = group_share(window.batches, GroupOutcome.ALL_RIGHT)
    # Another check judges such groups.
    if _understood_wrong(window) >= WRONG_WARN or right >= RIGHT_WARN or _is_inert(window):
        return None
    if not _is_stuck(window, live):
        return None
    answers = _several_answers(window)
    reads_prompt = ""
    if answers and live < CRITICAL:
        reads_prompt = f"; {answers}, so {names(window.primary_terms, 'or')} may judge the prompt alone"
    return Finding(
        severity=Severity.critical_if(live < CRITICAL),
        terms=tuple(window.primary_terms),
        sentence=f"Most groups teach nothing: {group_mix(window)}{reads_prompt}.",
        numbers={"all_right": right, "live": live, "groups": group_count(window.batches)},
        action=(
            "First judge a few completions of both kinds by hand; if the verifier is right, drop the prompts that "
            "are always right and take easier ones for those that are always wrong, or more num_generations."
        ),
    )


def never_right(window: Window) -> CheckResult:
    """Find groups without right answers, in lasting number, beside groups with many.

    Were all prompts alike, chance would leave far fewer groups without a right answer.
    """
    # Rows that are not shuffled may become easier or harder.
    if not window.is_shuffled or not window.scale.is_known or window.is_solved:
        return None
    is_long = len(window.batches) >= LONG and group_count(window.opening) > 0
    # Of few prompts the same ones come back: `of_both_kinds` tells.
    if not is_long or not are_enough(window.batches) or same_prompts(window):
        return None
    half = len(window.batches) // 2
    now = _without_right(window.batches)
    opening = _without_right(window.opening)
    is_falling = _without_right(window.batches[half:]) < STAYS * _without_right(
        window.batches[:half]
    )
    # More than at the start: the data has become harder, or the policy worse.
    if is_falling or not NEVER_RIGHT <= now <= min(WRONG_WARN, opening + MORE):
        return None
    size = judged(window.batches) / group_count(window.batches)
    others = window.scale.unit(score_level(window.batches)).mean / (1 - now)
    by_chance = max(0.0, 1 - others) ** size
    if others < MASTERED or now < UNLIKELY * by_chance:
        return None
    return Finding(
        severity=Severity.INFO,
        terms=tuple(window.primary_terms),
        sentence=(
            f"A part of the data is never right: {percent(now)} of the groups have no right answer "
            f"({percent(opening)} at the start), and the mean score of the others is {others:.2f}."
        ),
        numbers={"never_right": now, "at_the_start": opening, "score_of_others": others},
        action="Look at these rows by kind: they are too hard, or their gold is wrong. Drop them, or take easier ones.",
    )


def _without_right(batches: Sequence[BatchFigures]) -> float:
    """Share of groups that could be read and have no right answer, though a lesser term may tell members apart."""
    wrong = sum(batch.wrong_groups - batch.misread_groups for batch in batches)
    return wrong / max(1, group_count(batches))


def live_share(window: Window) -> float | None:
    """Share of live groups; None without judged groups."""
    if not group_count(window.batches):
        return None
    return group_share(window.batches, GroupOutcome.LIVE)


def group_mix(window: Window) -> str:
    """Describe groups in words: `50 % all wrong, 50 % all right, 0 % live, all of the same 6 prompts`."""
    kinds = {
        "all wrong": GroupOutcome.ALL_WRONG,
        "all right": GroupOutcome.ALL_RIGHT,
        "tied": GroupOutcome.TIED,
        "live": GroupOutcome.LIVE,
    }
    mix = []
    for name, kind in kinds.items():
        share = group_share(window.batches, kind)
        if share or name == "live":
            mix.append(f"{percent(share)} {name}")
    prompts = same_prompts(window)
    if prompts:
        mix.append(
            "all of the same prompt"
            if prompts == 1
            else f"all of the same {prompts} prompts"
        )
    return ", ".join(mix)


def same_prompts(window: Window) -> int:
    """Count distinct prompts of recent groups; 0 unless each prompt came back `SAME_PROMPTS` times."""
    prompts = len(frozenset[int]().union(*(batch.prompts for batch in window.batches)))
    return prompts if group_count(window.batches) >= SAME_PROMPTS * prompts else 0


def _is_inert(window: Window) -> bool:
    """Test for mostly tied groups with an inert term as cause."""
    is_tied = group_share(window.batches, GroupOutcome.TIED) > 1 / 2
    return is_tied and finds(
        window, inert_term.closed_gate, inert_term.flattened, *inert_term.FLAT_TERMS
    )


def _is_stuck(window: Window, live: float) -> bool:
    """Test for a flat score that success does not explain.

    Next to no live groups, or the same few prompts again and again, are proof enough, where nothing speaks for a rise.
    """
    if window.is_solved or is_one_answer(window) or has_risen(window):
        return False
    is_shown = live < CRITICAL or (same_prompts(window) > 0 and is_flat(window))
    return is_stuck(window) or (is_shown and len(window.batches) >= FLAT_BATCHES)
