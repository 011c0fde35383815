"""Map a split's rows to line numbers of their local file, for messages."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.mix.data_check import FileLines
from trl_grpo_ext.support.files import numbered_lines

if TYPE_CHECKING:
    from trl_grpo_ext.recipe.arguments import RecipeArguments

KINDS = (".jsonl", ".csv")


def file_lines(data: RecipeArguments, split: str, rows: int) -> FileLines | None:
    """Return the file and line of each row in a split; None if uncertain.

    Rows match lines if the split is a single JSON Lines or CSV file with as many rows, and the recipe takes all rows in
    file order.
    """
    chosen = (data.datasets, data.when, data.rows, data.test_rows, data.dataset_config, data.dataset_streaming)
    name = data.dataset_name or ""
    path = Path(resolve(name)).expanduser()
    if any(chosen) or not path.exists():
        return None
    if path.is_dir():
        files = [file for file in path.iterdir() if split in file.stem]
        if len(files) != 1:
            return None
        name, path = f"{name.rstrip('/')}/{files[0].name}", files[0]
    if path.suffix not in KINDS:
        return None
    numbers = _of_csv(path) if path.suffix == ".csv" else [number for number, _ in numbered_lines(path)]
    return FileLines(name, numbers) if len(numbers) == rows else None


def _of_csv(path: Path) -> list[int]:
    """Return the first line of each record, counted from 1, without the header."""
    numbers, before = [], 0
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        for record in reader:
            if record:
                numbers.append(before + 1)
            before = reader.line_num
    return numbers[1:]
