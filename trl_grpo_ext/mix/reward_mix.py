"""The reward mix: an ordered list of terms that turns verdicts into one reward per sample. It is not a trainer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, NoReturn

from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix.column import Gather, TermColumn, judge_term, no_other_ranks
from trl_grpo_ext.mix.gate import When
from trl_grpo_ext.mix.reward_function import BatchScorer, TermReward
from trl_grpo_ext.mix.schedule import weight_at
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.rewards.environment import judges_outcomes
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Mode, Scorecard
from trl_grpo_ext.support.files import plain
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.workers.ray_cluster import check_executor


class UnscoredError(RuntimeError):
    """An unscored sample, under a term with `on_unscored="raise"`."""


class RewardMix:
    """An ordered list of reward terms that scores a batch into a scorecard and gives TRL one reward function per term.

    A term is *in force* while its weight is not 0. A sample's total is the sum of weight times value over the terms in
    force. A sample is *void* if a term in force could not judge it, by the grader's or the data's fault, or if no term
    in force applies to it. A void sample has no total, and TRL leaves it out of its group's baseline.

    Args:
        terms: At least one term, with unique names. A gate or a combination may name any other term, in any order.

    Attributes:
        terms: The terms, in the order given.
        verifiers: Pairs of a term and its verifier; terms that combine others are left out.

    Raises:
        ValueError: for no terms, a repeated name, or gates and combinations that name unknown terms or form a circle.
        TypeError: for an object that is not a term.

    Examples:
        >>> from trl_grpo_ext.rewards import MathVerifier, ThinkFormatVerifier
        >>> mix = RewardMix([
        ...     RewardTerm(name="accuracy", verifier=MathVerifier(), weight=1.0),
        ...     RewardTerm(name="thinks", verifier=ThinkFormatVerifier(), weight=0.1, gate="accuracy"),
        ... ])
        >>> mix.weights
        [1.0, 0.1]
    """

    def __init__(self, terms: Sequence[RewardTerm]) -> None:
        if isinstance(terms, RewardTerm):
            raise TypeError(
                "A RewardMix takes a list of terms: RewardMix([RewardTerm(...)])."
            )
        self.terms = tuple(terms)
        for term in self.terms:
            if not isinstance(term, RewardTerm):
                raise TypeError(
                    f"A RewardMix is made of RewardTerms, got {term!r}; give it a name and a weight."
                )
        if not self.terms:
            raise ValueError("A RewardMix needs at least one RewardTerm, got none.")
        names = [term.name for term in self.terms]
        for name in sorted(names):
            if names.count(name) > 1:
                raise ValueError(
                    f"Two reward terms have the name {name!r}; their metrics would be mixed up. "
                    f"Give each term a name of its own."
                )
        self.verifiers = [
            (term, term.verifier) for term in self.terms if term.verifier is not None
        ]
        self._order = _in_order(self.terms)

    # Hidden from type checkers, which would otherwise accept any attribute name.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error with advice when a plain TRL trainer uses the mix as a reward function."""
            if name not in ("__name__", "__call__"):
                raise AttributeError(f"A RewardMix has no attribute {name!r}.")
            raise AttributeError(
                "A RewardMix goes to VerifiedGRPOTrainer. TRL's own trainers take its terms: "
                "reward_funcs=mix.reward_funcs(), and in their config reward_weights=mix.weights."
            )

    def for_limit(self, tokens: int | None) -> RewardMix:
        """Return the mix with verifiers for completions cut after `tokens` tokens; None leaves the mix unchanged."""
        if tokens is None:
            return self
        terms = []
        for term in self.terms:
            limited = term
            if term.verifier is not None:
                limited = replace(term, verifier=term.verifier.for_limit(tokens))
            terms.append(limited)
        return RewardMix(terms)

    def __repr__(self) -> str:
        return f"RewardMix({list(self.terms)!r})"

    @property
    def weights(self) -> list[float]:
        """The terms' weights, in order, for TRL's `reward_weights`.

        Raises:
            ValueError: for a weight on a schedule, since plain TRL never changes weights.
        """
        for term in self.terms:
            # Terms keep numbers as floats: anything else is a schedule or a function of the progress.
            if not isinstance(term.weight, float):
                raise ValueError(
                    f"The weight of the reward term {term.name!r} is on a schedule, and plain TRL moves no weights. "
                    f"Train with VerifiedGRPOTrainer, or give it a number."
                )
        return list(self.weights_at(0.0).values())

    def weights_at(self, progress: float, step: int | None = None) -> dict[str, float]:
        """Return the weights in force at a moment of training, by term name.

        `progress` is the finished share of training, in [0, 1]. `step` counts finished optimizer steps; it may be None
        if no schedule counts steps.

        Raises:
            ValueError: for a progress outside [0, 1], or a schedule without a weight at this moment; names the term.
        """
        if not 0.0 <= progress <= 1.0:
            raise ValueError(
                f"Progress is the share of training that is done, in [0, 1]; got {progress}."
            )
        weights = {}
        for term in self.terms:
            try:
                weights[term.name] = weight_at(term.weight, progress, step)
            except ValueError as error:
                raise ValueError(
                    f"The weight of the reward term {term.name!r}: {error}"
                ) from None
        return weights

    def score(
        self,
        samples: Sequence[Sample],
        progress: float = 0.0,
        *,
        step: int | None = None,
        mode: Mode = "train",
        alone: bool = True,
        gather: Gather = no_other_ranks,
        entering: Callable[[str], None] | None = None,
    ) -> Scorecard:
        """Judge a batch: each term gives each sample one verdict.

        Args:
            samples: n samples.
            progress: The finished share of training, in [0, 1].
            step: The number of finished optimizer steps, for schedules that count steps.
            mode: Whether the batch is for training or for evaluation. Terms with `only="eval"` skip training batches.
            alone: Whether this mix is the only source of reward. If it is not, a sample to which no term in force
                applies is not void, since another reward function may score it.
            gather: Collects the items of all ranks, since a group may be split between ranks.
            entering: Called with the name of each term before the term judges.

        Raises:
            ValueError: for a progress outside [0, 1], or a schedule without a weight at this moment.
            UnscoredError: for a sample that a term in force with `on_unscored="raise"` could not judge.
        """
        weights = self.weights_at(progress, step)
        columns: dict[str, TermColumn] = {}
        # Gates and combinations read columns of other terms, which are judged before.
        for term in self._order:
            if entering is not None:
                entering(term.name)
            columns[term.name] = judge_term(term, samples, columns, gather, mode)
        card = Scorecard(
            samples=tuple(samples),
            weights=weights,
            # In the order of the recipe, not of judging: tables and logs follow it.
            verdicts={name: columns[name].verdicts for name in weights},
            values={name: columns[name].values for name in weights},
            gated={name: columns[name].gated for name in weights},
            # Zeros, until the rewards of other functions are known.
            others=None if alone else (0.0,) * len(samples),
            mode=mode,
        )
        self._raise_if_asked(card)
        return card

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError that names the term if a term cannot judge a dataset with these columns."""
        # A Ray cluster without nodes would leave every row without a verdict.
        check_executor()
        for term in self.terms:
            try:
                if isinstance(term.when, When):
                    term.when.check_columns(columns)
                if term.verifier is not None:
                    term.verifier.check_columns(columns)
            except ValueError as error:
                raise ValueError(f"Reward term {term.name!r}: {error}") from None

    def reward_funcs(self) -> list[TermReward]:
        """Return one TRL reward function per term, in order, for trainers with `reward_weights`: pass `mix.weights`.

        AsyncGRPO has no `reward_weights` and adds all rewards up; give it a mix whose weights are all 1.

        The functions share one judgement: TRL may call all of them on a batch, and the mix judges the batch once.

        Raises:
            ValueError: for a mix that needs `VerifiedGRPOTrainer`: weights on a schedule, or terms that compare the
                completions of a group, judge outcomes of environments, or run in evaluations only.
        """
        # Raises for a weight on a schedule.
        _ = self.weights
        for term in self.terms:
            if term.only is not None:
                raise ValueError(
                    f"The reward term {term.name!r} is only for evaluations, and plain TRL does not tell a reward "
                    f"function whether it evaluates; train with VerifiedGRPOTrainer."
                )
        for term, verifier in self.verifiers:
            if isinstance(verifier, GroupVerifier):
                raise ValueError(
                    f"The reward term {term.name!r} compares the completions of a group, and plain TRL does not tell a "
                    f"reward function its groups; train with VerifiedGRPOTrainer."
                )
            if judges_outcomes(verifier):
                raise ValueError(
                    f"The reward term {term.name!r} judges outcomes of environments, which plain TRL does not collect; "
                    f"train with VerifiedGRPOTrainer."
                )
        scorer = BatchScorer(self)
        return [TermReward(scorer, term.name) for term in self.terms]

    def verifier_figures(self, card: Scorecard) -> dict[str, float]:
        """Return the batch metrics of all verifiers (`Verifier.metrics`), named `verified/<term>/<name>`."""
        figures: dict[str, float] = {}
        for term, verifier in self.verifiers:
            verdicts = [
                verdict for verdict in card.verdicts[term.name] if verdict is not None
            ]
            for name, number in verifier.metrics(verdicts).items():
                figures[f"verified/{term.name}/{name}"] = number
        return figures

    def close(self) -> None:
        for _, verifier in self.verifiers:
            verifier.close()

    def _raise_if_asked(self, card: Scorecard) -> None:
        for term in self.terms:
            # A term without weight is only watched, and must not end the run.
            if term.on_unscored != "raise" or card.weights[term.name] == 0:
                continue
            for row in card.unscored(term.name):
                verdict = card.verdicts[term.name][row]
                # `unscored` lists only rows to which the term applies.
                assert verdict is not None
                raise UnscoredError(
                    f"The reward term {term.name!r} could not judge a completion ({verdict.status}, "
                    f"{verdict.reason or 'no value'}, by the fault of the {verdict.blame}), and its on_unscored is "
                    f"'raise'. The row: {plain(card.samples[row].row)!r:.500}"
                )


def _in_order(terms: Sequence[RewardTerm]) -> tuple[RewardTerm, ...]:
    """Sort terms by dependency: gating and combined terms first.

    Raises:
        ValueError: for a needed term that is missing or runs in evaluations only, or for a circle.
    """
    named = {term.name: term for term in terms}
    for term in terms:
        for needed in term.needs:
            if needed not in named:
                raise ValueError(
                    f"The reward term {term.name!r} names the term {needed!r}, which this mix does not have. "
                    f"{did_you_mean(needed, named)}"
                )
            if named[needed].only not in (None, term.only):
                raise ValueError(
                    f"The reward term {term.name!r} needs the term {needed!r}, which is only for evaluations: there "
                    f"would be nothing to go by in training. Set `only: eval` in both, or in neither."
                )
    try:
        # graphlib goes by the order of insertion, so all ranks judge in the same order, as `gather` asks.
        needs = {term.name: term.needs for term in terms}
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise ValueError(
            f"Reward terms wait for each other in a circle: {circle}. Take out a gate."
        ) from None
    return tuple(named[name] for name in order)
