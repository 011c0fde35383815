"""What can be known to be wrong with a run before its model is loaded."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trl_grpo_ext.mix import RewardMix


def check_run(mix: RewardMix | None, train_dataset: Any, eval_dataset: Any, args: Any) -> None:
    """Raise a ValueError, or an OSError for the output folder, that says what is wrong, why, and what to do.

    Args:
        mix: The verifiers, whose columns must be in the data.
        train_dataset: A datasets object; one whose columns are not known (a stream) is not checked.
        eval_dataset: The same, a dict of them, or None.
        args: The trainer's configuration: `output_dir` and `remove_unused_columns` are looked at.
    """
    check_writable(args.output_dir)
    named = {"train_dataset": train_dataset}
    if isinstance(eval_dataset, Mapping):
        named |= {f"eval_dataset[{key!r}]": dataset for key, dataset in eval_dataset.items()}
    else:
        named["eval_dataset"] = eval_dataset
    for name, dataset in named.items():
        if dataset is not None:
            _check_dataset(name, dataset, mix)
    if mix is not None and args.remove_unused_columns:
        raise ValueError(
            "remove_unused_columns=True would take the dataset's columns away from the verifiers; leave it False."
        )


def check_writable(folder: str | os.PathLike[str]) -> None:
    """Make the folder if it is not there; raise an OSError that names it if it cannot be written to."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise type(error)(
            f"The output folder {os.fspath(folder)!r} cannot be written to ({error.strerror or error}); "
            f"set output_dir to a folder of yours."
        ) from None


def _check_dataset(name: str, dataset: Any, mix: RewardMix | None) -> None:
    if hasattr(dataset, "__len__") and len(dataset) == 0:
        raise ValueError(f"{name} is empty; a run needs at least one row.")
    columns = getattr(dataset, "column_names", None)
    if not columns:
        return
    if "prompt" not in columns:
        have = ", ".join(f"`{column}`" for column in columns)
        raise ValueError(
            f"{name} has no `prompt` column, and TRL reads prompts from it; the columns are: {have}. "
            f"Rename one, or in a recipe name it: prompt_column: {columns[0]}"
        )
    if mix is not None:
        try:
            mix.check_columns(columns)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
