"""Select dataset rows, and mix several datasets."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trl_grpo_ext.mix.gate import When
from trl_grpo_ext.recipe.prompts import TASK, check_examples
from trl_grpo_ext.support.text import did_you_mean

if TYPE_CHECKING:
    from trl_grpo_ext.recipe.arguments import RecipeArguments

logger = logging.getLogger(__name__)

# The temporary column, and the attribute, of the numbers that selected rows had in the data.
NUMBER = "_trl_grpo_ext_row"
COUNTS = ("rows", "test_rows")
# Size of a stream's shuffle buffer, in rows.
STREAM_BUFFER = 10_000


class RowNumbers(NamedTuple):
    """Row numbers of selected rows in the data, counted from 0, and the size of the data."""

    numbers: Sequence[int]
    size: int


def check_selection(keys: Mapping[str, Any], where: str) -> None:
    """Raise a ValueError for an invalid `when`, `few_shot`, `rows` or `test_rows`; `where` starts the message."""
    if keys.get("when") is not None:
        When.parse(keys["when"])
    check_examples(keys.get("few_shot") or ())
    for name in COUNTS:
        count = keys.get(name)
        # True is an int in Python: `rows: true` would be one row.
        is_integer = isinstance(count, int) and not isinstance(count, bool)
        if count is not None and (not is_integer or count < 1):
            raise ValueError(f"{where}: `{name}` is a number of 1 or more, got {count!r}.")


def select_rows(
    splits: Mapping[str, Any], arguments: RecipeArguments
) -> tuple[dict[str, Any], dict[str, RowNumbers]]:
    """Select each split's rows by a recipe's `when`, `test_rows` and `rows`, in this order.

    Return the selected splits, and the number that each of their rows had in the data, from 0; streams have no numbers.
    `test_rows` does not work on streams.

    Raises:
        ValueError: for a missing column, and if `test_rows` cannot be taken from the training split.
    """
    if arguments.when is None and arguments.test_rows is None and arguments.rows is None:
        return dict(splits), {}
    # Before any row is dropped or shuffled: messages name rows as they stand in the user's data.
    numbered = {split: _numbered(rows) for split, rows in splits.items()}
    selected = {
        split: _that_apply(rows, arguments.when) for split, rows in numbered.items()
    }
    # Before `rows` limits the splits: `rows: 100` with `test_rows: 100` would else leave nothing to train on.
    if arguments.test_rows is not None:
        selected |= _set_aside(selected, arguments)
    some = {
        split: _some(rows, arguments.rows, arguments.rows_seed)
        for split, rows in selected.items()
    }
    numbers = {}
    for split, rows in some.items():
        if hasattr(rows, "__len__"):
            # A test split that was set aside has the numbers of the training split.
            whole = splits.get(split, splits[arguments.dataset_train_split])
            numbers[split] = RowNumbers(list(rows[NUMBER]), len(whole))
            # Left in, the temporary column would reach verifiers as a column of the data.
            some[split] = rows.remove_columns(NUMBER)
    return some, numbers


def _numbered(rows: Any) -> Any:
    return (
        rows.add_column(NUMBER, list(range(len(rows))))
        if hasattr(rows, "__len__")
        else rows
    )


def set_row_numbers(rows: Any, numbers: RowNumbers) -> None:
    """Attach to a selection of rows their numbers in the data, for messages. New datasets made of it have none."""
    setattr(rows, NUMBER, numbers)


def row_numbers(rows: Any) -> RowNumbers | None:
    """Return the numbers that `set_row_numbers` has attached; None if there are none."""
    found = getattr(rows, NUMBER, None)
    return found if isinstance(found, RowNumbers) else None


def _that_apply(rows: Any, described: Mapping[str, Any] | None) -> Any:
    if not described:
        return rows
    when = When.parse(described)
    # A stream may not know its columns before its first row.
    if rows.column_names:
        when.check_columns([name for name in rows.column_names if name != NUMBER])
    return rows.filter(when.applies)


def spread(rows: Any, count: int) -> Any:
    """Select `count` evenly spaced rows of a dataset, or the first rows of a stream; all rows if it has fewer."""
    if not hasattr(rows, "__len__"):
        from datasets import Dataset

        return Dataset.from_list(list(rows.take(count)))
    size = len(rows)
    count = min(count, size)
    return rows.select([place * size // count for place in range(count)])


def _set_aside(splits: Mapping[str, Any], arguments: RecipeArguments) -> dict[str, Any]:
    """Split `test_rows` random rows off the training split, as the new test split."""
    train = arguments.dataset_train_split
    test = arguments.dataset_test_split
    count = arguments.test_rows
    if test in splits:
        raise ValueError(
            f"The dataset has a split {test!r} to test on, so none is made of its rows: take test_rows out, or name "
            f"the new split with dataset_test_split."
        )
    rows = splits[train]
    # A stream has no length.
    if not hasattr(rows, "__len__"):
        raise ValueError(
            "Rows of a stream cannot be set aside: take dataset_streaming or test_rows out."
        )
    if count is None or count >= len(rows):
        raise ValueError(
            f"The dataset has {len(rows)} rows to train on, so {count} cannot be set aside (test_rows)."
        )
    # `train_test_split` shuffles first: of a file sorted by level, all levels are tested.
    parts = rows.train_test_split(test_size=count, seed=arguments.rows_seed)
    return {train: parts["train"], test: parts["test"]}


def _some(rows: Any, count: int | None, seed: int) -> Any:
    if count is None:
        return rows
    # A stream is shuffled within a buffer.
    if not hasattr(rows, "__len__"):
        return rows.shuffle(seed=seed, buffer_size=STREAM_BUFFER).take(count)
    return rows.shuffle(seed=seed).select(range(min(len(rows), count)))


# Keys for each entry of `datasets`; the recipe's own values are their defaults.
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
KEYS = (TASK, *DATA_KEYS)


def check_mixture(datasets: object) -> None:
    """Check `datasets`, a list of mappings with the texts `dataset_name` and `task`; raise a ValueError otherwise."""
    if not isinstance(datasets, list) or not datasets:
        raise ValueError(
            "`datasets` is a list, such as `- {task: math, dataset_name: openai/gsm8k}`."
        )
    for number, part in enumerate(datasets, start=1):
        where = f"datasets entry {number}"
        if not _has_names(part):
            raise ValueError(f"{where} needs a `task` and a `dataset_name`, got {part!r}.")
        for key in part:
            if key not in KEYS:
                near = did_you_mean(str(key), KEYS)
                raise ValueError(f"{where} has an unknown key `{key}`. {near}")
        check_selection(part, where)


def _has_names(part: object) -> bool:
    if not isinstance(part, Mapping):
        return False
    return isinstance(part.get(TASK), str) and isinstance(part.get("dataset_name"), str)


def mix_data(
    arguments: RecipeArguments,
    load: Callable[[RecipeArguments], Mapping[str, Any]],
) -> dict[str, Any]:
    """Concatenate several datasets into a training and a test split; the column `task` names each row's dataset.

    `load` loads a dataset's splits. Columns missing from a dataset are null in its rows. A dataset without a test split
    adds no test rows.

    Raises:
        ValueError: for columns of equal name but different types.
    """
    from datasets import concatenate_datasets

    if arguments.dataset_streaming:
        raise ValueError(
            "`datasets` are mixed whole, so they cannot be streamed: take dataset_streaming out."
        )
    parts: dict[str, list[Any]] = {}
    for entry in arguments.datasets:
        own = _own_arguments(arguments, entry)
        splits = _with_task(load(own), entry)
        # A pair that stands twice, for data with one split, adds its rows once.
        for wanted, split in dict.fromkeys(_splits(arguments, own)):
            if split in splits:
                parts.setdefault(wanted, []).append(splits[split])
    try:
        mixed = {split: concatenate_datasets(rows) for split, rows in parts.items()}
    except ValueError as error:
        raise ValueError(
            f"`datasets` cannot be put together, as columns of one name must hold values of one kind: {error}"
        ) from None
    # A dataset without test rows leaves its columns out of the test split, where verifiers look for them, too.
    features: dict[str, Any] = {}
    for rows in mixed.values():
        features |= rows.features
    return {split: _with_columns(rows, features) for split, rows in mixed.items()}


def _own_arguments(arguments: RecipeArguments, entry: Mapping[str, Any]) -> RecipeArguments:
    """Return the arguments of a mixture's dataset; the recipe's values are defaults."""
    own = copy.copy(arguments)
    # With `datasets`, loading the entry would load the mixture again, without end.
    own.datasets = ()
    for key in DATA_KEYS:
        if key in entry:
            setattr(own, key, entry[key])
    return own


def _with_task(splits: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Add the column `task` with the dataset's task; a column `task` of the dataset's own is replaced."""
    task = entry[TASK]
    if any(TASK in rows.column_names for rows in splits.values()):
        logger.warning(
            "%s has a column `task` of its own, which is not in the mixture: there, `task` is the dataset's, %r.",
            entry["dataset_name"],
            task,
        )
    found = {}
    for split, rows in splits.items():
        without = rows
        if TASK in rows.column_names:
            without = rows.remove_columns(TASK)
        found[split] = without.add_column(TASK, [task] * len(rows))
    return found


def _splits(arguments: RecipeArguments, own: RecipeArguments) -> list[tuple[str, str]]:
    """Pair split names of the mixture with a dataset's split names: first training, then test.

    Raises:
        ValueError: if the mixture would train on its test rows.
    """
    train = arguments.dataset_train_split
    test = arguments.dataset_test_split
    has_two = own.dataset_train_split != own.dataset_test_split
    if train == test and has_two:
        raise ValueError(
            f"The mixture has one name, {train!r}, for the split to train on and for that to test on "
            f"(dataset_train_split, dataset_test_split), and a dataset has two. Name the mixture's splits apart."
        )
    return [(train, own.dataset_train_split), (test, own.dataset_test_split)]


def _with_columns(rows: Any, features: Mapping[str, Any]) -> Any:
    """Add missing columns to the rows, filled with null."""
    for name, feature in features.items():
        if name not in rows.column_names:
            rows = rows.add_column(name, [None] * len(rows), feature=feature)
    return rows
