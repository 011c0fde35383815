"""Find stand-ins for the program's objects inside a value, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.kinds import held
from trl_grpo_ext.programs.sandbox.inside.handle import Handle, Standing, Stub

_SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes})


def demote(value: Any) -> None:
    """Demote every stand-in inside a returned value to a result, including objects that the test has made.

    Otherwise `distance(p, q)` could return `p`, whose class claims to be within any tolerance of the distance.
    """
    for found in _all_in(value):
        if isinstance(found, Stub):
            found._remote_state.standing = Standing.RESULT


def reserve(value: Any, names: frozenset[str]) -> None:
    """Reserve names of all stand-ins inside a value that takes the place of a test's object.

    Raises:
        AttributeError: if the value contains another object with attributes, such as a namespace, class or exception,
            which would answer by itself.
    """
    for found in _all_in(value):
        if isinstance(found, Stub) and not isinstance(found, BaseException):
            found._remote_state.reserved |= names
        elif (
            hasattr(found, "__dict__") or type(found).__module__ == "tests"
        ) and not isinstance(found, Enum):
            kind = type(found).__name__
            raise AttributeError(
                f"a {kind!r} object is not to answer in the place of a test's object"
            )


def _all_in(value: Any) -> Iterator[Any]:
    """Yield a value and all objects inside it, except scalars."""
    queue = [value]
    # The dict keeps each object alive, because Python reuses the `id` of a freed object.
    seen: dict[int, Any] = {}
    while queue:
        found = queue.pop()
        if type(found) in _SCALARS or id(found) in seen:
            continue
        seen[id(found)] = found
        yield found
        # A handle holds nothing in this process: its attributes are in the program.
        if not isinstance(found, Handle):
            queue += held(found)
