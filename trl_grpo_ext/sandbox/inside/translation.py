"""What crosses between the tests and the program beyond plain data: handles, callbacks, exceptions and copies."""

from __future__ import annotations

import sys
from enum import Enum
from types import FunctionType
from typing import Any

from trl_grpo_ext.sandbox.inside.decoder import Decoder
from trl_grpo_ext.sandbox.inside.encoder import Encoder
from trl_grpo_ext.sandbox.inside.exceptions import Exceptions
from trl_grpo_ext.sandbox.inside.handle import Handle, Requester, make_handle
from trl_grpo_ext.sandbox.inside.values import (
    MISSING,
    Json,
    MalformedError,
    Shared,
    Table,
    checked,
    of_numpy,
    plain_scalar,
)

_MAX_NAME = 100

_BUILTIN_FUNCTIONS = {
    id(function): name
    for name, function in vars(sys.modules["builtins"]).items()
    if callable(function) and not isinstance(function, type)
}


class Translation:
    """The judge's side of objects that are not plain data, while it asks one program.

    Attributes:
        callbacks: Functions and iterators of the tests that the program may call, by number.
        exceptions: The exception classes of both ends.
    """

    def __init__(self, program: Requester) -> None:
        self.callbacks = Table()
        self.exceptions = Exceptions()
        self._program = program
        self._handles: dict[int, Handle] = {}

    def write(self, encoder: Encoder, value: Any) -> Json:
        """The JSON for an object that is not plain data."""
        if isinstance(value, Handle):
            return {"remote": value._h_number}
        if isinstance(value, type) and issubclass(value, BaseException):
            return self.exceptions.encode_class(value)
        if isinstance(value, BaseException):
            return self.exceptions.encode_error(value, encoder)
        if isinstance(value, Enum):
            return {"enum": [type(value).__name__, value.name, encoder.encode(value.value)]}
        if id(value) in _BUILTIN_FUNCTIONS:
            return {"builtin": _BUILTIN_FUNCTIONS[id(value)]}
        if isinstance(value, FunctionType):
            named = [value.__name__, value.__doc__]
            return {"function": [self._callback(value), *map(encoder.encode, named)]}
        if callable(value):
            return {"callback": self._callback(value)}
        if hasattr(type(value), "__next__"):
            return {"iterator": self._callback(value)}
        return _by_value(encoder, value)

    def _callback(self, value: Any) -> int:
        number = self.callbacks.number(value)
        return self.callbacks.add(value) if number is None else number

    def read(self, decoder: Decoder, tag: str, data: Json) -> Any:
        """What a tag stands for that is not a tag of plain data."""
        if tag == "handle":
            return self._handle(data)
        if tag in ("callback", "iterator"):
            return decoder.reference(self.callbacks.objects, data)
        if tag in ("exception", "my_exception"):
            return self.exceptions.decode_class(tag, data)
        if tag == "error":
            return self.exceptions.decode_error(data, decoder, Shared())
        if tag == "my_error":
            return decoder.reference(decoder.shared.errors.objects, data)
        raise MalformedError(f"no tag: {tag[:20]}")

    def _handle(self, data: Json) -> Handle:
        number, flags, name = checked(data, list)
        if checked(number, int) not in self._handles:
            text = checked(name, str)[:_MAX_NAME]
            self._handles[number] = make_handle(self._program, number, checked(flags, int), text)
        return self._handles[number]


def _by_value(encoder: Encoder, value: Any) -> Json:
    """An object of the tests' own classes, or of numpy's: a copy of what it holds goes to the program."""
    if (plain := plain_scalar(value)) is not MISSING:
        return encoder.encode(plain)
    if isinstance(value, of_numpy("ndarray")) and value.dtype.kind != "V":  # a record has no plain form
        return {"ndarray": [value.dtype.str, list(value.shape), encoder.encode_all(value.ravel().tolist())]}
    try:
        object.__new__(type(value))
    except TypeError:
        raise TypeError(f"a test cannot pass a {type(value).__name__} to the program") from None
    return encoder.instance(value)
