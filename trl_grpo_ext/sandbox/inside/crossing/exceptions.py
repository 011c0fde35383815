"""Exceptions as JSON and back.

A class of Python crosses by its name. A class of the program has a stand-in in the judge, as other classes have (see
`remote_class`). A class of the tests has a counterpart in the program; see `objects`.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from trl_grpo_ext.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.sandbox.inside.crossing.encoder import Encoder
from trl_grpo_ext.sandbox.inside.crossing.values import Json, MalformedError, checked

MAX_MESSAGE = 500
_MAX_ARGS = 8
_MAX_ATTRIBUTES = 32
_MAX_LINKS = 4
_MAX_MEMBERS = 100
_PLAIN = (type(None), bool, int, float, str)
_FIELDS = ("filename", "filename2", "lineno", "offset", "text", "msg", "name")
"""What Python's own exceptions keep beside their arguments."""

BUILTIN = {
    name: kind for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
}
BUILTIN_NAMES = {kind: name for name, kind in reversed(BUILTIN.items())}
CLASS_TAGS = ("exception", "library_exception", "my_exception")
_NOT_SHARED = frozenset({"builtins", "bdb", "doctest", "pdb", "unittest"})
"""Beside the builtins, modules whose exceptions tell a runner of tests what to do, such as `unittest.SkipTest`."""


def of_library(module: Json, name: Json) -> type[Exception] | None:
    """The exception class of Python's library by that name; None if there is none where this end has imported."""
    package = checked(module, str).partition(".")[0]
    if package not in sys.stdlib_module_names or package in _NOT_SHARED:
        return None
    kind = getattr(sys.modules.get(module), checked(name, str), None)
    known = (
        isinstance(kind, type) and issubclass(kind, Exception) and (kind.__module__, kind.__name__) == (module, name)
    )
    return kind if known else None


def is_shared(kind: Any) -> bool:
    """Whether a class is an exception class that both ends have."""
    if kind in BUILTIN_NAMES:
        return True
    name = getattr(kind, "__module__", None)
    return type(name) is str and kind is of_library(name, kind.__name__)


class Counterpart:
    """The first base of a class that stands for one of the other end: it shows the message that came."""

    _message = ""

    def __str__(self) -> str:
        return self._message or BaseException.__str__(self)  # type: ignore[arg-type]


class Exceptions:
    """How one end writes and reads exceptions.

    Args:
        write_class: Writes a class that is not Python's.
        read_class: Reads such a class.
        shown: What the other end gets to see of an exception, or of one that an exception holds.
    """

    def __init__(
        self,
        write_class: Callable[[Encoder, type], Json],
        read_class: Callable[[Json], type],
        shown: Callable[[BaseException], BaseException] = lambda error: error,
    ) -> None:
        self._write_class = write_class
        self._read_class = read_class
        self._shown = shown

    def encode_class(self, kind: type[BaseException], encoder: Encoder) -> Json:
        """The JSON for an exception class.

        One of Python's library crosses by its name, and counts as its base where the other end has not imported it.
        """
        if kind in BUILTIN_NAMES:
            return {"exception": BUILTIN_NAMES[kind]}
        if not is_shared(kind):
            return self._write_class(encoder, kind)
        base = next(base for base in kind.__bases__ if issubclass(base, BaseException))
        return {"library_exception": [kind.__module__, kind.__name__, self.encode_class(base, encoder)]}

    def decode_class(self, data: Json) -> type[BaseException]:
        """The class that `encode_class` wrote at the other end."""
        ((tag, payload),) = checked(data, dict).items()
        if tag == "library_exception":
            module, name, base = checked(payload, list)
            return of_library(module, name) or self.decode_class(base)
        kind = BUILTIN[payload] if tag == "exception" else self._read_class(data)
        if not issubclass(kind, BaseException):
            raise MalformedError("no exception class")
        return kind

    def encode_error(self, error: BaseException, encoder: Encoder, number: int | None = None, depth: int = 0) -> Json:
        """The JSON for an exception; with `number`, one that the other end may send back as itself."""
        error = self._shown(error)
        attributes = _attributes(error)
        group = error.exceptions[:_MAX_MEMBERS] if isinstance(error, BaseExceptionGroup) else ()
        links = (error.__cause__, error.__context__)
        plain = len(error.args) <= _MAX_ARGS and all(map(_is_plain, error.args))
        # In the order in which they are read, so that both ends number alike what they hold.
        return {
            "error": [
                [self.encode_error(each, encoder, None, depth + 1) for each in group],
                self.encode_class(_sendable(type(error)), encoder),
                encoder.encode(_message(error)),
                number,
                encoder.encode_all(error.args) if plain else None,
                list(attributes),
                encoder.encode_all(attributes.values()),
                [*(self._link(each, encoder, depth) for each in links), bool(error.__suppress_context__)],
            ]
        }

    def _link(self, error: BaseException | None, encoder: Encoder, depth: int) -> Json:
        return None if error is None or depth >= _MAX_LINKS else self.encode_error(error, encoder, None, depth + 1)

    def decode_error(self, data: Json, decoder: Decoder, kind_of: Callable[[type], type] = lambda kind: kind) -> Any:
        """The exception that the other end's `encode_error` wrote, and its number; of the class `kind_of` its class."""
        members, kind, message, number, args, names, attributes, links = checked(data, list)
        made = [self.decode_error(_untagged(each), decoder, kind_of)[0] for each in checked(members, list)]
        values = None if args is None else decoder.decode_all(args)
        error = _rebuild(kind_of(self.decode_class(kind)), decoder.decode(message), values, made)
        for name, value in zip(checked(names, list), decoder.decode_all(attributes), strict=True):
            own = checked(name, str).isidentifier() and not name.startswith("_") and not hasattr(BaseException, name)
            if own or name == "__notes__":
                with suppress(AttributeError, TypeError):
                    BaseException.__setattr__(error, name, value)
        cause, context, suppressed = checked(links, list)
        for name, link in (("__cause__", cause), ("__context__", context)):
            if link is not None:
                BaseException.__setattr__(error, name, self.decode_error(_untagged(link), decoder, kind_of)[0])
        error.__suppress_context__ = bool(suppressed)
        return error, number


