"""A file of completions in JSON Lines, checked completely before judging starts, then read in batches of samples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_grpo_ext.outcome import read_outcome
from trl_grpo_ext.recipe.prompts import RecipePrompts
from trl_grpo_ext.sample import TRL_EXTRAS, Sample, sample_of
from trl_grpo_ext.support.files import numbered_lines
from trl_grpo_ext.support.text import did_you_mean

Row = dict[str, Any]

# Each row's own `prompt`, without a recipe.
OWN_PROMPTS = RecipePrompts()
_USUAL = (
    "completions",
    "response",
    "responses",
    "output",
    "generation",
    "generated_text",
    "prediction",
    "text",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionFile:
    """A file with one JSON object per line: a completion and dataset columns.

    Consecutive rows with an equal `prompt` form a group; a row without a prompt is a group of its own. Memory never
    holds more than one batch.

    Attributes:
        path: The file.
        completion: The column with the completions, texts or conversations.
        rows: The number of rows; empty lines do not count.
        columns: The names of all columns that any row has.
        prompts: The prompts of a recipe, so that rows are judged as in training; by default each row's own `prompt`.
        unprompted: The number of rows without a prompt.
    """

    path: Path
    completion: str
    rows: int
    columns: frozenset[str]
    prompts: RecipePrompts = OWN_PROMPTS
    unprompted: int = 0

    @classmethod
    def check(
        cls,
        path: Path,
        completion: str = "completion",
        prompts: RecipePrompts = OWN_PROMPTS,
    ) -> CompletionFile:
        """Read and check every line of a file.

        Raises:
            ValueError: for a missing file, a file without rows, or an invalid line; the message names the line.
            OSError: for an unreadable file.
        """
        # A pipe gives its lines once, and the file is read twice: checked, then judged.
        if not path.is_file():
            what = (
                "is not a file that can be read twice"
                if path.exists()
                else "does not exist"
            )
            raise ValueError(f"The file {str(path)!r} {what}.")
        rows = 0
        unprompted = 0
        columns = set[str]()
        for row in _rows(path, completion, prompts):
            rows += 1
            columns.update(row)
            if row.get("prompt") is None:
                unprompted += 1
        if not rows:
            raise ValueError(f"The file {str(path)!r} has no rows.")
        return cls(
            path=path,
            completion=completion,
            rows=rows,
            columns=frozenset(columns),
            prompts=prompts,
            unprompted=unprompted,
        )

    def batches(self, size: int, *, whole_groups: bool = False) -> Iterator[list[Sample]]:
        """Yield batches of `size` samples; with `whole_groups`, larger batches that split no group."""
        batch: list[Sample] = []
        group, before = -1, None
        for row in _rows(self.path, self.completion, self.prompts):
            prompt = row.get("prompt")
            begins = prompt is None or prompt != before
            if len(batch) >= size and (begins or not whole_groups):
                yield batch
                batch = []
            group, before = group + begins, prompt
            batch.append(self._sample(row, group))
        if batch:
            yield batch

    def lines(self) -> Iterator[int]:
        """Yield the line number of each row, from 1."""
        return (number for number, _ in numbered_lines(self.path))

    def _sample(self, row: Row, group: int) -> Sample:
        columns = self.columns - {self.completion, "prompt", *TRL_EXTRAS}
        return sample_of(
            row[self.completion],
            row.get("prompt"),
            completion_ids=row.get("completion_ids"),
            # Every row gets all columns, as rows of a dataset have them.
            row={name: row.get(name) for name in sorted(columns)},
            group=group,
            outcome=read_outcome(row.get("outcome")),
        )


def _rows(path: Path, completion: str, prompts: RecipePrompts) -> Iterator[Row]:
    for number, line in numbered_lines(path):
        try:
            yield prompts.fill(_row(line, completion))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None


def _row(line: bytes, completion: str) -> Row:
    try:
        row = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError(
            "the line is not UTF-8 text; the file must be JSON Lines, one object a line."
        ) from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"the line is not JSON: {error.msg} at character {error.pos + 1}; the file must be JSON Lines, one object "
            f"a line."
        ) from None
    except RecursionError:
        raise ValueError("the line's JSON is nested too deeply.") from None
    if not isinstance(row, dict):
        raise ValueError(
            f"the line must be a JSON object with a column `{completion}`, got a {_kind(row)}."
        )
    if completion not in row:
        usual = next((f"Did you mean `{name}`?" for name in _USUAL if name in row), None)
        known = usual or did_you_mean(completion, row) if row else "It is empty."
        raise ValueError(
            f"the row has no column `{completion}`; name the column with --completion. {known}"
        )
    _check_said(row[completion], completion)
    if row.get("prompt") is not None:
        _check_said(row["prompt"], "prompt")
    return row


def _check_said(value: object, column: str) -> None:
    if isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(one, Mapping) for one in value)
    ):
        return
    raise ValueError(
        f"`{column}` must be a text or a conversation, which is a list of messages; got a {_kind(value)}."
    )


def _kind(value: object) -> str:
    kinds = {
        str: "text",
        bool: "truth value",
        int: "number",
        float: "number",
        dict: "mapping",
        list: "list",
    }
    return kinds.get(type(value), "null")
