"""What a dataset row says of its tests, read once for all completions of its group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trl_grpo_ext.rewards.unit_tests.bad_tests import BadTests
from trl_grpo_ext.rewards.unit_tests.columns import Columns, entry_point_of, plain, suite_from_row
from trl_grpo_ext.rewards.unit_tests.program import PromptCode, complete_program, prompt_code, reference_program
from trl_grpo_ext.rewards.unit_tests.scoring import Groups, groups_of
from trl_grpo_ext.rewards.unit_tests.source import imported_packages, packed
from trl_grpo_ext.sample import Prompt
from trl_grpo_ext.sandbox.job import CallSuite, StdioCase, StdioSuite, Suite
from trl_grpo_ext.support.memo import Memo

Part = Literal["all", "shown", "hidden"]
"""Which of a row's tests are meant: all, the first, third, ... one, or the second, fourth, ... one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRow:
    """A row, understood.

    Attributes:
        suite: Its tests.
        groups: The groups of its tests, where they are asked for.
        entry_point: The name of what the completion is to define, if the row says it.
        code: The code of its prompt.
        imports: The packages that its tests, its prompt's code and its reference import.
    """

    suite: Suite
    groups: Groups | None
    entry_point: str | None
    code: PromptCode
    imports: tuple[str, ...] = ()

    def whole(self, program: str) -> str:
        """The program to run for what a completion gives; see `complete_program`."""
        return complete_program(program, self.code, self.entry_point)


_remembered = Memo[str, ReadRow | BadTests](512)  # rows; tests of contests are megabytes each


def read_row(
    row: Mapping[str, Any],
    prompt: Prompt | None,
    columns: Columns,
    groups_column: str | None,
    part: Part = "all",
    reference_columns: Sequence[str] = (),
) -> ReadRow:
    """Read a row, or remember it.

    Args:
        row: The dataset's columns.
        prompt: The row's prompt.
        columns: The columns that tests may be in.
        groups_column: The column of groups; None where they are not asked for.
        part: Which of the tests to read.
        reference_columns: The columns of which the first that is there holds a solution.

    Raises:
        BadTests: if no program can be judged by it.
    """
    read = (*columns.alternatives, columns.entry_point, columns.test_setup_code, columns.test_imports, groups_column)
    values = [plain(row.get(name)) for name in (*read, *reference_columns) if name]
    text = repr([columns, groups_column, part, prompt, reference_columns, *values])
    found = _remembered.get(text)
    if found is None:
        found = _read(row, prompt, columns, groups_column, part)
        if isinstance(found, ReadRow):
            found = replace(found, imports=_imports(found, reference_program(row, reference_columns)))
        _remembered.put(text, found)
    if isinstance(found, BadTests):
        raise found.with_traceback(None)  # it is remembered, and would gather tracebacks
    return found


def row_without_tests(prompt: Prompt | None) -> ReadRow:
    """A row whose one test runs the program without input; see `trials.whatever_it_printed`."""
    suite = StdioSuite(tests=(StdioCase(stdin="", stdout=""),))
    return ReadRow(suite=suite, groups=None, entry_point=None, code=prompt_code(prompt, None))


def _read(
    row: Mapping[str, Any], prompt: Prompt | None, columns: Columns, groups_column: str | None, part: Part
) -> ReadRow | BadTests:
    try:
        suite = _part_of(suite_from_row(row, prompt, columns=columns), part)
        groups = groups_of(plain(row.get(groups_column)), len(suite.tests)) if groups_column else None
        entry_point = entry_point_of(row, columns)
    except BadTests as bad:
        return bad
    return ReadRow(suite=suite, groups=groups, entry_point=entry_point, code=prompt_code(prompt, entry_point))


def _imports(row: ReadRow, reference: str | None) -> tuple[str, ...]:
    """The packages that trusted code of a row imports. A completion is none: it must not choose what it is shown."""
    code = [] if reference is None else [row.whole(reference)]
    if isinstance(row.suite, CallSuite):
        code += [row.code.text, row.suite.setup, *row.suite.tests]
    return imported_packages(code)


def _part_of(suite: Suite, part: Part) -> Suite:
    if part == "all":
        return suite
    first = 1 if part == "hidden" else 0
    if len(suite.tests) <= first:
        raise BadTests("tests_none_hidden", suite.tests)
    if isinstance(suite, CallSuite):
        tests = suite.tests[first::2]
        return replace(suite, tests=tests, code=packed(suite.setup, tests))
    return replace(suite, tests=suite.tests[first::2])
