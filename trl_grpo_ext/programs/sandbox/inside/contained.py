"""Find stand-ins for the program's objects inside a value, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
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


def holds_stand_in(value: Any) -> bool:
    """Return whether a value equals or contains stand-ins for program objects."""
    return any(isinstance(found, Stub) for found in _all_in(value))


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
        if not isinstance(found, Handle):
            queue += held(found)
