"""Score TRL's AsyncGRPO rollouts by a mix, in the process that AsyncGRPO spawns.

TRL lets a rollout loop provide its own reward (`_provides_rollout_reward`), as its OpenEnv worker does. Here this
reward is the mix's total, already weighted; None marks a void row.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trl.experimental.async_grpo.async_rollout_worker import (
    RolloutGroup,
    RolloutSample,
    _AsyncRolloutLoop,
)

from trl_grpo_ext.figures.logged import verdict_figures
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.rewards.environment import judges_outcomes
from trl_grpo_ext.sample import Sample, sample_of
from trl_grpo_ext.scorecard import Scorecard, concatenate
from trl_grpo_ext.support.files import plain
from trl_grpo_ext.support.text import Once
from trl_grpo_ext.trainer.environments import Asked, guard_of
from trl_grpo_ext.trainer.rollouts import MOST_ROW, EnvironmentsFailedError, all_failed
from trl_grpo_ext.trainer.run_callback import RunCallback, add_listeners
from trl_grpo_ext.trainer.tools import ToolWatch
from trl_grpo_ext.trainer.trl_contract import template_prefill

if not hasattr(_AsyncRolloutLoop, "_provides_rollout_reward"):
    raise ImportError("_provides_rollout_reward is missing")

logger = logging.getLogger(__name__)

# The metric that the loop logs, through TRL's queue of metrics, after a finding of `halt_on`.
HALTED = "verified/halted"


@dataclass(frozen=True, kw_only=True)
class AsyncJudging:
    """A rollout loop's settings for judging and recording, with field names from `VerifiedGRPOConfig`.

    Rollout processes read these copies, since they have no TRL config. `halt_on` ends the run; with `drop_dead_groups`
    the trainer takes the next group in place of a dead one.
    """

    output_dir: str
    record_scorecards: bool = True
    keep_scorecards_every: int = 1
    write_report: bool = True
    run_checks: bool = True
    halt_on: tuple[str, ...] = ()
    drop_dead_groups: bool = False
    environment_timeout: float | None = 30.0
    environment_patience: int = 3
    # Not a field: the noise meter needs a training rank.
    measure_noise = False

    def get_process_log_level(self) -> int:
        """Return the log level for findings on the console, as transformers' arguments do."""
        return logging.WARNING


@dataclass(frozen=True, kw_only=True)
class RunClock:
    """Facts about the run for its rollout loop."""

    # Optimizer steps between two versions of the model.
    steps_a_version: int
    # Optimizer steps of the run; 0 if unknown.
    max_steps: int
    # Groups per optimizer step, and per scorecard.
    groups_a_step: int
    # The result of `run_settings`.
    settings: dict[str, Any]


