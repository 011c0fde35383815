"""The reward mix: an ordered list of terms that turns verdicts into one reward. It is not a trainer."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from numbers import Real

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.reward_function import BatchScorer, TermReward
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Mode, Scorecard
from trl_grpo_ext.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardTerm:
    """One line of the reward equation: a verifier and its weight, under a name.

    Attributes:
        name: The key in logs and scorecards: letters, digits, `_`, `-` and `.`.
        verifier: What judges.
        weight: A finite number. A term of weight 0 is a *shadow*: judged and logged, never trained on.

    Raises:
        ValueError: for a name that cannot be a key, or a weight that is not a finite number.
        TypeError: for a verifier that is none.

    Example:
        >>> from trl_grpo_ext.rewards import MathVerifier
        >>> RewardTerm(name="accuracy", verifier=MathVerifier(), weight=1.0).weight
        1.0
    """

    name: str
    verifier: Verifier
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[\w.-]+", self.name):
            raise ValueError(
                f"A reward term's name must be made of letters, digits, '_', '-' and '.', got {self.name!r}: "
                f"it is a key in logs and files."
            )
        if not isinstance(self.verifier, Verifier):
            raise TypeError(
                f"The reward term {self.name!r} needs a Verifier, got {self.verifier!r}. "
                f"Make one of a function with @verifier, or of a class by calling it."
            )
        if not is_finite_number(self.weight):
            raise ValueError(f"The weight of the reward term {self.name!r} must be a finite number: {self.weight!r}.")
        object.__setattr__(self, "weight", float(self.weight))


class RewardMix:
    """An ordered list of terms. Scores a batch into a scorecard, and hands TRL one reward function a term.

    A sample is *void* if a term with weight could not judge it, by the grader's or the data's fault, or if no such
    term judged it at all. A void sample has no total, and TRL leaves it out of its group's baseline.

    Args:
        terms: At least one, each with a name of its own.

    Raises:
        ValueError: for no terms, or two with one name.

    Example:
        >>> from trl_grpo_ext.rewards import MathVerifier, ThinkFormatVerifier
        >>> mix = RewardMix([
        ...     RewardTerm(name="accuracy", verifier=MathVerifier(), weight=1.0),
        ...     RewardTerm(name="thinks", verifier=ThinkFormatVerifier(), weight=0.1),
        ... ])
        >>> mix.weights
        [1.0, 0.1]
    """

    def __init__(self, terms: Sequence[RewardTerm]) -> None:
        self.terms = tuple(terms)
        for term in self.terms:
            if not isinstance(term, RewardTerm):
                raise TypeError(f"A RewardMix is made of RewardTerms, got {term!r}; give it a name and a weight.")
        if not self.terms:
            raise ValueError("A RewardMix needs at least one RewardTerm, got none.")
        names = [term.name for term in self.terms]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(
                f"Two reward terms have the name {repeated[0]!r}; their metrics would be mixed up. "
                f"Give each term a name of its own."
            )

    def __repr__(self) -> str:
        return f"RewardMix({list(self.terms)!r})"

    @property
    def weights(self) -> list[float]:
        """The terms' weights, in order, as TRL's `reward_weights` takes them."""
        return [term.weight for term in self.terms]

    def score(
        self, samples: Sequence[Sample], progress: float = 0.0, *, mode: Mode = "train", alone: bool = True
    ) -> Scorecard:
        """Judge every sample by every term, once.

        Args:
            samples: n samples.
            progress: The share of training that is done, in [0, 1].
            mode: Whether the batch is for training or for evaluation.
            alone: Whether this mix is the only source of reward; if not, a sample that none of its terms with weight
                has scored is not void, since others may have.

        Raises:
            ValueError: for a progress outside [0, 1].
        """
        if not 0.0 <= progress <= 1.0:
            raise ValueError(f"Progress is the share of training that is done, in [0, 1]; got {progress}.")
        weights = {term.name: term.weight for term in self.terms}
        verdicts: dict[str, tuple[Verdict | None, ...]] = {
            term.name: tuple(term.verifier.judge_samples(samples)) for term in self.terms
        }
        values = {
            name: tuple(verdict.score if verdict else None for verdict in column) for name, column in verdicts.items()
        }
        # A term with weight that has no value voids the row: its verdict blames the grader or the data.
        in_force = [(weight, values[name]) for name, weight in weights.items() if weight != 0]
        rows = range(len(samples))
        unscored = alone and not in_force
        void = tuple(unscored or any(column[i] is None for _, column in in_force) for i in rows)
        totals = tuple(
            None if void[i] else math.fsum(weight * (column[i] or 0.0) for weight, column in in_force) for i in rows
        )
        return Scorecard(
            samples=tuple(samples),
            weights=weights,
            verdicts=verdicts,
            values=values,
            totals=totals,
            void=void,
            mode=mode,
        )

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError, naming the term, if a dataset with these columns cannot be judged."""
        for term in self.terms:
            try:
                term.verifier.check_columns(columns)
            except ValueError as error:
                raise ValueError(f"Reward term {term.name!r}: {error}") from None

    def reward_funcs(self) -> list[TermReward]:
        """One TRL reward function a term, in order, for any TRL trainer that has `reward_weights`: pass `mix.weights`.

        AsyncGRPO has none, and adds all rewards up; give it a mix whose weights are all 1.

        However many of them TRL calls on a batch, the batch is judged once.
        """
        scorer = BatchScorer(self)
        return [TermReward(scorer, term.name) for term in self.terms]

    def close(self) -> None:
        """Close every verifier."""
        for term in self.terms:
            term.verifier.close()


def is_finite_number(value: object) -> bool:
    """Whether this can be a weight: a number that is no bool, NaN or infinity."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
