"""Encode exceptions as JSON and decode them.

Exception classes of Python and of packages cross by name. Program classes have stand-ins in the judge, like other
classes (see `remote_class`). Test classes have counterparts in the program; see `objects`.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.programs.sandbox.inside.crossing.encoder import Encoder
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    Json,
    MalformedError,
    attributes,
    checked,
)

MAX_MESSAGE = 500
_MAX_ARGS = 8
_MAX_ATTRIBUTES = 32
_MAX_LINKS = 4
_MAX_MEMBERS = 100
_PLAIN = (type(None), bool, int, float, str)
_FIELDS = ("filename", "filename2", "lineno", "offset", "text", "msg", "name")
"""Attributes that Python's own exceptions have besides their arguments."""

BUILTIN = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
BUILTIN_NAMES = {kind: name for name, kind in reversed(BUILTIN.items())}
CLASS_TAGS = ("exception", "library_exception", "my_exception")
_NOT_SHARED = frozenset(
    (
        *("builtins", "bdb", "doctest", "pdb", "unittest"),
        *("pytest", "_pytest", "hypothesis"),
        *("__main__", "solution", "tests", "trl_grpo_ext"),
    )
)
"""Builtins, which cross by another tag, modules whose exceptions control test runners, and what each end has alone."""

_CANCELLED = ("asyncio.exceptions", "CancelledError")


def of_library(module: Json, name: Json) -> type[BaseException] | None:
    """Find an exception class of Python's library or of a package by name.

    Nothing is imported, and no code of a package is called. None if this end has not imported the class, if it may not
    be shared, or if it is not made like Python's own exceptions.
    """
    home = sys.modules.get(checked(module, str))
    if not isinstance(home, ModuleType) or _root_of(module) in _NOT_SHARED:
        return None
    # A module's own `__getattr__` could import more.
    kind = vars(home).get(checked(name, str))
    if not isinstance(kind, type) or not issubclass(kind, BaseException):
        return None
    # Others that are no `Exception` end a process.
    if not issubclass(kind, Exception) and (module, name) != _CANCELLED:
        return None
    # Only the constructor of a group can give it its members.
    if issubclass(kind, BaseExceptionGroup) and kind not in BUILTIN_NAMES:
        return None
    # A module may show another module's class under a name of its own.
    is_its_own = (kind.__module__, kind.__name__) == (module, name)
    return kind if is_its_own and kind.__new__ is _python_base(kind).__new__ else None


def is_shared(kind: Any) -> bool:
    """Return whether an exception class may exist at both ends and crosses by name."""
    if kind in BUILTIN_NAMES:
        return True
    name = getattr(kind, "__module__", None)
    return type(name) is str and kind is of_library(name, kind.__name__)


def _is_of_python(kind: type) -> bool:
    """Return whether Python's library defines an exception class: both ends can then import the class or its base."""
    return kind in BUILTIN_NAMES or _root_of(kind.__module__) in sys.stdlib_module_names


def _root_of(module: str) -> str:
    return module.partition(".")[0]


def _python_base(kind: type[BaseException]) -> type[BaseException]:
    return next(base for base in kind.__mro__ if base in BUILTIN_NAMES)


class Counterpart:
    """Base class for counterparts of the other end's exception classes; it shows the message that crossed."""

    _message = ""

    def __str__(self) -> str:
        return self._message or BaseException.__str__(self)  # type: ignore[arg-type]


_PACKAGES_OWN: dict[type, type[BaseException]] = {}
"""Classes of packages by the classes that show a text for them; see `_with_text`."""


@cache
def _with_text(kind: Any) -> Any:
    """Return the class itself, or a class that shows the message that crossed.

    The latter if a package gives the class a text of its own: it may be made of private attributes, which do not cross.
    """
    is_pythons = kind.__str__ is _python_base(kind).__str__ or _is_of_python(kind)
    if is_pythons or issubclass(kind, Counterpart):
        return kind
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    made = type(kind.__name__, (Counterpart, kind), names)
    _PACKAGES_OWN[made] = kind
    return made