def renew(known: BaseException, error: BaseException) -> None:
    """Make of an exception that has come before what it is now."""
    vars(known).update(vars(error))
    for name in ("args", "__cause__", "__context__", "__suppress_context__"):
        BaseException.__setattr__(known, name, getattr(error, name))


def _untagged(data: Json) -> Json:
    return checked(data, dict)["error"]


def _rebuild(
    cls: type[BaseException], message: Json, args: list[Any] | None, members: list[BaseException]
) -> BaseException:
    text = checked(message, str)[:MAX_MESSAGE]
    if issubclass(cls, BaseExceptionGroup):
        group: BaseException = cls(text, members[:_MAX_MEMBERS])
        return group
    values = (text,) if args is None else tuple(args)
    if not all(map(_is_plain, values)):
        raise MalformedError("arguments of an exception")
    try:
        error = cls.__new__(cls, *values)
        if cls in BUILTIN_NAMES:
            error.__init__(*values)  # type: ignore[misc]
        if not isinstance(error, OSError):
            BaseException.__setattr__(error, "args", values)
    except Exception:  # such as UnicodeDecodeError, which wants five
        error = cls.__new__(cls)
        BaseException.__setattr__(error, "args", values)
    if hasattr(cls, "_message"):
        BaseException.__setattr__(error, "_message", text)
    return error


def _sendable(kind: type[BaseException]) -> type[BaseException]:
    """The class itself; of a group of exceptions, Python's own class."""
    if issubclass(kind, BaseExceptionGroup):
        return next(base for base in kind.__mro__ if base in BUILTIN_NAMES)
    return kind


def _attributes(error: BaseException) -> dict[str, Any]:
    found = {name: getattr(error, name, None) for name in _FIELDS if hasattr(type(error), name)}
    found = {name: value for name, value in found.items() if isinstance(value, _PLAIN) and value is not None}
    own = {name: value for name, value in getattr(error, "__dict__", {}).items() if not name.startswith("_")}
    if isinstance(error, StopIteration):
        own["value"] = error.value
    notes = getattr(error, "__notes__", None)
    return found | dict(list(own.items())[:_MAX_ATTRIBUTES]) | ({"__notes__": notes} if notes else {})


def _message(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return str(error.message)[:MAX_MESSAGE]
    try:
        return str(str(error))[:MAX_MESSAGE]
    except Exception:
        return ""


def _is_plain(value: Any) -> bool:
    """Whether an argument of an exception is a text that is not long, another scalar, bytes, or a tuple of such."""
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in (*_PLAIN, bytes) and (type(value) is not str or len(value) <= MAX_MESSAGE)
