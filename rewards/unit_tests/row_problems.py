"""Find problems of rows before training: unusable tests, and tests that accept non-solutions.

Unusable tests include tests that need unsupported features of the sandbox, where correct programs fail.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trl_grpo_ext.programs.sandbox.job import CallSuite, Ending, Job, RunResult, Suite
from trl_grpo_ext.programs.sandbox.packages import is_refused
from trl_grpo_ext.programs.suites.bad_tests import ADVICE, TESTS_DO_NOT_RUN, BadTests
from trl_grpo_ext.programs.suites.call_suite import FORGOTTEN
from trl_grpo_ext.programs.suites.namesakes import tests_of_python
from trl_grpo_ext.programs.suites.source import parse
from trl_grpo_ext.programs.suites.test_module import without_shim
from trl_grpo_ext.programs.suites.trials import REFERENCE, row_problem
from trl_grpo_ext.protocol import DataProblem
from trl_grpo_ext.rewards.unit_tests.scoring import missing_module

# Matches `check(add)` and `check(Solution().add)`.
_CHECK = re.compile(r"\w+\((\w+)(?:\(\)\.\w+)?\)")
_NEEDS = {
    "threads of the tests that wait for each other": {"Thread", "ThreadPoolExecutor", "Barrier", "Timer"},
    "text of the program that tests run": {"exec", "doctest", "InteractiveInterpreter"},
    "processes": {"multiprocessing", "ProcessPoolExecutor", "subprocess", "Popen"},
    "the source of the program": {"getsource", "getsourcelines", "co_code"},
    "weak references": {"weakref"},
    "pickles of the program's objects": {"pickle"},
}


def row_problems(
    rows: Sequence[Mapping[str, Any]],
    suite_of: Callable[[Mapping[str, Any]], Suite],
    trials_of: Callable[[Mapping[str, Any], Suite], list[tuple[str, Job]]],
    run: Callable[[Sequence[Job]], list[RunResult]] | None,
) -> list[DataProblem]:
    """List the problems of rows, sorted by row.

    Args:
        rows: The rows.
        suite_of: Reads a row's tests; raises BadTests for unusable tests.
        trials_of: Returns a row's trial runs as (description, job): reference and non-solutions.
        run: Runs jobs in the sandbox; None to run nothing, and to check only that tests are readable.
    """
    problems: list[DataProblem] = []
    jobs: list[tuple[int, str, Job]] = []
    needs: dict[int, str] = {}
    for position, row in enumerate(rows):
        try:
            suite = suite_of(row)
        except BadTests as bad:
            problems.append(DataProblem(row=position, reason=bad.reason, value=bad.value, advice=bad.advice))
            continue
        if run is not None:
            trials = trials_of(row, suite)
            jobs += [(position, what, job) for what, job in trials]
            if all(what != REFERENCE for what, _ in trials):
                problems += _problem(position, "tests_call_python", tests_of_python_alone(suite))
            needs[position] = unsupported_needs(suite)
            problems += _problem(position, "tests_forget_an_import", forgotten_imports(suite))
            problems += _problem(position, "tests_trust_the_completion", helpers_of_the_completion(suite))
    outcomes = run([job for _, _, job in jobs]) if run is not None and jobs else []
    broken: dict[int, str] = {}
    for (position, what, _), outcome in zip(jobs, outcomes, strict=True):
        if what == REFERENCE and outcome.ending is Ending.PASSED:
            # The reference passes, so the apparent need is met.
            needs[position] = ""
        reason = row_problem(what, outcome)
        if reason == TESTS_DO_NOT_RUN:
            # Broken tests fail for every trial alike: report them once per row.
            broken.setdefault(position, outcome.detail)
            continue
        value = f"{what}: {outcome.ending} {outcome.detail}".strip()
        problems += _problem(position, reason, value)
    problems += [_of_broken_tests(position, detail) for position, detail in broken.items()]
    for position, need in needs.items():
        problems += _problem(position, "tests_need_unsupported", need)
    return sorted(problems, key=lambda problem: problem.row)


def _problem(position: int, reason: str | None, value: str) -> list[DataProblem]:
    return [DataProblem(row=position, reason=reason, value=value, advice=ADVICE[reason])] if reason and value else []


def _of_broken_tests(position: int, detail: str) -> DataProblem:
    """Describe a row whose tests fail by themselves, usually by importing a missing package."""
    name = missing_module(detail)
    advice = ADVICE[TESTS_DO_NOT_RUN]
    if is_refused(name):
        advice = f"The tests import {name}, a benchmark that ships with solutions, never shown. Do without it."
    elif name:
        advice = f"The tests import {name}, which is not installed here: `pip install` it, or drop the row."
    return DataProblem(row=position, reason=TESTS_DO_NOT_RUN, value=detail, advice=advice)


def forgotten_imports(suite: Suite) -> str:
    """Return the import lines that were added for imports missing in the tests, joined by `; `; empty if none."""
    setup = suite.setup if isinstance(suite, CallSuite) else ""
    return "; ".join(line.removesuffix(FORGOTTEN) for line in setup.splitlines() if line.endswith(FORGOTTEN))


def tests_of_python_alone(suite: Suite) -> str:
    """Return the tests, joined by `; `, that call only names taken from Python, and nothing of the program.

    Examples:
        >>> suite = CallSuite(tests=("assert max(1, 2) == 2", "assert low(1, 2) == 1"), names=("low",))
        >>> tests_of_python_alone(suite)
        'assert max(1, 2) == 2'
    """
    if not isinstance(suite, CallSuite):
        return ""
    forgotten = parse(forgotten_imports(suite)) or ast.Module([], [])
    taken = [alias.name for node in forgotten.body for alias in _aliases(node)]
    return "; ".join(tests_of_python("\n".join([without_shim(suite.setup), *suite.tests]), taken, suite.names))


def helpers_of_the_completion(suite: Suite) -> str:
    """Return helper names that a HumanEval-style check takes from the completion, besides the checked solution.

    Examples:
        >>> check = "def check(candidate): assert candidate(encode('a')) == 'a'"
        >>> helpers_of_the_completion(CallSuite(setup=check, tests=("check(decode)",), names=("decode", "encode")))
        'encode'
    """
    if not isinstance(suite, CallSuite):
        return ""
    checked = [_CHECK.fullmatch(test.strip()) for test in suite.tests]
    solutions = {found[1] for found in checked if found is not None}
    if None in checked or not solutions <= {*suite.names}:
        return ""
    return ", ".join(sorted({*suite.names} - solutions))


def unsupported_needs(suite: Suite) -> str:
    """Name the sandbox features that the tests seem to need but the sandbox lacks; empty if none.

    Examples:
        >>> unsupported_needs(CallSuite(tests=("assert weakref.ref(f())()",), names=("f",)))
        'weak references'
        >>> unsupported_needs(CallSuite(tests=("from pathlib import Path\\nPath.exists = f",), names=("f",)))
        'a class of the library with another attribute'
    """
    if not isinstance(suite, CallSuite):
        return ""
    names = {name for text in (without_shim(suite.setup), *suite.tests) for name in _names(text)} - {*suite.names}
    needs = [need for need, words in _NEEDS.items() if words & names]
    replaced = [kind for text in (suite.setup, *suite.tests) for kind in _replaced_in_library(text)]
    return ", ".join([*needs, *dict.fromkeys(replaced)])


def _replaced_in_library(source: str) -> Iterator[str]:
    """Name what tests replace in Python's library, and the program keeps: `Path.exists = f`, `sys.modules["x"] = f`."""
    nodes = list(ast.walk(parse(source) or ast.Module([], [])))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module in sys.stdlib_module_names]
    classes = {alias.asname or alias.name for node in froms for alias in node.names if alias.name[0].isupper()}
    for node in nodes:
        for target in node.targets if isinstance(node, ast.Assign) else []:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) in classes:
                yield "a class of the library with another attribute"
        text = ast.unparse(node) if isinstance(node, ast.Call | ast.Assign) else ""
        if re.match(r"sys\.modules\[|\S*(dict|setitem)\((sys\.modules|'sys\.modules')", text):
            yield "another module in sys.modules"


def _aliases(node: ast.stmt) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []


def _names(source: str) -> Iterator[str]:
    for node in ast.walk(parse(source) or ast.Module([], [])):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name.partition(".")[0] for alias in node.names)
            yield (getattr(node, "module", None) or "").partition(".")[0]
