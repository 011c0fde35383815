"""A batch read for the report: what its groups teach, what disagrees, what would have fooled a naive grader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trl_grpo_ext.figures.batch import NO_SAMPLE, Batch, batch_of
from trl_grpo_ext.figures.term_facts import would_fool
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Status, Verdict

# Live groups are told apart by what differs in them: a primary term, or only others.
GROUP_KINDS = ("live", "secondary_only", "all_right", "tied", "all_wrong", "void")

Group = Sequence[int]  # the places of its members in the batch


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """A scorecard of n samples and at least one term, read for the report.

    Attributes:
        card: The scorecard.
        trained_on: Terms that have been in force at some time: once their weight is 0 they still tell of what was
            trained on, so they are no shadows.
        arrays: The same as arrays.
        primary_terms: n names: of each sample the first term in force that applies to it; None if none does.
        groups: The members of each group, in order of the first; a sample whose group nobody knows is one by itself.
        kinds: For each group one of `GROUP_KINDS`, None where nobody knows the group.
    """

    card: Scorecard
    trained_on: frozenset[str] = frozenset()
    arrays: Batch = field(init=False)
    primary_terms: Sequence[str | None] = field(init=False)
    groups: Sequence[Group] = field(init=False)
    kinds: Sequence[str | None] = field(init=False)

    def __post_init__(self) -> None:
        arrays = batch_of(self.card)
        known = [[int(row) for row in rows if row != NO_SAMPLE] for rows in arrays.rows]
        alone = [[index] for index, sample in enumerate(self.card.samples) if sample.group is None]
        kinds = map(_kind, arrays.outcomes, arrays.primary_differs)
        object.__setattr__(self, "arrays", arrays)
        object.__setattr__(self, "primary_terms", [self._primary_term(index) for index in range(len(self.card))])
        object.__setattr__(self, "groups", [*known, *alone])
        object.__setattr__(self, "kinds", [*kinds, *(None for _ in alone)])

    def _primary_term(self, index: int) -> str | None:
        return next((term for term in self.card.in_force if self.card.verdicts[term][index] is not None), None)

    @property
    def primary(self) -> Sequence[Verdict | None]:
        """n verdicts, those of the primary terms."""
        return self.arrays.primary

    @property
    def shadows(self) -> list[str]:
        """The terms that are not trained on, to be set against the primary ones; none where no term is in force."""
        in_force = self.card.in_force
        trained_on = self.trained_on.union(in_force)
        return [term for term in self.card.terms if term not in trained_on] if in_force else []

    def disagrees(self, index: int) -> bool:
        """Whether a shadow passes what the primary term fails, or the other way round."""
        passed = passes(self.primary[index])
        return passed is not None and any(
            passes(self.card.verdicts[shadow][index]) is (not passed) for shadow in self.shadows
        )

    def is_hack(self, index: int) -> bool:
        """Whether a term failed the completion, and says that a naive grader would have passed it."""
        verdicts = (self.card.verdicts[term][index] for term in self.card.terms)
        return any(verdict is not None and would_fool(verdict) for verdict in verdicts)


def _kind(outcome: GroupOutcome, primary_differs: bool) -> str:
    return "secondary_only" if outcome is GroupOutcome.LIVE and not primary_differs else str(outcome)


def passes(verdict: Verdict | None) -> bool | None:
    """Whether the completion is correct; None where the term does not apply, or could not judge it.

    Example:
        >>> passes(Verdict(status=Status.PARTIAL, score=0.5)), passes(None)
        (False, None)
    """
    if verdict is None or verdict.score is None:
        return None
    return verdict.status is Status.CORRECT
