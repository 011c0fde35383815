"""Create, in the program, counterparts of objects, functions and classes of the tests.

A counterpart has none of its original's state and code: each use is a request to the judge, see `given`. Classes are
real classes, so `isinstance(x, P)`, `type(x) is P` and `register(P)` work. This module shares a process with the
program, so the judge trusts nothing that it sends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from types import CodeType, CoroutineType, FunctionType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.awaiting import Driver, awaited
from trl_grpo_ext.programs.sandbox.inside.crossing.classes import (
    ASKED_OF_CLASSES,
    ClassOfTests,
    kind_of_function,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.programs.sandbox.inside.crossing.values import Json

CallBack = Callable[[int, str, tuple[Any, ...], dict[str, Any]], Any]
"""Uses a test object: number, kind of use, positional arguments, keyword arguments -> result."""

OF_TESTS = frozenset({"object", "function", "method", "coroutine", "bound", "test_class"})
"""Tags of test objects in messages of the judge."""

_put = object.__setattr__


class TestObject:
    """A counterpart of a test object. Its class has the special methods of the object's class."""

    def __getattr__(self, name: str) -> Any:
        # The judge would refuse such a name, which could lead to the tests' code.
        if name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}",
                name=name,
                obj=self,
            )
        return _use(self, "get", name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            _put(self, name, value)
        else:
            _use(self, "set", name, value)

    def __delattr__(self, name: str) -> None:
        _use(self, "delete", name)

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return _use(self, "attributes")

    def __copy__(self) -> Any:
        return _use(self, "copy")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), _use(self, "deepcopy"))


class BoundObject(TestObject):
    """A counterpart of a test object bound to a descriptor of the program; it keeps stored values."""

    def __getattr__(self, name: str) -> Any:
        stored = object.__getattribute__(self, "_stored")
        if name not in stored:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}",
                name=name,
                obj=self,
            )
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


class TestCallable(TestObject):
    """A counterpart of a builtin function."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return _use(self, "call", *args, **kwargs)


def _function() -> None: ...


def _generator() -> Generator[None]:
    yield


async def _coroutine() -> None: ...


async def _async_generator() -> Any:
    yield


# `inspect` tells the kind of a function by the flags of its code, so each kind needs a code object.
_CODES = {
    kind_of_function(each): each.__code__
    for each in (_function, _generator, _coroutine, _async_generator)
}


class TestFunction(TestCallable):
    """A counterpart of a test's function; `isinstance` and `inspect` see a function of equal kind."""

    __defaults__ = None
    __kwdefaults__ = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return FunctionType

    @property
    def __code__(self) -> CodeType:
        return _CODES[object.__getattribute__(self, "_flags")]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return (
            self
            if instance is None
            else lambda *args, **kwargs: self(instance, *args, **kwargs)
        )

    @property
    def __signature__(self) -> Any:
        return _signature(_use(self, "signature"))

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return dict(_use(self, "annotations"))


class TestMethod(TestFunction):
    """A counterpart of a method bound to a test's object: a function that does not bind again."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self


class TestCoroutine(TestObject):
    """A counterpart of a test's coroutine; `isinstance`, `inspect` and asyncio see a coroutine."""

    # asyncio shows the code's name and line in the text of a task.
    cr_code = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return CoroutineType

    def __await__(self) -> Generator[None, None, Any]:
        return _await(self)

    def send(self, value: Any) -> Any:
        return _driver(self).send(value)

    def throw(self, *error: Any) -> Any:
        return _driver(self).throw(*error)

    def close(self) -> None:
        _driver(self).close()


def _driver(coroutine: TestCoroutine) -> Driver:
    found: Driver = object.__getattribute__(coroutine, "_driver")
    return found


def _signature(parameters: list[tuple[str, int, bool, list[Any]]]) -> Any:
    """Create a signature from the judge's description; default values appear as `...`."""
    from inspect import Parameter, Signature, _ParameterKind

    made = []
    for name, kind, optional, annotation in parameters:
        default = ... if optional else Parameter.empty
        made.append(
            Parameter(
                name,
                _ParameterKind(kind),
                default=default,
                annotation=next(iter(annotation), Parameter.empty),
            )
        )
    return Signature(made)


