"""Several batches together: their groups and whether members agree, their terms, and shares of their verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trl_grpo_ext.diagnostics.example import safe_reason
from trl_grpo_ext.diagnostics.finding import NotChecked, Severity
from trl_grpo_ext.diagnostics.term_totals import Failure, TermTotals
from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, LEAST_SAMPLES, Window
from trl_grpo_ext.figures.primary import Agreement
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.terms import TermFigures
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.support.estimate import mean_of_known
from trl_grpo_ext.verdict import UNSCORED, Status


def judged(batches: Sequence[BatchFigures]) -> int:
    """The samples with a primary score."""
    return sum(batch.primary.judged for batch in batches)


def group_count(batches: Sequence[BatchFigures]) -> int:
    """Count judged groups."""
    return sum(batch.groups for batch in batches)


def are_enough(batches: Sequence[BatchFigures]) -> bool:
    """Test whether batches hold enough completions and groups for shares."""
    return judged(batches) >= LEAST_SAMPLES and group_count(batches) >= LEAST_GROUPS


def groups_of(batches: Sequence[BatchFigures], outcome: GroupOutcome) -> int:
    """Count groups with this outcome."""
    return sum(batch.outcomes.get(outcome, 0) for batch in batches)


def group_share(batches: Sequence[BatchFigures], outcome: GroupOutcome) -> float:
    """Share of groups with this outcome, in [0, 1]; 0 without groups."""
    return groups_of(batches, outcome) / max(1, group_count(batches))


def mostly(reasons: Counter[str]) -> str:
    """Format the most frequent reason; empty without reasons."""
    for reason, _ in reasons.most_common(1):
        if reason:
            return f", mostly `{safe_reason(reason)}`"
    return ""


def percent(part: float) -> str:
    """Format a share; 99.6 % never reads as 100 %.

    Examples:
        >>> percent(0.123), percent(0.0312), percent(1.0), percent(0), percent(0.9963)
        ('12 %', '3.1 %', '100 %', '0 %', '99.6 %')
    """
    needs_a_digit = 0 < part < 0.1 or 0.99 < part < 1
    text = f"{part:.1%}" if needs_a_digit else f"{part:.0%}"
    return text.replace("%", " %")


# Different answers a group, a mean. Ours, tried in test_healthy_runs.py (converged without beta, and going on).
ONE_ANSWER = 1.5


def distinct_answers(batches: Sequence[BatchFigures]) -> float | None:
    """Different answers a group, a mean over batches; None where no answer is extracted."""
    return mean_of_known(batch.primary.distinct_answers for batch in batches)


def is_one_answer(window: Window) -> bool:
    """Test whether groups converged to one answer from several answers.

    A dead group is its effect then, not the cause of trouble.
    """
    now = distinct_answers(window.batches)
    before = distinct_answers(window.opening)
    return now is not None and before is not None and now < ONE_ANSWER <= before


# Of the groups without a right answer. Ours, tried in test_fault_injection.py (a third of the gold is wrong).
AGREEING = 0.3


def agreeing_share(batches: Sequence[BatchFigures]) -> float:
    """Share of unsolved groups whose completions mostly agree on one answer; 0 without such groups."""
    wrong = sum(batch.wrong_groups for batch in batches)
    if not wrong:
        return 0.0
    return sum(batch.agreeing_wrong_groups for batch in batches) / wrong


# Of pairs of answers. Ours, from the bundled model: 0.2 with golds or prompts of other rows, 0.04 where sums were too
# hard. Where a quarter of a group makes the same mistake, as in hard tasks, 0.09.
KNOWS = 0.12


def knows_something(window: Window) -> bool:
    """Test whether siblings agree far more often than completions of different prompts, which guesses do not.

    The first batches tell, too: a policy that is not paid for what it knows unlearns it.
    """
    for batches in (window.opening, window.batches):
        match = mean_of_known(batch.primary.sibling_match for batch in batches)
        if match is not None and match >= KNOWS:
            return True
    return False


def compare_with_gold(agreeing: float) -> str:
    """The advice to look at the gold answers first, where such a share of wrong groups agree; empty where fewer do."""
    if agreeing < AGREEING:
        return ""
    return (
        f"First compare answers and gold by hand: in {percent(agreeing)} of the groups without a right answer most "
        f"completions agree on one, as they do where gold answers are wrong, or stand in other rows."
    )


def or_a_tool(window: Window) -> str:
    """Suspect the tools beside the golds: a tool that returns what is wrong makes siblings agree as well."""
    return (
        ", or a tool may return what is wrong"
        if window.logged("tools/call_frequency")
        else ""
    )


def of_template(window: Window) -> str:
    """The advice to apply the chat template that this run's prompts leave unused; empty where it is used."""
    if not window.settings.get("unused_chat_template"):
        return ""
    return (
        "The prompts are plain text, though the tokenizer has a chat template: unless the model is a base model, make "
        "them conversations. "
    )


