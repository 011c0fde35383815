"""TRL's `GRPOTrainer` with verdicts: void rows, group-aware verifiers and scorecards.

Rows that a grader could not judge are left out of training. Verifiers know the group, the step and the truncation of a
completion. Every generation batch has a scorecard. Generation, training loop, loss, advantages and KL are TRL's.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import trl
from accelerate.utils import gather, gather_object
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer

from trl_grpo_ext.figures.logged import logged_figures
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.mix.reward_plan import RewardPlan, check_weights, plan_rewards
from trl_grpo_ext.runs.run_settings import run_settings
from trl_grpo_ext.sample import Completion, Prompt, Sample, sample_of
from trl_grpo_ext.scorecard import Scorecard, concatenate
from trl_grpo_ext.support.text import Once
from trl_grpo_ext.trainer.config import default_config
from trl_grpo_ext.trainer.console import show_run
from trl_grpo_ext.trainer.guarded import guarded
from trl_grpo_ext.trainer.judge import (
    JUDGING_SECONDS,
    OF_TOKENS,
    EarlyJudging,
    Judge,
    Moment,
    add_share_of_judging,
    leave_dead_groups_out,
    without_dead_rows,
)
from trl_grpo_ext.trainer.meters.weight_meter import WeightMeter
from trl_grpo_ext.trainer.plain_functions import wrapped_functions
from trl_grpo_ext.trainer.preflight import (
    check_chat_template,
    check_no_prompt_is_missing,
    check_run,
)
from trl_grpo_ext.trainer.ranks import ask_main
from trl_grpo_ext.trainer.rollouts import Rollouts
from trl_grpo_ext.trainer.rows.learnable_rows import LearnableRows
from trl_grpo_ext.trainer.rows.start import first_posteriors
from trl_grpo_ext.trainer.run_callback import (
    CardListener,
    RunCallback,
    ScorecardListener,
    add_listeners,
)
from trl_grpo_ext.trainer.trl_contract import (
    check_trl,
    end_token_ids,
    read_generated,
    template_prefill,
    void_rows_expected,
)

check_trl(GRPOTrainer, trl.__version__)

logger = logging.getLogger(__name__)


class VerifiedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL ships no types
    """A GRPO trainer with verifier-backed rewards.

    Args:
        model: As in TRL's `GRPOTrainer`.
        reward_funcs: A `RewardMix`, a verifier, any reward of TRL, or a list of these. If a verifier cannot judge a
            completion, by its own or the data's fault, the row is left out of the group's baseline. NaN of a plain
            function does the same; its None keeps TRL's meaning, "does not apply".
        args: A `VerifiedGRPOConfig`, or TRL's `GRPOConfig`.
        train_dataset: As in TRL's `GRPOTrainer`.
        eval_dataset: As in TRL's `GRPOTrainer`.
        **kwargs: As in TRL's `GRPOTrainer`.

    Raises:
        ValueError: before the model is loaded, for rewards or data that cannot work.
        OSError: for an output folder without write access, or a reward model that cannot be loaded.

    Examples:
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
            args = default_config(model)
        factory = kwargs.get("environment_factory")
        has_environments = factory is not None
        limit = args.max_completion_length
        plan = plan_rewards(
            reward_funcs, args.reward_weights, others=has_environments, limit=limit
        )
        check_run(
            plan, train_dataset, eval_dataset, args, needs_prompt=not has_environments
        )
        posteriors = first_posteriors(args, plan.mix, train_dataset)
        self.mix = plan.mix
        self._scorer = plan.scorer
        self._begin()
        if has_environments:
            kwargs["environment_factory"] = guarded(factory, args, train_dataset)
        # By keywords, which trainers of TRL between this class and GRPOTrainer need, such as GMPOTrainer.
        kwargs.update(args=args, train_dataset=train_dataset, eval_dataset=eval_dataset)
        super().__init__(
            model, wrapped_functions(plan.functions, self._function_seconds), **kwargs
        )
        self._rollouts = Rollouts(self, plan)
        check_chat_template(self.processing_class, train_dataset)
        check_no_prompt_is_missing("train_dataset", train_dataset, self.processing_class)
        self._prepare_judging(plan)
        self._run_settings = self._collect_settings(plan, args, train_dataset, eval_dataset)
        self.learnable_rows = LearnableRows.of(
            posteriors, self.train_dataset, self.accelerator
        )
        self._listen(args)

    def _begin(self) -> None:
        """Set what changes from batch to batch to its first value."""
        self._rows: list[dict[str, Any]] = []
        # The seconds of the batch's plain functions, by name.
        self._function_seconds: dict[str, float] = {}
        self._early: EarlyJudging | None = None
        self._card: Scorecard | None = None
        self._outcomes: tuple[GroupOutcome, ...] = ()
        self._groups_seen = 0
        # The number of completions; None for a stream.
        self._left_to_evaluate: int | None = None
        self._once = Once()

    def _prepare_judging(self, plan: RewardPlan) -> None:
        """Set the start weights, and make the judge, once TRL has loaded the rewards and the tokenizer."""
        # Only our own entries, since TRL has appended the weights of self-scoring environments.
        self.reward_weights[: len(plan.weights)] = torch.tensor(plan.weights)
        check_weights(self.reward_weights.tolist())
        budget = getattr(self.args, "judging_budget", None)
        self._judge = Judge(plan, self.accelerator, self.reward_weights, budget=budget)
        self._template_prefill = template_prefill(
            self.processing_class, self.args.chat_template_kwargs
        )

    def _collect_settings(
        self, plan: RewardPlan, args: Any, train_dataset: Any, eval_dataset: Any
    ) -> dict[str, Any]:
        """Collect the run's settings, once TRL has loaded the model, the tokenizer and the tools."""
        settings = run_settings(
            args,
            plan,
            self.accelerator.num_processes,
            self.model,
            train_dataset,
            self.processing_class,
            eval_dataset,
        )
        return settings | {"tools": [tool.__name__ for tool in self.tools or ()]}

    def _listen(self, args: Any) -> None:
        """Set up console, recorder, checks and report, as the configuration asks."""
        metrics = getattr(args, "metrics", "compact")
        show_run(self, full=metrics == "full")
        self.run_callback = RunCallback(
            is_main=self.accelerator.is_main_process,
            ask_main=partial(ask_main, self.accelerator),
            splits_weights=self.is_fsdp_enabled or self.is_deepspeed_enabled,
        )
        self.add_callback(self.run_callback)
        self._meter = WeightMeter()
        self.add_callback(self._meter)
        recorder, self._noise = add_listeners(
            self.run_callback,
            args,
            self._run_settings,
            self.mix,
        )
        if recorder is not None:
            self._groups_seen = ask_main(self.accelerator, recorder.groups_recorded)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write TRL's model card, with a section on how the model was rewarded."""
        super().create_model_card(*args, **kwargs)
        self.run_callback.tell(lambda listener: listener.on_model_card())

    def add_scorecard_listener(self, listener: ScorecardListener) -> None:
        """Call `listener` with the scorecard of every generation batch, over all ranks, on the main process."""
        self.run_callback.listeners.append(CardListener(listener))

    def scorecard_listener(
        self, listener: ScorecardListener
    ) -> AbstractContextManager[None]:
        """Call `listener` as `add_scorecard_listener` does, but only during the `with` block."""
        return self.run_callback.also_telling(CardListener(listener))

    def _generate(self, prompts: list[Prompt]) -> Any:
        self._rollouts.watch_tools()
        generated = super()._generate(prompts)
        ids, tool_masks, completions = read_generated(generated, len(prompts))
        self._rollouts.note_tool_tokens(tool_masks)
        if self.mix is not None and self._judges_early(len(prompts)):
            samples = self._samples(self._rows, prompts, completions, ids)
            score = partial(self._judge.score, self.mix, samples, self._moment)
            self._early = EarlyJudging(score, completions)
        return generated

    def _tool_call_loop(
        self,
        prompts: Any,
        prompt_ids: Any,
        completion_ids: Any,
        completions: Any,
        *rest: Any,
        **kwargs: Any,
    ) -> Any:
        with self._rollouts.calls_ahead(completions):
            return super()._tool_call_loop(
                prompts,
                prompt_ids,
                completion_ids,
                completions,
                *rest,
                **kwargs,
            )

    def _judges_early(self, samples: int) -> bool:
        """Return whether to judge during log-probabilities; not with a `rollout_func`, which adds to the rows later."""
        wanted = getattr(self.args, "judge_early", None)
        # On a CPU, judging would compete with the model.
        if wanted is None:
            wanted = self.accelerator.device.type != "cpu"
        if not wanted or self.rollout_func is not None:
            return False
        return self._judge.shares_no_group(samples, self._moment.group_size)

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Prompt],
        completions: list[Completion],
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor:
        may_void = self.mix is not None or bool(self.environments)
        started = time.perf_counter()
        with self._judge.whereabouts.told_on_failure():
            card = self._judged(inputs, prompts, completions, completion_ids_list)
            self._judge.whereabouts.enter(self._judge.others)
            with void_rows_expected() if may_void else nullcontext():
                rewards: torch.Tensor = super()._calculate_rewards(
                    inputs,
                    prompts,
                    completions,
                    completion_ids_list,
                )
            self._judge.whereabouts.enter("")
        self._log_judging(time.perf_counter() - started)
        self._rollouts.note_failures(inputs)
        self._card = self._judge.settle(
            card,
            rewards,
            self._rollouts.failed,
            self._function_seconds,
        )
        self._outcomes = self._card.outcomes
        return rewards

    def _judged(
        self,
        inputs: Any,
        prompts: Any,
        completions: Any,
        completion_ids: Any,
    ) -> Scorecard:
        """Return the batch's scorecard of all ranks; TRL's reward functions then read this rank's part.

        Without a mix the scorecard has no terms yet: plain functions judge when TRL calls them (see `Judge.settle`).
        """
        if self.mix is None or self._scorer is None:
            samples = self._samples(inputs, prompts, completions, completion_ids)
            return self._of_all_ranks(
                Scorecard.without_terms(samples, self._moment.mode).without_pictures()
            )
        early = self._early
        self._early = None
        if early is not None and early.completions is completions:
            scored = early.result()
        else:
            samples = self._samples(inputs, prompts, completions, completion_ids)
            scored = self._judge.score(self.mix, samples, self._moment)
        # Pictures are too large to send to other ranks.
        own = self._judge.agreed(self.mix, scored).without_pictures()
        self._scorer.prime(completions, own)
        return self._of_all_ranks(own)

    def _of_all_ranks(self, own: Scorecard) -> Scorecard:
        if self.accelerator.num_processes == 1:
            return own
        return concatenate(gather_object([own]))

    def _log_judging(self, seconds: float) -> None:
        # The slowest rank decides, since all others wait for it.
        of_ranks = gather(torch.tensor([seconds], device=self.accelerator.device))
        self._log_metric(JUDGING_SECONDS, of_ranks.max().item())

    @property
    def _moment(self) -> Moment:
        step = self.state.global_step
        progress = 0.0
        if self.state.max_steps > 0:
            progress = min(1.0, step / self.state.max_steps)
        is_training = self.model.training
        group_size = self.num_generations if is_training else self.num_generations_eval
        return Moment(
            mode="train" if is_training else "eval",
            step=step,
            progress=progress,
            group_size=int(group_size),
        )

    def _samples(
        self,
        rows: Any,
        prompts: Any,
        completions: Any,
        completion_ids: Any,
    ) -> list[Sample]:
        """Make this rank's samples, with group numbers over all ranks, since TRL may split a group between two."""
        moment = self._moment
        size = len(prompts)
        first_group = self._groups_seen
        self._groups_seen += size * int(self.accelerator.num_processes) // moment.group_size
        # Of this rank's first sample among the samples of all ranks.
        first_place = int(self.accelerator.process_index) * size
        model = self.accelerator.unwrap_model(self.model)
        ends = end_token_ids(self.processing_class, model.generation_config)
        samples = []
        for index, (completion, of_rollout) in enumerate(self._rollouts.seen(completions)):
            ids = completion_ids[index]
            sample = sample_of(
                completion,
                prompts[index],
                completion_ids=ids,
                truncated=len(ids) > 0 and ids[-1] not in ends,
                row={key: value for key, value in rows[index].items() if key != "prompt"},
                group=first_group + (first_place + index) // moment.group_size,
                step=moment.step,
                template_prefill=self._template_prefill,
                **of_rollout,
            )
            samples.append(sample)
        return samples

    def _generate_and_score_completions(
        self, inputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        return self._batch(inputs)

    def _batch(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Generate and score a batch; return TRL's tensors. Subclasses override this, not TRL's private method."""
        rows = self.learnable_rows if self.model.training else None
        if rows is not None:
            inputs = rows.swap(inputs)
        self._rows = inputs
        try:
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        except BaseException:
            if self._early is not None:
                self._early.cancel()
            raise
        card = self._card
        self._card = None
        # Only a batch without rewards has no card.
        if card is not None:
            card = card.with_advantages(gather(output["advantages"]).tolist())
            if rows is not None:
                card = self._learned(rows, card)
            self._publish(card)
        if getattr(self.args, "drop_dead_groups", False) and self._moment.mode == "train":
            output = self._without_dead_groups(output)
        self._rollouts.end_if_all_fail()
        return output

    def _learned(self, rows: LearnableRows, card: Scorecard) -> Scorecard:
        """Learn a batch's verdicts; return the marked card, and log the rewards of its floor in place of TRL's."""
        card = rows.mark(card)
        self._log_figures(rows.learn(card))
        for name, value in rows.floor_figures(card).items():
            self._metrics["train"][name][-1] = value
        return card

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # First, since a checkpoint with `trainer_state.json`, which comes last, is taken for whole.
        if self.learnable_rows is not None and self.args.should_save:
            folder = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            self.learnable_rows.save(Path(self._get_output_dir(trial=trial)) / folder)
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if self.learnable_rows is not None and checkpoint is not None:
            self.learnable_rows.load(checkpoint)

    def _without_dead_groups(self, output: dict[str, Any]) -> dict[str, Any]:
        """Mask dead groups out of the loss; for losses per token, remove dead rows from the batch."""
        size = len(output["completion_mask"])
        # A flag per completion of all ranks, whose outcomes are of groups.
        is_live = np.repeat(
            [outcome is GroupOutcome.LIVE for outcome in self._outcomes],
            self.num_generations,
        )
        of_ranks = is_live.reshape(-1, size)
        own = of_ranks[int(self.accelerator.process_index)].tolist()
        leave_dead_groups_out(output, own)
        if self.loss_type not in OF_TOKENS:
            return output
        most = int(of_ranks.sum(axis=1).max())
        return without_dead_rows(
            output,
            own,
            parts=self.args.steps_per_generation,
            most=most,
        )

    def evaluation_loop(self, dataloader: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate as transformers does, but exclude repeated prompts, which fill the last batch on several ranks."""
        self._left_to_evaluate = None
        if hasattr(dataloader.dataset, "__len__"):
            self._left_to_evaluate = len(dataloader.dataset) * int(
                self.num_generations_eval
            )
        return super().evaluation_loop(dataloader, *args, **kwargs)

    def _publish(self, card: Scorecard) -> None:
        """Log the card's figures on every rank, notify the listeners, and log the noise meter's rates."""
        if card.mode == "eval" and self._left_to_evaluate is not None:
            card = card.first(self._left_to_evaluate)
            self._left_to_evaluate -= len(card)
        figures = None
        # A failing figure must not end the run.
        try:
            figures = reduce_card(card, self._run_settings)
            logged = logged_figures(figures)
            if self.mix is not None:
                logged |= self.mix.verifier_figures(card)
            self._log_figures(logged)
        except Exception as error:
            self._once.warn(
                logger,
                "figures",
                "The figures of a batch could not be computed.",
                error=error,
            )
        self.run_callback.tell(lambda listener: listener.on_batch(card, figures))
        if self._noise is not None and card.mode == "train":
            self._log_figures(self._noise.figures)

    def _log_figures(self, figures: Mapping[str, float]) -> None:
        """Add figures to the step that TRL logs next; after scoring, `log_metric` would add them to the step after."""
        metrics = self._metrics[self._moment.mode]
        for name, value in figures.items():
            metrics[name].append(value)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log TRL's figures, with judging's share of the logged time."""
        add_share_of_judging(self._metrics[self._moment.mode], logs)
        # Of a training step, and not of an evaluation or of the run's end.
        if "loss" in logs:
            self._log_figures(self._meter.figures())
        super().log(logs, start_time)
        best = f"eval_{str(self.args.metric_for_best_model).removeprefix('eval_')}"
        # transformers compares the metric with the best value so far, and NaN is never better.
        if logs.get(best, 0.0) is None:
            logs[best] = math.nan
