"""Split immutable values into parts at one end and rebuild them at the other.

Subclass instances of classes in `KINDS` cross too, as the base class. Classes in `EXACT`, from Python's library, cross
without subclasses.
"""

from __future__ import annotations

import importlib
import re
from collections import namedtuple
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

from trl_grpo_ext.programs.sandbox.inside.crossing.containers import is_sendable
from trl_grpo_ext.programs.sandbox.inside.crossing.frames import (
    dtype_of,
    index_of,
    text_of_dtype,
    text_of_index,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    MAX_FIELDS,
    TYPE_NAMES,
    TYPES,
    MalformedError,
    checked,
    contents,
    is_field,
    of_module,
)

_HEX = re.compile(r"-?0x[0-9a-f]+")


class Kind(NamedTuple):
    """Conversion rules for a class of immutable values.

    Attributes:
        tag: Name of the class in messages.
        parts: Splits a value into parts.
        types: Exact types of the received parts; None for any number of any parts.
        make: Rebuilds the value from its parts.
    """

    tag: str
    parts: Callable[[Any], Iterable[Any]]
    types: tuple[type, ...] | None
    make: Callable[..., Any]


def _int_of(data: str) -> int:
    if not _HEX.fullmatch(data):
        raise MalformedError("no integer")
    return int(data, 16)


def _float_of(data: str) -> float:
    if data not in ("nan", "inf", "-inf"):
        raise MalformedError("no float")
    return float(data)


def is_namedtuple(value: Any) -> bool:
    """Return whether the other end can rebuild a tuple as a named tuple."""
    fields = getattr(type(value), "_fields", None)
    return (
        isinstance(fields, tuple)
        and len(fields) == tuple.__len__(value) <= MAX_FIELDS
        and all(type(name) is str and is_field(name) for name in fields)
    )


def _namedtuple_of(name: Any, fields: Any, *items: Any) -> Any:
    for field in (name, *checked(fields, tuple)):
        if type(field) is not str or not is_field(field):
            raise MalformedError("no name of a field")
    if len(fields) > MAX_FIELDS:
        raise MalformedError("too many fields")
    return _namedtuple_type(name, fields)(*items)


