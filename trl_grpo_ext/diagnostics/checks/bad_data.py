"""Check `bad_data`: rows without usable gold or tests, and doubtful gold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trl_grpo_ext.diagnostics.batches import (
    VerdictShare,
    agreeing_share,
    failures_in,
    group_count,
    names,
    or_a_tool,
    percent,
    worst_share,
)
from trl_grpo_ext.diagnostics.checks.dead_groups import same_prompts
from trl_grpo_ext.diagnostics.example import safe_reason
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.golds import (
    are_far_from_gold,
    few_golds,
    other_kind,
    relation,
    same_answer,
    told_gold,
    told_pair,
    told_related,
)
from trl_grpo_ext.diagnostics.progress import has_risen
from trl_grpo_ext.diagnostics.term_totals import Failure, TermTotals, added
from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, LEAST_SAMPLES, CheckResult, Window
from trl_grpo_ext.figures.reduction import first_when
from trl_grpo_ext.programs.suites.bad_tests import TESTS_DO_NOT_RUN
from trl_grpo_ext.rewards.unit_tests.scoring import HIDDEN, missing_module
from trl_grpo_ext.verdict import Blame

# The reason of a verifier that is a function.
NOTHING_RETURNED = "returned_none"
RETURNS = (
    "Return False or 0 for an answer that is wrong or absent, and see whether a `return` is missing in `{term}`: None "
    "means that a row cannot be judged. If it is for some rows only, name them by `when`."
)
OF_ROWS = (
    "See which golds these rows have, such as empty ones or placeholders, and mend or drop them. If `{term}` is not "
    "for them, name its rows by `when`."
)
FEW_VALUES = (
    "The gold may be of another column: golds are few, such as {golds}, and answers many"
)
ALWAYS = "The gold is always {golds}, though prompts and answers differ: the golds may be of another column"
OF_COLUMN = (
    "Compare the column that the verifier takes for the gold with the form of the answers."
)
# Of the verdicts: a `return` is missing where nearly all are None. Of those with None, beside judged siblings. Ours.
NEARLY_ALL, BESIDE = 0.95, 0.05
# Of the verdicts of a term in force. Ours, tried in test_fault_injection.py (no gold for one action).
WARN, CRITICAL = 0.02, 0.10
# Ours, tried in test_diagnosis_cases.py (gold of other rows, in all rows and in a third).
# Of the groups agree on an answer that is not the gold.
DOUBTFUL, MOSTLY_DOUBTFUL = 0.15, 0.5
# Of the completions, and values that are told. Ours: rows that no term is for cost as much as they teach nothing.
UNMATCHED, MOSTLY_UNMATCHED, MOST_VALUES = 0.2, 0.5, 3
# Of the prompts; ours: of prompts that are whole, hardly any begins so.
CUT_PROMPTS, MOSTLY_CUT = 0.2, 0.5
# Of the scale, at the least: an evaluation so far below training. Ours, from golds of other rows: 0.9.
FAR_BEHIND = 0.3
# Of the groups without a right answer in the first batches, as many agree.
EARLY = 0.3
# Of the groups without a right answer agree: else the answers scatter, as wrong answers do.
AGREED = 0.6


def unjudged(window: Window) -> CheckResult:
    """Find recent verdicts of a term in force that blame the data."""
    found = worst_share(
        window, lambda figures: failures_in(figures, _is_of_data), WARN, CRITICAL
    )
    if found is None or not found.in_force:
        return None
    term = window.of_term(found.term)
    (_, status, reason), _ = term.failures(_is_of_data).most_common(1)[0]
    lacks = _missing(term, reason)
    mostly = f"`{safe_reason(reason) or status}`"
    if lacks:
        mostly += f" ({lacks})"
    # Each has a value, though some have no score.
    is_zero = all(batch.covered == batch.verdicts for batch in term.batches)
    left_out = (
        "count as 0, as on_unscored is `zero`" if is_zero else "are left out of training"
    )
    share = percent(found.share)
    by_row = reason == NOTHING_RETURNED and _is_by_row(window, found)
    if by_row:
        who = (
            f"The data, not the model: `{found.term}` returns None for {share} of the completions, always for all of a "
            f"row{_with_gold(window)}"
        )
    elif reason == NOTHING_RETURNED:
        who = f"The verifier, not the model: `{found.term}` returns None for {share} of the completions"
    else:
        who = (
            f"The data, not the model: {share} of the completions have nothing that `{found.term}` could judge them "
            f"against, mostly {mostly}"
        )
    return Finding(
        severity=found.severity(CRITICAL),
        terms=(found.term,),
        sentence=f"{who}; they {left_out}.",
        numbers={"share": found.share, "failed": found.count},
        action=OF_ROWS.format(term=found.term)
        if by_row
        else _action(found.term, reason, lacks),
    )


def _is_by_row(window: Window, found: VerdictShare) -> bool:
    """Test whether a term leaves out whole groups only, and not nearly all: the row decides, not the answer."""
    beside = 0
    for batch in window.batches:
        for (term, _), void in batch.voids.items():
            if term == found.term:
                beside += void.rows
    return found.share <= NEARLY_ALL and beside <= BESIDE * found.count


def _with_gold(window: Window) -> str:
    """Tell the gold of most groups without a judged member: `, mostly with the gold TODO`; else empty."""
    golds = added(batch.void_golds for batch in window.batches)
    for gold, count in golds.most_common(1):
        if 2 * count > golds.total():
            return f", mostly with the gold `{gold}`" if gold else ", mostly without a gold"
    return ""


def _action(term: str, reason: str, lacks: str) -> str:
    if reason == NOTHING_RETURNED:
        return RETURNS.format(term=term)
    if lacks:
        return "Install that package where the training runs: the rows need it, and nothing is wrong with them."
    return "Run `trl-grpo-ext check-data` with the recipe, and mend or drop the rows that it lists."


def _missing(term: TermTotals, reason: str) -> str:
    """Return what the verifier says of a module that tests lack: `No module named 'pandas'`; else empty."""
    if reason != TESTS_DO_NOT_RUN:
        return ""
    for why, _ in term.causes.most_common():
        name = missing_module(why)
        if name and HIDDEN not in why:
            return f"No module named '{safe_reason(name)}'"
    return ""


def _is_of_data(kind: Failure) -> bool:
    return kind[0] is Blame.DATA


def one_prompt(window: Window) -> CheckResult:
    """Find a dataset whose rows share one prompt and differ in gold."""
    prompts = frozenset[int]().union(*(batch.prompts for batch in window.batches))
    golds = {batch.wrong_answer[1] for batch in window.batches if batch.wrong_answer}
    if len(prompts) != 1 or len(golds) < 2 or group_count(window.batches) < LEAST_GROUPS:
        return None
    return Finding(
        severity=Severity.CRITICAL,
        terms=tuple(window.primary_terms),
        sentence="Every row has the same prompt, and their golds differ: the question is not in the prompt.",
        numbers={"golds": len(golds)},
        action="Put the question of each row into its prompt: see which column holds it, and which one is taken.",
    )


def cut_prompts(window: Window) -> CheckResult:
    """Find prompts that are empty, or begin or end inside a text: by a sign that begins or ends no text."""
    groups = group_count(window.batches)
    starts: list[str] = []
    ends: list[str] = []
    for batch in window.batches:
        starts += batch.cut_prompts
        ends += batch.cut_ends
    count = max(len(starts), len(ends))
    if groups < LEAST_GROUPS or count < CUT_PROMPTS * groups or window.is_solved:
        return None
    cut = [start for start in starts if start]
    share = percent(min(1.0, count / groups))
    if len(ends) > len(starts):
        sentence = f"The prompts are cut: {share} of them end inside a text, like `{safe_reason(ends[-1])}`."
    elif 2 * len(cut) > len(starts):
        sentence = f"The prompts are cut: {share} of them begin inside a text, like `{safe_reason(cut[-1])}`."
    else:
        sentence = f"The prompts lack their question: {share} of them are empty."
    # A cut at any place leaves a joining sign at some ends only.
    least = CUT_PROMPTS if len(ends) > len(starts) else MOSTLY_CUT
    is_cause = count >= least * groups and not has_risen(window)
    return Finding(
        severity=Severity.critical_if(is_cause),
        sentence=sentence,
        numbers={"cut": min(1.0, count / groups)},
        action="See what takes their text away, and mend it: the golds belong to the whole prompts.",
    )


def unmatched_rows(window: Window) -> CheckResult:
    """Find rows that no term with weight is for, since they have another value than `when` wants."""
    counts = added(batch.unmatched for batch in window.batches)
    share = counts.total() / max(1, sum(batch.size for batch in window.batches))
    if counts.total() < LEAST_SAMPLES or share < UNMATCHED:
        return None
    [((column, _), _)] = counts.most_common(1)
    values = [value for (name, value), _ in counts.most_common() if name == column]
    wanted = list(map(repr, first_when(window.settings, window.in_force).get(column, ())))
    return Finding(
        severity=Severity.critical_if(share >= MOSTLY_UNMATCHED),
        terms=window.in_force,
        sentence=(
            f"No term with weight is for {percent(share)} of the completions: `when` wants `{column}` to be "
            f"{_first_of(wanted)}, and these rows mostly have {_first_of(values)}."
        ),
        numbers={"unmatched": share},
        action=f"Let `when` want what `{column}` has, give these rows a term of their own, or drop them.",
    )


def _first_of(values: Sequence[str]) -> str:
    """Format the first values of a column: `a`, `b` or `c`."""
    return names([safe_reason(value) for value in values[:MOST_VALUES]], "or")


def related_gold(window: Window) -> CheckResult:
    """Find golds that stand in one relation to most wrong answers, such as another unit, or that take few values.

    The first batches tell: a policy that is not paid for what it knows unlearns it.
    """
    wrong = sum(batch.wrong_groups for batch in window.opening) / max(
        1, group_count(window.opening)
    )
    if not any(window.of_term(term).has_answers for term in window.primary_terms):
        # Of distances and the like, no verdict is wrong: a pair is of a group of which no member has the best score.
        wrong = 1.0
    suspect = _related(window)
    if window.is_solved or wrong < DOUBTFUL or suspect is None:
        return None
    prevails = wrong >= MOSTLY_DOUBTFUL and not has_risen(window)
    return Finding(
        severity=Severity.CRITICAL if prevails else Severity.INFO,
        terms=tuple(window.primary_terms),
        sentence=suspect.sentence,
        numbers={"wrong_groups": wrong},
        action=suspect.action,
    )


def _related(window: Window) -> _Suspect | None:
    """Say in which relation the golds stand to wrong answers, with an example; None without one."""
    related = relation(window.opening)
    few = few_golds(window.kept_batches)
    if related is not None:
        who, action = related.sentence, related.action
        example = told_related(window.opening, related)
    elif few:
        who = ALWAYS if len(few) == 1 else FEW_VALUES
        who = who.format(golds=names(few[:MOST_VALUES]))
        action = OF_COLUMN
        example = told_gold(window.opening)
    else:
        return None
    term = names(window.primary_terms)
    told = f"{who.replace('{term}', term)}{or_a_tool(window)}.{example}"
    return _Suspect(told, action.replace("{term}", term))


def doubtful_gold(window: Window) -> CheckResult:
    """Find groups whose completions agree on a wrong answer."""
    groups = group_count(window.batches)
    agreeing = agreeing_share(window.batches)
    agreed = sum(batch.agreeing_wrong_groups for batch in window.batches)
    # A policy that has settled agrees later.
    early = agreeing_share(window.opening)
    if agreed < max(LEAST_GROUPS, DOUBTFUL * groups) or agreeing < AGREED or early < EARLY:
        return None
    if are_far_from_gold(window.batches) and not same_answer(window.batches):
        return None
    prevails = agreed >= MOSTLY_DOUBTFUL * groups and not has_risen(window)
    suspect = _suspect(window, percent(agreed / groups))
    return Finding(
        severity=Severity.CRITICAL if prevails else Severity.INFO,
        terms=tuple(window.primary_terms),
        sentence=suspect.sentence + told_gold(window.batches),
        numbers={"agreed": agreed / groups, "of_wrong_groups": agreeing},
        action=suspect.action,
    )


def evaluation_gold(window: Window) -> CheckResult:
    """Find an evaluation whose completions agree on wrong answers, far below a training of many prompts."""
    if not (window.evaluations and window.score.count):
        return None
    last = window.evaluations[-1]
    behind = window.scale.part(window.score - last.score)
    agreed = last.agreeing / max(1, last.groups)
    # Prompts learned by heart, and rows that are too hard from the start, leave the evaluation behind as well.
    if (
        last.groups < LEAST_GROUPS
        or agreed < MOSTLY_DOUBTFUL
        or behind.at_least < FAR_BEHIND
        or same_prompts(window)
    ):
        return None
    return Finding(
        severity=Severity.WARNING,
        terms=tuple(window.primary_terms),
        sentence=(
            f"The golds of the evaluation may be wrong, or of other rows: in {percent(agreed)} of its groups the "
            f"completions agree on an answer that is not the gold, and training has {window.score.mean:.2f}."
            f"{told_pair(last.wrong_answer)}"
        ),
        numbers={"agreed": agreed, "behind": behind.mean},
        action="Compare golds and prompts of a few evaluation rows by hand; if they are right, its rows are harder.",
    )


class _Suspect(NamedTuple):
    """Suspect: the likeliest reason for wrong answers on which siblings agree, and an action."""

    sentence: str
    action: str


def _suspect(window: Window, share: str) -> _Suspect:
    """Choose the likeliest suspect: the verifier, the gold's column, the prompt, or else the gold."""
    kinds = other_kind(window.batches)
    if kinds:
        return _Suspect(
            f"The gold may be of another column: {kinds}.",
            OF_COLUMN,
        )
    same = same_answer(window.batches)
    if same:
        return _Suspect(
            f"The model gives the same answer to different questions, `{same}`, and it is wrong.",
            "Read a prompt as the model gets it: is the question in it, and may the model work before it answers?",
        )
    who = "The gold may be wrong, or of other rows"
    action = "Compare answers and gold of a few of these groups by hand, and look for rows that have moved."
    tool = or_a_tool(window)
    if tool:
        who += tool
        action = (
            "Compare answers, gold and the tools' results of a few of these groups by hand."
        )
    agree = (
        f"in {share} of the groups most completions agree on an answer that is not the gold"
    )
    return _Suspect(f"{who}: {agree}, and wrong answers usually scatter.", action)
