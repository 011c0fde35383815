"""The data of a recipe: loaded by name, and mapped to the `prompt` column that TRL reads."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from datasets import Dataset, load_dataset

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.names import did_you_mean
from trl_grpo_ext.recipe import RecipeArguments

REASONING_GYM = "reasoning_gym:"
REASONING_GYM_SIZES = {"train": 1000, "test": 100}


def load_data(arguments: RecipeArguments) -> dict[str, Any]:
    """Load the splits of a recipe and map their prompts.

    `dataset_name` is a Hub id or a folder, as `load_dataset` takes it; `bundled:NAME` for what is shipped with the
    package; or `reasoning_gym:TASK`, problems made on the spot, with the task's options as in
    `reasoning_gym:chain_sum?max_terms=3`.

    Raises:
        ValueError: for a task, a split or a column that is not there.
    """
    name = arguments.dataset_name or ""
    if name.startswith(REASONING_GYM):
        data = _reasoning_gym(name.removeprefix(REASONING_GYM))
    else:
        data = load_dataset(resolve(name), name=arguments.dataset_config, streaming=arguments.dataset_streaming)
    if arguments.dataset_train_split not in data:
        raise ValueError(
            f"The dataset {name!r} has no split {arguments.dataset_train_split!r} to train on "
            f"(dataset_train_split). {did_you_mean(arguments.dataset_train_split, data)}"
        )
    return {split: _map_prompts(rows, arguments) for split, rows in data.items()}


def _map_prompts(rows: Any, arguments: RecipeArguments) -> Any:
    column, system = arguments.prompt_column, arguments.system_prompt
    if column is None and system is None:
        return rows
    source = column or "prompt"
    if rows.column_names and source not in rows.column_names:
        raise ValueError(
            f"The dataset has no column `{source}` to make prompts of (prompt_column). "
            f"{did_you_mean(source, rows.column_names)}"
        )
    mapped = rows.map(lambda row: {"prompt": _conversation(row[source], system)})
    return mapped if source == "prompt" else mapped.remove_columns(source)


def _conversation(prompt: Any, system: str | None) -> list[dict[str, Any]]:
    messages = list(prompt) if isinstance(prompt, list) else [{"role": "user", "content": str(prompt)}]
    return [{"role": "system", "content": system}, *messages] if system else messages


def _reasoning_gym(spec: str) -> dict[str, Dataset]:
    """Problems of a reasoning-gym task, columns `question` and `answer`; no question of train is in test."""
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise ValueError(
            "Data from reasoning_gym needs that package: pip install 'trl-grpo-ext[reasoning-gym]'"
        ) from None
    task, _, query = spec.partition("?")
    if task not in DATASETS:
        raise ValueError(f"reasoning_gym has no task {task!r}. {did_you_mean(task, DATASETS)}")
    options = {key: _number(value) for key, value in parse_qsl(query)}
    sizes = {split: int(options.pop(f"{split}_size", size)) for split, size in REASONING_GYM_SIZES.items()}
    seed = int(options.pop("seed", 0))
    test = _problems(reasoning_gym.create_dataset(task, size=sizes["test"], seed=seed + 1, **options))
    asked = {problem["question"] for problem in test}
    train = _problems(reasoning_gym.create_dataset(task, size=sizes["train"], seed=seed, **options))
    train = [problem for problem in train if problem["question"] not in asked]
    return {"train": Dataset.from_list(train), "test": Dataset.from_list(test)}


def _problems(task: Any) -> list[dict[str, str]]:
    return [{"question": item["question"], "answer": str(item["answer"])} for item in task]


def _number(value: str) -> Any:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(value.lower(), value)
