"""Describe classes for the other end, and group special methods by purpose.

The program describes a class, so that the judge can create a stand-in class; see `remote_class`. If a test's class
inherits from a program class, the judge orders the program to create such a class too.

A special method's purpose decides who may answer it. The program may always report contents of its objects, since the
judge compares them. Whether an object is smaller, contains a value, or adds up to it is a judgement: the program may
answer only for objects that the test itself has made; see `handle.Standing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, field, fields
from enum import Enum
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, MethodType
from typing import Any, NamedTuple

from trl_grpo_ext.programs.sandbox.inside.crossing.encoder import is_plain_type
from trl_grpo_ext.programs.sandbox.inside.crossing.exceptions import is_shared
from trl_grpo_ext.programs.sandbox.inside.crossing.values import TYPE_NAMES, Json

OWN_MODULES = frozenset({"solution", "__main__", "tests"})
_MOST_NAMES = 500


def _dunders(names: str) -> frozenset[str]:
    return frozenset(f"__{name}__" for name in names.split())


_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or"

STRUCTURE = _dunders(
    "call getitem setitem delitem missing len iter next reversed bytes enter exit aiter anext aenter aexit await "
    "str repr format bool"
)
"""Special methods that report an object's contents or run it."""

ORDER = _dunders("lt le gt ge")
_REFLECTED_BINARY = " ".join(f"r{name}" for name in _BINARY.split())
_IN_PLACE_BINARY = " ".join(f"i{name}" for name in _BINARY.split())
BINARY = _dunders(f"{_BINARY} {_REFLECTED_BINARY} {_IN_PLACE_BINARY}")
REFLECTED = {"__lt__": "__gt__", "__gt__": "__lt__", "__le__": "__ge__", "__ge__": "__le__"}
"""By method, the method of the other operand that Python asks if this one has no answer."""
for _name in _BINARY.split():
    # For `a += b`, too, Python asks `b.__radd__` if `a` has no answer.
    REFLECTED[f"__{_name}__"] = REFLECTED[f"__i{_name}__"] = f"__r{_name}__"
ADDITIVE = _dunders("add sub radd rsub iadd isub")
"""Arithmetic that tests use to compare within a tolerance."""
DISTANCES = _dunders("sub rsub isub xor rxor ixor and rand iand")
"""Arithmetic that says how far two numbers or sets are from each other, or what they share."""
UNARY = _dunders("neg pos abs invert int float complex index round trunc floor ceil")
OPERATORS = ORDER | BINARY | _dunders("neg pos abs invert")
"""Order and arithmetic; the other methods in `UNARY` convert an object to a number."""
CONTAINS = "__contains__"

JUDGED = ORDER | BINARY | UNARY | {CONTAINS}
"""Special methods requested only for objects that the test has made, or computed from such objects."""

ORDERED_BY = "ordered by "
"""Prefix of flags that name fields by which a data class orders its objects, most significant field first."""

EQUALITY = _dunders("eq ne hash")
ALL = STRUCTURE | JUDGED | EQUALITY

BINDING = _dunders("get set delete")
"""What makes an object a descriptor, which a class asks about the objects that have it as an attribute."""

OF_PLAIN_RESULTS = _dunders("call enter exit str repr format")
"""Special methods that the program may answer for a returned object that is also a list, number or other plain value.

All other answers come from the contents that crossed.
"""

ASKED_OF_CLASSES = ALL | {"__init__", "__annotations__"}
"""Special attributes of a test's class that the program may read."""

CHANGED_BY_DECORATORS = ALL | {
    "__init__",
    "__setattr__",
    "__delattr__",
    "__getattr__",
    "__doc__",
}
"""Special attributes of a test's class that a class decorator of the program may change."""

DATA_CLASS = _dunders(
    "init repr str eq hash post_init setattr delattr getstate setstate replace match_args slots dict weakref doc "
    "module qualname annotations dataclass_fields dataclass_params firstlineno static_attributes"
)
"""Special names that a class may define while its objects still count as data only."""

FORWARDED = _dunders(
    "name qualname doc dict annotations wrapped members code defaults kwdefaults closure self func "
    "dataclass_fields dataclass_params abstractmethods signature notes field_defaults slots init"
) | {"__match_args__"}
"""Special attributes that the program answers; a stand-in answers all others itself."""


class ClassOfTests(NamedTuple):
    """A test class, described for the program.

    Attributes:
        number: The class's number in the judge.
        given: Its number as a test object that the program may use, or None.
        name: Its name.
        doc: Its docstring.
        bases: Its bases among the classes of the tests.
        specials: Names of its objects' special methods.
        data: None for a class with behaviour. For a data class: pairs of its own fields' names and types, whether it
            has an equality, whether it has an order. Empty for any other class that holds only data.
    """

    number: int
    given: int | None
    name: str
    doc: str | None
    bases: tuple[type, ...]
    specials: tuple[str, ...]
    data: tuple[Any, ...] | None


