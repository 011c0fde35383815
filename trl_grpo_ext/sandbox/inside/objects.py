"""Convert objects that are not plain data, on the program's side.

A test object has a stand-in in the program; each use of the stand-in is a request to the judge, see `given`. This
module shares a process with the program, so the judge trusts nothing that it sends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from enum import Enum, EnumMeta
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

from trl_grpo_ext.sandbox.inside.crossing.awaiting import awaited
from trl_grpo_ext.sandbox.inside.crossing.binding import BOUND
from trl_grpo_ext.sandbox.inside.crossing.classes import OWN_MODULES, description, keeps_its_class, plain_base
from trl_grpo_ext.sandbox.inside.crossing.containers import write_contents
from trl_grpo_ext.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.sandbox.inside.crossing.encoder import Encoder, is_plain_type, write_as
from trl_grpo_ext.sandbox.inside.crossing.exceptions import CLASS_TAGS, Counterpart, Exceptions, is_shared, renew
from trl_grpo_ext.sandbox.inside.crossing.values import (
    MISSING,
    PLAIN_BASES,
    TYPE_NAMES,
    Json,
    MalformedError,
    Table,
    plain_scalar,
)

_BUILTINS = dict(vars(__import__("builtins")))


class Objects:
    """Program objects numbered for the judge, classes described to the judge, stand-ins for test objects."""

    def __init__(self, call_back: CallBack, namespace: dict[str, Any]) -> None:
        self.described: list[type] = []
        self._call_back = call_back
        self._namespace = namespace
        self._handles = Table()
        self._replaced: dict[tuple[int, str], Any] = {}
        self._made: dict[str, type] = {}
        self._given: dict[int, TestObject] = {}
        self._exceptions = Exceptions(self._write_exception_class, self._read_class)
        self._counterparts: dict[int, type[BaseException]] = {}
        self._numbers: dict[type[BaseException], int] = {}

    def keep_methods(self, value: Any) -> None:
        """Give values of a class that the program defines a number.

        A list, dict or other container with a number crosses as an object, not as plain data.
        """
        kind = type(value)
        if not is_plain_type(kind) and not isinstance(value, type) and kind.__module__ in OWN_MODULES:
            self.number(value)

    def set_attribute(self, target: Any, name: str, value: Any) -> None:
        """Set an attribute for the tests; remember a class's original attribute until the tests restore it."""
        if isinstance(target, type) and name in vars(target):
            key = self.number(target), name
            if value is self._replaced.setdefault(key, vars(target)[name]):
                del self._replaced[key]
        setattr(target, name, value)

    def _original(self, number: int, name: str) -> Any:
        """Return a class's original attribute, unbound, from before the tests replaced it."""
        kinds = self._handles.objects[number].__mro__
        if (number, name) in self._replaced:
            return self._replaced[number, name]
        return next(vars(kind)[name] for kind in kinds if name in vars(kind))

    def number(self, value: Any) -> int:
        """Return an object's number for the judge, assigned on first use."""
        return self._handles.add(value)

    def known(self, encoder: Encoder, value: Any) -> Json | None:
        """Encode an enum member, or a plain value whose class must be kept, as JSON.

        Enum members cross by name if their class belongs to Python's library. Instances of subclasses of plain types
        cross as numbered objects with their contents if their class adds something. None means that the encoder
        flattens the value, or handles it as any other object.
        """
        kind = type(value)
        if isinstance(value, Enum) and (module := kind.__module__) in sys.stdlib_module_names:
            return {"member": [module, kind.__name__, value.name]}
        base = plain_base(kind)
        if base is None:
            return None
        number = self._handles.number(value)
        if number is None and not keeps_its_class(value):
            return None
        if base not in PLAIN_BASES:
            return None if number is None else self._handle(encoder, value)
        return self._subclass_of_plain(encoder, value, base)

    def _subclass_of_plain(self, encoder: Encoder, value: Any, base: type) -> Json:
        described = [self.number(value), self._write_class(encoder, type(value))]
        if not PLAIN_BASES[base]:
            return {"subclass": [*described, write_as(encoder, value, base)]}
        if encoder.shared.containers.number(value) is not None:
            return {"handle": described[:1]}
        encoder.shared.containers.add(value)
        return {"subclass": [*described, write_contents(encoder, value)]}

    def write(self, encoder: Encoder, value: Any) -> Json:
        """Encode an object that is not plain data as JSON.

        Stand-ins for test objects cross by number. Classes cross as descriptions, exceptions with arguments and
        attributes, numpy scalars as plain scalars. Any other object crosses as its number, its class and a name.
        """
        if isinstance(value, TestObject):
            return {"given": object.__getattribute__(value, "_number")}
        if isinstance(value, type):
            errors = issubclass(value, BaseException)
            return self._exceptions.encode_class(value, encoder) if errors else self._write_class(encoder, value)
        if isinstance(value, BaseException):
            number = encoder.shared.errors.number(value)
            if number is not None:
                return {"my_error": number}
            return self._exceptions.encode_error(value, encoder, self.number(value))
        plain = plain_scalar(value)
        return self._handle(encoder, value) if plain is MISSING else encoder.encode(plain)

    def _handle(self, encoder: Encoder, value: Any) -> Json:
        kind = type(value)
        name = value.__name__ if isinstance(value, FunctionType) else None
        described = self._write_class(encoder, kind)
        return {"handle": [self.number(value), described, name if type(name) is str else kind.__name__]}

    def _write_exception_class(self, encoder: Encoder, kind: type) -> Json:
        return {"my_exception": self._numbers[kind]} if kind in self._numbers else self._write_class(encoder, kind)

    def _write_class(self, encoder: Encoder, kind: type) -> Json:
        number = self.number(kind)
        if kind is FunctionType:
            return {"class": [number, "function"]}
        if any(kind is each for each in self.described):
            return {"class": [number]}
        self.described.append(kind)
        return {"class": [number, kind.__name__, *description(kind, lambda base: self._base(encoder, base))]}

    def _base(self, encoder: Encoder, base: type) -> Json:
        if is_shared(base):
            return self._exceptions.encode_class(base, encoder)
        return {"type": TYPE_NAMES[base]} if base in TYPE_NAMES else self._write_class(encoder, base)

    def _blank(self, name: str) -> Any:
        """Create an object without attributes; its class is the program's class `name` or, if missing, a new class."""
        kind = self._namespace.get(name)
        try:
            if isinstance(kind, type):
                return object.__new__(kind)
        except TypeError:
            pass
        if name not in self._made:
            self._made[name] = type(name, (), {"__module__": "tests"})
        return object.__new__(self._made[name])

    def _read_class(self, data: Json) -> Any:
        ((tag, payload),) = data.items()
        return self._handles.objects[payload] if tag == "remote" else self._counterpart(*payload)

    def _counterpart(self, number: int, name: str, bases: list[Json]) -> type[BaseException]:
        """Create the counterpart of a test's exception class: its name and bases, none of its code."""
        if number not in self._counterparts:
            parents = [self._exceptions.decode_class(base) for base in bases]
            first = () if any(issubclass(parent, Counterpart) for parent in parents) else (Counterpart,)
            try:
                kind: Any = type(name, (*first, *parents), {"__module__": "solution"})
            except TypeError:
                # The bases do not fit together.
                kind = type(name, (*first, parents[0]), {"__module__": "solution"})
            self._counterparts[number], self._numbers[kind] = kind, number
        return self._counterparts[number]

    def read(self, decoder: Decoder, tag: str, data: Json) -> Any:
        """Decode a tagged value that is not plain data."""
        if tag == "remote":
            return self._handles.objects[data]
        if tag == "attribute":
            return self._original(*data)
        if tag == "object":
            return self._read_given(decoder, *data)
        if tag == "instance":
            return self._blank(data)
        if tag == "builtin":
            return _BUILTINS[data]
        if tag == "enum":
            kind, value = self._namespace.get(data[0]), decoder.decode(data[2])
            return kind.__members__.get(data[1], value) if isinstance(kind, EnumMeta) else value
        if tag == "error":
            return self._read_error(decoder, data)
        if tag in CLASS_TAGS:
            return self._exceptions.decode_class({tag: data})
        raise MalformedError(tag)

    def _read_error(self, decoder: Decoder, data: Json) -> Any:
        error, number = self._exceptions.decode_error(data, decoder)
        known = decoder.shared.errors.objects
        if number is None:
            return error
        if number < len(known):
            renew(known[number], error)
        else:
            decoder.shared.errors.add(error)
        return known[number]

    def _read_given(self, decoder: Decoder, number: int, name: str, specials: Any, *named: Json) -> TestObject:
        if number not in self._given:
            kind = type(name, (BoundObject,), {}) if specials == BOUND else class_with(name, tuple(specials))
            self._given[number] = kind(self._call_back, number)
        for attribute, value in zip(("__name__", "__doc__"), named, strict=False):
            object.__setattr__(self._given[number], attribute, decoder.decode(value))
        return self._given[number]


