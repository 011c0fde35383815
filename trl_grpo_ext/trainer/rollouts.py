"""The rollouts of a run in environments and with tools: what each came to, and the end of a run whose every one fails.

This is all that touches what TRL keeps of environments and tools; a contract test pins it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import trl
from accelerate.utils import gather_object

from trl_grpo_ext.mix.reward_plan import RewardPlan
from trl_grpo_ext.rewards.environment import judges_outcomes
from trl_grpo_ext.sample import Completion
from trl_grpo_ext.support.files import plain
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.environments import TRL_ASKS_ENVIRONMENTS, Asked, guard_of
from trl_grpo_ext.trainer.guarded import call_seconds
from trl_grpo_ext.trainer.tools import ToolWatch

# Environments that are asked for their outcome at a time: more would only wait for each other, and so seem to hang.
ASKED_AT_ONCE = 8
MOST_ROW = 500  # characters of a row in a message


class EnvironmentsFailedError(RuntimeError):
    """Every rollout of several batches running has failed in its environment."""


class Rollouts:
    """The rollouts of this rank, batch by batch.

    Attributes:
        failed: A flag a sample of the batch, on all ranks, True if its row is void since the rollout failed; none
            without environments.
    """

    def __init__(self, trainer: Any, plan: RewardPlan) -> None:
        self._trainer = trainer
        self._patience = getattr(trainer.args, "environment_patience", VerifiedGRPOConfig.environment_patience)
        self._tools = ToolWatch(call_seconds(trainer.args))
        self._tool_tokens: list[int] = []
        self._failed_batches = 0
        self._last_failure = ""
        self.failed: list[bool] = []
        mix = plan.mix
        self._has_term = mix is not None and any(judges_outcomes(verifier) for _, verifier in mix.verifiers)
        if self._has_term:
            self._leave_rewards_to_the_mix(len(plan.weights))  # to the functions, TRL has appended
        # The run's settings name environments' rewards too, by which a replay knows that there were some.
        plan.functions[len(plan.weights) :] = trainer.reward_funcs[len(plan.weights) :]

    def _leave_rewards_to_the_mix(self, functions: int) -> None:
        """Take out the columns that TRL has made of `get_reward`, which stand after the user's functions."""
        trainer = self._trainer
        own = [*trainer.reward_func_names[functions:]]
        if not own:
            raise ValueError(
                "The mix has a term with EnvironmentReward, and no environment has a `get_reward`: give "
                "`environment_factory` a class that has one, or take the term out."
                if TRL_ASKS_ENVIRONMENTS
                else f"TRL {trl.__version__} takes `get_reward` for one more tool of the model, so that no "
                f"EnvironmentReward can judge by it: install a newer TRL; 1.16 has it."
            )
        for columns in (trainer.reward_funcs, trainer.reward_func_names, trainer.reward_processing_classes):
            del columns[functions:]
        trainer.reward_weights = trainer.reward_weights[:functions]

    def watch_tools(self) -> None:
        """Give the tools of the batch that TRL is about to generate a time limit."""
        if self._trainer.tools:
            self._tools.watch(self._trainer)

    def note_tool_tokens(self, masks: Sequence[Sequence[int]] | None) -> None:
        """Note how many tokens tools have returned, of TRL's masks of the model's own tokens, and log their mean."""
        self._tool_tokens = [len(mask) - sum(mask) for mask in masks or ()]
        if self._tool_tokens:
            self._trainer._log_metric("completions/tool_tokens", sum(self._tool_tokens) / len(self._tool_tokens))

    def seen(self, completions: Sequence[Completion]) -> Iterator[tuple[Completion, dict[str, Any]]]:
        """Each completion of the batch, its calls with their seconds, and what else a sample has of its rollout."""
        outcomes = [None if asked is None else asked.outcome for asked in self.asked()] or [None] * len(completions)
        has_tokens = len(self._tool_tokens) == len(completions)
        tool_tokens = self._tool_tokens if has_tokens else [0] * len(completions)
        for place, (completion, outcome, tokens) in enumerate(zip(completions, outcomes, tool_tokens, strict=True)):
            yield self._tools.with_seconds(place, completion), {"outcome": outcome, "tool_tokens": tokens}

    def asked(self) -> list[Asked | None]:
        """What each environment of this rank's batch says of its rollout, asked once; none without environments."""
        environments = self._trainer.environments or ()
        loop = getattr(self._trainer, "async_loop", None)
        with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
            return list(threads.map(lambda environment: _asked(environment, loop), environments))

    def note_failures(self, rows: Sequence[dict[str, Any]]) -> None:
        """Note which rollouts of the batch have failed, on all ranks, and put environments that hang out of use."""
        if not self._trainer.environments:
            return
        told: list[str | None] = []
        void: list[bool] = []
        for row, asked in zip(rows, self.asked(), strict=True):
            error = "" if asked is None else asked.failure(has_term=self._has_term)
            told.append(f"{error}. The row: {plain(dict(row))!r:.{MOST_ROW}}" if error else None)
            void.append(asked is not None and asked.is_void(has_term=self._has_term))
        if self._trainer.accelerator.num_processes > 1:
            told, void = gather_object(told), gather_object(void)
        self.failed = void
        self._failed_batches = self._failed_batches + 1 if None not in told else 0
        self._last_failure = told[0] or ""
        self._replace_hanging()

    def figures(self) -> dict[str, float]:
        """The share of rows that are void for their environments, where no scorecard tells it."""
        return {"verified/void": sum(self.failed) / len(self.failed)} if self.failed else {}

    def end_if_all_fail(self) -> None:
        """End the run, on all ranks, if no rollout has come to an outcome for as many batches as it is to bear.

        Raises:
            EnvironmentsFailedError: with the first failure of the last batch.
        """
        if self._failed_batches >= self._patience:
            raise EnvironmentsFailedError(all_failed(self._failed_batches, self._last_failure, self._patience))

    def _replace_hanging(self) -> None:
        """Have TRL make new environments in the place of those that hang. TRL 1.6 has no pool: their rows stay void."""
        for pool in getattr(self._trainer, "_environment_pool", {}).values():
            pool[:] = [each for each in pool if (guard := guard_of(each)) is None or not guard.hangs_in]


def _asked(environment: Any, loop: Any) -> Asked | None:
    guard = guard_of(environment)
    return None if guard is None else guard.asked(loop)


def all_failed(batches: int, failure: str, patience: int) -> str:
    """The message that ends a run in which every rollout of some batches running has failed, with one failure."""
    return (
        f"Every rollout of the last {batches} batches has failed in its environment, so nothing is learned. {failure}. "
        f"Mend the environment, or what it needs; a run bears environment_patience={patience} such batches."
    )
