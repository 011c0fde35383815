"""Check a run before its model is loaded."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import torch

from trl_grpo_ext.mix.data_check import check_routing
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.reward_plan import RewardPlan
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.workers.executor import choose_executor

logger = logging.getLogger(__name__)

# Trackers that some versions of transformers omit from their list of installed trackers.
NOT_LISTED = ("azure_ml", "flyte")


def check_run(
    plan: RewardPlan,
    train_dataset: Any,
    eval_dataset: Any,
    args: Any,
    *,
    needs_prompt: bool = True,
) -> None:
    """Raise a ValueError, or an OSError for a folder or model, with cause and remedy, if a run cannot work.

    Streams are not checked, since their columns are unknown. Without `needs_prompt`, environments make the prompts and
    may own all data; then a run without a `train_dataset` is valid, and verifiers have no columns.
    """
    choose_executor(getattr(args, "executor", None))
    check_writable(args.output_dir)
    _check_trackers(args.report_to)
    _warn_of_slow_bf16(args)
    if train_dataset is None and needs_prompt:
        raise ValueError(
            "`train_dataset` is required, unless environments own the data; got None."
        )
    for name, dataset in _named(train_dataset, eval_dataset).items():
        _check_dataset(name, dataset, plan.mix, needs_prompt)
    if plan.mix is not None:
        _check_mix(plan.mix, train_dataset, args)
    if eval_dataset is not None:
        _check_eval_batch(args)
        # With several evaluation sets, figures contain the names of the sets.
        if not isinstance(eval_dataset, Mapping):
            _check_best_metric(args, plan, has_all_rewards=needs_prompt)
    for function in plan.functions:
        if isinstance(function, str):
            _check_reward_model(function)


def _named(train_dataset: Any, eval_dataset: Any) -> dict[str, Any]:
    """Name a run's datasets for messages; several evaluation sets have their keys."""
    named = {}
    if train_dataset is not None:
        named["train_dataset"] = train_dataset
    if isinstance(eval_dataset, Mapping):
        for key, dataset in eval_dataset.items():
            named[f"eval_dataset[{key!r}]"] = dataset
    elif eval_dataset is not None:
        named["eval_dataset"] = eval_dataset
    return named


def _check_mix(mix: RewardMix, train_dataset: Any, args: Any) -> None:
    if train_dataset is None:
        mix.check_columns([])
    else:
        check_routing(train_dataset, mix)
    if args.remove_unused_columns:
        raise ValueError(
            "remove_unused_columns=True would take the dataset's columns away from the verifiers; leave it False."
        )


def check_chat_template(processing_class: Any, train_dataset: Any) -> None:
    """Raise a ValueError if prompts are conversations and the tokenizer has no chat template."""
    has_none = (
        hasattr(processing_class, "chat_template")
        and processing_class.chat_template is None
    )
    if not has_none or not hasattr(train_dataset, "__len__"):
        return
    if isinstance(train_dataset[0].get("prompt"), list):
        raise ValueError(
            "The prompts are conversations, and the model's tokenizer has no chat template to write them with, as base "
            "models often have none. Give it prompts that are text (in a recipe, plain_prompts: true makes them), or "
            "take the model's instruct version."
        )


def _check_trackers(names: Sequence[str]) -> None:
    from transformers.integrations import (
        get_available_reporting_integrations,
        get_reporting_integration_callbacks,
    )

    # Raises a ValueError for unknown names.
    get_reporting_integration_callbacks(names)
    installed = {*get_available_reporting_integrations(), *NOT_LISTED}
    for name in names:
        if name not in installed:
            raise ValueError(
                f"The tracker {name!r} (report_to) is not installed, or not set up: pip install {name}, or set "
                f"report_to: none."
            )


def _warn_of_slow_bf16(args: Any) -> None:
    """Warn about bf16 on a CPU without AVX512: it runs many times slower than float32 there."""
    on_cpu = args.use_cpu or not torch.cuda.is_available()
    if not args.bf16 or not on_cpu:
        return
    capability = torch.backends.cpu.get_cpu_capability()
    if "AVX512" not in capability:
        logger.warning(
            "bf16 is on, and the model runs on a CPU without AVX512 (%s), where bf16 is many times as slow as float32, "
            "so that a step may take minutes: set bf16: false (--bf16 false).",
            capability,
        )


def _check_eval_batch(args: Any) -> None:
    # TRL checks this only if eval_strategy is set, but evaluate() can be called without it.
    size = args.per_device_eval_batch_size * args.world_size
    group = args.num_generations_eval or args.num_generations
    if size % group:
        raise ValueError(
            f"An evaluation batch must hold whole groups: {size} completions (per_device_eval_batch_size over all "
            f"processes) are not a multiple of {group} generations. Set per_device_eval_batch_size to a multiple of "
            f"it, or num_generations_eval."
        )


