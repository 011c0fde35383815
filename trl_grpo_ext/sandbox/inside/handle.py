"""Stand-ins, in the judge, for objects of the program that are not plain data.

A stand-in's class stands for the object's class (see `remote_class`) and has the special methods that the object
has. Each passes on what only the program can answer. What the program says an object *holds* is compared here. What
would be a *judgement* of the program on its own result is not asked: `==` of a stand-in and plain data is false.
Order, arithmetic and containment are asked only of an object that the test has made from a class of the program, as
in `Vector(1, 2) + Vector(3, 4)`; see `Standing`. A returned result that claims to be less than the expected value,
or within a tolerance of it, is not believed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from enum import IntEnum
from typing import Any, NoReturn, Protocol

from trl_grpo_ext.sandbox.inside.crossing.awaiting import awaited
from trl_grpo_ext.sandbox.inside.crossing.classes import (
    ADDITIVE,
    BINARY,
    CONTAINS,
    FORWARDED,
    JUDGED,
    OF_PLAIN_RESULTS,
    ORDER,
    UNARY,
)
from trl_grpo_ext.sandbox.inside.iteration import begin, next_item
from trl_grpo_ext.sandbox.inside.order import by_fields
from trl_grpo_ext.sandbox.inside.swallowing import leave, leave_async


class Requester(Protocol):
    """What a stand-in asks; see `proxy`, which imports what it makes."""

    quiet: bool
    has_made: bool
    asked: int

    def request(self, operation: str, /, *values: Any, **named: Any) -> Any: ...

    def get(self, target: Any, name: str) -> Any: ...

    def contradicted(self, detail: str) -> NoReturn: ...


class Standing(IntEnum):
    """Where an object of the program comes from, which decides what it is asked."""

    RESULT = 0
    COMPUTED = 1
    """The result of an operator on objects that the test has made, or a constant of a class, such as `Color.RED`."""
    MADE = 2
    """The test has made it: it called a class, by a name with a capital letter."""


class State:
    """What the judge knows of one object of the program."""

    __slots__ = (
        *("ahead", "born", "driver", "hash", "items", "length", "name", "number", "pulls", "remote", "standing"),
        "whole",
    )

    def __init__(self, remote: Requester, number: int, name: str) -> None:
        self.remote = remote
        self.number = number
        self.name = name
        self.standing = Standing.RESULT
        self.born = remote.asked  # by which request it became known
        self.hash: int | None = None
        self.ahead: deque[tuple[Any, BaseException | None]] = deque()
        self.pulls = self.items = 0
        self.length: int | None = None  # once it was told
        self.whole: Any = None  # of an iterator
        self.driver: Any = None


_ASSERTED = (
    "called called_once called_with called_once_with any_call has_calls not_called "
    "awaited awaited_once awaited_with awaited_once_with any_await has_awaits not_awaited"
)
ASSERTIONS_OF_MOCKS = frozenset(f"assert_{name}" for name in _ASSERTED.split())
"""What tests ask of their mocks. An object of the program that has taken the place of one is not asked."""


class Stub:
    """The first base of every stand-in, also of one that is a list, an integer, an exception and so on."""

    __slots__ = ()
    _remote_state: State

    def __getattr__(self, name: str) -> Any:
        if is_judgement(self, name):
            raise AttributeError(
                f"{name} is not asked of a returned {type(self).__name__!r} object", name=name, obj=self
            )
        is_hidden = name == "_remote_state" or (name[:2] == "__" == name[-2:] and name not in FORWARDED)
        if is_hidden or name in ASSERTIONS_OF_MOCKS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return self._remote_state.remote.get(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._remote_state.remote.request("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._remote_state.remote.request("delete", self, name)

    def __copy__(self) -> Any:
        return self._remote_state.remote.request("copy", self)

    def __deepcopy__(self, memo: Any) -> Any:
        return self._remote_state.remote.request("deepcopy", self)

    def __dir__(self) -> list[str]:
        return list(self._remote_state.remote.request("dir", self))


_PREDICATES = frozenset({name for name in dir(str) if name.startswith("is")} | {"startswith", "endswith"})


def is_judgement(value: Stub, name: str) -> bool:
    """Whether a method judges texts, as `startswith` does, and a returned object is none; a `Trie` of the test may."""
    return name in _PREDICATES and isinstance(value, Handle) and value._remote_state.standing is Standing.RESULT


class Handle(Stub):
    """A stand-in for an object that is no plain data at all."""

    __slots__ = ("_remote_state",)
    _equates = False
    """Whether the object's class says which objects are equal."""

    def __eq__(self, other: Any) -> Any:
        # Two objects of the program are equal if it says so, as it could have made them one. No other object ever is.
        if self is other or not isinstance(other, Handle):
            return True if self is other else NotImplemented
        return (self._equates or other._equates) and self._remote_state.remote.request("eq", self, other)

    def __hash__(self) -> int:
        if not self._equates:
            return object.__hash__(self)
        state = self._remote_state
        if state.hash is None:
            state.hash = state.remote.request("hash", self)
        return int(state.hash)

    def __str__(self) -> str:
        return _text(self, "str")

    def __repr__(self) -> str:
        return _text(self, "repr")

    def __format__(self, spec: str) -> str:
        return _text(self, "format", spec)


def _text(self: Stub, kind: str, *spec: str) -> str:
    state = self._remote_state
    if isinstance(self, str) and state.standing < Standing.MADE:
        # What it holds, or it could be another text each time that the library asks.
        return str(getattr(str, f"__{kind}__")(self, *spec))
    return f"<{state.name}>" if state.remote.quiet else str(state.remote.request(kind, self, *spec))


