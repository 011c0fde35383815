"""Adapt TRL's Harbor environments, whose `reward` property runs the task's verifier in its sandbox."""

from __future__ import annotations

from typing import Any

from trl_grpo_ext.environments.adapted import Adapted


class _HarborRewards:
    reward: float
    _task: Any

    def get_reward(self) -> float:
        return self.reward

    @property
    def state(self) -> dict[str, Any]:
        return {"task": getattr(self._task, "short_name", None)}


class FromHarbor(Adapted):
    """A factory of self-scoring Harbor environments: `FromHarbor(spec.environment_factory)`.

    A failing verifier or sandbox makes the row void; in plain TRL it ends the run. The task's verifier also scores
    rollouts without a submission. Starting a sandbox and verifying are slow: set `environment_timeout` well above them.

    Examples:
        ```python
        spec = HarborSpec("AdithyaSK/data_agent_rl_environment_train", num_tasks=64)
        trainer = VerifiedGRPOTrainer(
            model="Qwen/Qwen3-4B",
            reward_funcs=RewardMix([RewardTerm(name="solved", verifier=EnvironmentReward())]),
            args=VerifiedGRPOConfig(output_dir="run", environment_timeout=600.0),
            train_dataset=spec.train_dataset,
            environment_factory=FromHarbor(spec.environment_factory),
        )
        ```
    """

    mixed_in = _HarborRewards
