"""Find problems of rows before training: unusable tests, and tests that accept non-solutions.

Unusable tests include tests that need unsupported features of the sandbox, where correct programs fail.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trl_grpo_ext.programs.sandbox.job import CallSuite, Ending, Job, RunResult, Suite
from trl_grpo_ext.programs.sandbox.packages import is_refused
from trl_grpo_ext.programs.suites.bad_tests import (
    ADVICE,
    TESTS_DO_NOT_RUN,
    TESTS_SKIPPED,
    BadTests,
)
from trl_grpo_ext.programs.suites.call_suite import FORGOTTEN
from trl_grpo_ext.programs.suites.namesakes import tests_of_python
from trl_grpo_ext.programs.suites.source import parse
from trl_grpo_ext.programs.suites.test_module import without_shim
from trl_grpo_ext.programs.suites.trials import REFERENCE, row_problem
from trl_grpo_ext.protocol import DataProblem
from trl_grpo_ext.rewards.unit_tests.scoring import missing_module

# Matches `check(add)` and `check(Solution().add)`.
_CHECK = re.compile(r"\w+\((\w+)(?:\(\)\.\w+)?\)")
_SYS_MODULES = re.compile(
    r"sys\.modules\[|\S*(dict|setitem)\((sys\.modules|'sys\.modules')"
)
_NOT_ASKED = re.compile(r"(__\w+__) is not asked of a returned '(\w+)' object")
_LACKS = re.compile(
    r"AttributeError: '(?:bool|int|float|complex|str|bytes)' object has no attribute '(\w+)'"
)
# Feature that the sandbox lacks -> names in tests that need it.
_NEEDS = {
    "threads of the tests that wait for each other": {
        "Thread",
        "ThreadPoolExecutor",
        "Barrier",
        "Timer",
    },
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
    trials: list[_Trial] = []
    # Row -> the features of the sandbox that its tests seem to need.
    needs: dict[int, str] = {}
    for position, row in enumerate(rows):
        try:
            suite = suite_of(row)
        except BadTests as bad:
            problem = DataProblem(
                row=position,
                reason=bad.reason,
                value=bad.value,
                advice=bad.advice,
            )
            problems.append(problem)
            continue
        if run is None:
            continue
        row_trials = [_Trial(position, what, job) for what, job in trials_of(row, suite)]
        trials += row_trials
        has_reference = any(trial.what == REFERENCE for trial in row_trials)
        problems += _problems_read(position, suite, has_reference=has_reference)
        needs[position] = unsupported_needs(suite)
    outcomes: list[RunResult] = []
    if run is not None and trials:
        outcomes = run([trial.job for trial in trials])
    problems += _problems_run(trials, outcomes)
    for trial, outcome in zip(trials, outcomes, strict=True):
        if trial.what == REFERENCE:
            needs[trial.row] = _needs_shown(needs[trial.row], trial.job, outcome)
    for position, need in needs.items():
        problems += _problem(position, "tests_need_unsupported", need)
    return sorted(problems, key=lambda problem: problem.row)


class _Trial(NamedTuple):
    """A trial run of a row's tests: the reference, or a non-solution by its description."""

    row: int
    what: str
    job: Job


def _problems_read(
    position: int, suite: Suite, *, has_reference: bool
) -> list[DataProblem]:
    """List the problems of readable tests, found without a run."""
    problems: list[DataProblem] = []
    # A reference settles which names are the program's.
    if not has_reference:
        problems += _problem(position, "tests_call_python", tests_of_python_alone(suite))
    problems += _problem(position, "tests_forget_an_import", forgotten_imports(suite))
    problems += _problem(
        position, "tests_trust_the_completion", helpers_of_the_completion(suite)
    )
    return problems


def _problems_run(
    trials: Sequence[_Trial], outcomes: Sequence[RunResult]
) -> list[DataProblem]:
    """List the problems that trial runs reveal."""
    problems: list[DataProblem] = []
    # Broken tests fail for every trial alike: report them once per row.
    broken: dict[int, tuple[str, str]] = {}
    for trial, outcome in zip(trials, outcomes, strict=True):
        reason = row_problem(trial.what, outcome)
        if reason in (TESTS_DO_NOT_RUN, TESTS_SKIPPED):
            broken.setdefault(trial.row, (reason, outcome.detail))
            continue
        value = f"{trial.what}: {outcome.ending} {outcome.detail}".strip()
        problems += _problem(trial.row, reason, value)
    for position, (reason, detail) in broken.items():
        problems.append(_of_broken_tests(position, reason, detail))
    return problems


def _problem(position: int, reason: str | None, value: str) -> list[DataProblem]:
    """Describe a problem, in a list; an empty reason or value makes no problem."""
    if not reason or not value:
        return []
    problem = DataProblem(
        row=position,
        reason=reason,
        value=value,
        advice=ADVICE[reason],
    )
    return [problem]


