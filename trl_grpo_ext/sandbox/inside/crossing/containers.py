"""Objects that hold others and change: what each holds, as JSON and back. Both ends number them; see `Shared`."""

from __future__ import annotations

import importlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from trl_grpo_ext.sandbox.inside.crossing.values import (
    TYPE_NAMES,
    TYPES,
    Json,
    MalformedError,
    attributes,
    checked,
    is_attribute,
    keys_of,
    of_module,
    set_attributes,
    values_of,
)

Encoder: TypeAlias = Any  # of the module of that name, which imports this one
Decoder: TypeAlias = Any

_ARRAY_KINDS = frozenset("biufcSUmMO")  # a record has no plain form
_TYPECODES = frozenset("bBuhHiIlLqQfd")


class Container(NamedTuple):
    """How the objects of a class cross, beside what they hold.

    Attributes:
        empty: Makes one that holds nothing, of the head if there is one.
        head: What an object needs to be made, as JSON.
    """

    empty: Callable[..., Any]
    head: Callable[[Any], Json] | None = None


def _factory(value: Any) -> Json:
    kind = value.default_factory
    return TYPE_NAMES.get(kind) if isinstance(kind, type) else None


def _empty_array(typecode: Json) -> Any:
    if typecode not in _TYPECODES:
        raise MalformedError("no array")
    return importlib.import_module("array").array(typecode)


def _empty_ndarray(head: Json) -> Any:
    kind, *shape = checked(head, list)
    numpy = importlib.import_module("numpy")
    dtype = numpy.dtype(checked(kind, str))
    if dtype.kind not in _ARRAY_KINDS or not all(type(size) is int for size in shape):
        raise MalformedError("no array")
    return numpy.empty(shape, dtype)


def _no_class(_: Json) -> Any:
    raise MalformedError("no such object")


PLAIN = (list, set, deque, dict, bytearray)
"""Those that have no attributes, unless they are of a derived class."""
CONTAINERS: dict[str, Container] = {
    "list": Container(list),
    "dict": Container(dict),
    "OrderedDict": Container(OrderedDict),
    "Counter": Container(Counter),
    "defaultdict": Container(lambda name: defaultdict(None if name is None else TYPES[name]), _factory),
    "set": Container(set),
    "bytearray": Container(bytearray),
    "deque": Container(lambda most: deque(maxlen=most and checked(most, int)), lambda value: value.maxlen),
    "SimpleNamespace": Container(SimpleNamespace),
    "instance": Container(_no_class, lambda value: type(value).__name__),
    "array": Container(_empty_array, lambda value: value.typecode),
    "ndarray": Container(_empty_ndarray, lambda value: [value.dtype.str, *value.shape]),
}


def tag_of_library(value: Any) -> str | None:
    """The tag of a container of Python's library or of numpy that crosses as what it is; None for any other object."""
    kind = type(value)
    if kind is of_module("numpy", "ndarray"):
        return "ndarray" if value.dtype.kind in _ARRAY_KINDS else None
    if kind is of_module("array", "array"):
        return "array"
    return "SimpleNamespace" if kind is SimpleNamespace else None


def contents(encoder: Encoder, value: Any) -> Json:
    """What a container holds, whatever its class has made of its methods."""
    if isinstance(value, dict):
        return [encoder.encode_all(keys_of(value)), encoder.encode_all(values_of(value))]
    if isinstance(value, list):
        return encoder.encode_all(list.__iter__(value))
    if isinstance(value, set):
        return encoder.encode_all(set.__iter__(value))
    if isinstance(value, deque):
        return encoder.encode_all(deque.__iter__(value))
    if isinstance(value, bytearray):
        return bytes(value).hex()
    if isinstance(value, of_module("numpy", "ndarray")):
        return encoder.encode_all(value.ravel().tolist())
    if isinstance(value, of_module("array", "array")):
        return encoder.encode_all(value)
    state = attributes(value)
    return [list(state), encoder.encode_all(state.values())]


def refill(decoder: Decoder, value: Any, data: Json) -> None:
    """Put other contents into a container, whatever its class has made of its methods."""
    if isinstance(value, dict):
        keys, values = data
        new = dict(zip(decoder.decode_all(keys), decoder.decode_all(values), strict=True))
        if isinstance(value, OrderedDict):
            OrderedDict.clear(value)
            for key, each in new.items():
                OrderedDict.__setitem__(value, key, each)
        else:
            dict.clear(value)
            dict.update(value, new)
    elif isinstance(value, set):
        elements = decoder.decode_all(data)
        set.clear(value)
        set.update(value, elements)
    elif isinstance(value, bytearray):
        value[:] = bytes.fromhex(checked(data, str))
    elif isinstance(value, (list, deque)):
        kind_of: Any = list if isinstance(value, list) else deque
        items = decoder.decode_all(data)
        kind_of.clear(value)
        kind_of.extend(value, items)
    elif isinstance(value, of_module("array", "array")):
        value[:] = type(value)(value.typecode, decoder.decode_all(data))
    elif isinstance(value, of_module("numpy", "ndarray")):
        numpy = importlib.import_module("numpy")
        value[...] = numpy.array(decoder.decode_all(data), dtype=value.dtype).reshape(value.shape)
    else:
        names, values = data
        if not all(type(name) is str and is_attribute(name) for name in checked(names, list)):
            raise MalformedError("no name of an attribute")
        set_attributes(value, dict(zip(names, decoder.decode_all(values), strict=True)))
