"""Reward a rollout by its environment: turn the result of the environment's `get_reward` into a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.sample import Completion, Sample
from trl_grpo_ext.support.setting_checks import is_number
from trl_grpo_ext.verdict import Verdict, as_verdict, grader_error

NO_REWARD = "no_reward"
ADVICE = "where an episode without a submission is the model's doing, set unsubmitted: 0.0"


@dataclass(frozen=True, kw_only=True)
class EnvironmentReward(Verifier):
    """Scores a rollout by the return value of its environment's `get_reward`.

    As a term of a `RewardMix`, it replaces TRL's reward column for `get_reward`, and accepts a weight, a gate and a
    schedule like any term. A rollout whose environment failed is void: it does not contribute to training.

    This verifier needs `VerifiedGRPOTrainer`, which calls `get_reward` of each environment once. The commands `score`
    and `replay` judge the recorded outcome of a run.

    Args:
        unsubmitted: The score of an episode that ended without an error, but for which `get_reward` returned None, for
            example because the model submitted nothing. None turns such an episode into a grader error, a void row.
        name: The metric key.

    | `get_reward` | verdict | reason |
    |---|---|---|
    | True, False | CORRECT, 1; INCORRECT, 0 | |
    | a number | SCORED, with this score; by the term's `score_range` CORRECT, PARTIAL or INCORRECT | |
    | a `Verdict` | this verdict | |
    | None | ERROR, none; or the score `unsubmitted` | `no_reward`; `unsubmitted` |
    | NaN, no number | ERROR, none | `score_not_finite`, `returned_str` |
    | raises, or takes too long | ERROR, none | `get_reward_ValueError`, `get_reward_hangs` |
    | not asked, since `reset` raised or took too long | ERROR, none | `reset_ConnectionError`, `reset_hangs` |
    | no environment | ERROR, none | `no_outcome` |

    Raises:
        ValueError: if `unsubmitted` is neither None nor a finite number; at every call as a plain TRL reward function.

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
        if self.unsubmitted is not None and not is_number(self.unsubmitted):
            raise ValueError(
                f"unsubmitted is a finite number, or None for a void row; got {self.unsubmitted!r}."
            )

    def verify(self, sample: Sample) -> Verdict:
        if sample.outcome is None:
            return grader_error("no_outcome")
        if sample.outcome.verdict is not None:
            return sample.outcome.verdict
        if self.unsubmitted is None:
            return grader_error(NO_REWARD, error=f"get_reward gave None; {ADVICE}")
        verdict = as_verdict(self.unsubmitted)
        return replace(verdict, reason="unsubmitted")

    def __call__(
        self, /, completions: Sequence[Completion], **columns: Any
    ) -> list[float | None]:
        """Refuse to be a plain TRL reward function: plain TRL adds environment rewards by itself.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            f"{self.__name__!r} judges outcomes of environments, which plain TRL does not collect. Train with "
            f"VerifiedGRPOTrainer."
        )


def judges_outcomes(verifier: object) -> bool:
    """Detect an `EnvironmentReward`: the verifier itself, or a part of it, found through its attributes.

    Examples:
        >>> from trl_grpo_ext.rewards.compositions import AllOf
        >>> judges_outcomes(AllOf(verifiers=[EnvironmentReward()]))
        True
    """
    if isinstance(verifier, EnvironmentReward):
        return True
    if isinstance(verifier, list | tuple):
        return any(map(judges_outcomes, verifier))
    if not isinstance(verifier, Verifier):
        return False
    # A verifier with slots has no __dict__.
    attributes = getattr(verifier, "__dict__", {})
    return any(map(judges_outcomes, attributes.values()))
