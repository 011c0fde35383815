"""The figures of a batch for TRL's logs, kept as sums and counts so that several ranks can add them up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Status, Verdict

if TYPE_CHECKING:
    from trl_grpo_ext.mix import RewardMix


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean that is not divided yet.

    Attributes:
        total: The sum of the values.
        count: How many there are.
    """

    total: float
    count: float

    @property
    def value(self) -> float:
        """The mean; NaN, which TRL leaves out of its logs, where there was nothing."""
        return self.total / self.count if self.count else math.nan


def batch_figures(mix: RewardMix, card: Scorecard) -> dict[str, Mean]:
    """The figures of a batch by metric name, the same names in the same order for every batch.

    | name | is the share, or the mean |
    |---|---|
    | `verified/<term>/<status>` | of the term's verdicts with that status |
    | `verified/<term>/score` | raw score, before shape, gate and weight |
    | `verified/<term>/coverage` | of all samples that the term has a value for |
    | `verified/<term>/gated` | of the term's verdicts whose value a closed gate has set |
    | `verified/<term>/weight` | weight in force |
    | `verified/void` | of all samples that are void |

    A verifier may add others, `verified/<term>/<its own>`.
    """
    figures: dict[str, Mean] = {}
    for term in mix.terms:
        verdicts = [verdict for verdict in card.verdicts[term.name] if verdict is not None]
        found = _term_figures(card, term.name, verdicts)
        if term.verifier is not None:
            own = term.verifier.metrics(verdicts)
            found |= {key: Mean(value * len(verdicts), len(verdicts)) for key, value in own.items()}
        figures |= {f"verified/{term.name}/{key}": mean for key, mean in found.items()}
    return figures | {"verified/void": Mean(sum(card.void), len(card))}


def _term_figures(card: Scorecard, term: str, verdicts: Sequence[Verdict]) -> dict[str, Mean]:
    statuses = Counter(verdict.status for verdict in verdicts)
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    covered = sum(value is not None for value in card.values[term])
    return {str(status): Mean(statuses[status], len(verdicts)) for status in Status} | {
        "score": Mean(math.fsum(scores), len(scores)),
        "coverage": Mean(covered, len(card)),
        "gated": Mean(sum(card.gated[term]), len(verdicts)),
        "weight": Mean(card.weights[term], 1),
    }


def means(figures: Mapping[str, Mean]) -> dict[str, float]:
    """The figures divided; NaN where there was nothing."""
    return {name: mean.value for name, mean in figures.items()}
