"""Decide whether tests or program are to blame for a failed setup or a skipped test.

A program must not be able to exclude its own row, or a test, from judgement.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.compiled import BadTestsError
from trl_grpo_ext.programs.sandbox.inside.proxy import ProgramProxy


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
    for failed in _failures_alone(program, [setup], names, new_namespace):
        if failed is None or _missing(failed) in names:
            return
    raise BadTestsError(f"{type(failed).__name__}: {failed}"[:500])


# The exceptions by which tests skip themselves; that of pytest is the stand-in's.
_SKIPS = {("pytest", "Skipped"), ("unittest.case", "SkipTest")}
# Modules that a run of the tests without the program puts in the place of the tests' own.
_REPLACED = ("tests", "solution", "pytest")


def is_skip(error: BaseException | None) -> bool:
    """Test whether an exception skips the test that raises it."""
    kind = type(error)
    return (kind.__module__, kind.__name__) in _SKIPS


def skips_alone(
    program: ProgramProxy,
    codes: Sequence[CodeType],
    names: Sequence[str],
    new_namespace: Callable[[], dict[str, Any]],
    settings: Mapping[str, Any],
) -> bool:
    """Test whether tests skip themselves whatever the program is: also without it, and beside dummies in its place.

    Args:
        program: The program, which is not asked.
        codes: The setup, and the test if there is one.
        names: The names that tests take from the program.
        new_namespace: Makes a namespace for a run.
        settings: Further names for that namespace.
    """
    kept = {name: sys.modules.get(name) for name in _REPLACED}

    def namespace() -> dict[str, Any]:
        return new_namespace() | dict(settings)

    try:
        return all(map(is_skip, _failures_alone(program, codes, names, namespace)))
    finally:
        for name, module in kept.items():
            if module is not None:
                sys.modules[name] = module


def _failures_alone(
    program: ProgramProxy,
    codes: Sequence[CodeType],
    names: Sequence[str],
    new_namespace: Callable[[], dict[str, Any]],
) -> Iterator[BaseException | None]:
    """Run code of the tests without names of the program, then with dummies, and yield the exception of each run.

    None stands for a run that ended well, or asked the program.
    """
    for bound in ({}, {name: _dummy(program, name) for name in names}):
        program.untouchable, program.missed = True, False
        failed: BaseException | None = None
        # Functions look names up in the first dict, in which the setup defines them.
        namespace = new_namespace()
        namespace.update(bound)
        try:
            for code in codes:
                exec(code, namespace)
                # The setup may define names of the program, such as a stub to complete.
                for name in names:
                    namespace.pop(name, None)
                namespace.update(bound)
        except BaseException as error:
            failed = error
        program.untouchable = False
        yield None if program.missed else failed


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
