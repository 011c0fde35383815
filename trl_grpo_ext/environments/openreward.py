"""Adapt TRL's OpenReward environments, whose reward is the last reward given by a tool of the server."""

from __future__ import annotations

from typing import Any

from trl_grpo_ext.environments.adapted import Adapted
from trl_grpo_ext.verdict import Status, Verdict

UNSUBMITTED = Verdict(status=Status.INCORRECT, score=0.0, reason="unsubmitted")
# The prefix with which TRL's class reports an exception of a call to the model.
_FAILED = "Error: "


class _OpenRewards:
    reward: float | None
    rewards: list[float | None]
    metadata: list[Any]
    finished: bool
    last_output: str

    def get_reward(self) -> float | Verdict:
        if self.reward is not None:
            return self.reward
        if (
            self.rewards
            and self.metadata[-1] is None
            and self.last_output.startswith(_FAILED)
        ):
            raise ConnectionError(
                f"the last call failed: {self.last_output.removeprefix(_FAILED)}"
            )
        return UNSUBMITTED

    @property
    def state(self) -> dict[str, Any]:
        return {
            "rewards": self.rewards,
            "metadata": self.metadata,
            "finished": self.finished,
        }


class FromOpenReward(Adapted):
    """A factory of self-scoring OpenReward environments: `FromOpenReward(spec.environment_factory)`.

    | the episode | verdict |
    |---|---|
    | a tool gave a reward | the last reward |
    | no tool gave a reward, and the last call failed | none: the row is void |
    | no tool gave a reward: nothing was submitted | INCORRECT, 0, `unsubmitted` |

    If a session cannot be opened, the row is void.

    Examples:
        ```python
        spec = OpenRewardSpec("Eigent/SETA", num_tasks=64)
        trainer = VerifiedGRPOTrainer(
            model="Qwen/Qwen3-4B",
            reward_funcs=RewardMix([RewardTerm(name="solved", verifier=EnvironmentReward())]),
            args=VerifiedGRPOConfig(output_dir="run"),
            train_dataset=spec.train_dataset,
            environment_factory=FromOpenReward(spec.environment_factory),
        )
        ```
    """

    mixed_in = _OpenRewards
