"""Decide who is to blame for a setup that fails: a program must not be able to have its own row thrown out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from trl_grpo_ext.sandbox.inside.compiled import BadTestsError
from trl_grpo_ext.sandbox.inside.proxy import ProgramProxy


def check_setup(
    program: ProgramProxy, setup: CodeType, names: Sequence[str], new_namespace: Callable[[], dict[str, Any]]
) -> None:
    """Run a setup that has failed again, with nothing of the program in reach.

    It runs without the names that it takes from the program, and with something in their places, since it may look
    whether they are there: `if "add" not in globals(): raise RuntimeError`.

    Raises:
        BadTestsError: if it fails both times, and not for want of the program.
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
    """Return the name that a setup looks for in vain, as `fn = globals()["two_sum"]` does."""
    if isinstance(error, NameError | AttributeError):
        return error.name
    return error.args[0] if isinstance(error, KeyError) and error.args else None


def _dummy(program: ProgramProxy, name: str) -> Any:
    """Make a function, or a class for a name with a capital letter. Each use of it sets `program.missed`."""

    def touch(*_: Any, **__: Any) -> None:
        program.request("names", name)

    return type(name, (), {"__init__": touch}) if name[:1].isupper() else touch