def _check_best_metric(args: Any, plan: RewardPlan, *, has_all_rewards: bool) -> None:
    """Refuse an unknown reward in `metric_for_best_model`, where transformers would fail at the first evaluation."""
    metric = str(args.metric_for_best_model or "").removeprefix("eval_")
    names = [
        function.__name__ for function in plan.functions if hasattr(function, "__name__")
    ]
    known = [f"rewards/{name}/mean" for name in names]
    # `reward` is TRL's total, even if a reward has this name.
    is_bare_name = metric in names and metric != "reward"
    # TRL chooses the names of reward models and environments.
    all_known = has_all_rewards and len(names) == len(plan.functions)
    is_of_reward = metric.startswith("rewards/") and metric.endswith("/mean")
    is_missing = is_of_reward and all_known and metric not in known
    if is_bare_name or is_missing:
        meant = f"rewards/{metric}/mean" if metric in names else metric
        near = did_you_mean(meant, known)
        raise ValueError(f"There is no figure `{metric}` (metric_for_best_model). {near}")
    if metric == "loss" and args.load_best_model_at_end:
        logger.warning(
            "load_best_model_at_end goes by the loss, which says little in GRPO. To go by a reward, set "
            "metric_for_best_model: %s",
            next(iter(known), "reward"),
        )


def _check_reward_model(name: str) -> None:
    from transformers import AutoConfig

    try:
        AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise OSError(
            f"reward_funcs holds {name!r}, which TRL takes for the name of a reward model, and it cannot be loaded "
            f"({str(error).splitlines()[0]}). For a function, pass the function itself."
        ) from None


def check_writable(folder: str | os.PathLike[str]) -> None:
    """Raise an OSError that names the folder if it cannot be made or written to. A missing folder is not made."""
    path = Path(folder).absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise type(error)(
            f"The output folder {os.fspath(folder)!r} cannot be written to ({error.strerror or error}); "
            f"set output_dir to a folder of yours."
        ) from None


def _check_dataset(
    name: str, dataset: Any, mix: RewardMix | None, needs_prompt: bool
) -> None:
    if isinstance(dataset, list):
        raise ValueError(
            f"{name} is a list of rows; make a dataset of it: datasets.Dataset.from_list(rows)."
        )
    if hasattr(dataset, "__len__") and len(dataset) == 0:
        raise ValueError(f"{name} is empty; a run needs at least one row.")
    columns = getattr(dataset, "column_names", None)
    if not columns:
        return
    for taken in ("prompts", "completions"):
        if taken not in columns:
            continue
        raise ValueError(
            f"{name} has a column `{taken}`. TRL calls rewards with the batch's {taken} under this name, so they would "
            f"get two of it and fail: rename the column, or remove it."
        )
    if needs_prompt:
        _check_prompts(name, dataset, columns)
    if mix is not None:
        try:
            mix.check_columns(columns)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def _check_prompts(name: str, dataset: Any, columns: list[str]) -> None:
    if "prompt" not in columns:
        have = ", ".join(f"`{column}`" for column in columns)
        raise ValueError(
            f"{name} has no `prompt` column, and TRL reads prompts from it; the columns are: {have}. "
            f"Rename one, or in a recipe name it: prompt_column: {columns[0]}"
        )
    first = None
    if hasattr(dataset, "__len__"):
        first = dataset[0]["prompt"]
        if not isinstance(first, str | list):
            raise ValueError(
                f"The prompts of {name} must be texts or lists of messages; the first is {first!r}."
            )
    check_no_prompt_is_missing(name, dataset)
    if isinstance(first, list) and first and first[-1].get("role") == "assistant":
        logger.warning(
            "The first prompt of %s ends with a message of the assistant. TRL does not have the model go on with it: "
            "the chat template closes it and opens another. For a completion that has been begun, give prompts as "
            "text, written with the chat template.",
            name,
        )


def check_no_prompt_is_missing(
    name: str, dataset: Any, processing_class: Any = None
) -> None:
    """Refuse null prompts, empty conversations, and empty texts if the tokenizer makes no token of them.

    TRL would fail when it first draws such a row. Without a tokenizer, empty texts pass.
    """
    if "prompt" not in (getattr(dataset, "column_names", None) or ()) or not hasattr(
        dataset, "data"
    ):
        return
    # The column of the whole table, of which the dataset may select rows.
    column = dataset.data["prompt"]
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    may_be_empty = is_text and (tokenizer is None or tokenizer("")["input_ids"])
    has_empty = not may_be_empty and not _shortest(column, is_text=is_text)
    if not column.null_count and not has_empty:
        return
    # The dataset may leave such rows of its table out, so its own rows are searched.
    for row, prompt in enumerate(dataset["prompt"]):
        is_valid = bool(prompt) or (may_be_empty and prompt == "")
        if not is_valid:
            raise ValueError(
                f"Row {row} of {name} (counted from 0) has no prompt, and TRL would fail where it draws the row. Take "
                f"such rows out: {name}.filter(lambda row: bool(row['prompt']))"
            )


def _shortest(column: Any, *, is_text: bool) -> int | None:
    """Return the length of a column's shortest text or list; None without values."""
    lengths = pc.binary_length(column) if is_text else pc.list_value_length(column)
    shortest: int | None = pc.min(lengths).as_py()
    return shortest
