"""Exceptions as JSON and back: by the name of a builtin or library class, or as a class of the end that defined it.

Any other class has a counterpart at the other end: a class of the same name whose bases are the
counterparts of its bases, with none of its code. So `except` and `assertRaises` work with a class that the program
defined, and the program's `except` with one that the tests defined.
"""

from __future__ import annotations

import builtins
import decimal
import re
from dataclasses import FrozenInstanceError
from json import JSONDecodeError
from typing import Any

from trl_grpo_ext.sandbox.inside.decoder import Decoder
from trl_grpo_ext.sandbox.inside.encoder import Encoder
from trl_grpo_ext.sandbox.inside.values import Json, MalformedError, Shared, Table, checked

MAX_MESSAGE = 500
_MAX_ARGS = 8
_MAX_BASES = 16
_MAX_ATTRIBUTES = 32
_PLAIN = (type(None), bool, int, float, str)

BUILTIN = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException) and not issubclass(kind, BaseExceptionGroup)
}
# Those of the library that tests expect by name. Both ends have the same.
_OF_LIBRARY = (FrozenInstanceError, JSONDecodeError, re.error, decimal.InvalidOperation, decimal.DivisionByZero)
BUILTIN |= {f"{kind.__module__}.{kind.__name__}": kind for kind in _OF_LIBRARY}
_BUILTIN_NAMES = {kind: name for name, kind in reversed(BUILTIN.items())}


class _Counterpart:
    """The first base of each class that stands for one of the other end: it shows the message that came."""

    _message = ""

    def __str__(self) -> str:
        return self._message or Exception.__str__(self)  # type: ignore[arg-type]


class Exceptions:
    """What one end knows of the exception classes of both."""

    def __init__(self) -> None:
        self._mine = Table()
        self._theirs: dict[int, type[BaseException]] = {}
        self._their_numbers: dict[type[BaseException], int] = {}

    def encode_class(self, kind: type[BaseException]) -> Json:
        """The JSON for an exception class."""
        if kind in self._their_numbers:
            return {"my_exception": self._their_numbers[kind]}
        if kind in _BUILTIN_NAMES:
            return {"exception": _BUILTIN_NAMES[kind]}
        number = self._mine.number(kind)
        if number is None:
            number = self._mine.add(kind)
        bases = [base for base in kind.__bases__ if issubclass(base, BaseException)][:_MAX_BASES]
        return {"exception": [number, kind.__name__, [self.encode_class(base) for base in bases]]}

    def decode_class(self, tag: str, data: Json, depth: int = 0) -> type[BaseException]:
        """The class that `encode_class` wrote at the other end."""
        if tag == "my_exception":
            return self._own(data)
        if type(data) is str:
            return BUILTIN[data]
        number, name, bases = checked(data, list)
        if checked(number, int) in self._theirs:
            return self._theirs[number]
        if (
            depth > _MAX_BASES
            or not 0 < len(checked(bases, list)) <= _MAX_BASES
            or not checked(name, str).isidentifier()
        ):
            raise MalformedError("no exception class")
        parents = [self.decode_class(*_tagged(base), depth=depth + 1) for base in bases]
        return self._adopt(number, name, parents)

    def _own(self, number: Json) -> type[BaseException]:
        if type(number) is not int or not 0 <= number < len(self._mine.objects):
            raise MalformedError("no such exception class")
        found: type[BaseException] = self._mine.objects[number]
        return found

    def _adopt(self, number: int, name: str, bases: list[type[BaseException]]) -> type[BaseException]:
        first = () if any(issubclass(base, _Counterpart) for base in bases) else (_Counterpart,)
        module = {"__module__": "solution"}
        try:
            kind: Any = type(name, (*first, *bases), dict(module))
        except TypeError:  # bases that do not go together
            kind = type(name, (*first, bases[0]), dict(module))
        self._theirs[number] = kind
        self._their_numbers[kind] = number
        return self._theirs[number]

    def encode_error(self, error: BaseException, encoder: Encoder, number: int | None = None) -> Json:
        """The JSON for an exception; with `number`, one that the other end may send back as itself."""
        state = {
            name: value
            for name, value in list(getattr(error, "__dict__", {}).items())[:_MAX_ATTRIBUTES]
            if not name.startswith("_")
        }
        kind, message, args = self.encode_class(_sendable(type(error))), _message(error), _plain_args(error)
        return {"error": [kind, encoder.encode(message), args, number, list(state), encoder.encode_all(state.values())]}

    def decode_error(self, data: Json, decoder: Decoder, shared: Shared) -> BaseException:
        """The exception that `encode_error` wrote at the other end."""
        kind, message, args, number, names, values = checked(data, list)
        known = shared.errors.objects
        if type(number) is int and 0 <= number < len(known):
            same: BaseException = known[number]
            return same
        error = self._rebuild(kind, decoder.decode(message), args)
        if number is not None:
            shared.errors.add(error)
        for name, value in zip(checked(names, list), decoder.decode_all(values), strict=True):
            if checked(name, str).isidentifier() and not name.startswith("_") and not hasattr(BaseException, name):
                setattr(error, name, value)
        return error

    def _rebuild(self, kind: Json, message: Json, args: Json) -> BaseException:
        cls = self.decode_class(*_tagged(kind))
        text = checked(message, str)[:MAX_MESSAGE]
        values = (text,) if args is None else tuple(checked(args, list))
        if not all(isinstance(value, _PLAIN) for value in values):
            raise MalformedError("arguments of an exception")
        try:
            error = cls(*values)
        except Exception:  # such as UnicodeDecodeError, which wants five
            error = cls.__new__(cls)
            error.args = values
        if isinstance(error, _Counterpart):
            error._message = text
        return error


def _tagged(data: Json) -> tuple[str, Json]:
    ((tag, payload),) = checked(data, dict).items()
    if tag not in ("exception", "my_exception"):
        raise MalformedError("no exception class")
    return tag, payload


def _sendable(kind: type[BaseException]) -> type[BaseException]:
    """The class itself, unless it is a group of exceptions, which would need the whole group."""
    if issubclass(kind, BaseExceptionGroup):
        return Exception if issubclass(kind, Exception) else BaseException
    return kind


def _message(error: BaseException) -> str:
    try:
        return str(str(error))[:MAX_MESSAGE]
    except Exception:
        return ""


def _plain_args(error: BaseException) -> list[Any] | None:
    """The arguments of an exception, if they are few and plain, as JSON."""
    args = error.args
    if len(args) > _MAX_ARGS:
        return None
    return list(args) if all(_is_small(value) for value in args) else None


def _is_small(value: Any) -> bool:
    if type(value) is str:
        return len(value) <= MAX_MESSAGE and value.isascii()
    if type(value) is int:
        return abs(value) < 1 << 63
    if type(value) is float:
        return abs(value) < float("inf")
    return value is None or value is True or value is False
