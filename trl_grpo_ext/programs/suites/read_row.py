"""Parse a dataset row's tests, once per group of completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trl_grpo_ext.programs.sandbox.job import CallSuite, StdioCase, StdioSuite, Suite
from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.cases import contest_function
from trl_grpo_ext.programs.suites.columns import (
    Columns,
    entry_point_of,
    plain,
    suite_from_row,
)
from trl_grpo_ext.programs.suites.left_out import with_names_left_out
from trl_grpo_ext.programs.suites.program_text import (
    PromptCode,
    complete_program,
    prompt_code,
    reference_program,
)
from trl_grpo_ext.programs.suites.solution_imports import names_from_solution
from trl_grpo_ext.programs.suites.source import (
    binds_of,
    imported_packages,
    is_empty,
    packed,
)
from trl_grpo_ext.programs.suites.test_module import told_test
from trl_grpo_ext.sample import Prompt
from trl_grpo_ext.support.memo import Memo

Part = Literal["all", "shown", "hidden"]
"""A selection of a row's tests: all, the hidden ones, or the others."""


Groups = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRow:
    """A parsed dataset row.

    Attributes:
        suite: The selected tests.
        groups: The groups of tests; None unless a groups column was given.
        entry_point: Name that the completion must define: of the row, the prompt's stub, or a name that the tests call.
        code: The code of the prompt.
        called: Names of which the tests take at least one from the program.
        imports: Packages imported by the tests, the prompt's code or the reference.
    """

    suite: Suite
    groups: Groups | None
    entry_point: str | None
    code: PromptCode
    called: frozenset[str] = frozenset()
    imports: tuple[str, ...] = ()

    def whole(self, program: str) -> str:
        """Complete a completion's program with the prompt's code and the names that such programs leave out."""
        names = self.suite.names if isinstance(self.suite, CallSuite) else ()
        whole = complete_program(program, self.code, self.entry_point, names)
        is_of_contest = contest_function(self.suite) is not None
        return with_names_left_out(whole, is_of_contest=is_of_contest)


# At most 512 rows, since the tests of a contest problem can be megabytes.
_remembered = Memo[str, ReadRow | BadTests](512)


def read_row(
    row: Mapping[str, Any],
    prompt: Prompt | None,
    columns: Columns,
    groups_column: str | None,
    part: Part = "all",
    reference_columns: Sequence[str] = (),
    hidden: float = 0.5,
) -> ReadRow:
    """Parse a row, or return the cached result of an equal row.

    Args:
        row: The dataset's columns.
        prompt: The row's prompt.
        columns: The names of the test columns.
        groups_column: The column of test groups; None to read no groups.
        part: The selection of tests.
        reference_columns: Columns with a reference solution; the first with a value counts.
        hidden: The share of hidden tests; see `is_hidden`.

    Raises:
        BadTests: if the row's tests cannot judge any program.
    """
    read = [
        *columns.alternatives,
        columns.entry_point,
        columns.test_setup_code,
        columns.test_imports,
        groups_column,
        *reference_columns,
    ]
    # Lists of plain values: numpy shortens the `repr` of long arrays, so that two rows could look equal.
    values = [plain(row.get(name)) for name in read if name]
    text = repr([columns, groups_column, part, hidden, prompt, reference_columns, *values])
    found = _remembered.get(text)
    if found is None:
        reference = reference_program(row, reference_columns)
        found = _read(row, prompt, columns, groups_column, reference)
        if isinstance(found, ReadRow):
            found = replace(found, imports=_imports(found, reference))
            found = _part_of(found, part, hidden)
        _remembered.put(text, found)
    if isinstance(found, BadTests):
        # The cached exception would otherwise collect tracebacks.
        raise found.with_traceback(None)
    return found


def row_without_tests(prompt: Prompt | None) -> ReadRow:
    """A row whose one test runs the program without input; see `trials.whatever_it_printed`."""
    suite = StdioSuite(tests=(StdioCase(stdin="", stdout=""),))
    return ReadRow(
        suite=suite, groups=None, entry_point=None, code=prompt_code(prompt, None)
    )