class MixLoop(_AsyncRolloutLoop):  # type: ignore[misc]  # TRL ships no types
    """TRL's rollout loop, with groups scored by a mix: void rows, environments' terms, scorecards and checks."""

    _provides_rollout_reward = True

    def __init__(
        self,
        *,
        mix: RewardMix,
        judging: AsyncJudging,
        clock: RunClock,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.reward_func_names.append("mix")
        self.mix = mix
        self._judging = judging
        self._clock = clock
        self._has_term = any(judges_outcomes(verifier) for _, verifier in mix.verifiers)
        self._cards: list[Scorecard] = []
        self._failures: list[str] = []
        self._failed_batches = 0
        self._once = Once()
        self._prefill = template_prefill(self.tokenizer, self.chat_template_kwargs)
        self._use_environments()
        self._listeners = RunCallback(is_main=True, ask_main=lambda ask: ask())
        recorder, _ = add_listeners(self._listeners, judging, clock.settings, mix)
        self._first_group = 0 if recorder is None else recorder.groups_recorded()

    def _use_environments(self) -> None:
        for name, factory in (self.environment_factories or {}).items():
            factory.loop = self._loop
            for environment in self._environment_pool[name]:
                guard = guard_of(environment)
                # `judge_by` has wrapped the factory.
                assert guard is not None
                guard.loop = self._loop
            self._environment_pool[name] = _Pool(self._environment_pool[name])

    def run(self) -> None:
        """Run TRL's loop; at the end, record the groups of an unfinished step, and write the report."""
        self._listeners.tell(lambda listener: listener.on_train_begin(quiet=True))
        try:
            super().run()
        finally:
            self._keep_batch()
            self._listeners.tell(lambda listener: listener.on_train_end())
            self.mix.close()

    async def _generate_one(
        self,
        prompt: Any,
        tool_dict: Any,
        tools: Any,
        group_id: int = 0,
    ) -> Any:
        watch = ToolWatch(self._judging.environment_timeout)
        completion, *rest = await super()._generate_one(
            prompt, watch.watched(tool_dict), tools, group_id
        )
        return (watch.with_facts(0, completion), *rest)

    async def _score_group(self, group: RolloutGroup) -> list[RolloutSample]:
        asked = _asked_of(group)
        # `Asked` is no number, which TRL could add up.
        group.env_rewards = [None] * len(group.completions)
        card = await asyncio.to_thread(self._scored, group, asked)
        group.rollout_rewards = list(card.totals)
        samples: list[RolloutSample] = await super()._score_group(group)
        advantages = [0.0] * len(card)
        figures = verdict_figures(card)
        for place, sample in zip(_places(group), samples, strict=True):
            advantages[place] = sample.advantage
            for name in self.reward_func_names:
                sample.metrics.pop(f"rewards/{name}")
            for term in card.terms:
                value = card.rewards(term)[place]
                sample.metrics[f"rewards/{term}"] = math.nan if value is None else value
            sample.metrics.update(figures)
        self._keep(card.with_advantages(advantages), asked)
        is_dead = not card.live.any()
        if self._judging.drop_dead_groups and is_dead:
            return []
        return samples

    def _scored(self, group: RolloutGroup, asked: Sequence[Asked | None]) -> Scorecard:
        """Score a group, with the weights in force at the model's version."""
        step = group.model_version * self._clock.steps_a_version
        progress = 0.0
        if self._clock.max_steps:
            progress = min(1.0, step / self._clock.max_steps)
        outcomes = [None if one is None else one.outcome for one in asked]
        has_rewards = any(one is not None and one.has_reward for one in asked)
        # A term for outcomes reads the environments' rewards itself.
        has_others = has_rewards and not self._has_term
        samples = self._samples(group, outcomes, step)
        card = self.mix.score(samples, progress, step=step, alone=not has_others)
        if has_others:
            # Weight 1, as in TRL.
            card = card.with_others(
                [None if outcome is None else outcome.reward for outcome in outcomes]
            )
        failed = [one is not None and one.is_void(has_term=self._has_term) for one in asked]
        return card.with_failed(failed)

    def _samples(
        self,
        group: RolloutGroup,
        outcomes: Sequence[Outcome | None],
        step: int,
    ) -> list[Sample]:
        ends = {*self.eos_token_ids, self.tokenizer.pad_token_id}
        samples = []
        for place, outcome in enumerate(outcomes):
            ids = group.completions_ids[place]
            sample = sample_of(
                group.completions[place],
                group.prompts[place],
                completion_ids=ids,
                truncated=bool(ids) and ids[-1] not in ends,
                row={name: values[place] for name, values in group.reward_kwargs.items()},
                group=self._first_group + group.group_id,
                step=step,
                template_prefill=self._prefill,
                outcome=outcome,
            )
            samples.append(sample)
        return samples

    def _keep(self, card: Scorecard, asked: Sequence[Asked | None]) -> None:
        """Keep a group's scorecard; record and check the groups of a step together.

        Raises:
            EnvironmentsFailedError: if every rollout of the last `environment_patience` steps has failed.
        """
        self._cards.append(card)
        for one in asked:
            failure = "" if one is None else one.failure(has_term=self._has_term)
            self._failures.append(failure)
        if len(self._cards) < self._clock.groups_a_step:
            return
        have_all_failed = all(self._failures)
        last_failure = self._failures[-1]
        self._failures = []
        self._failed_batches = self._failed_batches + 1 if have_all_failed else 0
        self._keep_batch()
        patience = self._judging.environment_patience
        if self._failed_batches >= patience:
            row = plain(dict(card.samples[-1].row))
            told = f"{last_failure}. The row: {row!r:.{MOST_ROW}}"
            raise EnvironmentsFailedError(all_failed(self._failed_batches, told, patience))

    def _keep_batch(self) -> None:
        if not self._cards:
            return
        batch = concatenate(self._cards)
        self._cards = []
        figures = None
        try:
            figures = reduce_card(batch, self._clock.settings)
        except Exception as error:
            # A failing figure must not end the run.
            self._once.warn(
                logger,
                "figures",
                "The figures of a batch could not be computed.",
                error=error,
            )
        self._listeners.tell(lambda listener: listener.on_batch(batch, figures))
        if self._listeners.found_to_halt is not None:
            self._push_metrics({HALTED: 1.0})


def _asked_of(group: RolloutGroup) -> list[Asked | None]:
    """Return the `Asked` of each rollout's environment, which the guarded factory gives TRL as its reward."""
    if not group.env_rewards:
        return [None] * len(group.completions)
    return [None if given is None else given[1] for given in group.env_rewards]


def _places(group: RolloutGroup) -> list[int]:
    """Return the rollout of each row that TRL makes of a group, since TRL may split a conversation into several."""
    places = []
    for place, rows in enumerate(group.completions_sequences):
        places += [place] * len(rows)
    return places


class _Pool(list[Any]):
    """TRL's pool of environments, without environments that hang."""

    def append(self, environment: Any) -> None:
        guard = guard_of(environment)
        if guard is None or not guard.hangs_in:
            super().append(environment)
