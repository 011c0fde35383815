"""A task: the part of a dataset row that probes need. An answer task has a gold, a program task has tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trl_grpo_ext.answers.golds import GOLD_COLUMNS, gold_texts
from trl_grpo_ext.programs.sandbox.job import Suite
from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.program_text import reference_program
from trl_grpo_ext.programs.suites.read_row import read_row
from trl_grpo_ext.protocol import first_value
from trl_grpo_ext.rewards.restyled import surely_differ
from trl_grpo_ext.rewards.unit_tests.verifier import UnitTestVerifier
from trl_grpo_ext.sample import Prompt, Sample, last_message, sample_of_row

Kind = Literal["answer", "program"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A dataset row to write probes for."""

    # "answer" for a final answer, "program" for code.
    kind: Kind
    # The dataset's columns without the prompt.
    row: Mapping[str, Any]
    # A text or a conversation.
    prompt: Prompt | None
    # The right answer, or a whole right program.
    gold: str
    # Another row's gold, which is wrong for this row.
    other: str = ""
    # The part of the program after the prompt's code; None if the prompt starts no program.
    body: str | None = None
    # The tests of a program task; None for an answer task.
    suite: Suite | None = None

    @property
    def asked(self) -> str:
        """Return the text of the prompt's last message."""
        return last_message(self.prompt)

    def sample(self, text: str) -> Sample:
        return sample_of_row({**self.row, "prompt": self.prompt}, text)


def read_tasks(
    rows: Sequence[Mapping[str, Any]],
    gold_columns: Sequence[str] = GOLD_COLUMNS,
    programs: UnitTestVerifier | None = None,
) -> list[Task]:
    """Read tasks from dataset rows; skip rows without a gold, or without another row of a different gold.

    The gold is read from the first of `gold_columns` that the row has. Tests and reference solutions are read where
    the verifier `programs` reads them; by default, in the usual columns.

    Raises:
        ValueError: if no row makes a task.

    Examples:
        >>> [task.other for task in read_tasks([{"prompt": "1+1", "answer": "2"}, {"prompt": "1+2", "answer": "3"}])]
        ['3', '2']
    """
    # A program first: a row with tests may have a column `answer` as well, with its solution.
    reader = programs or UnitTestVerifier()
    read = [_program(row, reader) or _answer(row, gold_columns) for row in rows]
    tasks = [task for task in read if task is not None]
    paired = []
    for task in tasks:
        other = _other(task, tasks)
        if other is not None:
            paired.append(replace(task, other=other.gold))
    if not paired:
        columns = ", ".join(f"`{name}`" for name in (rows[0] if rows else {}))
        golds = " or ".join(f"`{name}`" for name in gold_columns)
        raise ValueError(
            f"No row can be probed: an audit needs two rows with golds that differ, in a column {golds} (--gold names "
            f"another), or rows with tests and a reference solution (`reference_column` of `unit_test` names its "
            f"column). The columns are: {columns}."
            f" A reward that looks at the form only can be audited on the bundled data: leave --data out."
        )
    return paired


def _answer(row: Mapping[str, Any], gold_columns: Sequence[str]) -> Task | None:
    cell = first_value(row, gold_columns)
    # A mapping, such as a message, has no gold's text.
    if isinstance(cell, Mapping):
        return None
    golds = gold_texts(cell)
    if not golds:
        return None
    return Task(
        kind="answer",
        row=_without_prompt(row),
        prompt=row.get("prompt"),
        gold=golds[0],
    )


def _program(row: Mapping[str, Any], reader: UnitTestVerifier) -> Task | None:
    columns = reader.columns
    if not any(row.get(column) is not None for column in columns.alternatives):
        return None
    program = reference_program(row, reader.reference_columns)
    if program is None:
        return None
    try:
        read = read_row(row, row.get("prompt"), columns, None)
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
    """Return the nearest later task with a different gold, searching from the start after the last task."""
    # By identity, since rows may be equal.
    own_place = next(place for place, each in enumerate(tasks) if each is task)
    for other in (*tasks[own_place + 1 :], *tasks[:own_place]):
        if _differ(task, other):
            return other
    return None


def _differ(one: Task, other: Task) -> bool:
    if one.kind != other.kind:
        return False
    if one.kind == "program":
        return one.gold != other.gold
    # `1/2` is no wrong answer for the gold 0.5, so it is no other gold.
    return surely_differ(one.gold, other.gold)