def _read(
    row: Mapping[str, Any],
    prompt: Prompt | None,
    columns: Columns,
    groups_column: str | None,
    reference: str | None,
) -> ReadRow | BadTests:
    groups: Groups | None = None
    try:
        suite = suite_from_row(row, prompt, columns=columns, reference=reference)
        if groups_column:
            groups = groups_of(plain(row.get(groups_column)), len(suite.tests))
        entry_point = entry_point_of(row, columns) or _called_name(prompt, suite)
        called = _called(suite)
    except BadTests as bad:
        return bad
    return ReadRow(
        suite=suite,
        groups=groups,
        entry_point=entry_point,
        code=prompt_code(prompt, entry_point),
        called=called,
    )


def _called(suite: Suite) -> frozenset[str]:
    """Collect the names that tests take from the program; a contest's function may be a method of `Solution`."""
    if not isinstance(suite, CallSuite):
        return frozenset()
    function = contest_function(suite)
    if function:
        return frozenset({function, "Solution"})
    names = names_from_solution("\n".join([suite.setup, *suite.tests]))
    return frozenset(names.union(suite.names))


def _called_name(prompt: Prompt | None, suite: Suite) -> str | None:
    """Return the name that tests take from the program: that of the stub that ends the prompt's code, else a new one.

    Of `Node` and `last`, the prompt may define `Node`: then `last` is to be written.
    """
    if not isinstance(suite, CallSuite):
        return None
    codes = {name: prompt_code(prompt, name) for name in suite.names}
    stubs = [
        name
        for name, code in codes.items()
        if code.ends_with_stub and is_empty(code.parts[-1].node)
    ]
    new = [name for name, code in codes.items() if name not in binds_of(code.parts)]
    return next(iter((*stubs, *new, *codes)), None)


def _imports(row: ReadRow, reference: str | None) -> tuple[str, ...]:
    """List packages imported by the row's trusted code; a completion must not choose its own packages."""
    code = []
    if reference is not None:
        code.append(row.whole(reference))
    if isinstance(row.suite, CallSuite):
        code += [row.code.text, row.suite.setup, *row.suite.tests]
    return imported_packages(code)


def is_hidden(place: int, share: float) -> bool:
    """Return whether test number `place`, counted from 0, is hidden: a share of all tests, spread evenly.

    Examples:
        >>> [is_hidden(place, 0.5) for place in range(4)]
        [False, True, False, True]
        >>> [is_hidden(place, 0.25) for place in range(4)]
        [False, False, False, True]
    """
    # The number of hidden tests up to a place grows by one where a test is hidden.
    return int((place + 1) * share) > int(place * share)


def _part_of(row: ReadRow, part: Part, hidden: float) -> ReadRow | BadTests:
    if part == "all":
        return row
    wanted = part == "hidden"
    places = [
        place for place in range(len(row.suite.tests)) if is_hidden(place, hidden) is wanted
    ]
    # The first test is always shown.
    if not places:
        told = [told_test(str(test)) for test in row.suite.tests]
        return BadTests("tests_none_hidden", "\n".join(told))
    if isinstance(row.suite, CallSuite):
        tests = tuple(row.suite.tests[place] for place in places)
        code = packed(row.suite.setup, tests)
        return replace(row, suite=replace(row.suite, tests=tests, code=code))
    cases = tuple(row.suite.tests[place] for place in places)
    return replace(row, suite=replace(row.suite, tests=cases))


def groups_of(value: Any, tests: int) -> Groups:
    """Validate and return a row's groups of tests.

    Raises:
        BadTests: if `value` is no mapping from names to test indices, or leaves a test out.
    """
    if not isinstance(value, Mapping):
        raise BadTests("groups_invalid", value)
    # A dataset gives every row the keys of all rows, and fills gaps with None.
    groups = {name: places for name, places in value.items() if places is not None}
    grouped: set[int] = set()
    for places in groups.values():
        if not _are_places(places, tests):
            raise BadTests("groups_invalid", value)
        grouped.update(places)
    if grouped != set(range(tests)):
        raise BadTests("groups_invalid", value)
    return groups


def _are_places(places: Any, tests: int) -> bool:
    """Test if a value lists test numbers, at least one; a bool is no number."""
    if not isinstance(places, list | tuple) or not places:
        return False
    return all(type(place) is int and 0 <= place < tests for place in places)
