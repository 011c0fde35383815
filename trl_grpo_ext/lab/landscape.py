"""The ten actions, their verifier, and landscapes: each action's reward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import UNIT, Status, Verdict, as_verdict

ACTIONS = tuple(range(1, 11))
# Each action by its text in a completion.
NAMED = {str(action): action for action in ACTIONS}
TERM = "landscape"
# The standard deviation of a Gaussian peak, in actions: one action aside earns .61, two .14, three .01.
WIDTH = 1.0


def action_of(text: str) -> int | None:
    """Parse a completion's action; None for other text.

    Examples:
        >>> action_of("7"), action_of("eleven")
        (7, None)
    """
    return NAMED.get(text.strip())


class ActionVerifier(Verifier):
    """A verifier that looks up each action's verdict: a landscape of rewards, or a planted fault.

    `outcomes` maps an action to a `Verdict`, or to a value for `as_verdict`: a score, a bool, or None. Actions without
    an entry get `default`. Scores count as marks of correctness if all of them are in [0, 1].

    Raises:
        ValueError: if a key is no action from 1 to 10.

    Examples:
        >>> ActionVerifier({7: 1.0, 8: 0.5})(["7", "8", "2", "?"])
        [1.0, 0.5, 0.0, 0.0]
    """

    def __init__(self, outcomes: Mapping[int, object], *, default: object = 0.0) -> None:
        unknown = sorted(set(outcomes) - set(ACTIONS))
        if unknown:
            raise ValueError(
                f"The lab's actions are 1 to {len(ACTIONS)}, got {unknown[0]!r}."
            )
        self.outcomes = dict(outcomes)
        self.default = default
        scores = [
            one
            for one in (*self.outcomes.values(), default)
            if isinstance(one, int | float)
        ]
        are_marks = all(0 <= score <= 1 for score in scores)
        self.score_range = UNIT if are_marks else None

    def verify(self, sample: Sample) -> Verdict:
        action = action_of(sample.text)
        if action is None:
            return Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_action")
        outcome = self.outcomes.get(action, self.default)
        verdict = as_verdict(outcome, self.score_range)
        # A planted verdict keeps its own answer.
        if isinstance(outcome, Verdict):
            return verdict
        return replace(verdict, answer=str(action))


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """Rewards of the ten actions.

    `rewards` holds ten finite numbers, for actions 1 to 10.

    Examples:
        >>> landscape = double_peak()
        >>> landscape.rewards[3 - 1], landscape.rewards[8 - 1], landscape.best
        (0.7, 1.0, 8)
    """

    name: str
    rewards: tuple[float, ...]

    def __post_init__(self) -> None:
        are_finite = all(map(math.isfinite, self.rewards))
        if len(self.rewards) != len(ACTIONS) or not are_finite:
            raise ValueError(
                f"A landscape has {len(ACTIONS)} finite rewards, got {self.rewards!r}."
            )

    @property
    def best(self) -> int:
        """Return the action with the highest reward; the first in a tie."""
        highest = max(self.rewards)
        return ACTIONS[self.rewards.index(highest)]

    @property
    def mix(self) -> RewardMix:
        """Build a reward mix: this landscape as sole term, weight 1."""
        outcomes = dict(zip(ACTIONS, self.rewards, strict=True))
        term = RewardTerm(name=TERM, verifier=ActionVerifier(outcomes))
        return RewardMix([term])


def single_peak(at: int = 7) -> Landscape:
    """Make a landscape with a Gaussian peak of height 1.0 at one action.

    Raises:
        ValueError: if the peak is no action.
    """
    if at not in ACTIONS:
        raise ValueError(
            f"The peak is at one of the actions 1 to {len(ACTIONS)}, got {at!r}."
        )
    rewards = tuple(_bump(action, at) for action in ACTIONS)
    return Landscape(name=f"single peak at {at}", rewards=rewards)


def double_peak() -> Landscape:
    """Make a landscape with peaks 0.7 at action 3 and 1.0 at action 8; a policy may settle on the lower peak."""
    rewards = []
    for action in ACTIONS:
        lower = 0.7 * _bump(action, 3)
        higher = _bump(action, 8)
        rewards.append(max(lower, higher))
    return Landscape(name="double peak at 3 and 8", rewards=tuple(rewards))


def linear() -> Landscape:
    """Make a landscape where action i earns i / 10: 0.1 at action 1, 1.0 at action 10."""
    rewards = tuple(action / len(ACTIONS) for action in ACTIONS)
    return Landscape(name="linear", rewards=rewards)


def _bump(action: int, peak: int) -> float:
    distance = (action - peak) / WIDTH
    return math.exp(-0.5 * distance**2)