def _of_broken_tests(position: int, reason: str, detail: str) -> DataProblem:
    """Describe a row whose tests fail by themselves, usually by importing a missing package."""
    name = missing_module(detail)
    advice = ADVICE[reason]
    if is_refused(name):
        advice = f"The tests import {name}, a benchmark that ships with solutions, never shown. Do without it."
    elif name:
        advice = f"The tests import {name}, which is not installed here: `pip install` it, or drop the row."
    return DataProblem(
        row=position,
        reason=reason,
        value=detail,
        advice=advice,
    )


def forgotten_imports(suite: Suite) -> str:
    """Return the import lines that were added for imports missing in the tests, joined by `; `; empty if none."""
    if not isinstance(suite, CallSuite):
        return ""
    added = [line for line in suite.setup.splitlines() if line.endswith(FORGOTTEN)]
    return "; ".join(line.removesuffix(FORGOTTEN) for line in added)


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
    taken: list[str] = []
    for node in forgotten.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            taken += [alias.name for alias in node.names]
    code = "\n".join([without_shim(suite.setup), *suite.tests])
    return "; ".join(tests_of_python(code, taken, suite.names))


def helpers_of_the_completion(suite: Suite) -> str:
    """Return helper names that a HumanEval-style check takes from the completion, besides the checked solution.

    Examples:
        >>> check = "def check(candidate): assert candidate(encode('a')) == 'a'"
        >>> helpers_of_the_completion(CallSuite(setup=check, tests=("check(decode)",), names=("decode", "encode")))
        'encode'
    """
    if not isinstance(suite, CallSuite):
        return ""
    solutions = set()
    for test in suite.tests:
        check = _CHECK.fullmatch(test.strip())
        if check is None or check[1] not in suite.names:
            return ""
        solutions.add(check[1])
    helpers = set(suite.names) - solutions
    return ", ".join(sorted(helpers))


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
    names: set[str] = set()
    for text in (without_shim(suite.setup), *suite.tests):
        names.update(_names(text))
    names.difference_update(suite.names)
    needs = [need for need, words in _NEEDS.items() if words & names]
    for text in (suite.setup, *suite.tests):
        needs += _replaced_in_library(text)
    return ", ".join(dict.fromkeys(needs))


def _needs_shown(apparent: str, job: Job, outcome: RunResult) -> str:
    """Correct the apparent needs of tests by the run of their reference; a reference that passes has none."""
    if outcome.ending is Ending.PASSED:
        return ""
    scalar = _of_numpy_scalar(job.program, outcome.detail)
    operator = _of_returned_object(outcome.detail)
    return ", ".join(filter(None, (apparent, scalar, operator)))


def _of_returned_object(detail: str) -> str:
    """Name the operator that the tests use on an object of the program; else empty.

    Examples:
        >>> _of_returned_object("__lt__ is not asked of a returned 'Card' object")
        '`__lt__` of a returned `Card` object'
    """
    refused = _NOT_ASKED.search(detail)
    return f"`{refused[1]}` of a returned `{refused[2]}` object" if refused else ""


def _of_numpy_scalar(program: str, detail: str) -> str:
    """Name the attribute of a numpy scalar that the tests miss, since it has become a Python value; else empty.

    Examples:
        >>> _of_numpy_scalar("import numpy", "AttributeError: 'float' object has no attribute 'dtype'")
        "`dtype` of a numpy scalar, which arrives as Python's"
    """
    missed = _LACKS.search(detail)
    if missed is None or "numpy" not in program:
        return ""
    import numpy as np

    return (
        f"`{missed[1]}` of a numpy scalar, which arrives as Python's"
        if hasattr(np.generic, missed[1])
        else ""
    )


def _replaced_in_library(source: str) -> Iterator[str]:
    """Name what tests replace in Python's library, and the program keeps: `Path.exists = f`, `sys.modules["x"] = f`."""
    nodes = list(_nodes(source))
    classes = _library_classes(nodes)
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if (
                    isinstance(target, ast.Attribute)
                    and ast.unparse(target.value) in classes
                ):
                    yield "a class of the library with another attribute"
        if isinstance(node, ast.Call | ast.Assign) and _SYS_MODULES.match(
            ast.unparse(node)
        ):
            yield "another module in sys.modules"


def _library_classes(nodes: Iterable[ast.AST]) -> set[str]:
    """Collect the names under which classes of Python's library are imported."""
    classes = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in sys.stdlib_module_names:
            for alias in node.names:
                if alias.name[0].isupper():
                    classes.add(alias.asname or alias.name)
    return classes


def _nodes(source: str) -> Iterator[ast.AST]:
    """Yield a source's syntax nodes; none for invalid Python."""
    tree = parse(source)
    if tree is not None:
        yield from ast.walk(tree)


def _names(source: str) -> Iterator[str]:
    for node in _nodes(source):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield _top_level(alias.name)
            if isinstance(node, ast.ImportFrom) and node.module:
                yield _top_level(node.module)


def _top_level(module: str) -> str:
    name, _, _ = module.partition(".")
    return name