class Exceptions:
    """Encoding and decoding of exceptions at either end.

    Args:
        write_class: Encodes exception classes that are not Python's own.
        read_class: Decodes such classes.
        shown: Replaces an exception, or one inside it, by what the other end may see.
        number_of: Returns the number of an exception inside another: a cause, a context or a member of a group.
        known: Returns the exception that stands for such a number, given the decoded one and its number.
        is_named: Returns whether this end may get a package's class of this name.
    """

    def __init__(
        self,
        write_class: Callable[[Encoder, type], Json],
        read_class: Callable[[Json], type],
        shown: Callable[[BaseException], BaseException] = lambda error: error,
        number_of: Callable[[BaseException], int | None] = lambda error: None,
        known: Callable[[Any, Json], BaseException] = lambda error, number: error,
        is_named: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self._write_class = write_class
        self._read_class = read_class
        self._shown = shown
        self._number_of = number_of
        self._known = known
        self._is_named = is_named

    def encode_class(self, kind: type[BaseException], encoder: Encoder) -> Json:
        """Encode an exception class.

        A class of Python's library or of a package crosses by name, together with a replacement for an end that has not
        imported it: a base of Python's class, a stand-in for a package's.
        """
        kind = _PACKAGES_OWN.get(kind, kind)
        if kind in BUILTIN_NAMES:
            return {"exception": BUILTIN_NAMES[kind]}
        if not is_shared(kind):
            return self._write_class(encoder, kind)
        if _is_of_python(kind):
            base = next(base for base in kind.__bases__ if issubclass(base, BaseException))
            other = self.encode_class(base, encoder)
        else:
            other = self._write_class(encoder, kind)
        return {"library_exception": [kind.__module__, kind.__name__, other]}

    def decode_class(self, data: Json) -> type[BaseException]:
        """Decode an exception class encoded by the other end."""
        ((tag, payload),) = checked(data, dict).items()
        if tag == "library_exception":
            module, name, other = checked(payload, list)
            # Read in any case: later messages name a class that was described here by its number.
            replacement = self.decode_class(other)
            found = of_library(module, name)
            if found is None or not (_is_of_python(found) or self._is_named(name)):
                return replacement
            return found
        kind = BUILTIN[payload] if tag == "exception" else self._read_class(data)
        if not issubclass(kind, BaseException):
            raise MalformedError("no exception class")
        return kind

    def encode_error(
        self,
        error: BaseException,
        encoder: Encoder,
        number: int | None = None,
        depth: int = 0,
    ) -> Json:
        """Encode an exception: class, message, arguments, attributes, linked exceptions.

        Tracebacks never cross. Long messages and lists are cut; arguments cross only if all are short scalars, bytes or
        tuples of them.

        Args:
            error: The exception.
            encoder: The message's encoder.
            number: A number by which the other end may send the exception back; None without one.
            depth: Depth in the chain of causes and contexts.
        """
        error = self._shown(error)
        attributes = _attributes(error)
        group = (
            error.exceptions[:_MAX_MEMBERS] if isinstance(error, BaseExceptionGroup) else ()
        )
        links = (error.__cause__, error.__context__)
        plain = len(error.args) <= _MAX_ARGS and all(map(_is_plain, error.args))
        # Both ends must number objects alike, so encode in the order of decoding.
        return {
            "error": [
                [self._encode_inner(each, encoder, depth) for each in group],
                self.encode_class(_sendable(type(error)), encoder),
                encoder.encode(_message(error)),
                number,
                encoder.encode_all(error.args) if plain else None,
                list(attributes),
                encoder.encode_all(attributes.values()),
                [
                    *(self._link(each, encoder, depth) for each in links),
                    bool(error.__suppress_context__),
                ],
            ]
        }

    def _link(self, error: BaseException | None, encoder: Encoder, depth: int) -> Json:
        if error is None or depth >= _MAX_LINKS:
            return None
        return self._encode_inner(error, encoder, depth)

    def _encode_inner(self, error: BaseException, encoder: Encoder, depth: int) -> Json:
        """Encode a cause, context or group member, with a number if its class is none of Python's own."""
        is_known = is_shared(type(error)) and _is_of_python(type(error))
        number = None if is_known else self._number_of(error)
        return self.encode_error(error, encoder, number, depth + 1)

    def decode_error(
        self,
        data: Json,
        decoder: Decoder,
        kind_of: Callable[[type], type] = lambda kind: kind,
    ) -> Any:
        """Decode an exception; return it with its number.

        Args:
            data: JSON made by the other end's `encode_error`.
            decoder: The message's decoder.
            kind_of: Replaces the decoded class, so that the judge can guard its own classes.
        """
        members, kind, message, number, args, names, attributes, links = checked(data, list)
        made = [
            self._decode_inner(each, decoder, kind_of) for each in checked(members, list)
        ]
        values = None if args is None else decoder.decode_all(args)
        error = _rebuild(
            kind_of(self.decode_class(kind)), decoder.decode(message), values, made
        )
        state = dict(zip(checked(names, list), decoder.decode_all(attributes), strict=True))
        decoder.check_names(state)
        for name, value in state.items():
            if _may_be_set(error, checked(name, str)):
                # Some attributes of Python's own exceptions are read-only, or take values of one type only.
                with suppress(AttributeError, TypeError):
                    BaseException.__setattr__(error, name, value)
        cause, context, suppressed = checked(links, list)
        for name, link in (("__cause__", cause), ("__context__", context)):
            if link is not None:
                BaseException.__setattr__(
                    error, name, self._decode_inner(link, decoder, kind_of)
                )
        error.__suppress_context__ = bool(suppressed)
        return error, number

    def _decode_inner(
        self, data: Json, decoder: Decoder, kind_of: Callable[[type], type]
    ) -> BaseException:
        return self._known(
            *self.decode_error(checked(data, dict)["error"], decoder, kind_of)
        )


def _may_be_set(error: BaseException, name: str) -> bool:
    """Return whether a received attribute may be set; a setter would be code of a package."""
    if name == "__notes__":
        return True
    is_public = name.isidentifier() and not name.startswith("_")
    has_setter = isinstance(getattr(type(error), name, None), property)
    return is_public and not hasattr(BaseException, name) and not has_setter


def renew(known: BaseException, error: BaseException) -> None:
    """Copy a newly decoded exception's state into a known exception."""
    vars(known).update(vars(error))
    for name in ("args", "__cause__", "__context__", "__suppress_context__"):
        BaseException.__setattr__(known, name, getattr(error, name))


def _rebuild(
    cls: Any,
    message: Json,
    args: list[Any] | None,
    members: list[BaseException],
) -> BaseException:
    text = checked(message, str)[:MAX_MESSAGE]
    if issubclass(cls, BaseExceptionGroup):
        group: BaseException = cls(text, members[:_MAX_MEMBERS])
        return group
    values = (text,) if args is None else tuple(args)
    if not all(map(_is_plain, values)):
        raise MalformedError("arguments of an exception")
    cls = _with_text(cls)
    try:
        error: BaseException = cls.__new__(cls, *values)
        # Python's own `__init__` takes these arguments, and fills in fields such as `lineno`.
        if cls in BUILTIN_NAMES:
            error.__init__(*values)  # type: ignore[misc]
        # The constructor of OSError keeps the file name out of `args`; a subclass may leave all to its own `__init__`.
        if not isinstance(error, OSError) or not error.args:
            BaseException.__setattr__(error, "args", values)
    except Exception:
        # UnicodeDecodeError, for example, needs five arguments.
        error = cls.__new__(cls)
        BaseException.__setattr__(error, "args", values)
    if hasattr(cls, "_message"):
        BaseException.__setattr__(error, "_message", text)
    return error


def _sendable(kind: type[BaseException]) -> type[BaseException]:
    """Return the class itself, or Python's own base class for exception groups."""
    if issubclass(kind, BaseExceptionGroup):
        return next(base for base in kind.__mro__ if base in BUILTIN_NAMES)
    return kind


def _attributes(error: BaseException) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(error, name, None)
        if hasattr(type(error), name) and value is not None and isinstance(value, _PLAIN):
            found[name] = value
    own = {
        name: value for name, value in attributes(error).items() if not name.startswith("_")
    }
    # What a generator returns travels in this exception.
    if isinstance(error, StopIteration):
        own["value"] = error.value
    found.update(list(own.items())[:_MAX_ATTRIBUTES])
    notes = getattr(error, "__notes__", None)
    if notes:
        found["__notes__"] = notes
    return found


def _message(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return str(error.message)[:MAX_MESSAGE]
    try:
        # `__str__` may return a text of the program's own class; the outer `str` makes plain text of it.
        return str(str(error))[:MAX_MESSAGE]
    except Exception:
        return ""


def _is_plain(value: Any) -> bool:
    """Return whether an exception argument may cross: short text, other scalar, bytes, or tuple of these."""
    if type(value) is tuple:
        return all(map(_is_plain, value))
    if type(value) is str:
        return len(value) <= MAX_MESSAGE
    return type(value) in (*_PLAIN, bytes)
