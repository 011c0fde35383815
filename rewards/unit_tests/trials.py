"""Trials beside the run that counts: programs that solve nothing, the reference, and a naive grader.

Tests that a program passes which solves nothing cannot tell a solution from a hole.

A naive grader runs program and tests in one process, and judges by whether it ends with status 0. Such graders are
common, and programs can cheat them: by `sys.exit(0)`, by an object that equals everything, by a patched builtin. A
program that passes there and fails before the judge has found such a hole, or else the judge has a fault; either is
worth a look.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from dataclasses import replace

from trl_grpo_ext.rewards.unit_tests.bad_tests import TESTS_DO_NOT_RUN
from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, RunResult, StdioCase, StdioSuite, Suite, TestResult

REFERENCE = "the reference"
EMPTY_ARRAY = "__import__('numpy').empty((0, 1, 1))"  # which is close to any array: nothing is left to compare
CONSTANTS = ("None", "True", "False", "0", "1", "''", "[]", "float('nan')")

# Reflected operators and comparisons are what tolerances and sorts ask for.
_ALWAYS_EQUAL = """
class AlwaysEqual:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __mul__ = __rmul__ = __sub__
    def __abs__(self): return 0
    def __contains__(self, item): return True
    def __hash__(self): return 0
    def __getattr__(self, name): return AlwaysEqual()
    def __call__(self, *args, **kwargs): return self
"""


# What a test still holds after a call is what it compares with; what a callback asserts is what it expects.
_EMPTIES = """
def NAME(*args, **_):
    for each in args:
        try: each.clear()
        except Exception: pass
    return args[0] if args else None
"""
_SWALLOWS = """
def NAME(*args, **_):
    def safe(*given, **named):
        for each in args:
            try: each(*given, **named)
            except BaseException: pass
    safe()
    return safe
"""
_CLASS_EQUALS = """
class NAME(AlwaysEqual):
    def __init__(self, *args, **kwargs): pass
"""


def non_solutions(suite: Suite) -> Iterator[tuple[str, str]]:
    """Each non-solution for a suite: what it is called, and its program.

    Examples:
        >>> suite = CallSuite(tests=("assert f() == 1",), names=("f",))
        >>> [name for name, _ in non_solutions(suite)][:3]
        ['an empty program', 'always equal', 'the constant None']
    """
    yield "an empty program", "pass\n"
    if not isinstance(suite, CallSuite):
        yield "an echo", "import sys\nprint(sys.stdin.read())\n"
        for text in ("0", "1", "YES", "NO"):
            yield f"a program that prints {text}", f"print({text!r})\n"
        return
    names = [name for name in suite.names if name.isidentifier() and not keyword.iskeyword(name)]
    yield "always equal", _ALWAYS_EQUAL + "".join(f"{name} = AlwaysEqual()\n" for name in names)
    uses_numpy = any("numpy" in text for text in (suite.setup, *suite.tests))
    for constant in (*CONSTANTS, *([EMPTY_ARRAY] if uses_numpy else [])):
        yield f"the constant {constant}", "".join(f"def {name}(*_, **__): return {constant}\n" for name in names)
    classes = [name for name in names if name[0].isupper()]
    if classes:
        yield "classes that equal everything", _ALWAYS_EQUAL + _written(_CLASS_EQUALS, classes)
    yield "one that empties its arguments", _written(_EMPTIES, names)
    yield "one that swallows what callbacks assert", _written(_SWALLOWS, names)


def _written(template: str, names: list[str]) -> str:
    return "".join(template.replace("NAME", name) for name in names)


def naive_job(job: Job) -> Job | None:
    """The job that asks a naive grader, still in the sandbox; None where programs print and there is none to ask."""
    if not isinstance(job.suite, CallSuite):
        return None
    program = "\n\n".join([job.program, job.suite.setup, *job.suite.tests])
    return replace(job, program=program, suite=StdioSuite(tests=(StdioCase(stdin="", stdout=""),)))


def passed_naively(outcome: RunResult) -> bool:
    """Whether the naive grader was content. The program may have printed anything; only its status counts."""
    return outcome.ending in (Ending.PASSED, Ending.FAILED)


def whatever_it_printed(outcome: RunResult) -> RunResult:
    """The outcome as a pass if the program ended with status 0."""
    if not passed_naively(outcome):
        return outcome
    passed = TestResult(ending=Ending.PASSED)
    return replace(outcome, ending=Ending.PASSED, tests=(passed,) * len(outcome.tests), detail="")


def row_problem(what: str, outcome: RunResult) -> str | None:
    """What is wrong with a row of which `what`, the reference or a non-solution, had this outcome; a reason code."""
    if outcome.ending is Ending.NO_VERDICT:
        return "sandbox_failed"
    if what == REFERENCE and outcome.ending is Ending.REFUSED:
        return "tests_need_unsupported"
    if outcome.ending is Ending.BAD_TESTS:
        return TESTS_DO_NOT_RUN
    if what == REFERENCE:
        return None if outcome.ending is Ending.PASSED else "reference_fails"
    return "non_solution_passes" if outcome.ending is Ending.PASSED else None