def name_of(target: Any) -> str:
    """What to call what was called, without asking the program."""
    state = getattr(type(target), "_remote_state", None) and target._remote_state
    return state.name if isinstance(state, State) else type(target).__name__


def special(name: str) -> Callable[..., Any]:
    """The method of a stand-in that passes on the special method `name`."""
    if name in _OWN:
        return _OWN[name]

    def method(self: Stub, /, *args: Any, **kwargs: Any) -> Any:
        if name not in OF_PLAIN_RESULTS and not isinstance(self, Handle) and _standing(self) < Standing.MADE:
            return _of_plain_base(self, name)(*args, **kwargs)
        if name in JUDGED:
            return _judged(self, name, args)
        return self._remote_state.remote.request("special", self, name, *args, **kwargs)

    method.__name__ = name
    return method


def _standing(value: Any) -> Standing:
    return value._remote_state.standing if isinstance(value, Stub) else Standing.RESULT


def _of_plain_base(value: Stub, name: str) -> Callable[..., Any]:
    """The method of the list, integer and so on that a stand-in is as well."""
    base = next(kind for kind in type(value).__mro__ if not (issubclass(kind, Stub) or kind is Stub))
    method = getattr(base, name, None)
    if method is None and name == "__bool__":
        return lambda: len(value) != 0
    if method is None:
        return lambda *args: _refused(value, name, *args)
    return lambda *args, **kwargs: method(value, *args, **kwargs)


def _refused(value: Stub, name: str, *args: Any) -> Any:
    """What a method gives that is not asked: Python then tries the other operand, or raises."""
    if name in BINARY | ORDER:
        return NotImplemented  # from any other method it would be a value, and a yes
    if name == "__missing__":
        raise KeyError(*args)
    raise TypeError(f"{name} is not asked of a returned {type(value).__name__!r} object")


def _judged(self: Stub, name: str, args: tuple[Any, ...]) -> Any:
    """Order, arithmetic or containment, if it may be asked of these operands.

    The result of arithmetic, and a constant of a class, has no order with plain data. It may be computed on, but a
    plain operand could be the expected value: so what comes of one must be an object again, of which nothing more is
    asked. Of an object that the test has made, that holds for sums and differences.
    """
    standing = _standing(self)
    by_class = any(_standing(other) is Standing.MADE and type(other) is type(self) for other in args)
    only_computed = standing is Standing.COMPUTED and not by_class
    if name == CONTAINS and standing is not Standing.MADE:
        return any(element is args[0] or element == args[0] for element in iter(self))
    among_own = all(_standing(other) for other in args)  # a plain operand has none
    if not (standing is Standing.MADE or by_class or (only_computed and (name in BINARY | UNARY or among_own))):
        return by_fields(self, name, args[0]) if name in ORDER else _refused(self, name)
    told = (only_computed or name in ADDITIVE) and not all(isinstance(other, Stub) for other in args)
    result = self._remote_state.remote.request("special", self, name, *args)
    if result is self and name in BINARY and name.startswith("__i"):
        self._remote_state.standing = standing
    elif isinstance(result, Handle) or (isinstance(result, Stub) and not told):
        if not told:
            state = result._remote_state
            state.standing = max(state.standing, Standing.COMPUTED)
    elif told and result is not NotImplemented:
        raise TypeError(f"{name} of a {type(self).__name__!r} object and plain data gives plain data")
    return result


def _call(self: Stub, /, *args: Any, **kwargs: Any) -> Any:
    return self._remote_state.remote.request("call", self, *args, **kwargs)


def _iter(self: Stub) -> Any:
    if hasattr(type(self), "__next__") and getattr(type(self), "_ahead", False):
        return self  # what was fetched ahead would be lost
    if not isinstance(self, Handle) and _standing(self) < Standing.MADE:
        return _of_plain_base(self, "__iter__")()
    return begin(self)


def _len(self: Stub) -> int:
    if not isinstance(self, Handle) and _standing(self) < Standing.MADE:
        return int(_of_plain_base(self, "__len__")())
    state = self._remote_state
    state.length = int(state.remote.request("special", self, "__len__"))
    return state.length


def _enter(self: Stub) -> Any:
    standing = _standing(self)
    result = self._remote_state.remote.request("special", self, "__enter__")
    if result is self:
        self._remote_state.standing = standing
    return result


def _await(self: Stub) -> Generator[None, None, Any]:
    return awaited(self._remote_state.remote.request, self)


def drive(method: str) -> Callable[..., Any]:
    """`send`, `throw` or `close` of a coroutine."""

    def run(self: Stub, /, *args: Any) -> Any:
        state = self._remote_state
        state.driver = state.driver or _await(self)
        return getattr(state.driver, method)(*args)

    return run


def bind(self: Stub, instance: Any, owner: Any = None) -> Any:
    """`__get__` of a function: tests patch methods and store functions on their classes."""
    return self if instance is None else lambda *args, **kwargs: _call(self, instance, *args, **kwargs)


_OWN: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "__iter__": _iter,
    "__next__": next_item,
    "__len__": _len,
    "__enter__": _enter,
    "__exit__": leave,
    "__aexit__": leave_async,
    "__await__": _await,
    "__str__": Handle.__str__,
    "__repr__": Handle.__repr__,
    "__format__": Handle.__format__,
}
"""The special methods that take more than passing on."""
