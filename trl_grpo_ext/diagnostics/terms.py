"""Terms over several batches: which are primary, which are second opinions, and shares of their verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trl_grpo_ext.diagnostics.finding import NotChecked, Severity
from trl_grpo_ext.diagnostics.window import Window
from trl_grpo_ext.figures.pairs import Agreement
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.terms import TermFigures
from trl_grpo_ext.verdict import Blame, Status


def primary_terms(window: Window) -> list[str]:
    """The first term in force, and those after it while some rows have a verdict of none of them."""
    terms: list[str] = []
    left = sum(batch.size for batch in window.batches)
    for term in window.in_force:
        if left <= 0:
            break
        terms.append(term)
        left -= sum(facts.verdicts for facts in window.of_term(term))
    return terms


def other_terms(window: Window) -> list[str]:
    """The terms in force that are not primary for any row."""
    primary = primary_terms(window)
    return [term for term in window.in_force if term not in primary]


def names(terms: Sequence[str], last: str = "and") -> str:
    """Terms in a sentence.

    Examples:
        >>> names(["math"]), names(["math", "code", "chat"]), names(["math", "code"], "or")
        ('`math`', '`math`, `code` and `chat`', '`math` or `code`')
    """
    quoted = [f"`{term}`" for term in terms]
    return f" {last} ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1]))) if quoted else ""


# Of the answers that both have read. If more agree, both look at the same thing. Ours: a majority.
SAME = 0.5


def second_opinions(window: Window) -> list[str]:
    """The terms of weight 0 that judge what the primary term judges: those that nothing says that of a shadow.

    A shadow for another question, such as the format beside an answer, may well disagree: it reads other answers, or
    none where the primary term reads some. A term that has had weight is none: it was trained on.
    """
    shadows = [term for term in window.terms if term not in window.trained_on] if window.in_force else []
    return [shadow for shadow in shadows if not _looks_elsewhere(window, shadow)]


def no_second_opinion(window: Window) -> NotChecked:
    """What to say where there is none: that a shadow is missing, or why those that are there do not count."""
    shadows = [term for term in window.terms if term not in window.trained_on]
    if not shadows:
        return NotChecked("a second opinion (another verifier of weight 0, best a stricter one)")
    primary = window.in_force[0] if window.in_force else ""
    return NotChecked(f"a second opinion: {names(shadows)} reads other answers than `{primary}`, or none")


def _looks_elsewhere(window: Window, shadow: str) -> bool:
    facts = window.of_term(shadow)
    compared, same = sum(one.compared for one in facts), sum(one.same for one in facts)
    if compared:
        return same < SAME * compared
    return _reads_answers(window, window.in_force[0]) and not _reads_answers(window, shadow)


def agreement(batches: Sequence[BatchFigures], shadow: str) -> Agreement:
    """A shadow against the primary verdicts, over several batches."""
    found = (batch.agreements[shadow] for batch in batches if shadow in batch.agreements)
    return sum(found, start=Agreement())


def _reads_answers(window: Window, term: str) -> bool:
    return any(facts.answers for facts in window.of_term(term))


# Ours, so that one odd row or moment is no pattern; tried in tests/test_healthy_runs.py.
LEAST = 3  # verdicts: one or two are no pattern
LEAST_BATCHES = 2  # one batch alone may show one prompt, or one moment of a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictShare:
    """How many of a term's recent verdicts are of a kind.

    Attributes:
        term: The term.
        in_force: Whether it has weight.
        count: How many are.
        verdicts: How many there are in all.
        batches: In how many batches there is one or more.
    """

    term: str
    in_force: bool
    count: int
    verdicts: int
    batches: int

    @property
    def share(self) -> float:
        """The part of the verdicts, in [0, 1]; 0 for none."""
        return self.count / self.verdicts if self.verdicts else 0.0

    def is_pattern(self, warn: float, critical: float) -> bool:
        """Whether it is a share of `warn`, and no burst: in several batches, or a share that is critical by itself.

        Examples:
            >>> burst = VerdictShare(term="math", in_force=True, count=8, verdicts=256, batches=1)
            >>> burst.is_pattern(0.02, 0.10), burst.is_pattern(0.02, 0.03)
            (False, True)
        """
        if self.count < LEAST or self.share < warn:
            return False
        return self.batches >= LEAST_BATCHES or self.share >= critical

    def severity(self, critical: float) -> Severity:
        """How much it matters; of a term without weight, nothing is lost for the reward."""
        return Severity.critical_if(self.share >= critical) if self.in_force else Severity.INFO


def worst_share(
    window: Window, count: Callable[[TermFigures], int], warn: float, critical: float
) -> VerdictShare | None:
    """The term of which the largest share of recent verdicts is of a kind, if that is a pattern.

    Args:
        window: The run. Its shadows count only where no term in force shows a pattern.
        count: How many verdicts of a batch are of the kind.
        warn: The least share.
        critical: The share that one batch is enough for.
    """
    shares = [_verdict_share(window, term, count) for term in window.terms]
    patterns = [share for share in shares if share.is_pattern(warn, critical)]
    return max(patterns, key=lambda share: (share.in_force, share.share), default=None)


def _verdict_share(window: Window, term: str, count: Callable[[TermFigures], int]) -> VerdictShare:
    facts = window.of_term(term)
    counts = [count(one) for one in facts]
    return VerdictShare(
        term=term,
        in_force=term in window.in_force,
        count=sum(counts),
        verdicts=sum(one.verdicts for one in facts),
        batches=sum(number > 0 for number in counts),
    )


Failure = tuple[Blame, Status, str]  # whose fault it is, and the verdict's status and reason


def failures_of(facts: Sequence[TermFigures], is_kind: Callable[[Failure], bool]) -> Counter[Failure]:
    """A term's failed verdicts of a kind, over several batches."""
    found: Counter[Failure] = Counter()
    for one in facts:
        found.update({kind: count for kind, count in one.failures.items() if is_kind(kind)})
    return found
