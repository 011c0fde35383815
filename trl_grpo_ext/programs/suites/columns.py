"""Find the tests of a dataset row by column, and read them in any common form."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.programs.sandbox.job import Suite
from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.call_suite import BUILTINS, call_suite
from trl_grpo_ext.programs.suites.cases import (
    INPUTS,
    OUTPUTS,
    from_json,
    suite_from_cases,
    suite_from_pairs,
)
from trl_grpo_ext.programs.suites.namesakes import defined_names
from trl_grpo_ext.programs.suites.program_text import (
    PromptCode,
    complete_program,
    prompt_code,
)
from trl_grpo_ext.programs.suites.source import (
    Statement,
    binds_of,
    joined,
    reads_of,
    statements,
)
from trl_grpo_ext.programs.suites.test_module import (
    Module,
    has_test_functions,
    read_test_module,
)
from trl_grpo_ext.protocol import first_value
from trl_grpo_ext.sample import Prompt

_PYTHON = frozenset({"python", "python3", "py", "py3", "pypy3"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The column names of tests, in the order of search.

    Attributes:
        tests: Asserts, dicts with input and output, or test code.
        test_list: MBPP's asserts, with `test_setup_code` and `test_imports` in front.
        test: HumanEval's code that defines `check`, or other test code.
        verification_info: open-r1's dict, or its JSON, with `test_cases`.
        input_output: The dict of APPS and TACO, or its JSON, with `inputs`, `outputs` and optionally `fn_name`;
            CodeContests' `input` and `output` are read too.
        test_setup_code: Code to run before the asserts of `test_list`.
        test_imports: Import lines to run before `test_setup_code`.
        entry_point: The name that the completion must define, for tests in the first three columns; a method is
            written `Solution().search`.
    """

    tests: str = "tests"
    test_list: str = "test_list"
    test: str = "test"
    verification_info: str = "verification_info"
    input_output: str = "input_output"
    test_setup_code: str = "test_setup_code"
    test_imports: str = "test_imports"
    entry_point: str = "entry_point"

    @classmethod
    def only(cls, column: str, *, entry_point: str = "entry_point") -> Columns:
        """Name one column with any form of tests; no other column of tests is read.

        Examples:
            >>> [name for name in Columns.only("cases").alternatives if name]
            ['cases']
        """
        # By default, each field has its own name as the column.
        unread = dict.fromkeys(cls().alternatives, "")
        return cls(**{**unread, "tests": column, "entry_point": entry_point})

    @property
    def alternatives(self) -> tuple[str, ...]:
        """All test columns; a dataset needs at least one."""
        return (
            self.tests,
            self.test_list,
            self.test,
            self.verification_info,
            self.input_output,
        )


def suite_from_row(
    row: Mapping[str, Any],
    prompt: Prompt | None = None,
    *,
    columns: Columns | None = None,
    reference: str | None = None,
) -> Suite:
    """Read the test suite of a row, from the first test column with a value.

    Args:
        row: The dataset's columns.
        prompt: The row's prompt, whose helpers HumanEval's tests call; not needed otherwise.
        columns: The column names; by default those of `Columns()`.
        reference: The row's reference solution, which tells the program's names from Python's.

    Raises:
        BadTests: if the tests are missing, or cannot judge any program.

    Examples:
        >>> suite_from_row({"tests": ["assert add(1, 2) == 3"]}).names
        ('add',)
        >>> suite_from_row({"input_output": '{"inputs": ["1 2"], "outputs": ["3"]}'}).tests
        (StdioCase(stdin='1 2', stdout='3'),)
    """
    columns = columns or Columns()
    filled = [name for name in columns.alternatives if _value(row, name) is not None]
    if not filled:
        raise BadTests("tests_missing", f"none of {', '.join(columns.alternatives)}")
    column = filled[0]
    entry_point = entry_point_of(row, columns)
    code = prompt_code(prompt, entry_point)
    if reference is not None:
        defined = defined_names(complete_program(reference, code, entry_point))
        code = replace(code, reference=defined)
    beside = _Beside(
        code=code,
        entry=_entry_expression(row, columns),
        setup=_mbpp_setup(row, columns) if column == columns.test_list else "",
    )
    return _suite(_value(row, column), beside)


