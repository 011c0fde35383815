"""TRL's `GRPOTrainer` with what a plain reward function cannot do.

It leaves rows out that a grader could not judge, tells verifiers the group, the step and whether a completion was
cut, and makes a scorecard of every generation batch. Generation, the loop, the loss, advantages and KL are TRL's.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
import trl
from accelerate.utils import broadcast_object_list, gather, gather_object
from trl import GRPOTrainer

from trl_grpo_ext.diagnostics.watch import Watch, WatchCallback
from trl_grpo_ext.figures.batch_figures import means, verifier_figures
from trl_grpo_ext.figures.batch_statistics import batch_statistics
from trl_grpo_ext.group_outcome import BETWEEN, GroupOutcome, group_outcomes, judgements, outcome_shares
from trl_grpo_ext.mix.reward_mix import RewardMix, UnscoredError
from trl_grpo_ext.mix.reward_plan import check_weights, plan_rewards
from trl_grpo_ext.runs.recorder import LogRecorder, Recorder
from trl_grpo_ext.runs.settings import run_settings, write_settings
from trl_grpo_ext.sample import (
    Completion,
    Prompt,
    Sample,
    completion_text,
    holds_think_tag,
    prompt_prefill,
    think_prefill,
)
from trl_grpo_ext.scorecard import Mode, Scorecard, concatenate
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.expected_warnings import expect_unknown_figures_and_void_rows
from trl_grpo_ext.trainer.halt import HaltCallback
from trl_grpo_ext.trainer.log_callback import LogCallback
from trl_grpo_ext.trainer.preflight import check_run
from trl_grpo_ext.trainer.report_callback import ReportCallback
from trl_grpo_ext.trainer.trl_contract import check_trl

check_trl(GRPOTrainer, trl.__version__)

logger = logging.getLogger(__name__)

ScorecardListener = Callable[[Scorecard], None]

JUDGING_SECONDS = "verified/grader/judging_seconds"
SHARE_OF_STEP = "verified/grader/share_of_step"


class VerifiedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL ships no types
    """GRPO with verifier-backed rewards.

    Args:
        model: As TRL's.
        reward_funcs: A `RewardMix`, a verifier, whatever TRL takes, or a list of these. A verifier that cannot
            judge a completion, by its own or the data's fault, takes the row out of the group's baseline; a plain
            function's None keeps TRL's meaning, that it does not apply.
        args: A `VerifiedGRPOConfig`, or TRL's `GRPOConfig`.
        train_dataset: As TRL's.
        eval_dataset: As TRL's.
        **kwargs: Every other argument of TRL's trainer.

    Raises:
        ValueError: before the model is loaded, for rewards or data that cannot work.
        OSError: for an output folder that cannot be written to.

    Example:
        ```python
        trainer = VerifiedGRPOTrainer(
            model="Qwen/Qwen2.5-0.5B-Instruct",
            reward_funcs=RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())]),
            args=VerifiedGRPOConfig(output_dir="run"),
            train_dataset=dataset,  # columns: prompt, solution
        )
        trainer.train()
        ```
    """

    _tag_names: ClassVar = ["trl", "grpo", "trl_grpo_ext"]

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        **kwargs: Any,
    ) -> None:
        if args is None:
            args = VerifiedGRPOConfig(output_dir=f"{_model_name(model)}-GRPO")
        has_environments = kwargs.get("environment_factory") is not None
        plan = plan_rewards(reward_funcs, args.reward_weights, others=has_environments)
        check_run(plan, train_dataset, eval_dataset, args, needs_prompt=not has_environments)
        self.mix = plan.mix
        self._scorer = plan.scorer
        self._positions = plan.positions
        self._drop_dead_groups = bool(getattr(args, "drop_dead_groups", False))
        self._outcomes: list[GroupOutcome] = []
        self._card: Scorecard | None = None
        self._groups_seen = 0
        self._template_prefill: str | None = None
        self._listeners: list[ScorecardListener] = []
        self._failed_listeners: set[int] = set()
        self._figures_failed = False
        super().__init__(model, plan.functions, args, train_dataset, eval_dataset, **kwargs)
        # Only our own entries: TRL has appended the weights of environments that score themselves.
        self.reward_weights[: len(plan.weights)] = torch.tensor(plan.weights)
        check_weights(self.reward_weights.tolist())
        self._mix_is_alone = len(self.reward_funcs) == len(self._positions)
        self._template_prefill = self._find_template_prefill()
        self._run_settings = run_settings(args, plan, self.accelerator.num_processes)
        expect_unknown_figures_and_void_rows()
        recorder = self._record(args) if getattr(args, "record_scorecards", True) else None
        if getattr(args, "run_checks", True):
            self._watch(args, recorder)

    def _record(self, args: Any) -> Recorder:
        recorder = Recorder(args.output_dir, keep_every=getattr(args, "keep_scorecards_every", 1))
        self._groups_seen = self._from_main_process(recorder.groups_recorded)
        self.add_scorecard_listener(recorder)
        self.add_callback(LogCallback(LogRecorder(args.output_dir)))
        if self.accelerator.is_main_process:
            write_settings(args.output_dir, self._run_settings)
            if getattr(args, "write_report", True):
                self.add_callback(ReportCallback(args.output_dir))
        return recorder

    def _watch(self, args: Any, recorder: Recorder | None) -> None:
        halt_on = getattr(args, "halt_on", ())
        if halt_on and self.mix is None:
            logger.warning("halt_on needs verdicts, and plain reward functions have none: nothing will halt this run.")
        watch = Watch(
            args.output_dir,
            self._run_settings,
            cite=None if recorder is None else recorder.cite,
            halt_on=halt_on,
            log_level=args.get_process_log_level(),
        )
        self.add_scorecard_listener(watch)
        self.add_callback(WatchCallback(watch))
        if halt_on:
            self.add_callback(HaltCallback(watch, self._from_main_process))

    def _from_main_process(self, ask: Callable[[], int]) -> int:
        """What the main process answers, on every rank: ranks that number groups must agree on the first number."""
        answer = [ask() if self.accelerator.is_main_process else 0]
        if self.accelerator.num_processes > 1:
            broadcast_object_list(answer)
        return answer[0]

    def add_scorecard_listener(self, listener: ScorecardListener) -> None:
        """Call `listener` with the scorecard of every generation batch, of all ranks, on the main process."""
        self._listeners.append(listener)

    @contextmanager
    def scorecard_listener(self, listener: ScorecardListener) -> Iterator[None]:
        """As `add_scorecard_listener`, for as long as the `with` block lasts."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Prompt],
        completions: list[Completion],
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor:
        judged = [BETWEEN] * len(prompts) * int(self.accelerator.num_processes)
        if self.mix is not None and self._scorer is not None:
            own = self._score(self.mix, self._samples(inputs, prompts, completions, completion_ids_list))
            self._card = self._of_all_ranks(own)
            judged = judgements(self._card)
            self._scorer.prime(completions, own, means(verifier_figures(self.mix, self._card)))
        rewards: torch.Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        # What only rewards without weight have scored has nothing to teach; TRL would count it as a 0.
        in_force = self.reward_weights.to(rewards.device) != 0
        rewards[rewards[:, in_force].isnan().all(dim=1)] = torch.nan
        if self._card is not None:
            # The terms have returned None for these rows already; this takes the other reward functions out too,
            # since TRL counts a None beside a number as 0.
            rewards[torch.tensor(self._card.blamed, device=rewards.device)] = torch.nan
            self._card = self._with_other_rewards(self._card, rewards)
        groups = np.arange(len(rewards)).reshape(-1, self._group_size)
        weights = self.reward_weights.cpu().numpy()
        self._outcomes = group_outcomes(rewards.float().cpu().numpy(), weights, judged, list(groups))
        return rewards

    def _of_all_ranks(self, card: Scorecard) -> Scorecard:
        if self.accelerator.num_processes == 1:
            return card
        return concatenate(gather_object([card]))

    def _with_other_rewards(self, card: Scorecard, rewards: torch.Tensor) -> Scorecard:
        """The card with what functions beside the mix, and environments, have added to the totals."""
        beside = [index for index in range(rewards.shape[1]) if index not in self._positions.values()]
        if not beside:
            return card
        weighted = rewards[:, beside].cpu().double() * self.reward_weights[beside].cpu()
        return card.with_other_rewards(weighted.nansum(dim=1).tolist(), rewards.isnan().all(dim=1).tolist())

    def _score(self, mix: RewardMix, samples: Sequence[Sample]) -> Scorecard:
        """Judge this rank's completions with the weights now in force, which TRL gets too."""
        started = time.perf_counter()
        step, last = self.state.global_step, self.state.max_steps
        card, problem = None, ""
        try:
            card = mix.score(
                samples,
                min(1.0, step / last) if last > 0 else 0.0,
                step=step,
                mode=self._mode,
                alone=self._mix_is_alone,
                gather=self._gather_groups,
            )
        except UnscoredError as error:
            problem = str(error)
        if self.accelerator.num_processes > 1 and any(term.on_unscored == "raise" for term in mix.terms):
            # One rank that raises alone would leave the others waiting for it.
            problem = next(filter(None, gather_object([problem])), "")
        if card is None or problem:
            raise UnscoredError(problem)
        for name, weight in card.weights.items():
            self.reward_weights[self._positions[name]] = weight
        # The others wait for the slowest rank.
        seconds = gather(torch.tensor([time.perf_counter() - started], device=self.accelerator.device))
        self._log_metric(JUDGING_SECONDS, seconds.max().item())
        return card

    def _gather_groups(self, items: list[Any]) -> tuple[list[Any], int]:
        """Every rank's items where a group may be split between ranks; every rank has as many."""
        if self.accelerator.num_processes == 1 or len(items) % self._group_size == 0:
            return items, 0
        return gather_object(items), int(self.accelerator.process_index) * len(items)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        card, self._card = self._card, None
        if card is None:
            self._log_figures(outcome_shares(self._outcomes))
        else:
            self._publish(card.with_advantages(gather(output["advantages"]).tolist()))
        if self._drop_dead_groups and self._mode == "train":
            self._leave_dead_groups_out(output)
        return output

    def _leave_dead_groups_out(self, output: dict[str, Any]) -> None:
        """Take the completions of groups that have nothing to teach out of the loss, KL included.

        TRL masks truncated completions the same way.
        """
        mask = output["completion_mask"]
        size, first = len(mask), int(self.accelerator.process_index) * len(mask)
        kept = torch.tensor(
            [self._outcomes[row // self.num_generations] is GroupOutcome.LIVE for row in range(first, first + size)],
            device=mask.device,
        ).unsqueeze(1)
        for name in ("completion_mask", "tool_mask"):
            if name in output:
                output[name] = output[name] * kept.to(output[name].dtype)
        counted = output["completion_mask"] * output.get("tool_mask", 1)
        # Where nothing is left, some TRL would divide 0 by it.
        output["num_items_in_batch"] = gather(counted.sum()).sum().clamp(min=1)

    def _publish(self, card: Scorecard) -> None:
        """Log what the card comes to, on every rank alike, and hand it to the listeners on the main process."""
        try:
            self._log_figures(batch_statistics(card, self._run_settings))
        except Exception:  # a figure is not worth a run
            if not self._figures_failed:
                logger.warning("The figures of a batch could not be computed. This is shown once.", exc_info=True)
            self._figures_failed = True
        if self.accelerator.is_main_process:
            for listener in self._listeners:
                self._tell(listener, card)

    def _tell(self, listener: ScorecardListener, card: Scorecard) -> None:
        """Hand a card to a listener; one that fails, on a full disk perhaps, is no reason to end the run."""
        try:
            listener(card)
        except Exception:
            if id(listener) not in self._failed_listeners:
                logger.exception("%r failed on the scorecard of step %s; the run goes on.", listener, card.step)
            self._failed_listeners.add(id(listener))

    def _log_figures(self, figures: Mapping[str, float]) -> None:
        """Into the step that TRL is about to log; `log_metric` would keep them for the next, scoring being over."""
        for name, value in figures.items():
            self._metrics[self._mode][name].append(value)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As TRL's, with the share of judging in the time of the steps, or of the evaluation, that are logged."""
        metrics = self._metrics[self._mode]
        if JUDGING_SECONDS in metrics:
            runtimes = [value for key, value in logs.items() if key.endswith("_runtime")]
            seconds = sum(metrics.get("step_time", ()) if self._mode == "train" else runtimes)
            metrics[SHARE_OF_STEP] = [sum(metrics[JUDGING_SECONDS]) / seconds if seconds else math.nan]
        super().log(logs, start_time)

    @property
    def _group_size(self) -> int:
        return int(self.num_generations if self._mode == "train" else self.num_generations_eval)

    @property
    def _mode(self) -> Mode:
        return "train" if self.model.training else "eval"

    def _samples(
        self,
        inputs: Sequence[dict[str, Any]],
        prompts: Sequence[Prompt],
        completions: Sequence[Completion],
        completion_ids: Sequence[Sequence[int]],
    ) -> list[Sample]:
        """This rank's completions; groups are numbered over all ranks, since TRL may split one between two."""
        group_size = self._group_size
        first = self.accelerator.process_index * len(prompts)
        first_group = self._groups_seen
        self._groups_seen += len(prompts) * int(self.accelerator.num_processes) // group_size
        ends = self._end_token_ids()
        return [
            Sample(
                text=completion_text(completion),
                prompt=prompt,
                completion_ids=ids,
                truncated=len(ids) > 0 and ids[-1] not in ends,
                row={key: value for key, value in row.items() if key != "prompt"},
                group=first_group + (first + index) // group_size,
                step=self.state.global_step,
                prefill="" if holds_think_tag(completion) else self._prefill(prompt),
            )
            for index, (row, prompt, completion, ids) in enumerate(
                zip(inputs, prompts, completions, completion_ids, strict=True)
            )
        ]

    def _end_token_ids(self) -> set[int]:
        """The tokens that a completion which was not cut ends with, as TRL tells it."""
        tokenizer: Any = getattr(self.processing_class, "tokenizer", self.processing_class)
        configured = self.accelerator.unwrap_model(self.model).generation_config.eos_token_id
        ends = configured if isinstance(configured, list) else [configured]
        return {token for token in (*ends, tokenizer.eos_token_id, tokenizer.pad_token_id) if token is not None}

    def _prefill(self, prompt: Prompt) -> str | None:
        known = prompt_prefill(prompt)
        return self._template_prefill if known is None else known

    def _find_template_prefill(self) -> str | None:
        """What the chat template puts at the start of the assistant's turn, seen by rendering an empty exchange."""
        try:
            rendered = self.processing_class.apply_chat_template(
                [{"role": "user", "content": "?"}],
                tokenize=False,
                add_generation_prompt=True,
                **(self.args.chat_template_kwargs or {}),
            )
        except Exception as error:  # no template, or one with demands of its own
            logger.debug("The chat template's prefill is not known: %s", error)
            return None
        return think_prefill(rendered)


def _model_name(model: Any) -> str:
    name = model if isinstance(model, str) else getattr(model.config, "_name_or_path", "")
    return str(name).rstrip("/").split("/")[-1] or "model"
