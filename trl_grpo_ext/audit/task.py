"""A task: what probes are written of, read from a dataset row. An answer has a gold, a program has tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trl_grpo_ext.answers.golds import GOLD_COLUMNS, gold_texts
from trl_grpo_ext.protocol import first_value
from trl_grpo_ext.rewards.restyled import surely_differ
from trl_grpo_ext.rewards.unit_tests.bad_tests import BadTests
from trl_grpo_ext.rewards.unit_tests.columns import Columns
from trl_grpo_ext.rewards.unit_tests.program import reference_program
from trl_grpo_ext.rewards.unit_tests.read_row import read_row
from trl_grpo_ext.sample import Prompt, Sample, last_message, sample_of_row
from trl_grpo_ext.sandbox.job import Suite

Kind = Literal["answer", "program"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One row of the data."""

    kind: Kind  # whether a final answer is asked for, or a program
    row: Mapping[str, Any]  # the dataset's columns, without the prompt
    prompt: Prompt | None  # the prompt, a text or a conversation
    gold: str  # the right answer, or a whole program that is right
    other: str = ""  # the gold of another row, which is wrong here
    body: str | None = None  # of a program that continues its prompt, what follows the prompt; else None
    suite: Suite | None = None  # of a program, its tests

    @property
    def asked(self) -> str:
        """The text of the prompt's last message."""
        return last_message(self.prompt)

    def sample(self, text: str) -> Sample:
        return sample_of_row({**self.row, "prompt": self.prompt}, text)


def read_tasks(rows: Sequence[Mapping[str, Any]], gold_columns: Sequence[str] = GOLD_COLUMNS) -> list[Task]:
    """The tasks of the rows that can be probed; rows without a gold, or whose gold no other row lacks, are left out.

    A gold is in the first of `gold_columns` that a row has.

    Raises:
        ValueError: if there is no such row.

    Examples:
        >>> [task.other for task in read_tasks([{"prompt": "1+1", "answer": "2"}, {"prompt": "1+2", "answer": "3"}])]
        ['3', '2']
    """
    tasks = [task for row in rows if (task := _program(row) or _answer(row, gold_columns)) is not None]
    paired = [replace(task, other=other.gold) for task in tasks if (other := _other(task, tasks)) is not None]
    if not paired:
        columns = ", ".join(f"`{name}`" for name in (rows[0] if rows else {}))
        golds = " or ".join(f"`{name}`" for name in gold_columns)
        raise ValueError(
            f"No row can be probed: an audit needs two rows with golds that differ, in a column {golds} (--gold names "
            f"another), or rows with tests and a reference solution. The columns are: {columns}."
            f" A reward that looks at the form only can be audited on the bundled data: leave --data out."
        )
    return paired


def _answer(row: Mapping[str, Any], gold_columns: Sequence[str]) -> Task | None:
    cell = first_value(row, gold_columns)
    golds = () if isinstance(cell, Mapping) else gold_texts(cell)
    return Task(kind="answer", row=_without_prompt(row), prompt=row.get("prompt"), gold=golds[0]) if golds else None


def _program(row: Mapping[str, Any]) -> Task | None:
    if not any(row.get(column) is not None for column in Columns().alternatives):
        return None
    program = reference_program(row)
    if program is None:
        return None
    try:
        read = read_row(row, row.get("prompt"), Columns(), None)
    except BadTests:
        return None
    whole = read.whole(program)
    return Task(
        kind="program",
        row=_without_prompt(row),
        prompt=row.get("prompt"),
        gold=whole,
        body=program if whole != program else None,
        suite=read.suite,
    )


def _without_prompt(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "prompt"}


def _other(task: Task, tasks: Sequence[Task]) -> Task | None:
    """The nearest task after this one, in a circle, that has another gold."""
    start = next(place for place, one in enumerate(tasks) if one is task) + 1
    return next((one for one in (*tasks[start:], *tasks[: start - 1]) if _differ(task, one)), None)


def _differ(one: Task, other: Task) -> bool:
    if one.kind != other.kind:
        return False
    return one.gold != other.gold if one.kind == "program" else surely_differ(one.gold, other.gold)
