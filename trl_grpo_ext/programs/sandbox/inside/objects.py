"""Convert objects that are not plain data, on the program's side.

A test object has a stand-in in the program; each use of the stand-in is a request to the judge, see `given`. This
module shares a process with the program, so the judge trusts nothing that it sends.
"""

from __future__ import annotations

import sys
from enum import Enum, EnumMeta
from types import FunctionType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.counterparts import (
    OF_TESTS,
    CallBack,
    Counterparts,
    TestDataClass,
    TestObject,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.classes import (
    OWN_MODULES,
    description,
    keeps_its_class,
    plain_base,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.containers import write_contents
from trl_grpo_ext.programs.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.programs.sandbox.inside.crossing.encoder import (
    Encoder,
    is_plain_type,
    write_as,
    write_container,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.exceptions import (
    CLASS_TAGS,
    Counterpart,
    Exceptions,
    is_shared,
    renew,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
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
        self._namespace = namespace
        self._handles = Table()
        self._replaced: dict[tuple[int, str], Any] = {}
        self._counterparts = Counterparts(call_back)
        self._exceptions = Exceptions(
            self._write_exception_class, self._read_class, number_of=self.number
        )
        self._error_classes: dict[int, type[BaseException]] = {}
        self._numbers: dict[type[BaseException], int] = {}

    def keep_methods(self, value: Any) -> None:
        """Give values of a class that the program defines a number.

        A list, dict or other container with a number crosses as an object, not as plain data.
        """
        kind = type(value)
        if (
            not is_plain_type(kind)
            and not isinstance(value, type)
            and kind.__module__ in OWN_MODULES
        ):
            self.number(value)

    def set_attribute(self, target: Any, name: str, value: Any) -> None:
        """Set an attribute for the tests; remember a class's original attribute until the tests restore it."""
        if isinstance(target, type) and name in vars(target):
            key = self.number(target), name
            # If the value is the original itself, a patch of the tests has ended.
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
        cross as numbered objects with their contents if the program defines their class. None means that the encoder
        flattens the value, or handles it as any other object.
        """
        kind = type(value)
        if (
            isinstance(value, Enum)
            and (module := kind.__module__) in sys.stdlib_module_names
        ):
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
        if isinstance(value, TestDataClass):
            return {"test_class": self._counterparts.number_of_class(value)}
        if isinstance(type(value), TestDataClass):
            return write_container("instance", encoder, value)
        if isinstance(value, type):
            if issubclass(value, BaseException):
                return self._exceptions.encode_class(value, encoder)
            return self._write_class(encoder, value)
        if isinstance(value, BaseException):
            number = encoder.shared.errors.number(value)
            if number is not None:
                return {"my_error": number}
            return self._exceptions.encode_error(value, encoder, self.number(value))
        plain = plain_scalar(value)
        if plain is not MISSING:
            return encoder.encode(plain)
        return self._handle(encoder, value)

    def _handle(self, encoder: Encoder, value: Any) -> Json:
        kind = type(value)
        name = value.__name__ if isinstance(value, FunctionType) else None
        # The program may give its function a name that is no text.
        if type(name) is not str:
            name = kind.__name__
        return {"handle": [self.number(value), self._write_class(encoder, kind), name]}

    def _write_exception_class(self, encoder: Encoder, kind: type) -> Json:
        return (
            {"my_exception": self._numbers[kind]}
            if kind in self._numbers
            else self._write_class(encoder, kind)
        )

    def _write_class(self, encoder: Encoder, kind: type) -> Json:
        number = self.number(kind)
        if kind is FunctionType:
            return {"class": [number, "function"]}
        # By identity: `in` would call an `__eq__` that the program's metaclass may define.
        if any(kind is each for each in self.described):
            return {"class": [number]}
        self.described.append(kind)
        return {
            "class": [
                number,
                kind.__name__,
                *description(kind, lambda base: self._base(encoder, base)),
            ]
        }

    def _base(self, encoder: Encoder, base: type) -> Json:
        if is_shared(base):
            return self._exceptions.encode_class(base, encoder)
        if base in TYPE_NAMES:
            return {"type": TYPE_NAMES[base]}
        return self._write_class(encoder, base)

    def _blank(self, counterpart: type) -> Any:
        """Create an object of a data-only test class, without attributes.

        Its class is the program's own class of that name if the program has one, as a test may define what it expects
        the program to define.
        """
        own = self._namespace.get(counterpart.__name__)
        try:
            return object.__new__(own if isinstance(own, type) else counterpart)
        except TypeError:
            # Python refuses `object.__new__` for a class with another layout, such as a subclass of `int`.
            return object.__new__(counterpart)

    def _read_class(self, data: Json) -> Any:
        ((tag, payload),) = data.items()
        return (
            self._handles.objects[payload]
            if tag == "remote"
            else self._error_class(*payload)
        )

    def _error_class(
        self, number: int, name: str, bases: list[Json]
    ) -> type[BaseException]:
        """Create the counterpart of a test's exception class: its name and bases, none of its code."""
        if number not in self._error_classes:
            parents = [self._exceptions.decode_class(base) for base in bases]
            first = (
                ()
                if any(issubclass(parent, Counterpart) for parent in parents)
                else (Counterpart,)
            )
            try:
                kind: Any = type(name, (*first, *parents), {"__module__": "solution"})
            except TypeError:
                # The bases do not fit together.
                kind = type(name, (*first, parents[0]), {"__module__": "solution"})
            self._error_classes[number], self._numbers[kind] = kind, number
        return self._error_classes[number]

    def read(self, decoder: Decoder, tag: str, data: Json) -> Any:
        """Decode a tagged value that is not plain data."""
        if tag == "remote":
            return self._handles.objects[data]
        if tag == "attribute":
            return self._original(*data)
        if tag in OF_TESTS:
            return self._counterparts.read(decoder, tag, data)
        if tag == "instance":
            return self._blank(decoder.decode(data))
        if tag == "builtin":
            return _BUILTINS[data]
        if tag == "enum":
            name, member, plain = data
            value = decoder.decode(plain)
            kind = self._namespace.get(name)
            # The program may have the enumeration too; else it gets the value.
            return (
                kind.__members__.get(member, value) if isinstance(kind, EnumMeta) else value
            )
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
