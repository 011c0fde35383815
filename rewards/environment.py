"""Did the rollout succeed by its environment's own account? The reward of `get_reward`, as a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.protocol import Verifier, is_number
from trl_grpo_ext.sample import Completion, Sample
from trl_grpo_ext.verdict import Verdict, as_verdict, grader_error

ADVICE = "where an episode without a submission is the model's doing, set unsubmitted: 0.0"


@dataclass(frozen=True, kw_only=True)
class EnvironmentReward(Verifier):
    """Takes the reward that an environment gives itself (`get_reward`) for a verdict.

    As a term of a `RewardMix` it takes the place of the column that TRL makes of `get_reward`, and has a weight, a gate
    and a schedule like any term. A rollout whose environment failed is void: it trains nothing.

    It needs `VerifiedGRPOTrainer`, which asks each environment once. `score` and `replay` judge by the outcome that a
    run has recorded.

    Args:
        unsubmitted: The score of an episode that ended well, and for which `get_reward` gave None, as where the model
            has submitted nothing. None makes it the grader's error: such an episode is void.
        name: The metric key.

    | `get_reward` | verdict | reason |
    |---|---|---|
    | True, False | CORRECT, 1; INCORRECT, 0 | |
    | a number | SCORED, as it is; by the term's `score_range` CORRECT, PARTIAL or INCORRECT | |
    | a `Verdict` | as it is | |
    | None | ERROR, none; or the score `unsubmitted` | `no_reward`; `unsubmitted` |
    | NaN, no number | ERROR, none | `score_not_finite`, `returned_str` |
    | raises, or takes too long | ERROR, none | `get_reward_ValueError`, `get_reward_hangs` |
    | not asked, since `reset` raised or took too long | ERROR, none | `reset_ConnectionError`, `reset_hangs` |
    | no environment | ERROR, none | `no_outcome` |

    Raises:
        ValueError: for an `unsubmitted` that is no finite number; as a plain TRL reward function, always.

    Examples:
        >>> from trl_grpo_ext.outcome import Outcome
        >>> won = Outcome(environment="Game", verdict=as_verdict(True))
        >>> EnvironmentReward().verify(Sample(text="I won.", outcome=won)).score
        1.0
        >>> EnvironmentReward().verify(Sample(text="I won.", outcome=Outcome(environment="Game"))).reason
        'no_reward'
    """

    unsubmitted: float | None = None
    name: str | None = "environment"

    def __post_init__(self) -> None:
        if not (self.unsubmitted is None or is_number(self.unsubmitted)):
            raise ValueError(f"unsubmitted is a finite number, or None for a void row; got {self.unsubmitted!r}.")

    def verify(self, sample: Sample) -> Verdict:
        if sample.outcome is None:
            return grader_error("no_outcome")
        if sample.outcome.verdict is not None:
            return sample.outcome.verdict
        if self.unsubmitted is None:
            return grader_error("no_reward", error=f"get_reward gave None; {ADVICE}")
        return replace(as_verdict(self.unsubmitted), reason="unsubmitted")

    def __call__(self, /, completions: Sequence[Completion], **columns: Any) -> list[float | None]:
        """Refuse: plain TRL counts the reward of its environments by itself.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            f"{self.__name__!r} judges outcomes of environments, which plain TRL does not collect. Train with "
            f"VerifiedGRPOTrainer."
        )


def judges_outcomes(verifier: object) -> bool:
    """Whether a verifier is an `EnvironmentReward`, or has one among its parts, as compositions do.

    Examples:
        >>> from trl_grpo_ext.rewards.compositions import AllOf
        >>> judges_outcomes(AllOf(verifiers=[EnvironmentReward()]))
        True
    """
    if isinstance(verifier, EnvironmentReward):
        return True
    if isinstance(verifier, list | tuple):
        return any(map(judges_outcomes, verifier))
    return isinstance(verifier, Verifier) and any(map(judges_outcomes, getattr(verifier, "__dict__", {}).values()))
