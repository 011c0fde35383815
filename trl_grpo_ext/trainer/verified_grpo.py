"""TRL's `GRPOTrainer` with what a plain reward function cannot do.

It leaves rows out that a grader could not judge, tells verifiers the group, the step and whether a completion was
cut, and makes a scorecard of every generation batch. Generation, the loop, the loss, advantages and KL are TRL's.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np
import torch
import trl
from accelerate.utils import broadcast_object_list, gather, gather_object
from trl import GRPOTrainer

from trl_grpo_ext.figures.logged import logged_figures
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.group_outcome import BETWEEN, GroupOutcome, group_outcomes, outcome_shares
from trl_grpo_ext.mix.reward_mix import RewardMix, UnscoredError
from trl_grpo_ext.mix.reward_plan import check_weights, plan_rewards
from trl_grpo_ext.runs.settings import run_settings
from trl_grpo_ext.sample import Completion, Prompt, Sample
from trl_grpo_ext.scorecard import Mode, Scorecard, concatenate
from trl_grpo_ext.support.once import Once
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.expected_warnings import expect_unknown_figures_and_void_rows
from trl_grpo_ext.trainer.preflight import check_run
from trl_grpo_ext.trainer.run_callback import CardListener, RunCallback, ScorecardListener, add_listeners
from trl_grpo_ext.trainer.samples import Generation, end_token_ids, samples_of, template_prefill
from trl_grpo_ext.trainer.trl_contract import check_trl

check_trl(GRPOTrainer, trl.__version__)

logger = logging.getLogger(__name__)

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
        self._card: Scorecard | None = None
        self._outcomes: tuple[GroupOutcome, ...] = ()
        self._groups_seen = 0
        self._template_prefill: str | None = None
        self._once = Once()
        super().__init__(model, plan.functions, args, train_dataset, eval_dataset, **kwargs)
        # Only our own entries: TRL has appended the weights of environments that score themselves.
        self.reward_weights[: len(plan.weights)] = torch.tensor(plan.weights)
        check_weights(self.reward_weights.tolist())
        self._mix_is_alone = len(self.reward_funcs) == len(self._positions)
        self._template_prefill = template_prefill(self.processing_class, self.args.chat_template_kwargs)
        self._run_settings = run_settings(args, plan, self.accelerator.num_processes)
        expect_unknown_figures_and_void_rows()
        self.run_callback = RunCallback(is_main=self.accelerator.is_main_process, ask_main=self._ask_main)
        self.add_callback(self.run_callback)
        self._listen(args)

    def _listen(self, args: Any) -> None:
        """Have the run recorded, watched and reported, as far as it is asked for."""
        recorder = add_listeners(self.run_callback, args, self._run_settings, has_verdicts=self.mix is not None)
        if recorder is not None:
            self._groups_seen = self._ask_main(recorder.groups_recorded)

    def _ask_main(self, ask: Callable[[], int]) -> int:
        """What the main process answers, on every rank: ranks that number groups must agree on the first number."""
        answer = [ask() if self.accelerator.is_main_process else 0]
        if self.accelerator.num_processes > 1:
            broadcast_object_list(answer)
        return answer[0]

    def add_scorecard_listener(self, listener: ScorecardListener) -> None:
        """Call `listener` with the scorecard of every generation batch, of all ranks, on the main process."""
        self.run_callback.listeners.append(CardListener(listener))

    def scorecard_listener(self, listener: ScorecardListener) -> AbstractContextManager[None]:
        """As `add_scorecard_listener`, for as long as the `with` block lasts."""
        return self.run_callback.also_telling(CardListener(listener))

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Prompt],
        completions: list[Completion],
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor:
        card = None
        if self.mix is not None and self._scorer is not None:
            own = self._score(self.mix, self._samples(Generation(inputs, prompts, completions, completion_ids_list)))
            self._scorer.prime(completions, own)
            card = self._of_all_ranks(own)
        rewards: torch.Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        if card is None:
            void = rewards[:, self.reward_weights.to(rewards.device) != 0].isnan().all(dim=1)
        else:
            card = self._with_others(card, rewards)
            void = torch.tensor(card.void, device=rewards.device)
        # TRL would count what only rewards without weight have scored as a 0, and a None beside a number too.
        rewards[void] = torch.nan
        self._card, self._outcomes = card, self._plain_outcomes(rewards) if card is None else card.outcomes
        return rewards

    def _plain_outcomes(self, rewards: torch.Tensor) -> tuple[GroupOutcome, ...]:
        """What groups have to teach where no verifier says what is right."""
        groups = np.arange(len(rewards)).reshape(-1, self._group_size)
        weights = self.reward_weights.cpu().numpy()
        return group_outcomes(rewards.float().cpu().numpy(), weights, [BETWEEN] * len(rewards), list(groups))

    def _of_all_ranks(self, card: Scorecard) -> Scorecard:
        if self.accelerator.num_processes == 1:
            return card
        return concatenate(gather_object([card]))

    def _with_others(self, card: Scorecard, rewards: torch.Tensor) -> Scorecard:
        """The card with what functions beside the mix, and environments, have given."""
        beside = [index for index in range(rewards.shape[1]) if index not in self._positions.values()]
        if not beside:
            return card
        weights = self.reward_weights[beside].cpu().double()
        given = rewards[:, beside].cpu().double()
        scored = (~given.isnan() & (weights != 0)).any(dim=1)
        sums = (given * weights).nansum(dim=1)
        return card.with_others([one if known else None for one, known in zip(sums.tolist(), scored, strict=True)])

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
        if getattr(self.args, "drop_dead_groups", False) and self._mode == "train":
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
        """Log what the card comes to, on every rank alike, and tell whoever listens to the run."""
        figures = None
        try:
            figures = reduce_card(card, self._run_settings)
            own = {} if self.mix is None else self.mix.verifier_figures(card)
            self._log_figures(logged_figures(figures) | own)
        except Exception as error:  # a figure is not worth a run
            self._once.warn(logger, "figures", "The figures of a batch could not be computed.", error=error)
        self.run_callback.on_batch(card, figures)

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

    def _samples(self, generated: Generation) -> list[Sample]:
        size = len(generated.prompts)
        first_group = self._groups_seen
        self._groups_seen += size * int(self.accelerator.num_processes) // self._group_size
        model = self.accelerator.unwrap_model(self.model)
        return samples_of(
            generated,
            first_group=first_group,
            place=int(self.accelerator.process_index) * size,
            group_size=self._group_size,
            step=self.state.global_step,
            ends=end_token_ids(self.processing_class, model.generation_config),
            prefill=self._template_prefill,
        )


def _model_name(model: Any) -> str:
    name = model if isinstance(model, str) else getattr(model.config, "_name_or_path", "")
    return str(name).rstrip("/").split("/")[-1] or "model"
