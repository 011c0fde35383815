"""Making an evaluation: TRL's own `evaluate()`, with the trainer, rewards and prompts of a recipe, and no training."""

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

from trl_grpo_ext.evaluation.evaluated import is_evaluation
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.model import model_error
from trl_grpo_ext.recipe.recipe import Recipe
from trl_grpo_ext.recipe.rows import spread
from trl_grpo_ext.recipe.run import RecipeTrainer, announce, build_trainer, set_up
from trl_grpo_ext.runs.recorded_run import EVALUATION
from trl_grpo_ext.support.files import write_json
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.support.version import versions


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """What is evaluated, beside what the recipe says.

    `samples` are completions a prompt, and at most `limit` prompts are taken, evenly spread over the split. `greedy`
    takes the likeliest token each time, instead of one that is drawn.
    """

    split: str
    samples: int
    limit: int | None = None
    greedy: bool = False


class EvaluationTrainer(RecipeTrainer):
    """Generates and judges, and leaves the loss out: it takes a forward pass, and room for the logits of a batch."""

    def prediction_step(self, model: Any, inputs: Any, *_: Any, **__: Any) -> tuple[None, None, None]:
        self._prepare_inputs(inputs)
        return None, None, None


def load_rows(recipe: Recipe, plan: EvaluationPlan) -> tuple[Dataset, Dataset]:
    """The rows to train on, which TRL and the checks want, and those to evaluate on, their prompts mapped.

    Raises:
        ValueError: for data that is not there, and for a stream without a limit.
    """
    train_split = recipe.data.dataset_train_split
    # A mixture has splits of its own to test on, and rows that are set aside are made of those to train on.
    if not recipe.data.datasets and recipe.data.test_rows is None:
        recipe.data.dataset_train_split = plan.split
    splits = load_data(recipe.data, purpose="evaluate")
    if plan.split not in splits:
        raise ValueError(f"The data has no split {plan.split!r} (--split). {did_you_mean(plan.split, splits)}")
    rows = splits[plan.split]
    if not hasattr(rows, "__len__"):
        if plan.limit is None:
            raise ValueError("The data is a stream (dataset_streaming); set --limit, the number of prompts.")
        taken = Dataset.from_list(list(rows.take(plan.limit)))
        return taken, taken
    return splits.get(train_split, rows), spread(rows, plan.limit or len(rows))


def check_model(name: str, recipe: Recipe) -> None:
    """Raise a ValueError for a model that is not there, as its configuration tells."""
    try:
        if not is_evaluation(name) and find_adapter_config_file(name) is None:
            AutoConfig.from_pretrained(name, trust_remote_code=getattr(recipe.training, "trust_remote_code", False))
    except (OSError, HFValidationError) as error:
        raise model_error(name, error, "--model") from None


def prepare_evaluation(
    recipe: Recipe, plan: EvaluationPlan, data: tuple[Dataset, Dataset], model: str, folder: Path
) -> RecipeTrainer:
    """A trainer that has the model loaded and is ready to evaluate it on the second of `load_rows`.

    Raises:
        ValueError, OSError: for columns, a model or a folder that cannot be used.
    """
    if int(os.environ.get("RANK", "0")) == 0:
        (folder / EVALUATION).unlink(missing_ok=True)  # it says what an earlier one in this folder was of
    training = copy.copy(recipe.training)
    training.output_dir = str(folder)
    training.eval_strategy = training.save_strategy = "no"
    training.report_to, training.push_to_hub, training.resume_from_checkpoint = [], False, None
    training.beta = 0.0  # a reference model would only take room
    training.record_scorecards = True
    training.run_checks = training.measure_noise = training.write_report = False
    training.vllm_importance_sampling_correction = False  # that is for the loss
    training.num_generations_eval = plan.samples
    size = training.per_device_eval_batch_size
    training.per_device_eval_batch_size = max(1, size // plan.samples) * plan.samples  # whole groups
    if plan.greedy:
        greedy = {"temperature": 0.0} if training.use_vllm else {"do_sample": False, "top_k": None}
        training.generation_kwargs = {**(training.generation_kwargs or {}), **greedy}
    made = replace(recipe, training=training, model=copy.copy(recipe.model))
    if made.model.model_name_or_path != model:
        made.model.model_name_or_path, made.model.model_revision = model, None
    gc.collect()  # of a model before this one, whose trainer is a circle of references
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    set_up(made)
    return build_trainer(made, EvaluationTrainer, train_dataset=data[0], eval_dataset=data[1])


def run_evaluation(recipe: Recipe, plan: EvaluationPlan, trainer: RecipeTrainer, model: str) -> bool:
    """Evaluate, and write what was evaluated beside the record; returns whether this is the main process."""
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
    trainer.accelerator.wait_for_everyone()
    return is_main
