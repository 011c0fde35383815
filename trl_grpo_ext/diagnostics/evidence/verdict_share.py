"""The share of a term's recent verdicts that are of one kind, and whether it is more than a burst."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trl_grpo_ext.diagnostics.evidence.window import Window
from trl_grpo_ext.diagnostics.finding import Severity
from trl_grpo_ext.figures.terms import TermFigures

LEAST = 3  # verdicts: one or two are nobody's pattern; ours
LEAST_BATCHES = 2  # what is in one batch only may be one prompt, or one moment of a busy machine; ours


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictShare:
    """How many of a term's recent verdicts are of a kind.

    Attributes:
        count: How many are.
        verdicts: How many there are in all.
        batches: In how many batches there is one or more.
        in_force: Whether the term has weight.
    """

    count: int
    verdicts: int
    batches: int
    in_force: bool

    @property
    def share(self) -> float:
        """The part of the verdicts, in [0, 1]; 0 for none."""
        return self.count / self.verdicts if self.verdicts else 0.0

    def is_pattern(self, warn: float, critical: float) -> bool:
        """Whether it is a share of `warn`, and no burst: in several batches, or a share that is critical by itself.

        Example:
            >>> burst = VerdictShare(count=8, verdicts=256, batches=1, in_force=True)
            >>> burst.is_pattern(0.02, 0.10), burst.is_pattern(0.02, 0.03)
            (False, True)
        """
        if self.count < LEAST or self.share < warn:
            return False
        return self.batches >= LEAST_BATCHES or self.share >= critical

    def severity(self, critical: float) -> Severity:
        """How much it matters; of a term without weight, nothing is lost for the reward."""
        if not self.in_force:
            return Severity.INFO
        return Severity.CRITICAL if self.share >= critical else Severity.WARNING


def verdict_share(window: Window, term: str, count: Callable[[TermFigures], int]) -> VerdictShare:
    """The share of a term's recent verdicts that `count` finds in the facts of a batch."""
    facts = window.of_term(term)
    counts = [count(one) for one in facts]
    return VerdictShare(
        count=sum(counts),
        verdicts=sum(one.verdicts for one in facts),
        batches=sum(number > 0 for number in counts),
        in_force=term in window.in_force,
    )


def by_weight(window: Window) -> list[str]:
    """The terms in force, then the shadows, of which something is said only where nothing is of the others."""
    return sorted(window.terms, key=lambda term: term not in window.in_force)
