"""A file of completions: JSON Lines, checked as a whole before anything is judged, then read in batches of samples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trl_grpo_ext.outcome import read_outcome
from trl_grpo_ext.sample import Sample, samples_from_columns
from trl_grpo_ext.support.files import numbered_lines
from trl_grpo_ext.support.text import did_you_mean

Row = dict[str, Any]

_USUAL = ("completions", "response", "responses", "output", "generation", "generated_text", "prediction", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionFile:
    """Rows on disk, each a JSON object: a completion, and the columns of the dataset.

    Rows that follow each other with the same `prompt` are a group; a row without a prompt is a group by itself. At no
    time is there more than a batch in memory. `completion` is the column that has completions, texts or conversations;
    empty lines are no rows.
    """

    path: Path
    completion: str
    rows: int
    columns: frozenset[str]

    @classmethod
    def check(cls, path: Path, completion: str = "completion") -> CompletionFile:
        """Read every line of a file once.

        Raises:
            ValueError: for a file that is not there or has no rows, and for a line that is no row; naming the line.
            OSError: for a file that cannot be read.
        """
        if not path.is_file():
            what = "is not a file that can be read twice" if path.exists() else "does not exist"
            raise ValueError(f"The file {str(path)!r} {what}.")
        rows, columns = 0, set[str]()
        for row in _rows(path, completion):
            rows += 1
            columns.update(row)
        if not rows:
            raise ValueError(f"The file {str(path)!r} has no rows.")
        return cls(path=path, completion=completion, rows=rows, columns=frozenset(columns))

    def batches(self, size: int, *, whole_groups: bool = False) -> Iterator[list[Sample]]:
        """The samples, `size` at a time; with `whole_groups` more, so that no group is split."""
        batch: list[Row] = []
        groups: list[int] = []
        group, before = -1, None
        for row in _rows(self.path, self.completion):
            prompt = row.get("prompt")
            begins = prompt is None or prompt != before
            if len(batch) >= size and (begins or not whole_groups):
                yield self._samples(batch, groups)
                batch, groups = [], []
            group, before = group + begins, prompt
            batch.append(row)
            groups.append(group)
        if batch:
            yield self._samples(batch, groups)

    def lines(self) -> Iterator[int]:
        """The line of each row, from 1."""
        return (number for number, _ in numbered_lines(self.path))

    def _samples(self, rows: Sequence[Row], groups: Sequence[int]) -> list[Sample]:
        names = sorted({name for row in rows for name in row} - {self.completion})
        # As TRL hands them to a reward function, which has `prompts` for the dataset's `prompt`.
        columns = {"prompts" if name == "prompt" else name: [row.get(name) for row in rows] for name in names}
        samples = samples_from_columns([row[self.completion] for row in rows], columns)
        outcomes = [read_outcome(row.get("outcome")) for row in rows]
        return [
            replace(sample, group=group, outcome=outcome)
            for sample, group, outcome in zip(samples, groups, outcomes, strict=True)
        ]


def _rows(path: Path, completion: str) -> Iterator[Row]:
    for number, line in numbered_lines(path):
        try:
            yield _row(line, completion)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None


def _row(line: bytes, completion: str) -> Row:
    try:
        row = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError("the line is not UTF-8 text; the file must be JSON Lines, one object a line.") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the line is not JSON: {error.msg} at character {error.pos + 1}.") from None
    except RecursionError:
        raise ValueError("the line's JSON is nested too deeply.") from None
    if not isinstance(row, dict):
        raise ValueError(f"the line must be a JSON object with a column `{completion}`, got a {_kind(row)}.")
    if completion not in row:
        usual = next((f"Did you mean `{name}`?" for name in _USUAL if name in row), None)
        known = usual or did_you_mean(completion, row) if row else "It is empty."
        raise ValueError(f"the row has no column `{completion}`; name the column with --completion. {known}")
    _check_said(row[completion], completion)
    if row.get("prompt") is not None:
        _check_said(row["prompt"], "prompt")
    return row


def _check_said(value: object, column: str) -> None:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, Mapping) for one in value)):
        return
    raise ValueError(f"`{column}` must be a text or a conversation, which is a list of messages; got a {_kind(value)}.")


def _kind(value: object) -> str:
    kinds = {str: "text", bool: "truth value", int: "number", float: "number", dict: "mapping", list: "list"}
    return kinds.get(type(value), "null")
