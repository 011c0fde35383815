"""A term's figures over several batches together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.terms import TermFigures
from trl_grpo_ext.support.estimate import Estimate
from trl_grpo_ext.verdict import Blame, Status

K = TypeVar("K", bound=Hashable)

# A failed verdict: whose fault it is, and the verdict's status and reason.
Failure = tuple[Blame, Status, str]


@dataclass(frozen=True, slots=True)
class TermTotals:
    """A term's figures over several batches, each sum computed on demand."""

    # The figures, a batch each, oldest first.
    batches: Sequence[TermFigures]

    @classmethod
    def of(cls, term: str, batches: Iterable[BatchFigures]) -> TermTotals:
        """Collect a term's figures; batches without the term are left out."""
        return cls([batch.terms[term] for batch in batches if term in batch.terms])

    @property
    def weight(self) -> float:
        """Weight in the latest batch."""
        return self.batches[-1].weight

    @property
    def verdicts(self) -> int:
        """Number of verdicts."""
        return sum(batch.verdicts for batch in self.batches)

    @property
    def groups(self) -> int:
        """Number of groups with at least two values."""
        return sum(batch.groups for batch in self.batches)

    @property
    def flat_share(self) -> float:
        """Compute the share of groups with equal values, in [0, 1]; 0 without groups."""
        flat = sum(batch.flat_groups for batch in self.batches)
        return _share(flat, self.groups)

    @property
    def flattened_share(self) -> float:
        """Compute the share of groups with different scores but equal values, in [0, 1]; 0 without groups."""
        flattened = sum(batch.flattened_groups for batch in self.batches)
        return _share(flattened, self.groups)

    @property
    def gated_share(self) -> float:
        """Share of verdicts whose value a closed gate set, in [0, 1]; 0 without verdicts."""
        gated = sum(batch.gated for batch in self.batches)
        return _share(gated, self.verdicts)

    @property
    def left_out_of_groups(self) -> int:
        """Number of completions to which the term does not apply, though it applies to a sibling."""
        return sum(batch.left_out_of_groups for batch in self.batches)

    def status_share(self, *statuses: Status) -> float:
        """Compute the statuses' share of the verdicts, in [0, 1]; 0 without verdicts."""
        count = 0
        for batch in self.batches:
            for status in statuses:
                count += batch.statuses.get(status, 0)
        return _share(count, self.verdicts)

    @property
    def values(self) -> Estimate:
        """Estimate the mean value, void samples excluded."""
        return Estimate.together(batch.values.numbers for batch in self.batches)

    @property
    def mean(self) -> float:
        """Mean value; 0 without values."""
        values = self.values
        return values.total / max(1, values.count)

    @property
    def repeats(self) -> int:
        """Number of pairs of scores of completions that repeat a sibling word for word."""
        return sum(batch.repeats for batch in self.batches)

    @property
    def has_answers(self) -> bool:
        """True if a verdict has an extracted answer."""
        return any(batch.answers for batch in self.batches)

    @property
    def compared(self) -> int:
        """Number of verdicts with an answer whose sample's primary verdict has an answer too."""
        return sum(batch.compared for batch in self.batches)

    @property
    def same(self) -> int:
        """Number of compared verdicts whose answer equals the primary verdict's."""
        return sum(batch.same for batch in self.batches)

    @property
    def reasons(self) -> Counter[str]:
        """Verdicts with a score by reason."""
        return added(batch.reasons for batch in self.batches)

    @property
    def unread(self) -> Counter[str]:
        """Unparseable verdicts by reason."""
        return added(batch.unread for batch in self.batches)

    @property
    def causes(self) -> Counter[str]:
        """Judged verdicts that are not correct, by cause."""
        return added(batch.causes for batch in self.batches)

    @property
    def failed_places(self) -> Counter[int]:
        """Count grader failures by group position, counted from 0."""
        return added(batch.failed_places for batch in self.batches)

    def failures(self, is_kind: Callable[[Failure], bool]) -> Counter[Failure]:
        """Failed verdicts of a kind."""
        found = added(batch.failures for batch in self.batches)
        for failure in list(found):
            if not is_kind(failure):
                del found[failure]
        return found


def added(counters: Iterable[Mapping[K, int]]) -> Counter[K]:
    """Add several counters."""
    total: Counter[K] = Counter()
    for counter in filter(None, counters):
        total.update(counter)
    return total


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
