"""Python values as JSON and back: plain data by value, anything else as the two ends agree.

`None`, booleans, integers of up to 64 bits, finite floats and strings are themselves, and a list is a list. All
else is an object with one key, its tag: `{"tuple": [1, 2]}`. A subclass of a plain type crosses as that type, so
that none of its methods can take part in a comparison at the other end.

Reading trusts nothing: nothing is imported, evaluated or called by a name that came, and whatever is amiss raises
`MalformedError`. See `Encoder` and `Decoder`; `Shared` holds what both ends know by number.
"""

from __future__ import annotations

import builtins
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from keyword import iskeyword
from operator import is_
from sys import getrefcount
from typing import Any

Json = Any

MAX_DEPTH = 200
DEEP = 60
"""Containers at this depth are announced, and what they hold follows by itself: one that is written at once takes five
of Python's frames, of which a program has a thousand."""
MOST_SHARED = 5_000
"""How much may be shared, in objects and what they hold, before all is forgotten after a call."""
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
MAX_FIELDS = 256
_DOUBLE_BYTES = 8

_OTHER_TYPES = (Decimal, Fraction, date, datetime, time, timedelta, deque, Counter, OrderedDict, defaultdict)
TYPES: dict[str, type] = {
    **{
        name: kind
        for name, kind in vars(builtins).items()
        if isinstance(kind, type) and not name.startswith("_") and not issubclass(kind, BaseException)
    },
    **{kind.__name__: kind for kind in _OTHER_TYPES},
    "NoneType": type(None),
}
"""The types that cross by name."""
PLAIN_BASES: dict[type, bool] = {
    **dict.fromkeys((int, float, complex, str, bytes, tuple, frozenset), False),
    **dict.fromkeys((Counter, OrderedDict, defaultdict, list, dict, set, bytearray, deque), True),
}
"""The types that a class of the program may be made of in the judge too, and whether their values change."""
TYPE_NAMES = {kind: name for name, kind in reversed(TYPES.items())}


class MalformedError(ValueError):
    """What came stands for no value."""


class TooDeepError(ValueError):
    """A value that is nested too deeply to send."""


def checked(data: Json, kind: type) -> Any:
    """`data`, which must be of just that type."""
    if type(data) is not kind:
        raise MalformedError(f"{kind.__name__} is missing")
    return data


def reading(read: Callable[..., Any], *data: Any) -> Any:
    """What `read(*data)` returns; whatever it raises is `MalformedError`."""
    try:
        return read(*data)
    except MalformedError:
        raise
    except RecursionError:
        raise MalformedError("nested too deeply") from None
    except MemoryError:
        raise MalformedError("too much data") from None
    except Exception as error:
        raise MalformedError(f"{type(error).__name__}: {str(error)[:100]}") from None


def is_field(name: str) -> bool:
    """Whether a named tuple may have a field of that name."""
    return name.isascii() and name.isidentifier() and not iskeyword(name) and not name.startswith("_")


MISSING: Any = object()


def of_module(module: str, name: str) -> Any:
    """A class, for `isinstance`; none where this process has not imported its module, so that it has no objects."""
    return getattr(sys.modules.get(module), name, ())


def plain_scalar(value: Any) -> Any:
    """A scalar of numpy as Python has it; MISSING for any other object.

    A float of fewer bits is the number that it is written as: `np.float32(0.1) == 0.1` is true for numpy as well.
    """
    plain = value.item() if isinstance(value, of_module("numpy", "generic")) else MISSING
    if isinstance(value, of_module("numpy", "floating")) and value.itemsize < _DOUBLE_BYTES:
        plain = float(str(value))
    return MISSING if type(plain) is type(value) else plain  # of a long double, there is none


