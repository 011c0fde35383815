"""Define the JSON format of Python values: plain data by value, other objects as both ends agree.

`None`, booleans, integers of up to 64 bits, finite floats and strings represent themselves, and a list represents a
list. Everything else is an object with a single key, its tag: `{"tuple": [1, 2]}`. An instance of a
plain type's subclass crosses as that plain type, or with its contents and its class if the program defines the class;
none of its methods takes part in a comparison at the other end.

Decoding trusts nothing: received names only select from fixed tables, or exception and enum classes of library modules
that are already imported. No received text is evaluated, and `reading` turns every fault into `MalformedError`. See
`Encoder` and `Decoder`; `Shared` keeps objects that both ends know by number.
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
"""Depth from which a container is announced first and its contents follow separately.

Contents written at once take five Python frames per level, and a program has a thousand.
"""
MOST_SHARED = 5_000
"""Limit of shared objects and their elements; beyond it, both ends forget all shared objects after a call."""
_WORK_OF_FRAME = 100
"""Elements that can be compared in the time that a small frame takes."""
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
MAX_FIELDS = 256
_DOUBLE_BYTES = 8

_OTHER_TYPES = (
    Decimal,
    Fraction,
    date,
    datetime,
    time,
    timedelta,
    deque,
    Counter,
    OrderedDict,
    defaultdict,
)
TYPES: dict[str, type] = {
    **{
        name: kind
        for name, kind in vars(builtins).items()
        if isinstance(kind, type)
        and not name.startswith("_")
        and not issubclass(kind, BaseException)
    },
    **{kind.__name__: kind for kind in _OTHER_TYPES},
    "NoneType": type(None),
}
"""Types that cross by name."""
PLAIN_BASES: dict[type, bool] = {
    **dict.fromkeys((int, float, complex, str, bytes, tuple, frozenset), False),
    **dict.fromkeys((Decimal, date, datetime, time, timedelta), False),
    **dict.fromkeys(
        (Counter, OrderedDict, defaultdict, list, dict, set, bytearray, deque), True
    ),
}
"""Plain types that a program class may have as a base in the judge too, and whether their values are mutable.

`Fraction` is left out: its metaclass is another than that of stand-ins.
"""
TYPE_NAMES = {kind: name for name, kind in reversed(TYPES.items())}


class MalformedError(ValueError):
    """Received data that represents no value."""


class TooDeepError(ValueError):
    """A value nested too deeply to send."""


def checked(data: Json, kind: type) -> Any:
    """Return `data` if its type is exactly `kind`.

    Raises:
        MalformedError: for any other type.
    """
    if type(data) is not kind:
        raise MalformedError(f"{kind.__name__} is missing")
    return data


def reading(read: Callable[..., Any], *data: Any) -> Any:
    """Call `read(*data)` and return its result.

    Raises:
        MalformedError: for any Exception of the call.
    """
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
    """Return whether a name is valid for a named tuple's field."""
    return (
        name.isascii()
        and name.isidentifier()
        and not iskeyword(name)
        and not name.startswith("_")
    )


SNAPSHOTS: dict[str, Callable[[Any], list[Any]]] = {}
"""What lists the contents of pandas' classes, by their names; `frames` fills it."""
MISSING: Any = object()


def of_module(module: str, name: str) -> Any:
    """Return a class for `isinstance` checks; an empty tuple if its module is not imported, so no instances exist."""
    return getattr(sys.modules.get(module), name, ())


def plain_scalar(value: Any) -> Any:
    """Convert a numpy scalar to a Python scalar; MISSING for other objects and for long doubles.

    A float of fewer than 64 bits becomes its printed number: `np.float32(0.1) == 0.1` is true for numpy as well.
    """
    plain = value.item() if isinstance(value, of_module("numpy", "generic")) else MISSING
    if isinstance(value, of_module("numpy", "floating")) and value.itemsize < _DOUBLE_BYTES:
        plain = float(str(value))
    # `item()` of a long double returns the long double itself.
    return MISSING if type(plain) is type(value) else plain


