"""Which rows of a dataset a run takes: those that meet a condition, some of them to test on, at most so many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.mix.gate import When
from trl_grpo_ext.support.text import did_you_mean

if TYPE_CHECKING:
    from trl_grpo_ext.recipe.arguments import RecipeArguments

COUNTS = ("rows", "test_rows")
STREAM_BUFFER = 10_000  # rows of a stream among which the next is drawn


def check_selection(keys: Mapping[str, Any], where: str) -> None:
    """Raise a ValueError for a condition or a number of rows that cannot be; `where` begins the message."""
    if keys.get("when") is not None:
        When.parse(keys["when"])
    for name in COUNTS:
        count = keys.get(name)
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise ValueError(f"{where}: `{name}` is a number of 1 or more, got {count!r}.")


def select_rows(splits: Mapping[str, Any], arguments: RecipeArguments) -> dict[str, Any]:
    """The rows of each split that a recipe takes.

    Args:
        splits: Rows by the names of their splits; streams too, but for `test_rows`.
        arguments: What the recipe says: `when`, `test_rows` and `rows`, which apply in this order, and `rows_seed`.

    Raises:
        ValueError: for a column that is not there, and for rows to test on that cannot be set aside.
    """
    selected = {split: _that_apply(rows, arguments.when) for split, rows in splits.items()}
    if arguments.test_rows is not None:
        selected |= _set_aside(selected, arguments)
    if arguments.rows is None:
        return selected
    return {split: _some(rows, arguments.rows, arguments.rows_seed) for split, rows in selected.items()}


def _that_apply(rows: Any, described: Mapping[str, Any] | None) -> Any:
    if not described:
        return rows
    when = When.parse(described)
    for column in when.columns if rows.column_names else ():
        if column not in rows.column_names:
            near = did_you_mean(column, rows.column_names)
            raise ValueError(f"`when` looks at the dataset column `{column}`, which is not there. {near}")
    return rows.filter(when.applies)


def _set_aside(splits: Mapping[str, Any], arguments: RecipeArguments) -> dict[str, Any]:
    """The split to train on without some of its rows, and these as the split to test on."""
    train, test, count = arguments.dataset_train_split, arguments.dataset_test_split, arguments.test_rows
    if test in splits:
        raise ValueError(
            f"The dataset has a split {test!r} to test on, so none is made of its rows: take test_rows out, or name "
            f"the new split with dataset_test_split."
        )
    rows = splits[train]
    if not hasattr(rows, "__len__"):
        raise ValueError("Rows of a stream cannot be set aside: take dataset_streaming or test_rows out.")
    if count is None or count >= len(rows):
        raise ValueError(f"The dataset has {len(rows)} rows to train on, so {count} cannot be set aside (test_rows).")
    parts = rows.train_test_split(test_size=count, seed=arguments.rows_seed)
    return {train: parts["train"], test: parts["test"]}


def _some(rows: Any, count: int, seed: int) -> Any:
    if not hasattr(rows, "__len__"):
        return rows.shuffle(seed=seed, buffer_size=STREAM_BUFFER).take(count)
    return rows.shuffle(seed=seed).select(range(min(len(rows), count)))
