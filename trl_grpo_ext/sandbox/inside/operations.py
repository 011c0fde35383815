"""What the judge may have done to the program's objects: the operations by their names in a request.

They run in the program's process, so nothing here is trusted.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from time import perf_counter
from types import MappingProxyType
from typing import Any

from trl_grpo_ext.sandbox.inside.values import MISSING

_CHUNK_BYTES, _CHUNK_SECONDS = 32 << 10, 0.005


def on_names(namespace: dict[str, Any], found: Callable[[Any], None]) -> dict[str, Callable[..., Any]]:
    """The operations on the program's global names."""

    def names(*wanted: str) -> list[list[Any]]:
        values = [namespace.get(name, MISSING) for name in wanted]
        for value in values:
            found(value)
        return [[] if value is MISSING else [value] for value in values]

    def set_name(name: str, value: Any) -> None:
        namespace[name] = value

    def delete_name(name: str) -> None:
        namespace.pop(name, None)

    def public() -> list[str]:
        return [name for name in namespace if not name.startswith("_")]

    return {"names": names, "set_name": set_name, "delete_name": delete_name, "public": public}


def _get(target: Any, name: str) -> Any:
    value = getattr(target, name)
    return dict(value) if isinstance(value, MappingProxyType) else value


def _setitem(target: Any, key: Any, value: Any) -> None:
    target[key] = value


def _delitem(target: Any, key: Any) -> None:
    del target[key]


def _chunk(iterator: Any, size: int) -> tuple[list[Any], BaseException | None]:
    """The next items, up to `size`, and what ended them, if anything did."""
    items: list[Any] = []
    room, until = _CHUNK_BYTES, perf_counter() + _CHUNK_SECONDS
    try:
        while len(items) < size and (not items or (room > 0 and perf_counter() < until)):
            items.append(next(iterator))
            room -= _size(items[-1])
    except BaseException as error:
        error.__traceback__ = None
        return items, error
    return items, None


def _size(item: Any) -> int:
    if isinstance(item, list | tuple | set | frozenset | dict):
        return 64 + 16 * len(item)
    return len(item) if isinstance(item, str | bytes) else 16


def _exit(target: Any, error: BaseException | None) -> bool:
    return bool(type(target).__exit__(target, None if error is None else type(error), error, None))


_loops: list[Any] = []


def _await(target: Any) -> Any:
    """Run to its end what can be awaited, all in one event loop: locks and queues belong to theirs."""
    import asyncio

    async def wait() -> Any:
        return await target

    if not _loops:
        _loops.append(asyncio.new_event_loop())
    return _loops[0].run_until_complete(wait())


def _seed(value: Any) -> None:
    import random

    random.seed(value)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "get": _get,
    "set": setattr,
    "delete": delattr,
    "dir": dir,
    "getitem": lambda target, key: target[key],
    "setitem": _setitem,
    "delitem": _delitem,
    "seed": _seed,
    "eq": lambda one, other: bool(one == other),
    "hash": hash,
    "len": len,
    "bool": bool,
    "str": str,
    "repr": repr,
    "format": format,
    "iter": iter,
    "next": _chunk,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "enter": lambda target: type(target).__enter__(target),
    "exit": _exit,
    "isinstance": isinstance,
    "issubclass": issubclass,
    "await": _await,
}