def entry_point_of(row: Mapping[str, Any], columns: Columns | None = None) -> str | None:
    """Return the name that the completion must define, for a method its class; None if the row names none.

    Raises:
        BadTests: if the entry point is not a name, or a method of a class.
    """
    expression = _entry_expression(row, columns or Columns())
    if expression is None:
        return None
    name, _, _ = expression.partition("(")
    return name


def _entry_expression(row: Mapping[str, Any], columns: Columns) -> str | None:
    """Return the argument of HumanEval's `check`: a name, or a method such as `Solution().search`."""
    value = _value(row, columns.entry_point)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise BadTests("entry_point_invalid", value)
    names = value.strip().replace("()", "").split(".")
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise BadTests("entry_point_invalid", value)
    if len(names) > 2:
        raise BadTests("entry_point_invalid", value)
    return "().".join(names)


def _value(row: Mapping[str, Any], column: str) -> Any:
    value = plain(row.get(column))
    # pandas stores None as NaN, which differs from itself.
    if value is None or value != value:
        return None
    return value


def plain(value: Any) -> Any:
    """Convert numpy and pandas containers to lists, dicts and scalars."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """Row values that complete a test: prompt code, entry point and setup.

    Attributes:
        code: The code of the prompt.
        entry: The argument of HumanEval's `check`; None if the row names no entry point.
        setup: Code to run before MBPP's asserts.
    """

    code: PromptCode
    entry: str | None
    setup: str


def _suite(value: Any, beside: _Beside) -> Suite:
    """Build a suite from tests, or JSON of tests, by the first matching form of `_FORMS`."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        value = plain(from_json(value))
    for is_form, read in _FORMS:
        if is_form(value):
            return read(value, beside)
    raise BadTests("tests_not_text", value)


def _from_strings(tests: list[str], beside: _Beside) -> Suite:
    """Build a suite from strings: each string is a test, except pure definitions such as helpers, which are setup."""
    parts = [(test, statements(test)) for test in tests if test.strip()]
    if all(_only_checks(found) for _, found in parts):
        # A check that is listed twice runs once.
        parts = list(dict(parts).items())
    if any(has_test_functions(found) for _, found in parts):
        code = "\n".join([beside.setup, *(test for test, _ in parts)])
        return call_suite(read_test_module(statements(code)), beside.code)
    before: list[Statement] = []
    snippets: list[str] = []
    run: list[list[Statement]] = []
    for test, found in parts:
        if all(part.is_definition for part in found):
            before += found
        else:
            snippets.append(_as_test(test, found))
            run.append(found)
    if not snippets:
        raise BadTests("tests_empty", tests)
    setup = statements(beside.setup)
    # The strings are lines of one test then, and keep their order.
    if _share_names(run) or _assigns_in_between([found for _, found in parts]):
        return call_suite(Module(tuple(setup), ("\n".join(tests),)), beside.code)
    return call_suite(
        Module((*setup, *before), tuple(snippets), in_one_state=bool(before)), beside.code
    )


def _only_checks(parts: Sequence[Statement]) -> bool:
    """Test if a string only defines or checks, without a call for its effect, such as `stack.push(1)`."""
    return all(part.is_definition or part.is_assert or _compares(part) for part in parts)


def _compares(part: Statement) -> bool:
    """Test if a statement is a bare comparison."""
    return isinstance(part.node, ast.Expr) and isinstance(
        part.node.value, ast.Compare | ast.BoolOp | ast.UnaryOp
    )


def _share_names(tests: list[list[Statement]]) -> bool:
    """Test if a string reads a name bound only in another string: then the strings are lines of a single test."""
    for place, test in enumerate(tests):
        others: list[Statement] = []
        for other in (*tests[:place], *tests[place + 1 :]):
            others += other
        if reads_of(test) & (binds_of(others) - binds_of(test)):
            return True
    return False


def _assigns_in_between(tests: list[list[Statement]]) -> bool:
    """Test if a string behind a test assigns what earlier strings may have changed, as in `n = len(calls)`.

    Such an assignment rebinds a name, or reads more than builtins, imports, functions and classes.
    """
    defined = [part for test in tests for part in test if not part.is_assignment]
    constant = binds_of(defined) | BUILTINS
    bound: set[str] = set()
    is_behind_test = False
    for test in tests:
        if not all(part.is_definition for part in test):
            is_behind_test = True
            continue
        assigned = [part for part in test if part.is_assignment]
        changes = reads_of(assigned) - constant or binds_of(assigned) & bound
        if is_behind_test and changes:
            return True
        bound |= binds_of(test)
    return False


