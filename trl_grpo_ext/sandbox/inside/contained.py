"""The objects of the program in a value, however deep it holds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trl_grpo_ext.sandbox.inside.crossing.kinds import held
from trl_grpo_ext.sandbox.inside.handle import Handle, Standing, Stub

_SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes})


def demote(value: Any) -> None:
    """Take a value that the program has returned, and all that it holds, for results, also if the test has made them.

    Otherwise `distance(p, q)` could return `p`, whose class says that it is within any tolerance of the distance.
    """
    for found in _all_in(value):
        if isinstance(found, Stub):
            found._remote_state.standing = Standing.RESULT


def holds_stand_in(value: Any) -> bool:
    """Whether a value is an object of the program, or holds one."""
    return any(isinstance(found, Stub) for found in _all_in(value))


def _all_in(value: Any) -> Iterator[Any]:
    """The objects in a value, itself first, but for scalars."""
    queue = [value]
    seen: dict[int, Any] = {}  # the objects too: an `id` is used again for the next one
    while queue:
        found = queue.pop()
        if type(found) in _SCALARS or id(found) in seen:
            continue
        seen[id(found)] = found
        yield found
        if not isinstance(found, Handle):
            queue += held(found)
