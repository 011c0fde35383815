"""Map a split's rows to line numbers of their local file, for messages."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.mix.data_check import FileLines
from trl_grpo_ext.recipe.rows import row_numbers
from trl_grpo_ext.support.files import numbered_lines

if TYPE_CHECKING:
    from trl_grpo_ext.recipe.arguments import RecipeArguments

KINDS = (".jsonl", ".csv")


def file_lines(data: RecipeArguments, split: str, rows: Any) -> FileLines | None:
    """Return the file and line of each row in a split, else its number in the data; None if uncertain.

    Rows match lines if the data is a single JSON Lines or CSV file with as many rows as it has lines.
    """
    chosen = row_numbers(rows)
    # A test split that was set aside consists of rows of the training split's file.
    is_part_of_train = data.test_rows is not None and split == data.dataset_test_split
    found = _lines_of(data, data.dataset_train_split if is_part_of_train else split)
    if chosen is None:
        return found if found is not None and len(found.numbers) == len(rows) else None
    # Other counts mean that the reader has skipped or split lines: each number would name a wrong line.
    if found is None or len(found.numbers) != chosen.size:
        return FileLines(None, chosen.numbers)
    return FileLines(found.file, [found.numbers[number] for number in chosen.numbers])


def _lines_of(data: RecipeArguments, split: str) -> FileLines | None:
    """Return the file of a whole split, and the line of each of its records; None if uncertain."""
    name = data.dataset_name or ""
    path = Path(resolve(name)).expanduser()
    if data.datasets or data.dataset_config or data.dataset_streaming or not path.exists():
        return None
    if path.is_dir():
        # datasets finds a split's files by the split's name in theirs, too.
        files = [file for file in path.iterdir() if split in file.stem]
        if len(files) != 1:
            return None
        path = files[0]
        name = f"{name.rstrip('/')}/{path.name}"
    if path.suffix not in KINDS:
        return None
    numbers = _of_csv(path) if path.suffix == ".csv" else _of_json_lines(path)
    return FileLines(name, numbers)


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
            # For an empty line the reader gives an empty list; datasets makes no row of it.
            if record:
                numbers.append(before + 1)
            before = reader.line_num
    return numbers[1:]
