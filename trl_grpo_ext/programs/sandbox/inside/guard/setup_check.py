"""Decide whether tests or program are to blame for a failed setup.

A program must not be able to exclude its own row from judgement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    for bound in ({}, {name: _dummy(program, name) for name in names}):
        program.untouchable, program.missed = True, False
        failed: BaseException | None = None
        try:
            exec(setup, new_namespace() | bound)
        except BaseException as error:
            failed = error
        program.untouchable = False
        if failed is None or program.missed or _missing(failed) in names:
            return
    raise BadTestsError(f"{type(failed).__name__}: {failed}"[:500])


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