def description(kind: type, base_json: Callable[[type], Json]) -> list[Json]:
    """Describe a class for `remote_class.make_class`: arguments after number and name.

    Args:
        kind: The class.
        base_json: Returns JSON for a base class.

    Returns:
        Qualified name, bases, names of attributes and methods, flags, as JSON.
    """
    names: dict[str, Any] = dict(vars(kind))
    if kind is MethodType:
        # A method is bound already.
        names.pop("__get__", None)
    bases: list[type] = []
    for base in kind.__bases__:
        for found in _mirrored(base, names):
            # A base that another base inherits from adds nothing, and Python may find no order of the two.
            if not any(issubclass(each, found) for each in bases):
                bases.append(found)
    written = []
    if plain_base(kind) is not None:
        written = _own_operators(kind)
        names = {name: value for name, value in names.items() if name not in OPERATORS}
    for name, value in names.items():
        # A special method that is None is one that the class has not.
        is_there = value is not None or name not in ALL
        # The dict that a program gives to `type` may have keys that are no texts.
        if is_there and type(name) is str:
            written.append(name)
    qualified = getattr(kind, "__qualname__", "")
    return [
        [qualified] if type(qualified) is str else [],
        [base_json(base) for base in bases],
        written[:_MOST_NAMES],
        list(_flags(kind)),
    ]


def _own_operators(kind: type) -> list[str]:
    """List operators that the program defines for a class of plain data, without those of the stand-in's bases."""
    own = []
    for name in OPERATORS:
        owner = next((base for base in kind.__mro__ if name in vars(base)), object)
        is_inherited = owner is not kind and plain_base(owner) is not None
        if not is_inherited and not _is_of_library(kind, name, vars(owner).get(name)):
            own.append(name)
    return own


def _is_of_library(kind: type, name: str, value: Any) -> bool:
    """Return whether a class has an attribute from Python: enums of bits copy those of `Flag`."""
    return any(
        vars(base).get(name) is value and base.__module__ not in OWN_MODULES
        for base in kind.__mro__
    )


def _mirrored(base: type, names: dict[str, Any]) -> Iterator[type]:
    """Yield classes that represent a base class in the judge: the base itself, or bases of the base.

    Other classes of Python's library are left out; their attributes are added to `names`, as if the derived class
    defined them.
    """
    if base is object:
        return
    if base in TYPE_NAMES or is_shared(base) or base.__module__ in OWN_MODULES:
        yield base
        return
    for name, value in vars(base).items():
        names.setdefault(name, value)
    for below in base.__bases__:
        yield from _mirrored(below, names)


def _flags(kind: type) -> Iterator[str]:
    if kind.__module__ not in OWN_MODULES:
        yield "library"
    if getattr(kind, "__hash__", None) is None:
        yield "unhashable"
    if kind is FunctionType:
        yield "function"
    if kind in (GeneratorType, AsyncGeneratorType, CoroutineType):
        yield kind.__name__
    for base in kind.__mro__:
        if base.__module__ == "collections.abc":
            yield base.__name__
    if getattr(vars(kind).get("__dataclass_params__"), "order", False):
        for each in fields(kind):
            if each.compare:
                yield f"{ORDERED_BY}{each.name}"


def kind_of_function(function: Any) -> int:
    """Return the flags of a function's code for generator (0x20), coroutine (0x80), asynchronous generator (0x200)."""
    return int(function.__code__.co_flags & 0x2A0)


def keeps_its_class(value: Any) -> bool:
    """Return whether a value crosses with its class: an enum's member, or an instance of a program's class."""
    return isinstance(value, Enum) or type(value).__module__ in OWN_MODULES


def plain_base(kind: type) -> type | None:
    """Return the first plain type among a class's bases; None without a plain base."""
    return next(
        (base for base in kind.__mro__ if is_plain_type(base) and base is not type), None
    )


_LEFT_OUT = frozenset(
    {"__module__", "__classcell__", "__slots__", "__static_attributes__", "__firstlineno__"}
)
_FIELD_OPTIONS = (
    "default",
    "default_factory",
    "init",
    "repr",
    "hash",
    "compare",
    "kw_only",
)
_WRAPPERS: dict[type, tuple[str, ...]] = {
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
}


def class_order(
    name: str, bases: tuple[Any, ...], members: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the judge's order to create a class in the program: name, bases, options, members.

    Each member comes with the wrapper to apply, such as `property`.
    """
    remote = [base for base in bases if hasattr(base, "_remote_class")]
    wrapped = [
        [key, *_unwrapped(value)] for key, value in members.items() if key not in _LEFT_OUT
    ]
    return name, remote, options, wrapped


def _unwrapped(value: Any) -> list[Any]:
    if isinstance(value, Field):
        options = {}
        for name in _FIELD_OPTIONS:
            option = getattr(value, name)
            if option is not MISSING:
                options[name] = option
        return ["Field", options]
    names = _WRAPPERS.get(type(value))
    if names is None:
        return ["", value]
    return [type(value).__name__, *(getattr(value, name) for name in names)]


def made_class(
    name: str, bases: list[type], options: dict[str, Any], members: list[list[Any]]
) -> type:
    """Create a class in the program from the judge's order."""
    from types import new_class

    wrappers: dict[str, Any] = {kind.__name__: kind for kind in _WRAPPERS}
    wrappers["Field"] = lambda options: field(**options)

    def fill(namespace: dict[str, Any]) -> None:
        namespace["__module__"] = "tests"
        for key, how, *values in members:
            namespace[key] = wrappers[how](*values) if how else values[0]

    # `type` would not call `__prepare__` of the program's metaclass, which Enum's needs.
    return new_class(name, tuple(bases), options, fill)