class Table:
    """Objects by number, kept alive so that an `id` stays the same object."""

    __slots__ = ("_numbers", "objects")

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, value: Any) -> int | None:
        """The number of `value`, or None."""
        return self._numbers.get(id(value))

    def add(self, value: Any) -> int:
        """The number of `value`, a new one unless it has one."""
        number = self._numbers.setdefault(id(value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        return number

    def at(self, number: Json) -> Any:
        """The object of a number that came."""
        if type(number) is not int or not 0 <= number < len(self.objects):
            raise MalformedError("no such object")
        return self.objects[number]

    def truncate(self, length: int) -> None:
        """Forget what came after the first `length` objects."""
        for value in self.objects[length:]:
            del self._numbers[id(value)]
        del self.objects[length:]


class Shared:
    """The mutable objects that both ends know by number, until there are too many.

    Both ends number the lists, dicts and so on of each message in the order in which they are written and read, so a
    later message can name one instead of repeating it. Hence four things work as they do within one process: a result
    *is* the argument that was passed, an argument that appears twice stays one object, what the callee changed in an
    argument has changed for the caller, and what the tests change in `node.children` has changed for the program.

    Attributes:
        containers: Lists, dicts, sets, bytearrays, deques, arrays, and objects that are no more than their attributes.
        errors: Exceptions that the tests raised in a callback.
    """

    __slots__ = ("_seen", "_settled", "_size", "_watched", "containers", "errors")

    def __init__(self) -> None:
        self.containers = Table()
        self.errors = Table()
        self._seen: dict[int, list[Any]] = {}
        self._watched: list[Any] = []  # those in `_seen`
        self._settled = 0
        self._size = 0

    @property
    def is_full(self) -> bool:
        """Whether looking for changes would take too long."""
        return self._size > MOST_SHARED

    def settle(self) -> None:
        """Take what was numbered since the last time to be the same at both ends now."""
        self.remember(self.containers.objects[self._settled :])
        self._settled = len(self.containers.objects)

    def remember(self, values: list[Any]) -> None:
        """Take `values` to be the same at both ends now."""
        for value in values:
            self.watch(value)
            held = self._seen[id(value)] = contents(value)
            self._size += 1 + (len(held[0]) // 8 if len(held) == 1 and type(held[0]) is bytes else len(held))

    def watch(self, value: Any) -> None:
        """Look for changes of a container that the other end has named: this end may have it in hand again."""
        if id(value) not in self._seen:
            self._seen[id(value)] = contents(value)
            self._watched.append(value)

    def changed(self) -> list[Any]:
        """What has changed since it was the same at both ends.

        A list or dict that has not, and that nothing here refers to, cannot change until the other end names it.
        """
        watched, self._watched = self._watched, []
        changed = []
        for value, count in zip(watched, _counts(watched), strict=True):
            before, now = self._seen[id(value)], contents(value)
            if len(now) != len(before) or not (all(map(is_, now, before)) or _same_bytes(now, before)):
                changed.append(value)
            elif count <= _COUNT_HERE and type(value) in (list, dict):  # no weak reference leads to these
                del self._seen[id(value)]
                continue
            self._watched.append(value)
        return changed


def _counts(values: list[Any]) -> list[int]:
    """How often each is referred to."""
    return [getrefcount(value) for value in values]


_COUNT_HERE = 1 + _counts([[]])[0]
"""How often one is referred to that only `Table.objects` and `Shared.changed` refer to."""


def _same_bytes(now: list[Any], before: list[Any]) -> bool:
    return len(now) == 1 and type(now[0]) is type(before[0]) is bytes and now == before


def contents(value: Any) -> list[Any]:
    """What a shared object holds, one level deep, such that a change of it changes this list.

    Of a dict the keys and then the values, of other objects the names of their attributes and then these.
    """
    if isinstance(value, list):
        return list(list.__iter__(value))
    if isinstance(value, deque):
        return list(value)
    if isinstance(value, bytearray):
        return [bytes(value)]
    if isinstance(value, set):
        return list(set.__iter__(value))
    if isinstance(value, dict):
        kind: Any = OrderedDict if isinstance(value, OrderedDict) else dict
        return [*kind.keys(value), *kind.values(value)]
    if isinstance(value, (of_module("numpy", "ndarray"), of_module("array", "array"))):
        return [value.tobytes()]
    state = attributes(value)
    return [*state, *state.values()]


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of one instance, those in slots included."""
    found: dict[str, Any] = {}
    for kind in reversed(type(value).__mro__):
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if is_attribute(name):
                content = getattr(value, name, MISSING)
                if content is not MISSING:
                    found[name] = content
    found.update((name, content) for name, content in getattr(value, "__dict__", {}).items() if is_attribute(name))
    return found


def is_attribute(name: str) -> bool:
    """Whether an attribute of that name crosses. `__class__` and its like do not, nor do the names of stand-ins."""
    is_own = (name.startswith("__") and name.endswith("__")) or name.startswith("_remote_")
    return name.isidentifier() and not is_own


def set_attributes(value: Any, state: dict[str, Any]) -> None:
    """Make `state` all the attributes of `value`, frozen or not."""
    for name in attributes(value).keys() - state.keys():
        object.__delattr__(value, name)
    for name, content in state.items():
        object.__setattr__(value, name, content)
