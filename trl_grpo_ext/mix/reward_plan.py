"""Plan a trainer's `reward_funcs`: one mix with all verifiers, and the list of reward functions for TRL."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from trl_grpo_ext.mix.reward_function import BatchScorer, TermReward
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.registry import exports, verifier_names
from trl_grpo_ext.support.setting_checks import is_number


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPlan:
    """The reward mix, TRL reward functions and start weights of one run."""

    # The terms of all verifiers; None if the user passed only functions and reward models.
    mix: RewardMix | None
    # Judges a batch once for all terms of the mix.
    scorer: BatchScorer | None
    # TRL's `reward_funcs`, in order: a `TermReward` per term, and every other function unchanged.
    functions: list[Any]
    # The weight of each of `functions` when training starts.
    weights: list[float]

    @property
    def names(self) -> list[str]:
        """The names of `functions`, as TRL names them."""
        return [_name_of(function) for function in self.functions]

    @property
    def positions(self) -> dict[str, int]:
        """Each term's index in `functions`, by term name."""
        positions = {}
        for position, function in enumerate(self.functions):
            if isinstance(function, TermReward):
                positions[function.__name__] = position
        return positions

    @property
    def functions_by_none(self) -> frozenset[str]:
        """Names of plain functions, in the mix and beside the mix; None of a function means "does not apply"."""
        beside = set(self.names) - set(self.positions)
        terms = self.mix.terms if self.mix is not None else []
        inside = {term.name for term in terms if term.is_function_of_all_rows}
        return frozenset(beside | inside)


def plan_rewards(
    reward_funcs: Any,
    reward_weights: Sequence[float] | None = None,
    *,
    others: bool = False,
    limit: int | None = None,
) -> RewardPlan:
    """Split the user's `reward_funcs` into one mix of verifiers and a list of functions for TRL.

    Args:
        reward_funcs: A `RewardMix`, a verifier, any reward of TRL (a sync or async callable, a reward model or the
            model's name), or a list of these with at most one mix.
        reward_weights: TRL's weights, one per entry of the list; not allowed with a mix.
        others: Whether environments may add rewards; then all weights may be 0.
        limit: The maximum completion length in tokens, for verifiers that depend on it; None if unknown.

    Raises:
        ValueError: for two mixes, a mix with `reward_weights`, a wrong number of weights, a repeated name, or weights
            that are all 0.
        TypeError: for an entry that is not a reward.
    """
    entries = _as_list(reward_funcs)
    mixes = [entry for entry in entries if isinstance(entry, RewardMix)]
    if len(mixes) > 1:
        raise ValueError("reward_funcs holds two RewardMixes; put their terms into one.")
    if mixes and reward_weights is not None:
        raise ValueError(
            "A RewardMix brings its own weights: remove reward_weights and set each term's weight. To weigh a function "
            "beside it, make it a term: RewardTerm(name=..., verifier=function, weight=...)."
        )
    plan = _planned(entries, _weights_of_entries(reward_weights, len(entries)), limit)
    _check_names(plan.functions)
    if plan.functions and not others:
        check_weights(plan.weights)
    return plan


def _planned(
    entries: Sequence[Any],
    entry_weights: Sequence[float],
    limit: int | None,
) -> RewardPlan:
    terms_of_entries = [
        _terms(entry, weight) for entry, weight in zip(entries, entry_weights, strict=True)
    ]
    terms = list(itertools.chain.from_iterable(terms_of_entries))
    if not terms:
        return RewardPlan(
            mix=None,
            scorer=None,
            functions=list(entries),
            weights=list(entry_weights),
        )
    # A single mix, so that a batch is judged once, and a gate may name a term of another entry.
    mix = RewardMix(terms).for_limit(limit)
    scorer = BatchScorer(mix)
    # TRL takes plain numbers; the trainer sets the weights of schedules as training goes on.
    at_start = mix.weights_at(0.0, step=0)
    functions: list[Any] = []
    weights: list[float] = []
    for entry, weight, own_terms in zip(
        entries, entry_weights, terms_of_entries, strict=True
    ):
        # A function of the user's keeps its place: TRL pairs functions and weights by their order.
        if not own_terms:
            functions.append(entry)
            weights.append(weight)
        for term in own_terms:
            functions.append(TermReward(scorer, term.name))
            weights.append(at_start[term.name])
    return RewardPlan(mix=mix, scorer=scorer, functions=functions, weights=weights)


def check_weights(weights: Sequence[float]) -> None:
    """Raise a ValueError if every reward has weight 0 when training starts."""
    if not any(weights):
        raise ValueError(
            "Every reward has weight 0 when training starts, so nothing would be learned; give one of them a weight."
        )


def _weights_of_entries(weights: Sequence[float] | None, size: int) -> list[float]:
    if weights is None:
        return [1.0] * size
    if len(weights) != size:
        raise ValueError(
            f"reward_weights has {len(weights)} weights for {size} reward functions."
        )
    for weight in weights:
        if not is_number(weight):
            raise ValueError(f"reward_weights must hold finite numbers, got {weight!r}.")
    return [float(weight) for weight in weights]


def _as_list(reward_funcs: Any) -> list[Any]:
    if reward_funcs is None:
        return []
    entries = (
        list(reward_funcs) if isinstance(reward_funcs, list | tuple) else [reward_funcs]
    )
    for entry in entries:
        if isinstance(entry, type):
            raise TypeError(
                f"reward_funcs holds the class {entry.__name__}, not an instance of it; write {entry.__name__}()."
            )
        if isinstance(entry, RewardTerm):
            raise TypeError(
                f"reward_funcs holds the RewardTerm {entry.name!r}; put it into a RewardMix([...])."
            )
        is_ours = isinstance(entry, str) and entry in {*exports(), *verifier_names()}
        if is_ours:
            raise TypeError(
                f"reward_funcs holds the name {entry!r}, which TRL would take for a reward model's; pass the verifier "
                f"itself: from trl_grpo_ext.rewards import ..."
            )
        if not (isinstance(entry, RewardMix | str) or callable(entry)):
            raise TypeError(
                f"reward_funcs holds {entry!r}; it takes verifiers, a RewardMix, functions, reward models or names."
            )
    return entries


def _terms(entry: Any, weight: float) -> tuple[RewardTerm, ...]:
    """Return the terms of an entry, a mix or a verifier; an empty tuple for other reward functions."""
    if isinstance(entry, RewardMix):
        return entry.terms
    if isinstance(entry, Verifier):
        return (RewardTerm(name=entry.__name__, verifier=entry, weight=weight),)
    return ()


def _name_of(function: Any) -> str:
    """Return a reward's name in TRL: the model's, the function's (also of a `partial`), or the class's."""
    if isinstance(function, str):
        return function.rpartition("/")[2]
    # transformers keeps a model's name there.
    config = getattr(function, "config", None)
    model_id = getattr(config, "_name_or_path", None)
    if model_id:
        return str(model_id).rpartition("/")[2]
    while isinstance(function, partial):
        function = function.func
    class_name = type(function).__name__
    return str(getattr(function, "__name__", class_name))


def _check_names(functions: Sequence[Any]) -> None:
    """Raise a ValueError for a repeated reward name, since TRL would average the two rewards' metrics."""
    names = [_name_of(function) for function in functions]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"Two rewards have the name {name!r}; TRL would mix up their metrics. Give one a name of its own: "
                f"a verifier takes name=..., a function has its __name__."
            )
