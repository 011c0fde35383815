"""Objects that hold others and change: what each holds, as JSON and back. Both ends number them; see `Shared`."""

from __future__ import annotations

import importlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from trl_grpo_ext.sandbox.inside.crossing.values import (
    TYPE_NAMES,
    Json,
    MalformedError,
    checked,
    contents,
    is_attribute,
    of_module,
    set_attributes,
)

Encoder: TypeAlias = Any  # of the module of that name, which imports this one
Decoder: TypeAlias = Any

_ARRAY_KINDS = frozenset("biufcSUmMO")  # a record has no plain form
_TYPECODES = frozenset("bBuhHiIlLqQfd")


class Container(NamedTuple):
    """How the objects of a class cross, beside what they hold.

    Attributes:
        empty: Makes one that holds nothing, of the head if there is one.
        head: What an object needs to be made, which crosses before what it holds.
    """

    empty: Callable[..., Any]
    head: Callable[[Any], Any] | None = None


def _may_make(factory: Any) -> bool:
    """Whether a dict may have that factory. With a class of the program the test would seem to make the objects."""
    return not isinstance(factory, type) or factory in TYPE_NAMES


def _empty_defaultdict(factory: Any) -> Any:
    if not _may_make(factory):
        raise MalformedError("no factory")
    return defaultdict(factory)


def _empty_array(typecode: Any) -> Any:
    if typecode not in _TYPECODES:
        raise MalformedError("no array")
    return importlib.import_module("array").array(typecode)


def _empty_ndarray(head: Any) -> Any:
    kind, *shape = checked(head, tuple)
    numpy = importlib.import_module("numpy")
    dtype = numpy.dtype(checked(kind, str))
    if dtype.kind not in _ARRAY_KINDS or not all(type(size) is int for size in shape):
        raise MalformedError("no array")
    return numpy.empty(shape, dtype)


SUBCLASSES: set[type] = set()
"""Classes of numpy's arrays that cross as such; see `guard.empty_arrays`."""
PLAIN = (list, set, deque, dict, bytearray)
"""Those that have no attributes, unless they are of a derived class."""
CONTAINERS: dict[str, Container] = {
    "list": Container(list),
    "dict": Container(dict),
    "OrderedDict": Container(OrderedDict),
    "Counter": Container(Counter),
    "defaultdict": Container(
        _empty_defaultdict, lambda value: value.default_factory if _may_make(value.default_factory) else None
    ),
    "set": Container(set),
    "bytearray": Container(bytearray),
    "deque": Container(lambda most: deque(maxlen=most and checked(most, int)), lambda value: value.maxlen),
    "SimpleNamespace": Container(SimpleNamespace),
    "instance": Container(object, lambda value: type(value).__name__),
    "array": Container(_empty_array, lambda value: value.typecode),
    "ndarray": Container(_empty_ndarray, lambda value: (value.dtype.str, *value.shape)),
}


def tag_of_library(value: Any) -> str | None:
    """The tag of a container of Python's library or of numpy that crosses as what it is; None for any other object."""
    kind = type(value)
    if kind is of_module("numpy", "ndarray") or kind in SUBCLASSES:
        return "ndarray" if value.dtype.kind in _ARRAY_KINDS else None
    if kind is of_module("array", "array"):
        return "array"
    return "SimpleNamespace" if kind is SimpleNamespace else None


def write_contents(encoder: Encoder, value: Any) -> Json:
    """What a container holds, whatever its class has made of its methods."""
    if isinstance(value, bytearray):
        return bytes(value).hex()
    if isinstance(value, of_module("numpy", "ndarray")):
        return encoder.encode_all(value.ravel().tolist())
    if isinstance(value, of_module("array", "array")):
        return encoder.encode_all(value)
    return encoder.encode_all(contents(value))


def refill(decoder: Decoder, value: Any, data: Json) -> None:
    """Put other contents into a container, whatever its class has made of its methods."""
    if isinstance(value, bytearray):
        value[:] = bytes.fromhex(checked(data, str))
        return
    held = decoder.decode_all(data)
    if isinstance(value, dict):
        kind: Any = OrderedDict if isinstance(value, OrderedDict) else dict
        kind.clear(value)
        for key, each in _pairs(held):
            kind.__setitem__(value, key, each)
    elif isinstance(value, set):
        set.clear(value)
        set.update(value, held)
    elif isinstance(value, (list, deque)):
        kind = list if isinstance(value, list) else deque
        kind.clear(value)
        kind.extend(value, held)
    elif isinstance(value, of_module("array", "array")):
        value[:] = type(value)(value.typecode, held)
    elif isinstance(value, of_module("numpy", "ndarray")):
        numpy = importlib.import_module("numpy")
        value[...] = numpy.array(held, dtype=value.dtype).reshape(value.shape)
    else:
        state = dict(_pairs(held))
        if not all(type(name) is str and is_attribute(name) for name in state):
            raise MalformedError("no name of an attribute")
        set_attributes(value, state)


def _pairs(held: list[Any]) -> Iterator[tuple[Any, Any]]:
    """The keys, which come first, with the values."""
    middle = len(held) // 2
    return zip(held[:middle], held[middle:], strict=True)