class TestDataClass(type):
    """The metaclass of counterparts of data-only test classes, whose objects cross by their attributes."""

    def __new__(
        meta, name: str, bases: tuple[type, ...], members: dict[str, Any], /, **_: Any
    ) -> Any:
        raise TypeError(
            f"the program cannot inherit from {bases[0].__name__!r}, a class of the tests"
        )

    def __getattribute__(cls, name: str) -> Any:
        known = type.__getattribute__(cls, name)
        # The program reads the parameters; the judge makes the objects.
        return (
            _use(cls, "members").get(name, known)
            if name == "__init__" and _is_given(cls)
            else known
        )

    def __call__(cls, /, *args: Any, **kwargs: Any) -> Any:
        return _use(cls, "call", *args, **kwargs)

    @property
    def __signature__(cls) -> Any:
        return _signature(_use(cls, "signature")) if _is_given(cls) else None

    def __setattr__(cls, name: str, value: Any) -> None:
        # Its objects are here, so they need the attribute here too. While it is made, the judge knows nothing of it.
        if "_number" in _local(cls) and not _is_private(name):
            _use(cls, "set", name, value)
        type.__setattr__(cls, name, value)

    def __delattr__(cls, name: str) -> None:
        if not _is_private(name):
            _use(cls, "delete", name)
        type.__delattr__(cls, name)


