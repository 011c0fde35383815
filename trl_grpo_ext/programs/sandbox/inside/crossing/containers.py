"""Encode and decode contents of mutable objects, which both ends know by number; see `Shared`."""

from __future__ import annotations

import importlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from trl_grpo_ext.programs.sandbox.inside.crossing.frames import (
    called_by_label,
    described_anyhow,
    is_frame,
    refill_frame,
    tag_of_frame,
    written,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    TYPE_NAMES,
    Json,
    MalformedError,
    checked,
    contents,
    is_attribute,
    of_module,
    set_attributes,
)

# The class Encoder, whose module imports this module.
Encoder: TypeAlias = Any
Decoder: TypeAlias = Any

_ARRAY_KINDS = frozenset("biufcSUmMO")
_TYPECODES = frozenset("bBuhHiIlLqQfd")


class Container(NamedTuple):
    """Conversion rules for a class of containers.

    Attributes:
        empty: Creates a container without contents, from the head if there is one.
        head: Returns what `empty` needs, such as a deque's length; it crosses before the contents.
    """

    empty: Callable[..., Any]
    head: Callable[[Any], Any] | None = None


def _may_make(factory: Any) -> bool:
    """Return whether a defaultdict may use a factory.

    Classes of the program are refused: objects that they make in the judge would count as made by the test.
    """
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
    return numpy.empty(_checked_shape(shape), _dtype_of(kind))


def _checked_shape(shape: Any) -> Any:
    if not all(type(size) is int for size in shape):
        raise MalformedError("no shape of an array")
    return shape


def _described(dtype: Any) -> Any:
    """Describe the type of an array's items: its code, or the name, type and shape of each field of a record."""
    if dtype.names is None:
        return dtype.str
    fields = ((name, dtype[name]) for name in dtype.names)
    return tuple((name, _described(each.base), each.shape) for name, each in fields)


def _dtype_of(described: Any) -> Any:
    numpy = importlib.import_module("numpy")
    if type(described) is not tuple:
        dtype = numpy.dtype(checked(described, str))
        if dtype.kind not in _ARRAY_KINDS:
            raise MalformedError("no array")
        return dtype
    fields = []
    for name, kind, shape in described:
        fields.append((checked(name, str), _dtype_of(kind), _checked_shape(shape)))
    dtype = numpy.dtype(fields)
    if not is_sendable(dtype):
        raise MalformedError("no record")
    return dtype


def is_sendable(dtype: Any) -> bool:
    """Return whether arrays of a type cross: not raw bytes, and no records one of whose fields has no items."""
    if dtype.names is None:
        return dtype.kind in _ARRAY_KINDS
    fields = [dtype[name] for name in dtype.names]
    return bool(fields) and all(
        is_sendable(each.base) and 0 not in each.shape for each in fields
    )


SUBCLASSES: set[type] = set()
"""Classes of numpy's arrays that cross as such; see `guard.empty_arrays`."""
PLAIN = (list, set, deque, dict, bytearray)
"""Containers that have no attributes, except in subclasses."""
CONTAINERS: dict[str, Container] = {
    "list": Container(list),
    "dict": Container(dict),
    "OrderedDict": Container(OrderedDict),
    "Counter": Container(Counter),
    "defaultdict": Container(
        _empty_defaultdict,
        lambda value: value.default_factory if _may_make(value.default_factory) else None,
    ),
    "set": Container(set),
    "bytearray": Container(bytearray),
    "deque": Container(
        lambda most: deque(maxlen=most and checked(most, int)), lambda value: value.maxlen
    ),
    "SimpleNamespace": Container(SimpleNamespace),
    "instance": Container(object, type),
    "array": Container(_empty_array, lambda value: value.typecode),
    "ndarray": Container(
        _empty_ndarray, lambda value: (_described(value.dtype), *value.shape)
    ),
    "DataFrame": Container(lambda: importlib.import_module("pandas").DataFrame()),
    "Series": Container(lambda: importlib.import_module("pandas").Series(dtype=object)),
}


def tag_of_library(value: Any) -> str | None:
    """Return the tag of an array, frame or SimpleNamespace, which crosses by contents; None for other objects."""
    kind = type(value)
    if kind is of_module("numpy", "ndarray") or kind in SUBCLASSES:
        return "ndarray" if is_sendable(value.dtype) else None
    if kind is of_module("array", "array"):
        return "array"
    return "SimpleNamespace" if kind is SimpleNamespace else tag_of_frame(value)


def write_contents(encoder: Encoder, value: Any) -> Json:
    """Encode a container's contents, ignoring methods that its class overrides."""
    if isinstance(value, bytearray):
        return bytes(value).hex()
    if isinstance(value, of_module("numpy", "ndarray")):
        return encoder.encode_all(value.ravel().tolist())
    if isinstance(value, of_module("array", "array")):
        return encoder.encode_all(value)
    if is_frame(value):
        description, items = described_anyhow(value)
        return [written(description), encoder.encode_all(items)]
    return encoder.encode_all(contents(value))


def refill(decoder: Decoder, value: Any, data: Json) -> None:
    """Replace a container's contents, ignoring methods that its class overrides."""
    if isinstance(value, bytearray):
        value[:] = bytes.fromhex(checked(data, str))
    elif not is_frame(value):
        _refill_items(decoder, value, decoder.decode_all(data))
    else:
        description, held = data
        items = decoder.decode_all(held)
        refill_frame(value, description, items)
        decoder.check_names(called_by_label(value, items))


def _refill_items(decoder: Decoder, value: Any, held: list[Any]) -> None:
    if isinstance(value, dict):
        # An OrderedDict keeps its order beside the dict, so the methods of `dict` would leave the order as it was.
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
        value[...] = _array_of(held, value.dtype).reshape(value.shape)
    else:
        state = dict(_pairs(held))
        # Names such as `__class__` would change what the object is.
        if not all(type(name) is str and is_attribute(name) for name in state):
            raise MalformedError("no name of an attribute")
        decoder.check_names(state)
        set_attributes(value, state)


def _array_of(held: list[Any], dtype: Any) -> Any:
    numpy = importlib.import_module("numpy")
    if not dtype.hasobject:
        return numpy.array(held, dtype=dtype)
    # Item by item: numpy would take a list that is an item for another dimension.
    array = numpy.empty(len(held), dtype)
    for place, each in enumerate(held):
        array[place] = each
    return array


def _pairs(held: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Split a list of all keys followed by all values into pairs."""
    middle = len(held) // 2
    return zip(held[:middle], held[middle:], strict=True)
