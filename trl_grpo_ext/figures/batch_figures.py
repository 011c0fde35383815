"""What the terms have found in a batch, for TRL's logs: means that are not divided yet, so that they can be added."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Status, Verdict

if TYPE_CHECKING:
    from trl_grpo_ext.mix.reward_mix import RewardMix


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

    Those of `card_figures`, and what verifiers add, `verified/<term>/<its own>`.
    """
    return card_figures(card) | verifier_figures(mix, card)


def card_figures(card: Scorecard) -> dict[str, Mean]:
    """The figures that a scorecard tells by itself.

    | name | is the share, or the mean |
    |---|---|
    | `verified/<term>/<status>` | of the term's verdicts with that status; those that a gate left out are not counted |
    | `verified/<term>/score` | raw score, before shape, gate and weight |
    | `verified/<term>/coverage` | of all samples that the term has a value for |
    | `verified/<term>/gated` | of the term's verdicts whose value a closed gate has set |
    | `verified/<term>/weight` | weight in force |
    | `verified/void` | of all samples that are void |
    """
    figures = {f"verified/{term}/{key}": mean for term in card.terms for key, mean in _term_figures(card, term).items()}
    return figures | {"verified/void": Mean(sum(card.void), len(card))}


def verifier_figures(mix: RewardMix, card: Scorecard) -> dict[str, Mean]:
    """What the verifiers of the mix themselves have to say of their verdicts (`Verifier.metrics`)."""
    figures: dict[str, Mean] = {}
    for term, verifier in mix.verifiers:
        verdicts = _verdicts(card, term.name)
        own = verifier.metrics(verdicts)
        figures |= {
            f"verified/{term.name}/{key}": Mean(value * len(verdicts), len(verdicts)) for key, value in own.items()
        }
    return figures


def _verdicts(card: Scorecard, term: str) -> list[Verdict]:
    return [verdict for verdict in card.verdicts[term] if verdict is not None]


def _term_figures(card: Scorecard, term: str) -> dict[str, Mean]:
    verdicts: Sequence[Verdict] = _verdicts(card, term)
    judged = [verdict for verdict in verdicts if not verdict.left_out]
    statuses = Counter(verdict.status for verdict in judged)
    scores = [verdict.score for verdict in judged if verdict.score is not None]
    covered = sum(value is not None for value in card.values[term])
    return {str(status): Mean(statuses[status], len(judged)) for status in Status} | {
        "score": Mean(math.fsum(scores), len(scores)),
        "coverage": Mean(covered, len(card)),
        "gated": Mean(sum(card.gated[term]), len(verdicts)),
        "weight": Mean(card.weights[term], 1),
    }


def means(figures: Mapping[str, Mean]) -> dict[str, float]:
    """The figures divided; NaN where there was nothing."""
    return {name: mean.value for name, mean in figures.items()}
