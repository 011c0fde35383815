"""Operations on program objects that the judge may request, by name.

They run in the program's process, so nothing here is trusted.
"""

from __future__ import annotations

import copy
import functools
import importlib
import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.awaiting import Tasks, close
from trl_grpo_ext.programs.sandbox.inside.crossing.values import MISSING

# The tests may patch this function, also in the program.
_import_module = importlib.import_module
_CHUNK_BYTES, _CHUNK_SECONDS = 32 << 10, 0.005


def on_names(
    namespace: dict[str, Any], found: Callable[[Any], None]
) -> dict[str, Callable[..., Any]]:
    """Return operations on the program's global names.

    Args:
        namespace: The program's global names.
        found: Called with each value that the judge looks up, or with MISSING.
    """

    def names(*wanted: str) -> list[list[Any]]:
        values = [namespace.get(name, MISSING) for name in wanted]
        for value in values:
            found(value)
        return [[] if value is MISSING else [value] for value in values]

    def delete_name(name: str) -> None:
        namespace.pop(name, None)

    def public() -> list[str]:
        return [name for name in namespace if not name.startswith("_")]

    return {
        "names": names,
        "set_name": namespace.__setitem__,
        "delete_name": delete_name,
        "public": public,
    }


def _chunk(iterator: Any, size: int) -> tuple[list[Any], BaseException | None]:
    """Return up to `size` next items and the exception that ended the iteration, otherwise None.

    Fewer items are returned if they are large or slow to compute.
    """
    items: list[Any] = []
    room, until = _CHUNK_BYTES, perf_counter() + _CHUNK_SECONDS
    try:
        while len(items) < size and (not items or (room > 0 and perf_counter() < until)):
            items.append(next(iterator))
            room -= _size(items[-1])
    except BaseException as error:
        # A traceback keeps the locals of all its frames alive, and with them objects that the program has released.
        error.__traceback__ = None
        return items, error
    return items, None


def _size(item: Any) -> int:
    if isinstance(item, list | tuple | set | frozenset | dict):
        return 64 + 16 * len(item)
    if isinstance(item, str | bytes):
        return len(item)
    return 16


_tasks = Tasks()


def _parameters(function: Any) -> list[tuple[str, int, bool]]:
    """Describe a function's parameters as (name, kind, has a default)."""
    import inspect

    found = inspect.signature(function).parameters.values()
    return [(one.name, int(one.kind), one.default is not one.empty) for one in found]


def _inherited(target: Any, owner: type, name: str) -> Any:
    """Return the attribute that `super()` finds: search the target's method resolution order from `owner` on."""
    kinds = type(target).__mro__
    behind = kinds[kinds.index(owner) :]
    found = next(vars(kind)[name] for kind in behind if name in vars(kind))
    bind = getattr(type(found), "__get__", None)
    if bind is None:
        return found
    return bind(found, target, type(target))


_LIBRARY = {
    "dataclasses": "_process_class asdict astuple fields is_dataclass replace",
    "inspect": (
        "getdoc isabstract isasyncgen isasyncgenfunction isawaitable isclass iscoroutine iscoroutinefunction "
        "isfunction isgenerator isgeneratorfunction ismethod signature getmembers getfullargspec isbuiltin isroutine "
        "get_annotations"
    ),
    "typing": "get_type_hints",
    "asyncio": "iscoroutinefunction",
}
LIBRARY = {module: names.split() for module, names in _LIBRARY.items()}
"""Library functions that inspect an object and must therefore run in the program's process."""


def _library(module: str, name: str, /, *args: Any, **kwargs: Any) -> Any:
    if name not in LIBRARY[module]:
        raise AttributeError(name)
    return getattr(importlib.import_module(module), name)(*args, **kwargs)


def _repeat(module: str, name: str, /, *args: Any, **options: Any) -> None:
    getattr(_import_module(module), name)(*args, **options)


_patched: dict[tuple[str, str], Any] = {}


def _patch(module: str, path: str, value: Any) -> None:
    """Set an attribute of a library module, or of a class in it, repeating a patch that tests made in the judge."""
    target, name = _patched_place(module, path)
    # Of patches of patches, only the first sees the original.
    _patched.setdefault((module, path), vars(target).get(name, MISSING))
    setattr(target, name, value)


def _unpatch(module: str, path: str) -> None:
    target, name = _patched_place(module, path)
    before = _patched.pop((module, path), MISSING)
    if before is not MISSING:
        setattr(target, name, before)
    elif name in vars(target):
        delattr(target, name)


def _patched_place(module: str, path: str) -> tuple[Any, str]:
    *owners, name = path.split(".")
    return functools.reduce(getattr, owners, _import_module(module)), name


def _environ(changed: dict[str, str | None]) -> None:
    for name, value in changed.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _listen(log: Callable[[str, int, str], None], warn: Callable[[Any], None]) -> None:
    """Report the program's log records, of any level, and its warnings to the tests."""
    import logging
    import warnings

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log(record.name, record.levelno, record.getMessage())

    logging.root.addHandler(Handler())
    logging.root.setLevel(1)
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, *_, **__: warn(message)


beside_a_loop = _tasks.beside
"""Calls a function while the program's event loop counts as running."""

OPERATIONS: dict[str, Callable[..., Any]] = {
    "end": lambda: None,
    "get": getattr,
    "delete": delattr,
    "dir": dir,
    "getitem": lambda target, key: target[key],
    "repeat": _repeat,
    # The judge accepts a bool only, and `==` of numpy arrays gives an array.
    "eq": lambda one, other: bool(one == other),
    "hash": hash,
    "str": str,
    "repr": repr,
    "format": format,
    "iter": iter,
    "next": _chunk,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "isinstance": isinstance,
    "issubclass": issubclass,
    "start": _tasks.start,
    "step": _tasks.step,
    "cancel": _tasks.cancel,
    "go_on": _tasks.go_on,
    "close": close,
    # Python itself looks special methods up on the class, never on the object.
    "special": lambda target, name, /, *args, **kwargs: getattr(type(target), name)(
        target, *args, **kwargs
    ),
    "inherited": _inherited,
    "parameters": _parameters,
    "library": _library,
    "patch": _patch,
    "unpatch": _unpatch,
    "environ": _environ,
    "listen": _listen,
}
