"""Run an evaluation: TRL's `evaluate()` with a recipe's trainer, rewards and prompts, without training."""

from __future__ import annotations

import copy
import gc
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from huggingface_hub.errors import HFValidationError
from transformers import AutoConfig
from transformers.utils.peft_utils import find_adapter_config_file

from trl_grpo_ext.commands.exit_status import refusing
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.model import model_error
from trl_grpo_ext.recipe.recipe import Recipe
from trl_grpo_ext.recipe.rows import spread
from trl_grpo_ext.recipe.run import RecipeTrainer, announce, build_trainer, set_up
from trl_grpo_ext.runs.recorded_run import EVALUATION
from trl_grpo_ext.support.files import write_json
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.support.version import versions
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """Settings of an evaluation besides the recipe.

    `samples` is the number of completions per prompt. `limit` is the largest number of prompts, evenly spread over the
    split; None takes all. `greedy` decodes the most probable token at each step instead of sampling.
    """

    split: str
    samples: int
    limit: int | None = None
    greedy: bool = False


class EvaluationTrainer(RecipeTrainer):
    """A trainer that generates and judges but computes no loss, saving a forward pass and memory for logits."""

    def prediction_step(
        self, model: Any, inputs: Any, *_: Any, **__: Any
    ) -> tuple[None, None, None]:
        # TRL generates and judges here; its own step goes on to compute the loss.
        self._prepare_inputs(inputs)
        return None, None, None


def load_rows(recipe: Recipe, plan: EvaluationPlan) -> tuple[Dataset, Dataset]:
    """Load training rows, which TRL's trainer and the checks need, and evaluation rows, both with mapped prompts.

    Raises:
        ValueError: for missing data, an unknown split, or a stream without a limit.
    """
    train_split = recipe.data.dataset_train_split
    # Require the evaluated split in place of the training split. A mixture names its own test splits, and `test_rows`
    # are taken from the training split, so both keep it.
    if not recipe.data.datasets and recipe.data.test_rows is None:
        recipe.data.dataset_train_split = plan.split
    splits = load_data(recipe.data, purpose="evaluate")
    if plan.split not in splits:
        raise ValueError(
            f"The data has no split {plan.split!r} (--split). {did_you_mean(plan.split, splits)}"
        )
    rows = splits[plan.split]
    if hasattr(rows, "__len__"):
        return splits.get(train_split, rows), spread(rows, plan.limit or len(rows))
    if plan.limit is None:
        raise ValueError(
            "The data is a stream (dataset_streaming); set --limit, the number of prompts."
        )
    taken = spread(rows, plan.limit)
    # A stream is read once: the rows that were taken stand for the training rows, too.
    return taken, taken


def is_evaluation(folder: str) -> bool:
    """Say whether the folder holds an evaluation."""
    return (Path(folder) / EVALUATION).is_file()


def check_model(name: str, recipe: Recipe) -> None:
    """Raise an error if the model's configuration cannot be loaded; evaluation folders and adapters pass."""
    try:
        if not is_evaluation(name) and find_adapter_config_file(name) is None:
            AutoConfig.from_pretrained(
                name, trust_remote_code=getattr(recipe.training, "trust_remote_code", False)
            )
    except (OSError, HFValidationError) as error:
        raise model_error(name, error, "--model") from None


def generate(
    recipe: Recipe,
    plan: EvaluationPlan,
    data: tuple[Dataset, Dataset],
    model: str,
    folder: Path,
) -> bool:
    """Evaluate a model on the second dataset of `load_rows`, recorded in a folder; return True on the main process.

    Raises:
        RefusedError: for unusable columns, models or folders.
    """
    with refusing():
        trainer = _prepare(recipe, plan, data, model, folder)
    return _run(recipe, plan, trainer, model)


def _prepare(
    recipe: Recipe,
    plan: EvaluationPlan,
    data: tuple[Dataset, Dataset],
    model: str,
    folder: Path,
) -> RecipeTrainer:
    """Build a trainer with the model loaded, ready to evaluate."""
    if int(os.environ.get("RANK", "0")) == 0:
        # An `evaluation.json` here describes an earlier evaluation.
        (folder / EVALUATION).unlink(missing_ok=True)
    training = _settings(recipe, plan, folder)
    made = replace(recipe, training=training, model=copy.copy(recipe.model))
    if made.model.model_name_or_path != model:
        made.model.model_name_or_path, made.model.model_revision = model, None
    # Free the previous model: its trainer is part of a reference cycle.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    set_up(made)
    return build_trainer(
        made, EvaluationTrainer, train_dataset=data[0], eval_dataset=data[1]
    )


def _settings(recipe: Recipe, plan: EvaluationPlan, folder: Path) -> VerifiedGRPOConfig:
    """Return a copy of the recipe's settings that generates by the plan, trains nothing, and records in the folder."""
    training = copy.copy(recipe.training)
    training.output_dir = str(folder)
    training.eval_strategy = training.save_strategy = "no"
    training.report_to = []
    training.push_to_hub = False
    training.resume_from_checkpoint = None
    # Without a KL penalty, TRL loads no reference model.
    training.beta = 0.0
    training.record_scorecards = True
    training.run_checks = training.measure_noise = training.write_report = False
    training.learnable_rows = False
    # The correction serves the loss, which is not computed.
    training.vllm_importance_sampling_correction = False
    training.num_generations_eval = plan.samples
    size = training.per_device_eval_batch_size
    # A batch must hold whole groups.
    training.per_device_eval_batch_size = max(1, size // plan.samples) * plan.samples
    if plan.greedy:
        greedy = (
            {"temperature": 0.0}
            if training.use_vllm
            else {"do_sample": False, "top_k": None}
        )
        training.generation_kwargs = {**(training.generation_kwargs or {}), **greedy}
    return training


def _run(recipe: Recipe, plan: EvaluationPlan, trainer: RecipeTrainer, model: str) -> bool:
    """Evaluate, then write `evaluation.json` on the main process; return True on the main process."""
    announce(trainer, f"evaluating {model} on {len(trainer.eval_dataset)} prompts ...")
    trainer.evaluate()
    settings = trainer.args
    about = {
        "model": model,
        "recipe": recipe.name,
        "dataset": recipe.data.dataset_name,
        "split": plan.split,
        "prompts": len(trainer.eval_dataset),
        "samples": plan.samples,
        "temperature": 0.0 if plan.greedy else settings.temperature,
        "max_completion_length": settings.max_completion_length,
        "seed": settings.seed,
        "versions": versions(),
    }
    is_main = bool(trainer.accelerator.is_main_process)
    if is_main:
        write_json(Path(settings.output_dir) / EVALUATION, about)
    # A launcher may end all ranks once one ends, and the main rank is writing.
    trainer.accelerator.wait_for_everyone()
    return is_main
