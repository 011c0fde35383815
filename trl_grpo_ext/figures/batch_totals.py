"""Totals over several batches: all batches of an evaluation, for example, or batches that `replay` scores."""

from __future__ import annotations

from dataclasses import dataclass, field

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.terms import TermFigures
from trl_grpo_ext.support.estimate import Estimate, Grouped, Interval


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """Several batches, each sum computed on demand. Without numbers, a mean is None."""

    batches: list[BatchFigures] = field(default_factory=list)

    @property
    def completions(self) -> int:
        """Number of completions, void ones included."""
        return sum(batch.size for batch in self.batches)

    @property
    def void(self) -> int:
        return sum(batch.void for batch in self.batches)

    @property
    def prompts(self) -> int:
        """Number of groups."""
        return sum(sum(batch.outcomes.values()) for batch in self.batches)

    @property
    def reward(self) -> float | None:
        """Mean total of completions that are not void."""
        return Estimate.together(batch.rewards.numbers for batch in self.batches).known_mean

    @property
    def tokens(self) -> float | None:
        """Mean completion length in tokens."""
        return Estimate.together(batch.tokens.numbers for batch in self.batches).known_mean

    @property
    def cut(self) -> Estimate:
        """Share of completions that were cut at the length limit."""
        return Estimate.together(batch.primary.cut_share for batch in self.batches)

    def scores(self, term: str) -> Interval | None:
        """Return a term's mean score, before gate and shape, with its 95 % interval."""
        return sum((figures.scores for figures in self._of(term)), start=Grouped()).interval

    def value(self, term: str) -> float | None:
        """Return a term's mean value over completions that are not void."""
        return Estimate.together(
            figures.values.numbers for figures in self._of(term)
        ).known_mean

    def weights(self, term: str) -> list[float]:
        """List a term's weight in each batch with the term."""
        return [figures.weight for figures in self._of(term)]

    @property
    def shares(self) -> dict[str, float | None]:
        """Return each term's mean share of the advantages of a batch, as in logs and reports."""
        found: dict[str, list[float | None]] = {}
        for batch in self.batches:
            for term, figures in batch.terms.items():
                found.setdefault(term, []).append(figures.driver_share)
        return {term: Estimate.of(shares).known_mean for term, shares in found.items()}

    @property
    def others_share(self) -> float | None:
        """Mean share of reward functions outside the mix, over batches in which each term's share is known."""
        known = []
        for batch in self.batches:
            shares = [figures.driver_share for figures in batch.terms.values()]
            if None not in shares:
                known.append(batch.others_share)
        return Estimate.of(known).known_mean

    def _of(self, term: str) -> list[TermFigures]:
        return [batch.terms[term] for batch in self.batches if term in batch.terms]
