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
    # Each of these settings takes other rows than a file's, or takes them in another order.
    chosen = (
        data.datasets,
        data.when,
        data.rows,
        data.test_rows,
        data.dataset_config,
        data.dataset_streaming,
    )
    name = data.dataset_name or ""
    path = Path(resolve(name)).expanduser()
    if any(chosen) or not path.exists():
        return None
    if path.is_dir():
        files = [file for file in path.iterdir() if split in file.stem]
        if len(files) != 1:
            return None
        path = files[0]
        name = f"{name.rstrip('/')}/{path.name}"
    if path.suffix not in KINDS:
        return None
    numbers = _of_csv(path) if path.suffix == ".csv" else _of_json_lines(path)
    if len(numbers) != rows:
        return None
    return FileLines(file=name, numbers=numbers)


def _of_json_lines(path: Path) -> list[int]:
    return [number for number, _ in numbered_lines(path)]


def _of_csv(path: Path) -> list[int]:
    """Return the first line of each record, counted from 1, without the header."""
    numbers = []
    # The last line of the record before: a quoted cell may span lines.
    before = 0
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        for record in reader:
            if record:
                numbers.append(before + 1)
            before = reader.line_num
    return numbers[1:]