CallBack = Callable[[int, str, tuple[Any, ...], dict[str, Any]], Any]
"""Uses a test object: number, kind of use, positional arguments, keyword arguments -> result."""


class TestObject:
    """A stand-in for a test object. Its class has the object's special methods; see `class_with`."""

    def __init__(self, call_back: CallBack, number: int) -> None:
        put = object.__setattr__
        put(self, "_call_back", call_back)
        put(self, "_number", number)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return _use(self, "get", name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            _use(self, "set", name, value)

    def __delattr__(self, name: str) -> None:
        _use(self, "delete", name)


class BoundObject(TestObject):
    """A stand-in for a test object bound to a descriptor of the program; the stand-in keeps stored values."""

    def __init__(self, call_back: CallBack, number: int) -> None:
        super().__init__(call_back, number)
        object.__setattr__(self, "_stored", _Stored(self))

    def __getattr__(self, name: str) -> Any:
        stored = object.__getattribute__(self, "_stored")
        if name not in stored:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return stored[name]

    def __setattr__(self, name: str, value: Any) -> None:
        object.__getattribute__(self, "_stored")[name] = value

    def __delattr__(self, name: str) -> None:
        self.__getattr__(name)
        del object.__getattribute__(self, "_stored")[name]

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return object.__getattribute__(self, "_stored")


class _Stored(dict[str, Any]):
    """Values that the program stores in a test object.

    Each change is reported to the judge, which stores a value that a descriptor without `__set__` computed.
    """

    def __init__(self, owner: BoundObject) -> None:
        super().__init__()
        self._owner = owner

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        _use(self._owner, "store", name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        _use(self._owner, "store", name)


def _use(target: TestObject, use: str, /, *args: Any, **kwargs: Any) -> Any:
    call_back: CallBack = object.__getattribute__(target, "_call_back")
    return call_back(object.__getattribute__(target, "_number"), use, args, kwargs)


def _special(name: str) -> Callable[..., Any]:
    def method(self: TestObject, /, *args: Any, **kwargs: Any) -> Any:
        return _use(self, "special", name, *args, **kwargs)

    method.__name__ = name
    return method


def _call(self: TestObject, /, *args: Any, **kwargs: Any) -> Any:
    return _use(self, "call", *args, **kwargs)


def _await(self: TestObject) -> Generator[None, None, Any]:
    return awaited(partial(_use, self))


def _bind(self: TestObject, instance: Any, owner: Any = None) -> Any:
    """Bind like a function."""
    return self if instance is None else lambda *args, **kwargs: _call(self, instance, *args, **kwargs)


def _signature(self: TestObject) -> Any:
    """Ask the judge for a test function's signature, which decorators read; default values appear as `...`."""
    from inspect import Parameter, Signature

    parameters = []
    for name, kind, optional, annotation in _use(self, "signature"):
        default = ... if optional else Parameter.empty
        parameters.append(Parameter(name, kind, default=default, annotation=next(iter(annotation), Parameter.empty)))
    return Signature(parameters)


_OWN = {"__call__": _call, "__await__": _await}


@lru_cache(maxsize=256)
def class_with(name: str, specials: tuple[str, ...]) -> type[TestObject]:
    """Create a class of stand-ins with given special methods."""
    is_function = name == "function"
    own = _OWN | {"__get__": _bind} if is_function else _OWN
    members: dict[str, Any] = {each: own.get(each) or _special(each) for each in specials}
    if "__eq__" in members and "__hash__" not in members:
        members["__hash__"] = object.__hash__
    if is_function and "__get__" in members:
        members["__signature__"] = property(_signature)
    return type(name, (TestObject,), members)