def never_explores(window: Window, least: float) -> bool:
    """Test whether siblings repeat each other, in opening batches and recent batches alike."""
    # 0, or unknown, at the start of a run.
    if judged(window.batches) < LEAST_SAMPLES or window.opening[0].step:
        return False
    return all(
        repeated_share(batches) >= least for batches in (window.opening, window.batches)
    )


def repeated_share(batches: Sequence[BatchFigures]) -> float:
    """Share of completions that repeat a sibling word for word."""
    # Pairs without a score do not count, as of rows without a gold, so the term that has most tells.
    terms = [
        max(batch.terms.values(), key=lambda term: term.repeats)
        for batch in batches
        if batch.terms
    ]
    found = TermTotals(terms)
    # Values of void samples are left out, and their groups with them.
    possible = found.verdicts * (1 - found.groups / max(1, found.values.count))
    return found.repeats / possible if possible > 0 else 0.0


def other_terms(window: Window) -> list[str]:
    """Terms in force beside the primary terms."""
    primary = window.primary_terms
    return [term for term in window.in_force if term not in primary]


def is_penalty(window: Window, term: str) -> bool:
    """Test whether a term only lowers totals; a closed gate would spare wrong answers the penalty.

    A term without judged completions is none.
    """
    values = window.seen[term].values
    if not values.numbers.count:
        return False
    weight = window.of_term(term).weight
    return (
        max(weight * values.low, weight * values.high) <= 0
        and weight * (values.low + values.high) < 0
    )


def names(terms: Sequence[str], last: str = "and") -> str:
    """Terms in a sentence.

    Examples:
        >>> names(["math"]), names(["math", "code", "chat"]), names(["math", "code"], "or")
        ('`math`', '`math`, `code` and `chat`', '`math` or `code`')
    """
    quoted = [f"`{term}`" for term in terms]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


# Of the answers that both have read. If more agree, both look at the same thing. Ours: a majority.
SAME = 0.5
# Of the primary verdicts. Ours.
GRADED = 0.5
# Cohen's kappa of two judges of one thing: moderate agreement (Landis and Koch, 1977).
AGREES = 0.41


def second_opinions(window: Window) -> list[str]:
    """Shadows that judge the same answers as the primary term.

    A shadow for another question, such as the format beside an answer, may well disagree: it reads other answers, or
    none where the primary term reads some. Where both read none, as plain functions, their agreement tells. A term that
    has had weight is none: it was trained on.
    """
    if not window.in_force:
        return []
    return [
        term
        for term in window.terms
        if term not in window.trained_on and not _looks_elsewhere(window, term)
    ]


def no_second_opinion(window: Window) -> NotChecked:
    """Explain a missing second opinion: no shadow exists, or shadows read other answers."""
    shadows = [term for term in window.terms if term not in window.trained_on]
    if not shadows:
        return NotChecked(
            "a second opinion (another verifier of weight 0, best a stricter one)"
        )
    primary = window.in_force[0] if window.in_force else ""
    return NotChecked(
        f"a second opinion: {names(shadows)} reads other answers than `{primary}`, or none, or passes others "
        "from the start"
    )


