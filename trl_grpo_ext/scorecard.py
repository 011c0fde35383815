"""A scorecard: one generation batch as a table of samples by terms. The only input of checks, reports and replays.

It is a value, not a live object: what is known later, the advantages, makes a new scorecard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Verdict

Mode = Literal["train", "eval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """Verdicts, values and totals of one batch of n samples under t terms.

    Attributes:
        samples: The n samples.
        weights: The weight in force of each of the t terms, by name, in the order of the mix.
        verdicts: By term, n verdicts; None where the term does not apply to the sample.
        values: By term, n values, the scores after shape and gate; None where there is no score.
        totals: n weighted sums, with those of reward functions beside the mix; None for a void sample.
        gated: By term, n flags: True if a closed gate has set the value.
        void: n flags: True if the sample must not be trained on, because a term in force could not judge it.
        advantages: n advantages as TRL computed them, or None before it has.
        mode: Whether the batch was made for training or for evaluation.

    Example:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"), weight=2.0)])
        >>> mix.score([Sample(text="42"), Sample(text="many")]).totals
        (2.0, 0.0)
    """

    samples: tuple[Sample, ...]
    weights: Mapping[str, float]
    verdicts: Mapping[str, tuple[Verdict | None, ...]]
    values: Mapping[str, tuple[float | None, ...]]
    gated: Mapping[str, tuple[bool, ...]]
    totals: tuple[float | None, ...]
    void: tuple[bool, ...]
    advantages: tuple[float, ...] | None = None
    mode: Mode = "train"

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms' names, in the order of the mix."""
        return tuple(self.weights)

    @property
    def step(self) -> int | None:
        """The optimizer step, None if nobody knows it."""
        return self.samples[0].step if self.samples else None

    @property
    def in_force(self) -> tuple[str, ...]:
        """The names of the terms whose weight is not 0 now."""
        return tuple(term for term, weight in self.weights.items() if weight != 0)

    @property
    def blamed(self) -> tuple[bool, ...]:
        """n flags: True if a term in force has no value for the sample, by the grader's or the data's fault."""
        return tuple(
            any(self.verdicts[term][index] is not None and self.values[term][index] is None for term in self.in_force)
            for index in range(len(self))
        )

    def rewards(self, term: str) -> list[float | None]:
        """What TRL gets for this term: its values, and None for every void sample."""
        return [None if void else value for void, value in zip(self.void, self.values[term], strict=True)]

    def first(self, size: int) -> Scorecard:
        """This scorecard with at most `size` samples, the first."""
        return replace(
            self,
            samples=self.samples[:size],
            verdicts={term: column[:size] for term, column in self.verdicts.items()},
            values={term: column[:size] for term, column in self.values.items()},
            gated={term: column[:size] for term, column in self.gated.items()},
            totals=self.totals[:size],
            void=self.void[:size],
            advantages=None if self.advantages is None else self.advantages[:size],
        )

    def with_advantages(self, advantages: Sequence[float]) -> Scorecard:
        """This scorecard with the advantages that TRL computed, one a sample."""
        if len(advantages) != len(self):
            raise ValueError(f"{len(self)} samples need as many advantages, got {len(advantages)}.")
        return replace(self, advantages=tuple(advantages))

    def with_other_rewards(self, added: Sequence[float], unscored: Sequence[bool]) -> Scorecard:
        """This scorecard where reward functions beside the mix have their say too.

        Args:
            added: n weighted sums of their rewards, to be added to the totals.
            unscored: n flags: whether neither the mix nor any of them has scored the sample, which makes it void.
        """
        sums = zip(self.totals, added, unscored, strict=True)
        return replace(
            self,
            totals=tuple(None if out else (total or 0.0) + more for total, more, out in sums),
            void=tuple(unscored),
        )

    def sample_records(self) -> list[dict[str, Any]]:
        """One plain dict a sample: what it was, its total, its advantage."""
        return [
            {
                "step": sample.step,
                "mode": self.mode,
                "group": sample.group,
                "sample": index,
                "prompt": sample.prompt,
                "text": sample.text,
                "tokens": None if sample.completion_ids is None else len(sample.completion_ids),
                "truncated": sample.truncated,
                "total": self.totals[index],
                "advantage": None if self.advantages is None else self.advantages[index],
                "void": self.void[index],
                "row": sample.row,
                "prefill": sample.prefill,
                "completion_ids": None if sample.completion_ids is None else list(sample.completion_ids),
            }
            for index, sample in enumerate(self.samples)
        ]

    def verdict_records(self) -> list[dict[str, Any]]:
        """One plain dict a (sample, term) that has a verdict."""
        return [
            {
                "step": sample.step,
                "mode": self.mode,
                "group": sample.group,
                "sample": index,
                "term": term,
                "value": self.values[term][index],
                "gated": self.gated[term][index],
                "weight": self.weights[term],
                **verdict.to_record(),
            }
            for term in self.terms
            for index, (sample, verdict) in enumerate(zip(self.samples, self.verdicts[term], strict=True))
            if verdict is not None
        ]


def concatenate(cards: Sequence[Scorecard]) -> Scorecard:
    """One scorecard of several that have the same terms, such as those of all ranks, in order."""
    first = cards[0]
    return replace(
        first,
        samples=_join(card.samples for card in cards),
        verdicts={term: _join(card.verdicts[term] for card in cards) for term in first.terms},
        values={term: _join(card.values[term] for card in cards) for term in first.terms},
        gated={term: _join(card.gated[term] for card in cards) for term in first.terms},
        totals=_join(card.totals for card in cards),
        void=_join(card.void for card in cards),
        advantages=None if first.advantages is None else _join(card.advantages or () for card in cards),
    )


def _join(parts: Any) -> tuple[Any, ...]:
    return tuple(item for part in parts for item in part)
