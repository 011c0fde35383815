"""Create, in the judge, stand-ins for the program's classes: real classes with equal names, bases and attributes.

So `type(x) is Dog`, `class Mine(Dog)`, `except Error` and patterns work as in a single process. No stand-in contains
code of the program.
"""

from __future__ import annotations

import collections.abc
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
)
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.binding import DESCRIPTOR
from trl_grpo_ext.programs.sandbox.inside.crossing.classes import (
    ALL,
    EQUALITY,
    FORWARDED,
    ORDER,
    ORDERED_BY,
    description,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.exceptions import Counterpart
from trl_grpo_ext.programs.sandbox.inside.crossing.values import MISSING, Json
from trl_grpo_ext.programs.sandbox.inside.handle import (
    ASSERTIONS_OF_MOCKS,
    PREDICATES,
    Handle,
    Requester,
    Standing,
    State,
    Stub,
    bind,
    drive,
    hash_of,
    is_judgement,
    is_new,
    special,
    viewed,
)
from trl_grpo_ext.programs.sandbox.inside.iteration import begin, item_at, length_of

_OF_CLASSES = {
    "__slots__",
    "__dict__",
    "__name__",
    "__qualname__",
    "__doc__",
    "__abstractmethods__",
}
_KEPT = (FORWARDED - _OF_CLASSES) | {"__init__", "__post_init__"}
_OF_ERRORS = frozenset({"__str__", "__repr__", "__format__"})
# Names of the judge in a stand-in begin with `_remote_`: a program has other names, such as `_ahead` in a parser.
_OWN_NAMES = frozenset(
    {
        "_remote_state",
        "_remote_class",
        "_remote_ahead",
        "_remote_equates",
        "_remote_order",
        "_remote_own",
        "mro",
    }
)


class ClassState(State):
    """Facts that the judge keeps about a program class.

    Attributes:
        small: Whether the tests use the class under a lower-case name, which may denote a function.
        capital: Whether the tests use the class under a capitalized name.
        bases: The bases that the program described; the stand-in may have fewer.
        is_abstract: Whether Python's `abc` made the class, so that other classes may be registered with it.
    """

    __slots__ = ("bases", "capital", "is_abstract", "small")

    def __init__(self, remote: Requester, number: int, name: str) -> None:
        super().__init__(remote, number, name)
        self.small = self.capital = self.is_abstract = False
        self.bases: tuple[type, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether objects made by calling this class count as made by the test."""
        return self.capital and not self.small


class RemoteClass(type):
    """Metaclass of stand-in classes."""

    _remote_class: ClassState

    def __new__(
        meta, name: str, bases: tuple[type, ...], members: dict[str, Any], /, **options: Any
    ) -> Any:
        if "_remote_class" in members:
            return super().__new__(meta, name, bases, members)
        # A test class inherits from a program class: the program creates a class too, with the same members.
        remote = next(
            base._remote_class.remote for base in bases if isinstance(base, RemoteClass)
        )
        state = ClassState(remote, -1, name)
        # The test writes this class itself, so objects of it count as made by the test.
        state.capital = True
        plain = any(not issubclass(base, Handle) for base in bases)
        layout = {} if plain else {"__slots__": ()}
        new = super().__new__(
            meta, name, bases, {**members, **layout, "_remote_class": state}
        )
        state.number = remote.request("subclass", new, name, bases, members, options)
        return new

    @property
    def __mro__(cls) -> tuple[type, ...]:
        # Tests see the bases that the program's class has, without those that only the judge adds.
        return tuple(kind for kind in type.mro(cls) if kind not in (Stub, Handle))

    @property
    def __bases__(cls) -> tuple[type, ...]:  # type: ignore[override]
        found = type.__dict__["__bases__"].__get__(cls)
        return tuple(kind for kind in found if kind not in (Stub, Handle)) or (object,)

    @property
    def _remote_state(cls) -> ClassState:
        return cls._remote_class

    def __call__(cls, /, *args: Any, **kwargs: Any) -> Any:
        remote = cls._remote_class.remote
        before = remote.asked
        made = remote.request("call", cls, *args, **kwargs)
        # A class may return an object that it returned before; such an object stays a result.
        return cls._remote_own(
            made, Standing.MADE if is_new(made, before) else Standing.COMPUTED
        )

    def _remote_own(cls, value: Any, standing: Standing = Standing.COMPUTED) -> Any:
        """Give an object this standing if the class is trusted and the object is its instance; return the object."""
        if (
            cls._remote_class.trusted
            and isinstance(value, Stub)
            and issubclass(type(value), cls)
        ):
            value._remote_state.standing = standing
            cls._remote_class.remote.has_made = True
        return value

    def __getattr__(cls, name: str) -> Any:
        is_special = name[:2] == "__" == name[-2:] and name not in FORWARDED
        # By this name asyncio takes an object for a future of its own loop, not for one to await.
        is_hidden = is_special or name == "_asyncio_future_blocking"
        # A class that the tests have not named was returned.
        if is_hidden or (name in PREDICATES and not cls._remote_class.trusted):
            raise AttributeError(
                f"type object {cls.__name__!r} has no attribute {name!r}",
                name=name,
                obj=cls,
            )
        value = cls._remote_own(cls._remote_class.remote.get(cls, name))
        if isinstance(value, Handle):
            value._remote_state.adopt = cls._remote_own
        return value

    def __setattr__(cls, name: str, value: Any) -> None:
        known = vars(cls).get(name, MISSING)
        # A special method stays: on each call it asks the program for the current attribute.
        if known is not MISSING and name not in ALL:
            type.__delattr__(cls, name)
        original = (
            RemoteAttribute.of(cls, name) if name in ALL and value is known else value
        )
        cls._remote_class.remote.request("set", cls, name, original)
        if type(value) is RemoteAttribute and value.is_of(cls, name):
            type.__setattr__(cls, name, value)

    def __delattr__(cls, name: str) -> None:
        cls._remote_class.remote.request("delete", cls, name)

    def __instancecheck__(cls, instance: Any) -> bool:
        """Decide by its class whether an object is an instance of this class, or else ask the program; see `_is_asked`.

        Only objects of classes of the program or the tests can be instances: `isinstance(5, Number)` is false.
        """
        if type.__instancecheck__(cls, instance) or _inherits(type(instance), cls):
            return True
        is_returned = (
            isinstance(instance, Stub) and instance._remote_state.standing < Standing.MADE
        )
        is_asked = _is_asked(type(instance), cls, is_returned)
        return is_asked and bool(
            cls._remote_class.remote.request("isinstance", instance, cls)
        )

    def __subclasscheck__(cls, subclass: Any) -> bool:
        if type.__subclasscheck__(cls, subclass) or _inherits(subclass, cls):
            return True
        is_asked = _is_asked(
            subclass, cls, getattr(subclass, "__module__", "") == "solution"
        )
        return is_asked and bool(
            cls._remote_class.remote.request("issubclass", subclass, cls)
        )

    def __bool__(cls) -> bool:
        return True

    # The program's metaclass answers, and is held to its answers as an object is.
    def __iter__(cls) -> Iterator[Any]:
        return map(cls._remote_own, begin(cls))

    def __len__(cls) -> int:
        return length_of(
            cls._remote_class,
            lambda: int(cls._remote_class.remote.request("special", cls, "__len__")),
        )

    def __getitem__(cls, key: Any) -> Any:
        ask = partial(cls._remote_class.remote.request, "getitem", cls, key)
        return cls._remote_own(
            item_at(cls._remote_class, key, ask) if type(key) is int else ask()
        )

    def __contains__(cls, item: Any) -> bool:
        return any(item is member or item == member for member in cls)


def _inherits(kind: Any, cls: RemoteClass) -> bool:
    """Test if a class inherits from a program class, as the program described it when it first crossed."""
    kinds = [kind]
    # The list grows during the loop.
    for each in kinds:
        if isinstance(each, RemoteClass):
            bases = (*each._remote_class.bases, *type.mro(each))
            kinds += [base for base in bases if base not in kinds]
    return cls in kinds


def _is_asked(kind: Any, cls: RemoteClass, is_returned: bool) -> bool:
    """Test if the judge asks the program for the instances or subclasses of a program class.

    Only classes of the program or the tests can belong to a program class. For a returned object, the judge asks only
    if the program class is abstract, since a metaclass could say yes to every object. For exceptions it never asks: the
    program could make `assertRaises` catch a failure.
    """
    if not isinstance(kind, type) or BaseException in (*type.mro(kind), *type.mro(cls)):
        return False
    is_known = isinstance(kind, RemoteClass) or kind.__module__ == "tests"
    return is_known and (cls._remote_class.is_abstract or not is_returned)


# A class counts as an instance of these only by inheritance, not by having the methods.
_ABSTRACT = frozenset(
    ("Mapping", "MutableMapping", "Sequence", "MutableSequence", "Set", "MutableSet")
)
# Types that tests check with `isinstance`, by the name of the library's class.
_OF_LIBRARY = {
    "generator": GeneratorType,
    "async_generator": AsyncGeneratorType,
    "coroutine": CoroutineType,
}


class ErrorStub(Counterpart, Stub):
    """The first base class of stand-ins for exceptions, which tests raise."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name[:2] == "__" == name[-2:]:
            # Code that raises again, such as contextlib, sets `__traceback__` of the judge's own exception.
            BaseException.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)


class FieldOfTest:
    """A field of a test's data class that inherits from a program class.

    The class attribute is the test's default. Each object was made by the program, so its value comes from the program.
    """

    def __init__(self, name: str, default: Any) -> None:
        self._name = name
        self._default = default

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return (
            self._default
            if instance is None
            else instance._remote_state.remote.get(instance, self._name)
        )


def make_data_class(cls: RemoteClass, equates: bool, has_order: bool) -> None:
    """Make a test's class a data class in the judge, mirroring its conversion by the program."""
    if equates:
        type.__setattr__(cls, "_remote_equates", True)
    for name in ORDER if has_order else ():
        type.__setattr__(cls, name, special(name))
    own = vars(cls)
    annotations = own.get("__annotations__")
    if not isinstance(annotations, dict):
        return
    for name in own.keys() & annotations:
        type.__setattr__(cls, name, FieldOfTest(name, own[name]))


def _function() -> None: ...


async def _async_function() -> None: ...


_ASKED_BY_MOCKS = frozenset(
    {
        "asyncio.coroutines",
        "functools",
        "inspect",
        "trl_grpo_ext.programs.sandbox.inside.patches.patching",
    }
)
"""Modules whose functions `unittest.mock` calls to inspect an object; for the last module see `LIBRARY`."""


def _is_for_mock(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__") in _ASKED_BY_MOCKS:
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "unittest.mock"


class RemoteAttribute:
    """A class attribute of the program, visible to `super()` and to code that inspects classes.

    A patch takes the attribute out of `vars(cls)`, makes a mock modelled on it, and puts it back. Sent to the program,
    it denotes the class's original attribute, from before the tests replaced it.
    """

    def __init__(self, name: str, plain: type | None = None) -> None:
        self.__name__ = name
        self._owner: Any = None
        self._plain = plain
        self._kind: type | None = None

    @classmethod
    def of(cls, owner: RemoteClass, name: str) -> RemoteAttribute:
        """Create the stand-in for the attribute `name` of the class `owner`."""
        made = cls(name)
        made._owner = owner
        return made

    def is_of(self, owner: type, name: str) -> bool:
        """Check that this stand-in denotes the attribute `name` of the class `owner`."""
        return self._owner is owner and self.__name__ == name

    def written(self) -> Json:
        """Encode this stand-in as JSON: the class's number and the attribute's name."""
        return {"attribute": [self._owner._remote_class.number, self.__name__]}

    def __set_name__(self, owner: Any, name: str) -> None:
        self._owner = owner

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Let `unittest.mock` see a function if the program's attribute is a function, so that mocks copy it."""
        if not _is_for_mock(sys._getframe(1)):
            return RemoteAttribute
        if self._kind is None:
            self._kind = FunctionType if self._inspected("isfunction") else RemoteAttribute
        return self._kind

    @property
    def __code__(self) -> CodeType:
        return (
            _async_function if self._inspected("iscoroutinefunction") else _function
        ).__code__

    @property
    def __signature__(self) -> Any:
        """Request the parameters of the program's function, which `unittest.mock` copies."""
        from inspect import Parameter, Signature

        told = self._owner._remote_class.remote.request("parameters", self)
        defaults = {True: ..., False: Parameter.empty}
        parameters = []
        for name, kind, optional in told:
            parameters.append(Parameter(name, kind, default=defaults[optional]))
        return Signature(parameters)

    def _inspected(self, question: str) -> bool:
        return bool(
            self._owner._remote_class.remote.request("library", "inspect", question, self)
        )

    def __dir__(self) -> list[str]:
        return []

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._owner._remote_class.remote.request("call", self, *args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return RemoteClass.__getattr__(owner, self.__name__)
        if is_judgement(instance, self.__name__):
            return Stub.__getattr__(instance, self.__name__)
        # A returned text or set answers by the contents that crossed.
        if self._plain is not None and instance._remote_state.standing < Standing.MADE:
            return getattr(self._plain, self.__name__).__get__(instance)
        remote: Requester = self._owner._remote_class.remote
        first = next(
            kind for kind in type.mro(type(instance)) if self.__name__ in vars(kind)
        )
        if first is self._owner:
            return viewed(instance, self.__name__, remote.get(instance, self.__name__))
        # Another class comes first, so this call is a `super()` of the tests.
        return remote.request("inherited", instance, self._owner, self.__name__)


def make_class(
    remote: Requester,
    number: int,
    name: str,
    full: list[str],
    bases: list[type],
    names: list[str],
    flags: list[str],
) -> RemoteClass:
    """Create a stand-in class from the program's description of a class.

    Args:
        remote: The program.
        number: The class's number in the program.
        name: The class's name.
        full: A list of its qualified name, or an empty list.
        bases: Stand-ins for its bases, and builtin types.
        names: Names of its attributes and methods.
        flags: `library`: the class belongs to Python, such as the class of generators. `unhashable`: it has no hash.
            `function`: its objects bind like functions. Its own name, if it is Python's class of generators or
            coroutines. Names of abstract collection classes that it inherits from.
            Fields that order its objects, each with the prefix `ORDERED_BY`.

    Raises:
        TypeError: if Python cannot create a class with these bases.
    """
    described = tuple(bases)
    plain = any(not issubclass(base, Handle) for base in bases)
    members: dict[str, Any] = {
        "__module__": "solution",
        "__doc__": RemoteAttribute("__doc__"),
        "_remote_ahead": "library" in flags,
        "_remote_class": ClassState(remote, number, name),
    }
    if full:
        members["__qualname__"] = full[0]
    if not plain:
        members |= _of_handles(names, flags)
    members |= _members(name, names, flags, _plain_type(bases))
    if any(issubclass(base, BaseException) for base in bases):
        for each in _OF_ERRORS:
            members.pop(each, None)
    if plain:
        # Attributes inherited from other bases are requested by name.
        bases = [base for base in bases if not issubclass(base, Handle)]
    if not any(isinstance(base, RemoteClass) for base in bases):
        bases = [_root(bases, plain), *bases]
    made = _assembled(name, bases, members)
    state: ClassState = members["_remote_class"]
    state.bases = described
    state.is_abstract = "_abc_impl" in names
    for abstract in _ABSTRACT.intersection(flags):
        getattr(collections.abc, abstract).register(made)
    if "__slots__" in names:
        _request_slots(made)
    return made


def _request_slots(made: RemoteClass) -> None:
    """Let a stand-in class request the program's `__slots__`, in place of its own."""
    slots = RemoteAttribute("__slots__")
    slots.__set_name__(made, "__slots__")
    type.__setattr__(made, "__slots__", slots)


def _of_handles(names: list[str], flags: list[str]) -> dict[str, Any]:
    """Return what the class of a stand-in says of equality, hash and order; plain data has them from its type."""
    members: dict[str, Any] = {"__slots__": ()}
    if "__eq__" in names:
        members["_remote_equates"] = True
    if "unhashable" in flags:
        members["__hash__"] = None
    order = [flag.removeprefix(ORDERED_BY) for flag in flags if flag.startswith(ORDERED_BY)]
    if order:
        members["_remote_order"] = tuple(order)
    return members


def _plain_type(bases: list[type]) -> type | None:
    """Return the first base class of plain data, such as `list`; None without one."""
    for base in bases:
        if not issubclass(base, Handle | BaseException):
            return base
    return None


def _members(
    name: str, names: list[str], flags: list[str], plain: type | None
) -> dict[str, Any]:
    """Make a stand-in class's attributes and methods from the program's names."""
    members = {each: _member(each, plain) for each in names if _is_kept(each)}
    is_of_unhashable = plain is not None and getattr(plain, "__hash__", None) is None
    # The program's subclass of `list` and the like may define a hash of its own.
    if "__hash__" in names and is_of_unhashable:
        members["__hash__"] = hash_of
    if plain is not None and issubclass(plain, defaultdict):
        # The program may have set a factory that does not cross.
        members["__missing__"] = special("__missing__")
    if name in _OF_LIBRARY and name in flags:
        members["__class__"] = property(lambda stand_in: _OF_LIBRARY[name])
    # An awaitable class of the program may have a `close` of its own.
    if "coroutine" in flags:
        members.update((each, drive(each)) for each in ("send", "throw", "close"))
    if "function" in flags:
        members["__get__"] = bind
    return members


_of_functions: list[RemoteClass] = []


def class_of_functions(remote: Requester, number: int) -> RemoteClass:
    """Return the stand-in for Python's class of functions; each process has exactly one.

    A rehearsal creates it before any judge is forked: nearly every program needs it, and creating a class is slow.
    """
    if not _of_functions:
        described: Any = description(FunctionType, lambda base: None)
        _of_functions.append(make_class(remote, number, "function", *described))
    type.__setattr__(
        _of_functions[0], "_remote_class", ClassState(remote, number, "function")
    )
    return _of_functions[0]


def is_function(value: Any) -> bool:
    """Return whether an object represents a function of the program."""
    return type(value) in _of_functions


def _root(bases: list[type], plain: bool) -> type:
    """Return the class of stand-ins from which a class without remote bases inherits."""
    if any(issubclass(base, BaseException) for base in bases):
        return ErrorStub
    return Stub if plain else Handle


def _assembled(name: str, bases: list[type], members: dict[str, Any]) -> RemoteClass:
    try:
        made: RemoteClass = RemoteClass(name, tuple(bases), dict(members))
    except TypeError:
        # The bases do not fit together.
        made = RemoteClass(name, tuple(bases[:1]), members)
    return made


def _is_kept(name: str) -> bool:
    if name[:2] == "__" == name[-2:]:
        return (name in ALL and name not in EQUALITY) or name in _KEPT or name in DESCRIPTOR
    return name.isidentifier() and name not in _OWN_NAMES | ASSERTIONS_OF_MOCKS


def _member(name: str, plain: type | None) -> Any:
    if name in ALL:
        return special(name)
    if name in DESCRIPTOR:
        return DESCRIPTOR[name]
    if plain is None:
        return RemoteAttribute(name)
    # The class of Python's own that a program's subclass of `list` or `str` has its contents from.
    kind = next((each for each in plain.__mro__ if not issubclass(each, Stub)), object)
    is_of_plain = kind is not object and hasattr(kind, name)
    return RemoteAttribute(name, kind if is_of_plain else None)