def _as_test(text: str, parts: list[Statement]) -> str:
    """Return the test text; a bare comparison, which could not fail, becomes an assert."""
    if len(parts) != 1 or not _compares(parts[0]):
        return text
    # The line break ends a comment that the text may end with.
    return f"assert ({text}\n)"


def _mbpp_setup(row: Mapping[str, Any], columns: Columns) -> str:
    imports = _value(row, columns.test_imports) or []
    setup = _value(row, columns.test_setup_code) or ""
    lines = [imports] if isinstance(imports, str) else imports
    if not isinstance(setup, str) or not all(isinstance(line, str) for line in lines):
        raise BadTests("tests_not_text", [imports, setup])
    return "\n".join([*lines, setup])


def _from_code(text: str, beside: _Beside) -> Suite:
    if not text.strip():
        raise BadTests("tests_empty", text)
    text = f"{beside.setup}\n{text}" if beside.setup else text
    parts = statements(text)
    checks = []
    if beside.entry:
        # A function with the entry point's name is a solution, not a check.
        checks = [
            name for name in _check_functions(parts) if name != beside.code.entry_point
        ]
    if not checks:
        return call_suite(_test_module(parts, beside), beside.code)
    setup = [part for part in parts if not _calls(part, checks)]
    tests = [f"{check}({beside.entry})" for check in checks]
    return call_suite(Module(tuple(setup), tuple(tests)), beside.code)


def _test_module(parts: list[Statement], beside: _Beside) -> Module:
    try:
        return read_test_module(parts)
    except BadTests as bad:
        # HumanEval's tests check the function that the row names.
        lacks_entry = bad.reason == "tests_empty" and beside.entry is None
        if lacks_entry and _check_functions(parts):
            raise BadTests("entry_point_missing", joined(parts)) from None
        raise


def _check_functions(parts: Sequence[Statement]) -> list[str]:
    """Find check functions, which take the solution as argument: `check`, else functions of `candidate` (HumanEval)."""
    named = []
    takers = []
    for part in parts:
        node = part.node
        if isinstance(node, ast.FunctionDef):
            arguments = [argument.arg for argument in node.args.args]
            if node.name == "check" and arguments:
                named.append(node.name)
            if arguments == ["candidate"]:
                takers.append(node.name)
    return named or takers


def _calls(part: Statement, names: list[str]) -> bool:
    """Test if a statement calls a function by a listed name."""
    if not isinstance(part.node, ast.Expr) or not isinstance(part.node.value, ast.Call):
        return False
    function = part.node.value.func
    return isinstance(function, ast.Name) and function.id in names


def _from_verification_info(info: dict[str, Any], _: _Beside) -> Suite:
    language = info.get("language") or "python"
    if str(language).lower() not in _PYTHON:
        raise BadTests("language_not_python", language)
    cases = info["test_cases"]
    if isinstance(cases, str):
        cases = plain(from_json(cases))
    if cases == []:
        raise BadTests("tests_empty", info)
    if not _is_list_of(dict, cases):
        raise BadTests("tests_unknown_form", info)
    return suite_from_cases(cases)


def _from_input_output(pairs: dict[str, Any], _: _Beside) -> Suite:
    inputs = first_value(pairs, INPUTS)
    outputs = first_value(pairs, OUTPUTS)
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise BadTests("tests_unknown_form", pairs)
    return suite_from_pairs(inputs, outputs, pairs.get("fn_name"))


def _is_list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)


# A recognizer and a reader for each form of tests, tried in this order.
_FORMS: tuple[tuple[Callable[[Any], bool], Callable[[Any, _Beside], Suite]], ...] = (
    (lambda value: isinstance(value, str), _from_code),
    (
        lambda value: isinstance(value, dict) and "test_cases" in value,
        _from_verification_info,
    ),
    (lambda value: isinstance(value, dict), _from_input_output),
    (lambda value: _is_list_of(str, value), _from_strings),
    (lambda value: _is_list_of(dict, value), lambda value, _: suite_from_cases(value)),
)