class TestClass(TestDataClass):
    """The metaclass for counterparts of test classes with behaviour."""

    def __getattribute__(cls, name: str) -> Any:
        if name not in ASKED_OF_CLASSES:
            return type.__getattribute__(cls, name)
        for kind in type.mro(cls):
            members = kind.__dict__
            if name in members and kind is not TestObject:
                return members[name]
        return {} if name == "__annotations__" else type.__getattribute__(cls, name)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") or not _is_given(cls):
            raise AttributeError(
                f"type object {cls.__name__!r} has no attribute {name!r}",
                name=name,
                obj=cls,
            )
        return _use(cls, "get", name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if _is_private(name):
            type.__setattr__(cls, name, value)
        else:
            _use(cls, "set", name, value)

    def __delattr__(cls, name: str) -> None:
        if _is_private(name):
            type.__delattr__(cls, name)
        else:
            _use(cls, "delete", name)

    @property  # type: ignore[misc]
    def __dict__(cls) -> Any:  # type: ignore[override]
        return _use(cls, "members") if _is_given(cls) else _local(cls)

    def __dir__(cls) -> list[str]:
        names: set[str] = set()
        for kind in type.mro(cls):
            names.update(kind.__dict__)
        return sorted(names)

    def __iter__(cls) -> Any:
        return _use(cls, "special", "__iter__")

    def __len__(cls) -> int:
        return int(_use(cls, "special", "__len__"))

    # Python would otherwise call `__len__`, and a class without members would be false.
    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        return _use(cls, "special", "__getitem__", key)

    def __contains__(cls, item: Any) -> bool:
        return bool(_use(cls, "special", "__contains__", item))


_local = type.__dict__["__dict__"].__get__


def _is_given(cls: type) -> bool:
    """Test if the tests passed the class itself, not only objects, to the program."""
    # A class that is being made has no number yet.
    return _local(cls).get("_number") is not None


def _is_private(name: str) -> bool:
    return name[:1] == "_" and name[:2] != "__"


def _use(target: Any, use: str, /, *args: Any, **kwargs: Any) -> Any:
    # Past the counterparts' own lookups, which treat names with an underscore in their own way.
    read = (
        type.__getattribute__ if issubclass(type(target), type) else object.__getattribute__
    )
    call_back: CallBack = read(target, "_call_back")
    number: int | None = read(target, "_number")
    if number is None:
        raise TypeError(
            f"the tests have not passed the class {target.__name__!r} to the program"
        )
    return call_back(number, use, args, kwargs)


def _special(name: str) -> Callable[..., Any]:
    def method(self: TestObject, /, *args: Any, **kwargs: Any) -> Any:
        return _use(self, "special", name, *args, **kwargs)

    method.__name__ = name
    return method


def _await(self: TestObject) -> Generator[None, None, Any]:
    return awaited(partial(_use, self))


_SPECIALS: dict[str, Callable[..., Any]] = {
    "__call__": TestCallable.__call__,
    "__await__": _await,
}


class Counterparts:
    """A program's counterparts, by their originals' numbers in the judge."""

    def __init__(self, call_back: CallBack) -> None:
        self._call_back = call_back
        self._objects: dict[int, TestObject] = {}
        self._classes: dict[int, type] = {}
        self._numbers: dict[type, int] = {}

    def number_of_class(self, kind: type) -> int:
        """Return the judge's number of a class."""
        return self._numbers[kind]

    def read(self, decoder: Decoder, tag: str, data: Json) -> Any:
        """Decode a tag of `OF_TESTS`; return the counterpart."""
        if tag == "test_class":
            return self._class(ClassOfTests(*decoder.decode_all(data)))
        number, *described = data
        if number in self._objects:
            return self._objects[number]
        if tag == "object":
            return self._object(number, decoder.decode(described[0]))
        names = decoder.decode_all(described)
        if tag == "bound":
            return self._bound(number, *names)
        if tag == "coroutine":
            return self._coroutine(number, *names)
        kind = TestMethod if tag == "method" else TestFunction
        return self._function(kind, number, *names)

    def _bound(self, number: int, name: str, own: str | None) -> Any:
        """Create the counterpart of an object bound to a descriptor, given its class's name and a class's own name."""
        made: Any = self._object(number, type(name, (BoundObject,), {}))
        _put(made, "_stored", _Stored(made))
        _put(made, "__name__", own)
        return made

    def _coroutine(self, number: int, name: str, qualified: str) -> Any:
        """Create a coroutine's counterpart."""
        made: Any = self._object(number, TestCoroutine)
        _put(made, "_driver", Driver(partial(_use, made)))
        _put(made, "__name__", name)
        _put(made, "__qualname__", qualified)
        return made

    def _function(
        self,
        kind: type[TestFunction],
        number: int,
        flags: int | None,
        name: str | None,
        doc: str | None,
    ) -> Any:
        """Create a function's counterpart; a builtin function has no flags."""
        made: Any = self._object(number, TestCallable if flags is None else kind)
        for attribute, value in (("_flags", flags), ("__name__", name), ("__doc__", doc)):
            _put(made, attribute, value)
        return made

    def _object(self, number: int, kind: type) -> Any:
        # `kind()` would ask the judge to make another object of the test's class.
        made: Any = object.__new__(kind)
        self._objects[number] = made
        _put(made, "_call_back", self._call_back)
        _put(made, "_number", number)
        return made

    def _class(self, described: ClassOfTests) -> type:
        """Return a class's counterpart."""
        number = described.number
        if number not in self._classes:
            made = (
                _behaving_class(described)
                if described.data is None
                else _data_class(described)
            )
            type.__setattr__(made, "_call_back", self._call_back)
            # None until the tests hand over the class itself, and not only objects of it.
            type.__setattr__(made, "_number", None)
            self._classes[number] = made
            self._numbers[made] = number
        if described.given is not None:
            type.__setattr__(self._classes[number], "_number", described.given)
        return self._classes[number]


def _behaving_class(described: ClassOfTests) -> type:
    members: dict[str, Any] = {
        each: _SPECIALS.get(each) or _special(each) for each in described.specials
    }
    if "__eq__" in members and "__hash__" not in members:
        members["__hash__"] = object.__hash__
    bases = described.bases
    if not any(issubclass(base, TestObject) for base in bases):
        bases = (*bases, TestObject)
    return type.__new__(
        TestClass,
        described.name,
        bases,
        {**members, "__module__": "tests", "__doc__": described.doc},
    )


def _data_class(described: ClassOfTests) -> Any:
    members = {"__module__": "tests", "__doc__": described.doc}
    if not described.data:
        return type.__new__(TestDataClass, described.name, described.bases, members)
    from dataclasses import dataclass

    fields, has_equality, has_order = described.data
    made: Any = type.__new__(
        TestDataClass,
        described.name,
        described.bases,
        {**members, "__annotations__": dict(fields)},
    )
    return dataclass(made, eq=has_equality, order=has_order)