class Table:
    """Numbered objects, kept alive so that no `id` is reused."""

    __slots__ = ("_numbers", "objects")

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, value: Any) -> int | None:
        """Return an object's number, or None."""
        return self._numbers.get(id(value))

    def add(self, value: Any) -> int:
        """Return an object's number, assigned on first use."""
        number = self._numbers.setdefault(id(value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        return number

    def at(self, number: Json) -> Any:
        """Return the object with a received number.

        Raises:
            MalformedError: if no object has that number.
        """
        if type(number) is not int or not 0 <= number < len(self.objects):
            raise MalformedError("no such object")
        return self.objects[number]

    def truncate(self, length: int) -> None:
        """Forget all objects except the first `length`."""
        for value in self.objects[length:]:
            del self._numbers[id(value)]
        del self.objects[length:]


class Shared:
    """Mutable objects that both ends know by number, until there are too many.

    Both ends number the lists, dicts and other containers of each message in the order of encoding and decoding, so a
    later message can name a container instead of repeating it. Hence four things work as within a single process: a
    result *is* the argument that was passed, an argument that appears twice stays one object, changes that a callee
    makes in an argument reach the caller, and changes that tests make in `node.children` reach the program.

    Attributes:
        containers: Lists, dicts, sets, bytearrays, deques, arrays, frames, and objects that hold only data.
        errors: Exceptions that uses of test objects raised.
        received: Numbers of the containers that the other end has sent first.
    """

    __slots__ = (
        "_seen",
        "_settled",
        "_size",
        "_watched",
        "containers",
        "errors",
        "received",
    )

    def __init__(self) -> None:
        self.containers = Table()
        self.errors = Table()
        self.received: set[int] = set()
        self._seen: dict[int, list[Any]] = {}
        # Containers in `_seen` whose changes are still looked for.
        self._watched: list[Any] = []
        self._settled = 0
        self._size = 0

    @property
    def is_full(self) -> bool:
        """Whether searching for changes would take too long."""
        return self._size > MOST_SHARED

    def settle(self) -> None:
        """Record that all objects numbered since the last call are equal at both ends."""
        self.remember(self.containers.objects[self._settled :])
        self._settled = len(self.containers.objects)

    def remember(self, values: list[Any]) -> None:
        """Record that `values` are equal at both ends."""
        for value in values:
            self.watch(value)
            held = self._seen[id(value)] = contents(value)
            self._size += 1 + len(held)
            # An array is a single bytes object here, and a frame ends with one; it counts by words of 8 bytes.
            if held and type(held[-1]) is bytes:
                self._size += len(held[-1]) // 8
            if type(value).__name__ in SNAPSHOTS:
                self._size += _WORK_OF_FRAME

    def watch(self, value: Any) -> None:
        """Watch a container for changes.

        The other end has named it, so code here may now hold and change it.
        """
        if id(value) not in self._seen:
            self._seen[id(value)] = contents(value)
            self._watched.append(value)

    def has_changed(self) -> bool:
        """Test whether contents of a watched container changed since both ends agreed."""
        return any(map(self._differs, self._watched))

    def _differs(self, value: Any) -> bool:
        before, now = self._seen[id(value)], contents(value)
        if len(now) != len(before):
            return True
        # By identity: `==` would run methods of other classes, and take `True` for 1.
        return not (all(map(is_, now, before)) or _same_bytes(now, before))

    def changed(self) -> list[Any]:
        """Return watched containers whose contents changed since both ends agreed.

        An unchanged list, dict or frame without references here cannot change until the other end names it, so it is no
        longer watched.
        """
        watched, self._watched = self._watched, []
        changed = []
        for value, count in zip(watched, _counts(watched), strict=True):
            if self._differs(value):
                changed.append(value)
            elif count <= _COUNT_HERE and (
                type(value) in (list, dict) or type(value).__name__ in SNAPSHOTS
            ):
                # Lists and dicts have no weak references that could lead to them, and frames none that tests use.
                del self._seen[id(value)]
                continue
            self._watched.append(value)
        return changed


def _counts(values: list[Any]) -> list[int]:
    """Count references to each value."""
    return [getrefcount(value) for value in values]


_COUNT_HERE = 1 + _counts([[]])[0]
"""Reference count of an object that only `Table.objects` and `Shared.changed` refer to."""


def _same_bytes(now: list[Any], before: list[Any]) -> bool:
    return all(
        one is other or (type(one) is type(other) is bytes and one == other)
        for one, other in zip(now, before, strict=True)
    )


def contents(value: Any) -> list[Any]:
    """List a shared object's direct contents, so that each change of the object changes the list.

    Dicts give all keys, then all values; other objects give attribute names, then attribute values.
    """
    if isinstance(value, list):
        # The base's own iterator: a subclass may override `__iter__`.
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
    kind = type(value)
    if kind.__name__ in SNAPSHOTS and kind is of_module("pandas", kind.__name__):
        return SNAPSHOTS[kind.__name__](value)
    state = attributes(value)
    return [*state, *state.values()]


def attributes(value: Any) -> dict[str, Any]:
    """Return an instance's attributes, including slots."""
    found: dict[str, Any] = {}
    for kind in reversed(type(value).__mro__):
        slots = kind.__dict__.get("__slots__", ())
        # Python allows a single name as text in `__slots__`.
        names = (slots,) if isinstance(slots, str) else slots
        for name in names:
            if is_attribute(name):
                content = getattr(value, name, MISSING)
                if content is not MISSING:
                    found[name] = content
    found.update(
        (name, content)
        for name, content in getattr(value, "__dict__", {}).items()
        if is_attribute(name)
    )
    return found


def is_attribute(name: str) -> bool:
    """Return whether an attribute crosses; names such as `__class__` and names of stand-ins do not."""
    is_own = (name.startswith("__") and name.endswith("__")) or name.startswith("_remote_")
    return name.isidentifier() and not is_own


def set_attributes(value: Any, state: dict[str, Any]) -> None:
    """Replace all attributes of an object, even of a frozen data class."""
    for name in attributes(value).keys() - state.keys():
        object.__delattr__(value, name)
    for name, content in state.items():
        object.__setattr__(value, name, content)
