"""Collect outcomes of rollouts in environments, watch tool calls, and end a run whose rollouts all fail.

This module uses TRL's private attributes for environments and tools; a contract test pins them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
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
from trl_grpo_ext.trainer.tools import PARALLEL, ToolWatch
from trl_grpo_ext.workers.pool import usable_cores

# Environments asked for their outcome at a time: more would wait for each other, and so seem to hang.
ASKED_AT_ONCE = 8
# The maximum length of a row in a message, in characters.
MOST_ROW = 500
OF_ROW = ". The row: "

NO_GET_REWARD = (
    "The mix has a term with EnvironmentReward, and no environment has a `get_reward`: give `environment_factory` a "
    "class that has one, or take the term out."
)
GET_REWARD_IS_TOOL = (
    f"TRL {trl.__version__} takes `get_reward` for one more tool of the model, so that no EnvironmentReward can judge "
    f"by it: install a newer TRL; 1.16 has it."
)


class EnvironmentsFailedError(RuntimeError):
    """Every rollout of several consecutive batches has failed in its environment."""


class Rollouts:
    """The rollouts of this rank's current batch, in environments and with tools.

    Attributes:
        failed: One flag per sample of the batch, on all ranks: True if the row is void since its rollout failed. Empty
            without environments.
    """

    def __init__(self, trainer: Any, plan: RewardPlan) -> None:
        self._trainer = trainer
        self._patience = getattr(
            trainer.args, "environment_patience", VerifiedGRPOConfig.environment_patience
        )
        self._tools = ToolWatch(call_seconds(trainer.args))
        self._tool_tokens: list[int] = []
        self._failed_batches = 0
        self._last_failure = ""
        self.failed: list[bool] = []
        mix = plan.mix
        self._has_term = mix is not None and any(
            judges_outcomes(verifier) for _, verifier in mix.verifiers
        )
        if self._has_term:
            self._leave_rewards_to_the_mix(len(plan.weights))
        # TRL has appended environments' rewards to the functions; the run's settings name them, for replays.
        plan.functions[len(plan.weights) :] = trainer.reward_funcs[len(plan.weights) :]

    def _leave_rewards_to_the_mix(self, functions: int) -> None:
        """Remove TRL's reward columns for `get_reward`, which follow the user's functions.

        Raises:
            ValueError: if no environment has a `get_reward` that TRL uses as a reward.
        """
        trainer = self._trainer
        if not trainer.reward_func_names[functions:]:
            raise ValueError(NO_GET_REWARD if TRL_ASKS_ENVIRONMENTS else GET_REWARD_IS_TOOL)
        for columns in (
            trainer.reward_funcs,
            trainer.reward_func_names,
            trainer.reward_processing_classes,
        ):
            del columns[functions:]
        trainer.reward_weights = trainer.reward_weights[:functions]

    def watch_tools(self) -> None:
        """Set a time limit on the tools of the batch that TRL generates next."""
        if self._trainer.tools:
            self._tools.watch(self._trainer)

    def calls_ahead(self, completions: Sequence[Any]) -> AbstractContextManager[None]:
        """Start tool calls of all rollouts ahead, turn by turn, while TRL's loop adds messages to `completions`."""
        return self._tools.ahead(completions)

    def note_tool_tokens(self, masks: Sequence[Sequence[int]] | None) -> None:
        """Count the tokens of tool results per sample, from TRL's tool masks, and log their mean.

        A mask has 1 for the model's own tokens and 0 for tool results.
        """
        self._tool_tokens = [len(mask) - sum(mask) for mask in masks or ()]
        if self._tool_tokens:
            mean = sum(self._tool_tokens) / len(self._tool_tokens)
            self._trainer._log_metric("completions/tool_tokens", mean)

    def seen(
        self, completions: Sequence[Completion]
    ) -> Iterator[tuple[Completion, dict[str, Any]]]:
        """Yield each completion, with the facts of its tool calls, and the fields `outcome` and `tool_tokens`."""
        size = len(completions)
        # Without environments, nobody is asked.
        asked = self.asked() or [None] * size
        tool_tokens = self._tool_tokens
        # Without tools there are no masks.
        if len(tool_tokens) != size:
            tool_tokens = [0] * size
        for place, (completion, one, tokens) in enumerate(
            zip(completions, asked, tool_tokens, strict=True)
        ):
            outcome = None if one is None else one.outcome
            yield (
                self._tools.with_facts(place, completion),
                {"outcome": outcome, "tool_tokens": tokens},
            )

    def asked(self) -> list[Asked | None]:
        """Ask each environment of this rank's batch for its outcome, once per rollout; empty without environments."""
        environments = self._trainer.environments or ()
        loop = getattr(self._trainer, "async_loop", None)
        # Such environments run programs: with more of them than cores, one would wait for the programs of others, and
        # its own time limit would end.
        needs_cores = any(
            getattr(environment, PARALLEL, False) for environment in environments
        )
        with ThreadPoolExecutor(
            usable_cores() if needs_cores else ASKED_AT_ONCE
        ) as threads:
            return list(
                threads.map(lambda environment: _asked(environment, loop), environments)
            )

    def note_failures(self, rows: Sequence[dict[str, Any]]) -> None:
        """Record the failed rollouts of the batch, on all ranks, and replace environments that hang."""
        if not self._trainer.environments:
            return
        failures: list[str] = []
        void: list[bool] = []
        for row, asked in zip(rows, self.asked(), strict=True):
            failure = "" if asked is None else asked.failure(has_term=self._has_term)
            if failure and asked is not None and not asked.waited:
                failure = f"{failure}{OF_ROW}{plain(dict(row))!r:.{MOST_ROW}}"
            failures.append(failure)
            void.append(asked is not None and asked.is_void(has_term=self._has_term))
        if self._trainer.accelerator.num_processes > 1:
            failures = gather_object(failures)
            void = gather_object(void)
        self.failed = void
        self._failed_batches = self._failed_batches + 1 if all(failures) else 0
        # A rollout that waited for another is not the cause.
        self._last_failure = next(
            (told for told in failures if OF_ROW in told), failures[0]
        )
        self._replace_hanging()

    def end_if_all_fail(self) -> None:
        """End the run on all ranks if every rollout of the last `environment_patience` batches has failed.

        Raises:
            EnvironmentsFailedError: with the first failure of the last batch.
        """
        if self._failed_batches >= self._patience:
            raise EnvironmentsFailedError(
                all_failed(self._failed_batches, self._last_failure, self._patience)
            )

    def _replace_hanging(self) -> None:
        """Remove hanging environments from TRL's pool, so that TRL makes new ones.

        TRL 1.6 has no pool: there the rows of hanging environments stay void.
        """
        for pool in getattr(self._trainer, "_environment_pool", {}).values():
            # In place, since TRL keeps the list.
            pool[:] = [environment for environment in pool if not _hangs(environment)]


def _hangs(environment: Any) -> bool:
    guard = guard_of(environment)
    return guard is not None and bool(guard.hangs_in)


def _asked(environment: Any, loop: Any) -> Asked | None:
    guard = guard_of(environment)
    if guard is None:
        return None
    return guard.asked(loop)


def all_failed(batches: int, failure: str, patience: int) -> str:
    """Format the message of `EnvironmentsFailedError`, quoting one failure."""
    return (
        f"Every rollout of the last {batches} batches has failed in its environment, so nothing is learned. {failure}. "
        f"Mend the environment, or what it needs; a run bears environment_patience={patience} such batches."
    )