# A program may send any number of named tuple types.
@lru_cache(maxsize=64)
def _namedtuple_type(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


def _pattern_of(pattern: Any, flags: Any) -> Any:
    if type(pattern) not in (str, bytes):
        raise MalformedError("no pattern")
    return re.compile(pattern, checked(flags, int))


def _record_of(array: Any) -> Any:
    is_record = isinstance(array, of_module("numpy", "ndarray")) and array.dtype.names
    if not is_record or array.shape != ():
        raise MalformedError("no record")
    return array[()]


def _bounds(value: Any) -> tuple[Any, ...]:
    return value.start, value.stop, value.step


# Hexadecimal, because Python limits the length of decimal numbers that it reads, and reads them slowly.
INT = Kind("int", lambda value: (hex(value),), (str,), _int_of)
FLOAT = Kind("float", lambda value: (repr(value),), (str,), _float_of)
TEXT = Kind(
    "str",
    lambda value: (value.encode("utf-8", "surrogatepass").hex(),),
    (str,),
    lambda data: bytes.fromhex(data).decode("utf-8", "surrogatepass"),
)
"""Integers, floats and texts that JSON cannot represent."""
NAMEDTUPLE = Kind(
    "namedtuple",
    lambda value: (type(value).__name__, type(value)._fields, *tuple.__iter__(value)),
    None,
    _namedtuple_of,
)
RECORD = Kind(
    "record", lambda value: (of_module("numpy", "asarray")(value),), None, _record_of
)
"""An item of one of numpy's structured arrays."""
INDEX = Kind("Index", lambda value: (text_of_index(value),), (str,), index_of)
"""An index of pandas."""
DTYPE = Kind("dtype", lambda value: (text_of_dtype(value),), (str,), dtype_of)
"""A dtype of numpy, or one of pandas' dtypes of texts."""
TYPE = Kind("type", lambda value: (TYPE_NAMES[value],), (str,), TYPES.__getitem__)

KINDS: dict[type, Kind] = {
    tuple: Kind("tuple", tuple.__iter__, None, lambda *parts: parts),
    frozenset: Kind("frozenset", frozenset.__iter__, None, lambda *parts: frozenset(parts)),
    bytes: Kind("bytes", lambda value: (memoryview(value).hex(),), (str,), bytes.fromhex),
    memoryview: Kind("bytes", lambda value: (value.hex(),), (str,), bytes.fromhex),
    type({}.keys()): Kind("keys", iter, None, lambda *parts: dict.fromkeys(parts).keys()),
    type({}.values()): Kind(
        "dict_values", iter, None, lambda *parts: dict(enumerate(parts)).values()
    ),
    type({}.items()): Kind("items", iter, None, lambda *parts: dict(parts).items()),
    complex: Kind(
        "complex", lambda value: (value.real, value.imag), (float, float), complex
    ),
    range: Kind("range", _bounds, (int, int, int), range),
    slice: Kind("slice", _bounds, None, slice),
    Decimal: Kind("Decimal", lambda value: (Decimal.__str__(value),), (str,), Decimal),
    Fraction: Kind(
        "Fraction", lambda value: (value.numerator, value.denominator), (int, int), Fraction
    ),
    date: Kind("date", lambda value: (date.isoformat(value),), (str,), date.fromisoformat),
    # The ISO format has no place for `fold`, so that crosses beside the text.
    datetime: Kind(
        "datetime",
        lambda value: (datetime.isoformat(value), value.fold),
        (str, int),
        lambda text, fold: datetime.fromisoformat(text).replace(fold=fold),
    ),
    time: Kind(
        "time",
        lambda value: (time.isoformat(value), value.fold),
        (str, int),
        lambda text, fold: time.fromisoformat(text).replace(fold=fold),
    ),
    timedelta: Kind(
        "timedelta",
        lambda value: (value.days, value.seconds, value.microseconds),
        (int, int, int),
        timedelta,
    ),
    type(...): Kind("Ellipsis", lambda _: (), (), lambda: ...),
    type(NotImplemented): Kind("NotImplemented", lambda _: (), (), lambda: NotImplemented),
}

EXACT: dict[type, Kind] = {
    re.Pattern: Kind(
        "Pattern", lambda value: (value.pattern, value.flags), None, _pattern_of
    ),
    timezone: Kind(
        "timezone", lambda value: (value.utcoffset(None),), (timedelta,), timezone
    ),
    MappingProxyType: Kind(
        "mappingproxy", lambda value: (dict(value),), (dict,), MappingProxyType
    ),
}

_BY_TEXT = {
    **dict.fromkeys(("PosixPath", "PurePosixPath", "PureWindowsPath"), "pathlib"),
    **dict.fromkeys(
        (
            "IPv4Address",
            "IPv6Address",
            "IPv4Network",
            "IPv6Network",
            "IPv4Interface",
            "IPv6Interface",
        ),
        "ipaddress",
    ),
    "UUID": "uuid",
}
"""Classes whose objects are rebuilt from their text, with their modules, which are imported when an object arrives."""


def kind_of_library(value: Any) -> Kind | None:
    """Return conversion rules for a value of Python's library; None for other objects."""
    kind = type(value)
    if kind is of_module("numpy", "void"):
        is_record = value.dtype.names is not None and is_sendable(value.dtype)
        return RECORD if is_record else None
    if text_of_index(value) is not None:
        return INDEX
    if text_of_dtype(value) is not None:
        return DTYPE
    found = EXACT.get(kind)
    # The first part counts: Python 3.13 defines the classes of pathlib in `pathlib._local`.
    if found is None and _BY_TEXT.get(kind.__name__) == kind.__module__.partition(".")[0]:
        return BY_TAG[kind.__name__]
    return found


_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_OF_ANYTHING = (tuple, frozenset, slice, MappingProxyType, *_VIEWS)


def held(value: Any) -> list[Any]:
    """List the objects directly inside an object, whatever its class."""
    if isinstance(value, _OF_ANYTHING):
        return list(_kind_of_base(type(value)).parts(value))
    if isinstance(value, of_module("numpy", "ndarray")):
        # Only an array of objects can hold a stand-in; arrays of numbers may be large.
        return list(value.ravel().tolist()) if value.dtype.hasobject else []
    if isinstance(value, BaseException):
        links = [value.__cause__, value.__context__, *getattr(value, "exceptions", ())]
        return [*value.args, *links, *vars(value).values()]
    return [] if isinstance(value, ModuleType) else contents(value)


def _kind_of_base(container: type) -> Kind:
    """Return the kind of a container class, or of its nearest base class with a kind.

    Raises:
        TypeError: if no class has one.
    """
    for each in container.__mro__:
        kind = KINDS.get(each) or EXACT.get(each)
        if kind is not None:
            return kind
    raise TypeError(f"no kind of {container.__name__}")


def _by_text(name: str, module: str) -> Kind:
    def make(text: str) -> Any:
        return getattr(importlib.import_module(module), name)(text)

    return Kind(name, lambda value: (str(value),), (str,), make)


BY_TAG: dict[str, Kind] = {
    **{
        each.tag: each
        for each in (
            INT,
            FLOAT,
            TEXT,
            NAMEDTUPLE,
            RECORD,
            INDEX,
            DTYPE,
            TYPE,
            *KINDS.values(),
            *EXACT.values(),
        )
    },
    **{name: _by_text(name, module) for name, module in _BY_TEXT.items()},
}