def _looks_elsewhere(window: Window, shadow: str) -> bool:
    found = window.of_term(shadow)
    if found.compared:
        return found.same < SAME * found.compared
    primary = window.of_term(window.in_force[0])
    # Marks between right and wrong, as of a length: nothing that a second opinion could accept or turn down.
    is_graded = primary.status_share(Status.PARTIAL) > GRADED or (
        primary.status_share(Status.PARTIAL, Status.SCORED) > GRADED
        and not agreement(window.batches, shadow).size
    )
    if primary.has_answers is not found.has_answers:
        return primary.has_answers or is_graded
    return not primary.has_answers and not _has_agreed(window, shadow)


def _has_agreed(window: Window, shadow: str) -> bool:
    """Check whether a shadow agrees with the primary term beyond chance, over all or before training parts them."""
    spans = (window.opening, window.batches)
    return any(agreement(span, shadow).kappa >= AGREES for span in spans)


def agreement(batches: Sequence[BatchFigures], shadow: str) -> Agreement:
    """A shadow against the primary verdicts, over several batches."""
    found = (batch.agreements[shadow] for batch in batches if shadow in batch.agreements)
    return sum(found, start=Agreement())


# Ours, so that one odd row or moment is no pattern; tried in test_healthy_runs.py.
# Verdicts: one or two are no pattern.
LEAST = 3
# One batch alone may show one prompt, or one moment of a busy machine.
LEAST_BATCHES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictShare:
    """Share of recent verdicts of one kind, for one term.

    `count` of `verdicts` are, in `batches` batches. `in_force` says whether the term has weight.
    """

    term: str
    in_force: bool
    count: int
    verdicts: int
    batches: int

    @property
    def share(self) -> float:
        """Share in [0, 1]; 0 without verdicts."""
        return self.count / self.verdicts if self.verdicts else 0.0

    def is_pattern(self, warn: float, critical: float) -> bool:
        """Test for a pattern: share `warn` in several batches, or share `critical` in a single batch.

        Examples:
            >>> burst = VerdictShare(term="math", in_force=True, count=8, verdicts=256, batches=1)
            >>> burst.is_pattern(0.02, 0.10), burst.is_pattern(0.02, 0.03)
            (False, True)
        """
        if self.count < LEAST or self.share < warn:
            return False
        return self.batches >= LEAST_BATCHES or self.share >= critical

    def severity(self, critical: float) -> Severity:
        """Severity of this share; information for a term without weight."""
        if not self.in_force:
            return Severity.INFO
        return Severity.critical_if(self.share >= critical)


def worst_share(
    window: Window, count: Callable[[TermFigures], int], warn: float, critical: float
) -> VerdictShare | None:
    """Find the term with the largest share of one kind of verdict; None without a pattern.

    Shadows count only where no term in force shows a pattern, and a term that waits for one without a score only where
    that one does not. `count` is how many verdicts of a batch are of the kind,
    `warn` the least share, and `critical` the share that one batch is enough for.
    """
    patterns = []
    for term in window.terms:
        share = _verdict_share(window, term, count)
        if share.is_pattern(warn, critical):
            patterns.append(share)
    if not patterns:
        return None
    return max(
        patterns,
        key=lambda share: (share.in_force, not _waits(window, share.term), share.share),
    )


def _waits(window: Window, term: str) -> bool:
    """Test whether most failures of a term come from a gating term."""
    found = window.of_term(term)
    waiting = found.failures(lambda failure: failure[2].endswith(UNSCORED))
    return 2 * waiting.total() > found.failures(lambda _: True).total()


def _verdict_share(
    window: Window, term: str, count: Callable[[TermFigures], int]
) -> VerdictShare:
    found = window.of_term(term)
    counts = [count(figures) for figures in found.batches]
    return VerdictShare(
        term=term,
        in_force=term in window.in_force,
        count=sum(counts),
        verdicts=found.verdicts,
        batches=len(counts) - counts.count(0),
    )


def failures_in(figures: TermFigures, is_kind: Callable[[Failure], bool]) -> int:
    """Count a batch's failed verdicts of a kind."""
    return TermTotals([figures]).failures(is_kind).total()
