"""Several datasets in one: each is mapped to prompts by keys of its own, and its rows say which task they are of."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.recipe.prompts import check_examples
from trl_grpo_ext.recipe.selection import check_selection
from trl_grpo_ext.support.text import did_you_mean

if TYPE_CHECKING:
    from trl_grpo_ext.recipe.arguments import RecipeArguments

# A recipe's own keys, which each dataset may have; those that it has not are the recipe's.
DATA_KEYS = (
    "dataset_name",
    "dataset_config",
    "dataset_train_split",
    "dataset_test_split",
    "prompt_column",
    "prompt_template",
    "system_prompt",
    "plain_prompts",
    "few_shot",
    "when",
    "rows",
    "test_rows",
)
TASK = "task"
KEYS = (TASK, *DATA_KEYS)


def check_mixture(datasets: object) -> None:
    """Raise a ValueError if a recipe's `datasets` is not a list of mappings with a `dataset_name` and a `task` each."""
    if not isinstance(datasets, list) or not datasets:
        raise ValueError("`datasets` is a list, such as `- {task: math, dataset_name: openai/gsm8k}`.")
    for number, part in enumerate(datasets, start=1):
        if not isinstance(part, Mapping) or not all(isinstance(part.get(key), str) for key in (TASK, "dataset_name")):
            raise ValueError(f"datasets entry {number} needs a `task` and a `dataset_name`, got {part!r}.")
        for key in part:
            if key not in KEYS:
                raise ValueError(f"datasets entry {number} has an unknown key `{key}`. {did_you_mean(str(key), KEYS)}")
        check_selection(part, f"datasets entry {number}")
        check_examples(part.get("few_shot") or ())


def mix_data(arguments: RecipeArguments, load: Callable[[RecipeArguments], Mapping[str, Any]]) -> dict[str, Any]:
    """The split to train on and the one to test on, each of all datasets together, with a column `task`.

    A column that a dataset lacks is null in its rows. One that has no split to test on is not in the test split.

    Args:
        arguments: What the recipe says.
        load: Loads the splits of one dataset.

    Raises:
        ValueError: for columns of one name that hold different things.
    """
    from datasets import concatenate_datasets

    if arguments.dataset_streaming:
        raise ValueError("`datasets` are mixed whole, so they cannot be streamed: take dataset_streaming out.")
    parts: dict[str, list[Any]] = {}
    for entry in arguments.datasets:
        own = copy.copy(arguments)
        own.datasets = ()
        for key in DATA_KEYS:
            setattr(own, key, entry.get(key, getattr(arguments, key)))
        splits = load(own)
        for wanted, split in dict.fromkeys(_splits(arguments, own)):
            if split in splits:
                rows = splits[split]
                parts.setdefault(wanted, []).append(rows.add_column(TASK, [entry[TASK]] * len(rows)))
    try:
        mixed = {split: concatenate_datasets(rows) for split, rows in parts.items()}
    except ValueError as error:
        raise ValueError(f"`datasets` cannot be put together: {error}") from None
    features = {name: feature for rows in mixed.values() for name, feature in rows.features.items()}
    return {split: _with_columns(rows, features) for split, rows in mixed.items()}


def _splits(arguments: RecipeArguments, own: RecipeArguments) -> list[tuple[str, str]]:
    """What each split is called in the mixture, and in one dataset.

    Raises:
        ValueError: if the mixture would train on what it tests on.
    """
    named = [(getattr(arguments, key), getattr(own, key)) for key in ("dataset_train_split", "dataset_test_split")]
    if len(set(named)) == 2 and named[0][0] == named[1][0]:
        raise ValueError(
            f"The mixture has one name, {named[0][0]!r}, for the split to train on and for that to test on "
            f"(dataset_train_split, dataset_test_split), and a dataset has two. Name the mixture's splits apart."
        )
    return named


def _with_columns(rows: Any, features: Mapping[str, Any]) -> Any:
    """The rows with all of these columns; those that are added are null."""
    for name, feature in features.items():
        if name not in rows.column_names:
            rows = rows.add_column(name, [None] * len(rows), feature=feature)
    return rows
