"""Trial runs besides the scored run: non-solutions, the reference solution, and a naive grader.

Tests that accept a non-solution cannot recognize a solution.

A naive grader runs program and tests in one process, and accepts exit status 0. Such graders are common, and programs
can cheat them: by `sys.exit(0)`, by an object that equals everything, by a patched builtin. A program that passes the
naive grader but fails the judge has found such a loophole, or else reveals a fault of the judge; look at it in
either case.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from dataclasses import replace

from trl_grpo_ext.programs.sandbox.job import (
    ALL_SKIPPED,
    FILES_NEED_NAMESPACES,
    CallSuite,
    Ending,
    Job,
    RunResult,
    StdioCase,
    StdioSuite,
    Suite,
    TestResult,
)
from trl_grpo_ext.programs.suites.bad_tests import TESTS_DO_NOT_RUN, TESTS_SKIPPED

REFERENCE = "the reference"
# The code of a row that a model is to mend.
BROKEN = "the broken code"
# An empty array is close to any array, since broadcasting leaves nothing to compare.
EMPTY_ARRAYS = tuple(
    f"__import__('numpy').empty({shape})" for shape in ("(0, 1, 1)", "(0, 2)")
)
CONSTANTS = ("None", "True", "False", "0", "1", "''", "[]", "float('nan')")

# Tolerance checks and sorting call the reflected operators and comparisons.
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


# Each answer is one that a test of a property looks at: `len(r)`, then `zip(r, expected)`.
_MAKES = """
def NAME(*args, **_): return Result(args)
"""
_HOLLOW = """
class Result:
    def __init__(self, args):
        try: self.size = len(args[0])
        except Exception: self.size = 3
    def __len__(self): return self.size
    def __iter__(self): return iter(())
"""
_FICKLE = """
class Result:
    def __init__(self, args):
        self.asked = []
        try: self.items = list(args[0])
        except Exception: self.items = [0, 0, 0]
    def answer(self, what):
        self.asked.append(what)
        return self.items if self.asked.count(what) == 1 else []
    def __len__(self): return len(self.answer('len'))
    def __iter__(self): return iter(self.answer('iter'))
    def __getitem__(self, place): return self.answer(place)[place]
    def __bool__(self): return bool(self.answer('bool'))
"""
_EMPTY_ARRAYS = """
def NAME(*args, **_):
    try: size = len(args[0])
    except Exception: size = 3
    return [__import__('numpy').empty((0, 1))] * size
"""
# `_EMPTIES` clears its arguments, against which a test may compare, and `_EMPTIES_ITEMS` what they hold.
_EMPTIES = """
def NAME(*args, **_):
    for each in args:
        try: each.clear()
        except Exception: pass
    return args[0] if args else None
"""
_EMPTIES_ITEMS = """
def NAME(*args, **_):
    for each in args:
        try: items = list(each.values() if isinstance(each, dict) else each)
        except Exception: items = []
        for item in items:
            try: item.clear()
            except Exception: pass
            for name in [*getattr(item, '__dict__', ())]:
                try: name.startswith('_') or setattr(item, name, None)
                except Exception: pass
    return RESULT
"""
_RESULTS = {
    "": "args[0] if args else None",
    ", for the first of them": "next(iter(args[0]), None) if args else None",
}
_CLASS_EQUALS = """
class NAME(AlwaysEqual):
    def __init__(self, *args, **kwargs): pass
"""


def non_solutions(suite: Suite) -> Iterator[tuple[str, str]]:
    """Yield the (name, program) pairs of all non-solutions for a suite.

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
    names = [
        name for name in suite.names if name.isidentifier() and not keyword.iskeyword(name)
    ]
    yield (
        "always equal",
        _ALWAYS_EQUAL + "".join(f"{name} = AlwaysEqual()\n" for name in names),
    )
    uses_numpy = "numpy" in suite.imports
    for constant in (*CONSTANTS, *(EMPTY_ARRAYS if uses_numpy else ())):
        yield (
            f"the constant {constant}",
            "".join(f"def {name}(*_, **__): return {constant}\n" for name in names),
        )
    classes = [name for name in names if name[0].isupper()]
    if classes:
        yield (
            "classes that equal everything",
            _ALWAYS_EQUAL + _written(_CLASS_EQUALS, classes),
        )
    if uses_numpy:
        yield "a list of empty arrays", _written(_EMPTY_ARRAYS, names)
    yield "an object with a length and no items", _HOLLOW + _written(_MAKES, names)
    yield "an object whose second answers differ", _FICKLE + _written(_MAKES, names)
    yield "one that empties its arguments", _written(_EMPTIES, names)
    for which, result in _RESULTS.items():
        program = _written(_EMPTIES_ITEMS.replace("RESULT", result), names)
        yield f"one that empties what its arguments hold{which}", program


def _written(template: str, names: list[str]) -> str:
    return "".join(template.replace("NAME", name) for name in names)


def naive_job(job: Job) -> Job | None:
    """Make the job of a naive grader, also in the sandbox; None for a suite of printing programs."""
    if not isinstance(job.suite, CallSuite):
        return None
    program = "\n\n".join([job.program, job.suite.setup, *job.suite.tests])
    return replace(
        job, program=program, suite=StdioSuite(tests=(StdioCase(stdin="", stdout=""),))
    )


def passed_naively(outcome: RunResult) -> bool:
    """Test if a naive grader passed the program: only the exit status counts, not the printed text."""
    return outcome.ending in (Ending.PASSED, Ending.FAILED)


def whatever_it_printed(outcome: RunResult) -> RunResult:
    """Turn an outcome into a pass if the program ended with status 0."""
    if not passed_naively(outcome):
        return outcome
    passed = TestResult(ending=Ending.PASSED)
    return replace(
        outcome, ending=Ending.PASSED, tests=(passed,) * len(outcome.tests), detail=""
    )


def _reference_problem(outcome: RunResult) -> str | None:
    """Return the reason code of a reference's run; None for a reference that passes."""
    if outcome.ending is Ending.PASSED:
        return None
    if outcome.ending is Ending.TIMEOUT:
        return "reference_times_out"
    if "ModuleNotFoundError" in outcome.detail:
        return "reference_lacks_library"
    return "reference_fails"


def fault_of_tests(outcome: RunResult) -> str:
    """Return the reason code of tests that judged nothing: each skipped itself, or they do not run."""
    return TESTS_SKIPPED if outcome.detail.startswith(ALL_SKIPPED) else TESTS_DO_NOT_RUN


def row_problem(what: str, outcome: RunResult) -> str | None:
    """Return the row's reason code from a trial run; None for a good row.

    `what` is the reference, the broken code, or a non-solution's name.
    """
    if outcome.ending is Ending.NO_VERDICT:
        return (
            "tests_need_namespaces"
            if outcome.detail == FILES_NEED_NAMESPACES
            else "sandbox_failed"
        )
    # If even the reference is refused, the tests run text in the judge, which no solution can avoid.
    if what == REFERENCE and outcome.ending is Ending.REFUSED:
        return "tests_need_unsupported"
    if outcome.ending is Ending.BAD_TESTS:
        return fault_of_tests(outcome)
    if what == REFERENCE:
        return _reference_problem(outcome)
    if outcome.ending is not Ending.PASSED:
        return None
    return "broken_code_passes" if what == BROKEN else "non_solution_passes"
