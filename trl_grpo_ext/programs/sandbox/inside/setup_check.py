"""Decide without the program whether a setup fails, and which tests skip themselves.

A program must not be able to exclude its own row, or a test, from judgement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.compiled import BadTestsError
from trl_grpo_ext.programs.sandbox.inside.proxy import ProgramProxy, Untouchable

RUN_ROW = "__trl_run_row__"
"""Name under which tests find the judge's function that runs rows of `parametrize`; see `pytest_runner`."""

# The exceptions by which tests skip themselves; that of pytest is the stand-in's.
_SKIPS = {("pytest", "Skipped"), ("unittest.case", "SkipTest")}


def check_setup(
    program: ProgramProxy,
    setup: CodeType,
    names: Sequence[str],
    new_namespace: Callable[[], dict[str, Any]],
) -> None:
    """Run a failed setup again without access to the program; return normally if the program is to blame.

    The setup runs first without the names that it takes from the program, then with dummies in their places, since it
    may check their presence: `if "add" not in globals(): raise RuntimeError`.

    Raises:
        BadTestsError: if both runs fail for reasons other than the missing program.
    """
    for _, failed in _setups_alone(program, setup, names, new_namespace):
        has_asked = isinstance(failed, Untouchable)
        if failed is None or has_asked or _missing(failed) in names:
            return
    raise BadTestsError(f"{type(failed).__name__}: {failed}"[:500])


def is_skip(error: BaseException | None) -> bool:
    """Test whether an exception skips the test that raises it."""
    kind = type(error)
    return (kind.__module__, kind.__name__) in _SKIPS


def find_skips(
    program: ProgramProxy,
    code: tuple[CodeType, Sequence[CodeType]],
    names: Sequence[str],
    new_namespace: Callable[[], dict[str, Any]],
) -> Iterator[tuple[str, str]]:
    """Report tests skipped twice: in a run without the program's names, and in a run with dummies in their place.

    Yields:
        For each test ("skipped", reason), or ("passed", places of the rows of `parametrize` that skip themselves).
    """
    setup, snippets = code
    setups = [*_setups_alone(program, setup, names, new_namespace)]
    for test in snippets:
        runs = [_skips_of(program, test, *made) for made in setups]
        if all(is_skip(error) for error, _ in runs):
            yield "skipped", str(runs[0][0])[:500]
        else:
            skipped = set.intersection(*(rows for _, rows in runs))
            yield "passed", " ".join(map(str, skipped))


def _skips_of(
    program: ProgramProxy,
    test: CodeType,
    namespace: dict[str, Any],
    failed: BaseException | None,
) -> tuple[BaseException | None, set[int]]:
    """Run a test behind its setup; return the exception of either, and the rows that have skipped themselves."""
    if failed is not None:
        return failed, set()
    rows: dict[int, BaseException | None] = {}

    def run_row(place: int, run: Callable[[], None]) -> None:
        rows[place] = _failure_alone(program, run)

    failed = _failure_alone(program, partial(exec, test, {**namespace, RUN_ROW: run_row}))
    if failed is not None:
        return failed, set()
    skipped = {place for place, error in rows.items() if is_skip(error)}
    if skipped and len(skipped) == len(rows):
        failed = rows[0]
    return failed, skipped


def _setups_alone(
    program: ProgramProxy,
    setup: CodeType,
    names: Sequence[str],
    new_namespace: Callable[[], dict[str, Any]],
) -> Iterator[tuple[dict[str, Any], BaseException | None]]:
    """Run a setup twice, without the program's names and with dummies; yield each run's namespace and exception."""
    for bound in ({}, {name: _dummy(program, name) for name in names}):
        # Functions look names up in this dict, in which the setup defines them.
        namespace = new_namespace()
        namespace.update(bound)
        failed = _failure_alone(program, partial(exec, setup, namespace))
        # The setup may define names of the program, such as a stub to complete.
        for name in names:
            namespace.pop(name, None)
        namespace.update(bound)
        yield namespace, failed


def _failure_alone(program: ProgramProxy, run: Callable[[], Any]) -> BaseException | None:
    """Run code of the tests that cannot ask the program; return its exception, `Untouchable` if it tried to ask."""
    # A row is run within its test.
    before = program.untouchable, program.missed
    program.untouchable, program.missed = True, False
    failed: BaseException | None = None
    try:
        run()
    except BaseException as error:
        failed = error
    if program.missed:
        failed = Untouchable()
    program.untouchable, program.missed = before
    return failed


def _missing(error: BaseException) -> Any:
    """Return the name that a setup failed to find, as `fn = globals()["two_sum"]` does."""
    if isinstance(error, NameError | AttributeError):
        return error.name
    return error.args[0] if isinstance(error, KeyError) and error.args else None


def _dummy(program: ProgramProxy, name: str) -> Any:
    """Create a dummy function, or a dummy class for a capitalized name; every use sets `program.missed`."""

    def touch(*_: Any, **__: Any) -> None:
        program.request("names", name)

    return type(name, (), {"__init__": touch}) if name[:1].isupper() else touch
