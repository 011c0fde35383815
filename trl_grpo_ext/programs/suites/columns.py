"""Find the tests of a dataset row by column, and read them in any common form."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.programs.sandbox.job import Suite
from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.call_suite import call_suite
from trl_grpo_ext.programs.suites.cases import from_json, suite_from_cases, suite_from_pairs
from trl_grpo_ext.programs.suites.namesakes import defined_names
from trl_grpo_ext.programs.suites.program import PromptCode, complete_program, prompt_code
from trl_grpo_ext.programs.suites.source import Statement, parse, statements
from trl_grpo_ext.programs.suites.test_module import Module, has_test_functions, read_test_module
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
        input_output: The dict of APPS and TACO, or its JSON, with `inputs`, `outputs` and optionally `fn_name`.
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
        """All test columns; a dataset needs at least one of these columns."""
        return (self.tests, self.test_list, self.test, self.verification_info, self.input_output)


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
    tests, test_list, test, info, pairs = (_value(row, name) for name in columns.alternatives)
    if tests is None and test_list is None and test is None:
        if info is not None:
            return _from_verification_info(_loaded(info))
        if pairs is not None:
            return _from_input_output(_loaded(pairs))
        raise BadTests("tests_missing", f"none of {', '.join(columns.alternatives)}")
    entry_point = entry_point_of(row, columns)
    code = prompt_code(prompt, entry_point)
    if reference is not None:
        code = replace(code, reference=defined_names(complete_program(reference, code, entry_point)))
    if tests is None and test_list is not None:
        return _from_strings(_loaded(test_list), _mbpp_setup(row, columns), code)
    return _from_any(tests if tests is not None else test, code, _entry_expression(row, columns))


def entry_point_of(row: Mapping[str, Any], columns: Columns | None = None) -> str | None:
    """Return the name that the completion must define, for a method its class; None if the row names none.

    Raises:
        BadTests: if the entry point is not a name, or a method of a class.
    """
    expression = _entry_expression(row, columns or Columns())
    return expression.partition("(")[0] if expression else None


def _entry_expression(row: Mapping[str, Any], columns: Columns) -> str | None:
    """Return the argument of HumanEval's `check`: a name, or a method such as `Solution().search`."""
    value = _value(row, columns.entry_point)
    if value is None or value == "":
        return None
    names = value.strip().replace("()", "").split(".") if isinstance(value, str) else []
    if len(names) not in (1, 2) or not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
        raise BadTests("entry_point_invalid", value)
    return "().".join(names)


def _value(row: Mapping[str, Any], column: str) -> Any:
    value = plain(row.get(column))
    # pandas stores None as NaN.
    return None if value is None or value != value else value


def plain(value: Any) -> Any:
    """Convert numpy and pandas containers to lists, dicts and scalars."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, str | bytes):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _loaded(value: Any) -> Any:
    """Parse a text as JSON; return any other value unchanged."""
    if isinstance(value, str):
        if not value.strip():
            raise BadTests("tests_empty", value)
        return plain(from_json(value))
    return value


def _from_any(value: Any, code: PromptCode, entry: str | None) -> Suite:
    """Build a suite from a list of strings, from dicts, or from a string: JSON of these, or test code."""
    if isinstance(value, str):
        if not value.strip():
            raise BadTests("tests_empty", value)
        if value.lstrip()[0] not in "[{":
            return _from_code(value, code, entry)
        value = _loaded(value)
    if isinstance(value, dict):
        return _from_verification_info(value) if "test_cases" in value else _from_input_output(value)
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return suite_from_cases(value)
    return _from_strings(value, "", code)


def _from_strings(tests: Any, setup: str, code: PromptCode) -> Suite:
    """Build a suite from strings: each string is a test, except pure definitions such as helpers, which are setup."""
    if not isinstance(tests, list) or not all(isinstance(test, str) for test in tests):
        raise BadTests("tests_not_text", tests)
    parts = {test: statements(test) for test in tests if test.strip()}
    if any(has_test_functions(found) for found in parts.values()):
        return call_suite(read_test_module("\n".join([setup, *parts])), code)
    before = [part for found in parts.values() if _only_defines(found) for part in found]
    snippets = tuple(_as_test(test, found) for test, found in parts.items() if not _only_defines(found))
    if not snippets:
        raise BadTests("tests_empty", tests)
    if _share_names([found for found in parts.values() if not _only_defines(found)]):
        return call_suite(Module(tuple(statements(setup)), ("\n".join(parts),)), code)
    return call_suite(Module((*statements(setup), *before), snippets, in_one_state=bool(before)), code)


def _share_names(tests: list[list[Statement]]) -> bool:
    """Test if a string reads a name bound only in another string: then the strings are lines of a single test."""
    bound = [{name for part in test for name in part.usage.binds} for test in tests]
    read = [{name for part in test for name in part.usage.reads} for test in tests]
    return any(
        reads & (set().union(*bound[:index], *bound[index + 1 :]) - bound[index]) for index, reads in enumerate(read)
    )


def _only_defines(parts: list[Statement]) -> bool:
    return all(part.is_definition for part in parts)


def _as_test(text: str, parts: list[Statement]) -> str:
    """Return the test text; a bare comparison, which could not fail, becomes an assert."""
    lone = parts[0].node if len(parts) == 1 else None
    if isinstance(lone, ast.Expr) and isinstance(lone.value, ast.Compare | ast.BoolOp | ast.UnaryOp):
        return f"assert ({text}\n)"
    return text


def _mbpp_setup(row: Mapping[str, Any], columns: Columns) -> str:
    imports, setup = _value(row, columns.test_imports) or [], _value(row, columns.test_setup_code) or ""
    lines = [imports] if isinstance(imports, str) else imports
    if not isinstance(setup, str) or not all(isinstance(line, str) for line in lines):
        raise BadTests("tests_not_text", [imports, setup])
    return "\n".join([*lines, setup])


def _from_code(text: str, code: PromptCode, entry: str | None) -> Suite:
    # A function with the entry point's name is a solution, not a check.
    checks = [name for name in _check_functions(text) if name != code.entry_point] if entry else []
    if not checks:
        return call_suite(read_test_module(text), code)
    setup = [part for part in statements(text) if not _calls(part, checks)]
    tests = tuple(f"{check}({entry})" for check in checks)
    return call_suite(Module(tuple(setup), tests), code)


def _check_functions(text: str) -> list[str]:
    """Find check functions, which take the solution as argument: `check`, else functions of `candidate` (HumanEval)."""
    tree = parse(text)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)] if tree else []
    named = [node.name for node in functions if node.name == "check" and node.args.args]
    takers = [node.name for node in functions if [argument.arg for argument in node.args.args] == ["candidate"]]
    return named or takers


def _calls(part: Statement, names: list[str]) -> bool:
    node = part.node
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names


def _from_verification_info(info: Any) -> Suite:
    if not isinstance(info, dict):
        raise BadTests("tests_unknown_form", info)
    language = info.get("language") or "python"
    if str(language).lower() not in _PYTHON:
        raise BadTests("language_not_python", language)
    cases = _loaded(info.get("test_cases"))
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise BadTests("tests_unknown_form", info)
    if not cases:
        raise BadTests("tests_empty", info)
    return suite_from_cases(cases)


def _from_input_output(pairs: Any) -> Suite:
    if not isinstance(pairs, dict):
        raise BadTests("tests_unknown_form", pairs)
    inputs, outputs = pairs.get("inputs"), pairs.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise BadTests("tests_unknown_form", pairs)
    return suite_from_pairs(inputs, outputs, pairs.get("fn_name"))
