"""The plan for a trainer's `reward_funcs`: one mix of the verifiers, and TRL's list of reward functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.mix.reward_function import BatchScorer, TermReward
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier, is_number
from trl_grpo_ext.rewards.registry import exports, verifier_names


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPlan:
    """The reward functions of a run."""

    mix: RewardMix | None  # the verifiers' terms; None if there are only TRL's own kinds of reward function
    scorer: BatchScorer | None  # judges a batch once for all terms of the mix
    functions: list[Any]  # what TRL gets: a `TermReward` a term, and every other function as it was given, in order
    weights: list[float]  # A weight for each of `functions`, as it is when training starts

    @property
    def names(self) -> list[str]:
        """What `functions` are called; a reward model has its own name."""
        return [str(getattr(function, "__name__", function)) for function in self.functions]

    @property
    def positions(self) -> dict[str, int]:
        """Where each term of the mix stands among `functions`."""
        return {
            function.__name__: position
            for position, function in enumerate(self.functions)
            if isinstance(function, TermReward)
        }


def plan_rewards(
    reward_funcs: Any, reward_weights: Sequence[float] | None = None, *, others: bool = False, limit: int | None = None
) -> RewardPlan:
    """Sort out what the user passed as `reward_funcs`.

    Args:
        reward_funcs: A `RewardMix`, a verifier, whatever TRL takes (a callable, sync or async, a reward model or
            its name), or a list of these with at most one mix in it.
        others: Whether environments may add rewards of their own, so that none here needs a weight.
        limit: The tokens after which completions are cut, for verifiers that depend on it; None if it is unknown.
        reward_weights: TRL's weights by position, one for each entry of the list; not with a mix.

    Raises:
        ValueError: for two mixes, a mix beside `reward_weights`, a wrong number of weights, two rewards with one
            name, weights that are all 0, or no reward at all.
        TypeError: for something that is not a reward.
    """
    entries = _as_list(reward_funcs)
    mixes = [entry for entry in entries if isinstance(entry, RewardMix)]
    if len(mixes) > 1:
        raise ValueError("reward_funcs holds two RewardMixes; put their terms into one.")
    if mixes and reward_weights is not None:
        raise ValueError(
            "A RewardMix brings its own weights: remove reward_weights and set each term's weight. To weigh a function "
            "beside it, make it a term: RewardTerm(name=..., verifier=verifier(function), weight=...)."
        )
    weighted = list(zip(entries, _weights_of_entries(reward_weights, len(entries)), strict=True))
    terms = [term for entry, weight in weighted for term in _terms(entry, weight)]
    mix = RewardMix(terms).for_limit(limit) if terms else None
    scorer = BatchScorer(mix) if mix else None
    functions: list[Any] = []
    weights: list[float] = []
    at_start = mix.weights_at(0.0, step=0) if mix else {}
    for entry, weight in weighted:
        own = _terms(entry, weight)
        functions += [TermReward(scorer, term.name) for term in own] if scorer and own else [entry]
        weights += [at_start[term.name] for term in own] or [weight]
    _check_names(functions)
    if functions and not others:
        check_weights(weights)
    return RewardPlan(mix=mix, scorer=scorer, functions=functions, weights=weights)


def check_weights(weights: Sequence[float]) -> None:
    """Raise a ValueError if no reward has a weight when training starts."""
    if not any(weights):
        raise ValueError(
            "Every reward has weight 0 when training starts, so nothing would be learned; give one of them a weight."
        )


def _weights_of_entries(weights: Sequence[float] | None, size: int) -> list[float]:
    if weights is None:
        return [1.0] * size
    if len(weights) != size:
        raise ValueError(f"reward_weights has {len(weights)} weights for {size} reward functions.")
    for weight in weights:
        if not is_number(weight):
            raise ValueError(f"reward_weights must hold finite numbers, got {weight!r}.")
    return [float(weight) for weight in weights]


def _as_list(reward_funcs: Any) -> list[Any]:
    if reward_funcs is None:
        return []
    entries = list(reward_funcs) if isinstance(reward_funcs, list | tuple) else [reward_funcs]
    for entry in entries:
        if isinstance(entry, type):
            raise TypeError(
                f"reward_funcs holds the class {entry.__name__}, not an instance of it; write {entry.__name__}()."
            )
        if isinstance(entry, RewardTerm):
            raise TypeError(f"reward_funcs holds the RewardTerm {entry.name!r}; put it into a RewardMix([...]).")
        if isinstance(entry, str) and entry in {*exports(), *verifier_names()}:
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
    """The terms that an entry comes to; none for TRL's own kinds of reward function."""
    if isinstance(entry, RewardMix):
        return entry.terms
    return (RewardTerm(name=entry.__name__, verifier=entry, weight=weight),) if isinstance(entry, Verifier) else ()


def _check_names(functions: Sequence[Any]) -> None:
    """TRL averages the metrics of two rewards with one name, so names that are known here must differ."""
    names = [function.__name__ for function in functions if hasattr(function, "__name__")]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"Two rewards have the name {name!r}; TRL would mix up their metrics. Give one a name of its own: "
                f"a verifier takes name=..., a function has its __name__."
            )
