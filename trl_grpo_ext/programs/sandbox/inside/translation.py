"""Convert objects that are not plain data, on the judge's side.

Values that a test passes to the program leave the judge here; anything that comes from the program is hostile until
checked.
"""

from __future__ import annotations

import builtins
import http  # noqa: F401 - its `HTTPStatus` is returned to tests that import nothing
import sys
from collections.abc import Callable
from datetime import date, time, timedelta
from enum import Enum, EnumMeta
from types import (
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.binding import Token, described, whole
from trl_grpo_ext.programs.sandbox.inside.crossing.classes import (
    ClassOfTests,
    kind_of_function,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.containers import refill
from trl_grpo_ext.programs.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.programs.sandbox.inside.crossing.encoder import Encoder, write_container
from trl_grpo_ext.programs.sandbox.inside.crossing.exceptions import (
    BUILTIN_NAMES,
    CLASS_TAGS,
    Exceptions,
    renew,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    MISSING,
    PLAIN_BASES,
    Json,
    MalformedError,
    Table,
    checked,
    plain_scalar,
)
from trl_grpo_ext.programs.sandbox.inside.given import data_of, specials_of
from trl_grpo_ext.programs.sandbox.inside.handle import (
    Handle,
    Requester,
    Standing,
    State,
    Stub,
)
from trl_grpo_ext.programs.sandbox.inside.remote_class import (
    ErrorStub,
    RemoteAttribute,
    RemoteClass,
    class_of_functions,
    make_class,
)

_MAX_NAME = 100
_MAX_BASES = 16

_NEVER = (ModuleType, FrameType, CodeType, TracebackType)
"""Types that lead to the tests' code and to expected values; such objects never cross."""

# If a program defines an exception with such a name, `except MyError` of a test must not catch the test's own failure.
_GUARDED: dict[type, type[BaseException]] = {
    kind: type(kind.__name__, (kind,), {"__module__": "builtins"})
    for kind in (BaseException, Exception, AssertionError)
}
_UNGUARDED = {guarded: kind for kind, guarded in _GUARDED.items()}


def _guarded(kind: type) -> type:
    return _GUARDED.get(kind, kind)


# Functions of Python's library are of many classes: `len`, `str.upper`, `int.__add__`, `[].append`, `dict.fromkeys`.
_FUNCTIONS = (
    FunctionType,
    BuiltinFunctionType,
    MethodDescriptorType,
    WrapperDescriptorType,
    MethodWrapperType,
)

_BOUND = (BuiltinFunctionType, MethodWrapperType, MethodType)
"""Classes of methods bound to an object; Python compares them, and hashes them, by object and function."""


def _is_method(value: Any) -> bool:
    """Test if an object is a bound Python function; other bound callables do not count."""
    return isinstance(value, MethodType) and isinstance(value.__func__, FunctionType)


class Translation:
    """The judge's conversion of objects that are not plain data, for a single program.

    Args:
        program: The program.
        is_named: Returns whether the tests name an exception class; of packages, they get only those.

    Attributes:
        given: Functions and objects of the tests that the program may use, by number.
        classes: Stand-ins for program classes, and test classes that the program has created too, by number.
    """

    def __init__(self, program: Requester, is_named: Callable[[str], bool]) -> None:
        self.given = Table()
        self._methods: dict[Any, Any] = {}
        self._classes_of_tests = Table()
        self._described: dict[type, ClassOfTests] = {}
        self._exceptions_of_tests = Table()
        self._exceptions = Exceptions(
            self._write_class,
            self._read_class,
            _without_expected,
            known=self._known_error,
            is_named=is_named,
        )
        self._program = program
        self._objects: dict[int, Any] = {}
        self.classes: dict[int, RemoteClass] = {}
        self._gave_guarded = False

    def first(self, encoder: Encoder, value: Any) -> Json | None:
        """Return JSON, by number, for stand-ins and exceptions received from the program; None for other objects."""
        if type(value) is RemoteAttribute:
            return value.written()
        # `type(value)` is used because a mock may pretend to be an instance.
        if issubclass(type(value), Stub | RemoteClass):
            return {"remote": value._remote_state.number}
        number = (
            getattr(value, "_remote_number", None)
            if isinstance(value, BaseException)
            else None
        )
        return None if number is None else {"remote": number}

    def write(self, encoder: Encoder, value: Any) -> Json:
        """Return JSON for an object that is not plain data.

        Exceptions cross with message, arguments and attributes. Enum members cross with class name, member name and
        value. Objects of data-only test classes cross with all their attributes. Functions and classes of the tests
        cross as a number with name, docstring and the names of their special methods, any other object as a number with
        its class name and those names; their code stays here, see `given`.

        Raises:
            TypeError: for a module, frame, code object or traceback, which never cross.
        """
        if type(value) is Token:
            return {"bound": [self.given.add(value), *described(value)]}
        if isinstance(value, type) and issubclass(value, BaseException):
            return self._exceptions.encode_class(value, encoder)
        if isinstance(value, BaseException):
            return self._exceptions.encode_error(value, encoder)
        if isinstance(value, Enum):
            return {"enum": [type(value).__name__, value.name, encoder.encode(value.value)]}
        name = value.__name__ if isinstance(value, BuiltinFunctionType | MethodType) else ""
        # By identity, because `math.pow` is a builtin function with the name of another.
        if name and vars(builtins).get(name) is value:
            return {"builtin": name}
        if isinstance(value, (*_FUNCTIONS, CoroutineType, type)) or _is_method(value):
            return self._write_named(encoder, value)
        plain = plain_scalar(value)
        if plain is not MISSING:
            return encoder.encode(plain)
        if isinstance(value, _NEVER):
            raise TypeError(f"a test cannot pass a {type(value).__name__} to the program")
        if self._description(type(value)).data is not None:
            return write_container("instance", encoder, value)
        kind = type(value)
        # The program may use the object's class if the tests define it, but no class of a library.
        given = self.given.add(kind) if kind.__module__ == "tests" else None
        return {
            "object": [self.given.add(value), self._write_test_class(encoder, kind, given)]
        }

    def _write_named(self, encoder: Encoder, value: Any) -> Json:
        """Return JSON for a function, method, coroutine or class that the test hands over."""
        if isinstance(value, _BOUND):
            # `seen.append` is another object each time; a program finds the same one again, to remove it.
            value = self._methods.setdefault(value, value)
        number = self.given.add(value)
        if isinstance(value, type):
            return self._write_test_class(encoder, value, number)
        if isinstance(value, CoroutineType):
            return {"coroutine": [number, value.__name__, value.__qualname__]}
        is_written = isinstance(value, FunctionType | MethodType)
        flags = kind_of_function(value) if is_written else None
        tag = "method" if isinstance(value, MethodType) else "function"
        return {tag: encoder.encode_all((number, flags, value.__name__, value.__doc__))}

    def _write_test_class(self, encoder: Encoder, kind: type, given: int | None) -> Json:
        """Return JSON for a class of test objects; `given` is its number if the program may use the class itself."""
        return {
            "test_class": encoder.encode_all(self._description(kind)._replace(given=given))
        }

    def _description(self, kind: type) -> ClassOfTests:
        """Describe a test's class as it was when it first crossed; a decorator may since have changed it."""
        if kind not in self._described:
            self._described[kind] = ClassOfTests(
                number=self._classes_of_tests.add(kind),
                given=None,
                name=kind.__name__,
                doc=kind.__doc__ if isinstance(kind.__doc__, str) else None,
                bases=tuple(base for base in kind.__bases__ if base.__module__ == "tests"),
                specials=specials_of(kind),
                data=data_of(kind),
            )
        return self._described[kind]

    def write_refusal(self, encoder: Encoder, error: BaseException) -> Json:
        """Return JSON for an exception raised by a use of a test object; the program may raise it back unchanged.

        A failed assertion crosses as an empty AssertionError.
        """
        known = self.first(encoder, error)
        if known is not None:
            return known
        return self._exceptions.encode_error(
            error, encoder, encoder.shared.errors.add(error)
        )

    def _write_class(self, encoder: Encoder, kind: Any) -> Json:
        if isinstance(kind, RemoteClass):
            return {"remote": kind._remote_state.number}
        if kind in _UNGUARDED:
            return {"exception": BUILTIN_NAMES[_UNGUARDED[kind]]}
        bases = [base for base in kind.__bases__ if issubclass(base, BaseException)]
        written = [self._exceptions.encode_class(base, encoder) for base in bases]
        return {
            "my_exception": [self._exceptions_of_tests.add(kind), kind.__name__, written]
        }

    def read_closed(self, decoder: Decoder, tag: str, data: Json) -> Any:
        """Read as `read` does, and leave tokens closed."""
        return self.given.at(data) if tag == "given" else self.read(decoder, tag, data)

    def read(self, decoder: Decoder, tag: str, data: Json) -> Any:
        """Decode a tagged value that is not plain data.

        Raises:
            MalformedError: for an unknown tag.
        """
        if tag == "handle":
            return self._handle(data)
        if tag == "subclass":
            return self._instance_of_plain(decoder, data)
        if tag in ("given", "test_class", "instance"):
            return self._of_tests(decoder, tag, data)
        if tag == "class":
            return self._class(data)
        if tag in CLASS_TAGS:
            kind = self._exceptions.decode_class({tag: data})
            self._gave_guarded = self._gave_guarded or kind in _GUARDED
            return _guarded(kind)
        if tag == "error":
            return self._error(decoder, data)
        if tag == "my_error":
            return decoder.shared.errors.at(data)
        if tag == "member":
            return _library_member(data)
        raise MalformedError(f"no tag: {tag[:20]}")

    def _of_tests(self, decoder: Decoder, tag: str, data: Json) -> Any:
        """Decode a test object, a test class, or a blank object of a data-only class."""
        if tag == "given":
            return whole(self.given.at(data))
        return (
            self._classes_of_tests.at(data)
            if tag == "test_class"
            else self._blank(decoder.decode(data))
        )

    def _blank(self, kind: Any) -> Any:
        """Create an object of a data-only test class, without attributes.

        Raises:
            MalformedError: for any other class, whose methods rely on its constructor.
        """
        if not isinstance(kind, type) or self._description(kind).data is None:
            raise MalformedError("no class of data")
        return object.__new__(kind)

    def _handle(self, data: Json) -> Any:
        number, *described = checked(data, list)
        known = self._objects.get(checked(number, int))
        # Plain data that the judge has already comes by its number alone.
        if known is not None and not described:
            return _returned(known)
        kind, name = described
        cls = self._read_class(kind)
        if not issubclass(cls, Handle):
            raise MalformedError("no object of that class")
        if known is None:
            known = self._objects[number] = self._with_state(
                object.__new__(cls), number, name
            )
        return _returned(_of_class(known, cls))

    def _with_state(self, stand_in: Any, number: int, name: Json) -> Any:
        state = State(self._program, number, checked(name, str)[:_MAX_NAME])
        # A stand-in's own `__setattr__` would send the state to the program.
        put: Callable[..., None] = object.__setattr__
        if isinstance(stand_in, BaseException):
            put = BaseException.__setattr__
        put(stand_in, "_remote_state", state)
        return stand_in

    def _instance_of_plain(self, decoder: Decoder, data: Json) -> Any:
        """Decode an object that is also plain data, such as a list or integer; contents cross by value."""
        number, kind, content = checked(data, list)
        cls = self._read_class(kind)
        base: Any = next((each for each in cls.__mro__ if each in PLAIN_BASES), None)
        if base is None or not isinstance(cls, RemoteClass):
            raise MalformedError("no class of plain data")
        known = self._objects.get(checked(number, int))
        value = () if PLAIN_BASES[base] else _parts(checked(decoder.decode(content), base))
        if known is None:
            known = self._objects[number] = self._with_state(
                base.__new__(cls, *value), number, cls.__name__
            )
        _of_class(known, cls)
        if PLAIN_BASES[base]:
            refill(decoder, decoder.enter(known), content)
        return _returned(known)

    def read_raised(self, decoder: Decoder, data: Json) -> Any:
        """Decode an exception that the program raised.

        Its class is Python's own `Exception` or `AssertionError` until the program has handed the tests such a class,
        for example as `MyError = Exception`. From then on the class is a double: `except MyError` of a test must not
        catch the test's own failed assertion.
        """
        ((tag, payload),) = checked(data, dict).items()
        if tag != "error" or self._gave_guarded:
            return decoder.decode(data)
        return self._error(decoder, payload, lambda kind: kind)

    def _error(
        self, decoder: Decoder, data: Json, kind_of: Callable[[type], type] = _guarded
    ) -> Any:
        return self._known_error(*self._exceptions.decode_error(data, decoder, kind_of))

    def _known_error(self, error: Any, number: Json) -> Any:
        """Return the known exception of a number, renewed, or else the decoded one, which is known from now on."""
        known = self._objects.get(number) if type(number) is int else None
        if known is not None:
            if _guarded(type(known)) is not _guarded(type(error)):
                raise MalformedError("an exception of another class than before")
            renew(known, error)
            return _returned(known)
        if isinstance(error, ErrorStub):
            self._with_state(error, checked(number, int), type(error).__name__)
        elif number is not None:
            BaseException.__setattr__(error, "_remote_number", checked(number, int))
        if number is not None:
            self._objects[number] = error
        return error

    def _read_class(self, data: Json) -> Any:
        ((tag, payload),) = checked(data, dict).items()
        if tag == "my_exception":
            return self._exceptions_of_tests.at(payload)
        if tag != "class":
            raise MalformedError("no class")
        return self._class(payload)

    def _class(self, data: Json) -> RemoteClass:
        number, *described = checked(data, list)
        if checked(number, int) not in self.classes:
            if described == ["function"]:
                return self.classes.setdefault(
                    number, class_of_functions(self._program, number)
                )
            name, qualified, bases, names, flags = described
            known = [self._base(each) for each in checked(bases, list)[:_MAX_BASES]]
            parents = [base for base in known if base is not None]
            if not all(type(each) is str for each in (name, *qualified, *names, *flags)):
                raise MalformedError("no name of a class")
            made = make_class(
                self._program, number, name[:_MAX_NAME], qualified, parents, names, flags
            )
            self.classes[number] = made
        return self.classes[number]

    def _base(self, data: Json) -> type | None:
        ((tag, payload),) = checked(data, dict).items()
        if tag in ("exception", "library_exception"):
            return self._exceptions.decode_class(data)
        # Only plain types are found: by its name, a program could choose any builtin.
        if tag == "type":
            return next((kind for kind in PLAIN_BASES if kind.__name__ == payload), None)
        return self._class(payload)


def _parts(value: Any) -> tuple[Any, ...]:
    """Return arguments with which `__new__` makes an equal object: dates and times have a form for pickling."""
    return (
        tuple(value.__reduce_ex__(4)[1])
        if isinstance(value, date | time | timedelta)
        else (value,)
    )


def _without_expected(error: BaseException) -> BaseException:
    """Return an exception as the program may see it: the message of a failed assertion may show expected values."""
    return AssertionError() if isinstance(error, AssertionError) else error


def _returned(known: Any) -> Any:
    """Demote a stand-in sent by the program to a result, even if the test has made its object."""
    if isinstance(known, Stub):
        known._remote_state.standing = Standing.RESULT
    return known


def _of_class(known: Any, cls: type) -> Any:
    """Return an object that is already known by number.

    Raises:
        MalformedError: if the program now gives it another class.
    """
    if type(known) is not cls:
        raise MalformedError("an object of another class than before")
    return known


def _library_member(data: Json) -> Any:
    """Decode a member of an enum of Python's library, a class available at both ends."""
    module, name, member = (checked(each, str) for each in checked(data, list))
    # The module is not imported: a program would otherwise choose code to run in the judge.
    kind = (
        getattr(sys.modules.get(module), name, None)
        if module in sys.stdlib_module_names
        else None
    )
    if not isinstance(kind, EnumMeta):
        raise MalformedError("no enumeration")
    return kind.__members__[member]
