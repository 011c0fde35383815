"""Stand-ins, in the judge, for program objects that are not plain data.

A stand-in's class represents the object's class (see `remote_class`) and has the object's special methods. Questions
that only the program can answer are passed on. Contents that the program reports are compared here, in the judge.
*Judgements* of the program on its own result are not requested: `==` between a stand-in and plain data is false. Order,
arithmetic and containment are requested only for objects that the test has made from a class of the program, as in
`Vector(1, 2) + Vector(3, 4)`; see `Standing`. An operator or order that a subclass of `list` or `int` defines itself is
under the same rule, and never replaced by Python's own. A returned result that claims to be less than the expected
value, or within a tolerance of it, is not believed.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Generator, Iterable
from enum import IntEnum
from functools import partial
from types import FunctionType
from typing import Any, NoReturn, Protocol

from trl_grpo_ext.programs.sandbox.inside.crossing.awaiting import Driver, awaited
from trl_grpo_ext.programs.sandbox.inside.crossing.classes import (
    ADDITIVE,
    BINARY,
    CONTAINS,
    DISTANCES,
    FORWARDED,
    JUDGED,
    OF_PLAIN_RESULTS,
    OPERATORS,
    ORDER,
    REFLECTED,
    UNARY,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.encoder import is_plain_type
from trl_grpo_ext.programs.sandbox.inside.iteration import (
    VIEWS,
    backwards,
    begin,
    item_at,
    items_at,
    length_of,
    next_item,
    once,
    view,
)
from trl_grpo_ext.programs.sandbox.inside.swallowing import leave, leave_async


class Requester(Protocol):
    """The judge's connection to the program, as stand-ins use it; `proxy.ProgramProxy` implements it."""

    quiet: bool
    has_made: bool
    asked: int
    acts: int

    def request(self, operation: str, /, *values: Any, **named: Any) -> Any: ...

    def get(self, target: Any, name: str) -> Any: ...

    def has_changed(self) -> bool: ...

    def contradicted(self, detail: str) -> NoReturn: ...

    def refuse(self, detail: str) -> NoReturn: ...


class Standing(IntEnum):
    """A program object's origin, which decides whether the program may judge it."""

    RESULT = 0
    COMPUTED = 1
    """Result of an operator on objects that the test has made, or a class constant such as `Color.RED`."""
    MADE = 2
    """Made by the test, which called a class under a name with a capital letter."""


class State:
    """Facts that the judge keeps about a program object."""

    __slots__ = (
        *(
            "adopt",
            "ahead",
            "began",
            "born",
            "differs",
            "driver",
            "given",
            "hash",
            "name",
            "number",
            "promised",
        ),
        *("pulls", "remote", "reserved", "standing", "told", "way", "whole"),
    )

    def __init__(self, remote: Requester, number: int, name: str) -> None:
        self.remote = remote
        self.number = number
        self.name = name
        self.standing = Standing.RESULT
        # Whether the object may be the difference of an object from an expected value, or was computed from such a
        # difference. It may be computed on, but is never converted to a number, ordered or taken for true.
        self.differs = False
        # Of an attribute of a class, such as a class method: gives a new object of the class its standing.
        self.adopt: Callable[[Any], Any] | None = None
        # Number of the request during which the object became known.
        self.born = remote.asked
        # Public names that the program may not answer: the object is in the place of a test's object that has them.
        self.reserved: frozenset[str] = frozenset()
        self.hash: int | None = None
        self.ahead: deque[tuple[Any, BaseException | None]] = deque()
        self.pulls = 0
        # The `iteration.Told` of a returned object.
        self.told: Any = None
        # Of an iterator over a returned object: that object's state, its length if told before, and `way` as in
        # `iteration`; the items so far, and the acts before them.
        self.whole: Any = None
        self.promised: int | None = None
        self.way = ""
        self.given: list[Any] = []
        self.began = 0
        self.driver: Driver | None = None


_ASSERTED = (
    "called called_once called_with called_once_with any_call has_calls not_called "
    "awaited awaited_once awaited_with awaited_once_with any_await has_awaits not_awaited"
)
ASSERTIONS_OF_MOCKS = frozenset(f"assert_{name}" for name in _ASSERTED.split())
"""Assertions of mocks. A program object in the place of a mock must not answer them."""


class Stub:
    """First base class of all stand-ins, including stand-ins that are also lists, integers, exceptions and so on."""

    __slots__ = ()
    _remote_state: State

    def __getattr__(self, name: str) -> Any:
        if is_judgement(self, name):
            raise AttributeError(
                f"{name} is not asked of a returned {type(self).__name__!r} object",
                name=name,
                obj=self,
            )
        is_hidden = name == "_remote_state" or (
            name[:2] == "__" == name[-2:] and name not in FORWARDED
        )
        if is_hidden or name in ASSERTIONS_OF_MOCKS:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}",
                name=name,
                obj=self,
            )
        return viewed(self, name, self._remote_state.remote.get(self, name))

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


PREDICATES = frozenset(
    {name for name in dir(str) if name.startswith("is")}
    | {
        "startswith",
        "endswith",
        "issubset",
        "issuperset",
        "isdisjoint",
        "difference",
        "symmetric_difference",
        "equals",
    }
)
"""Methods that would let an object judge an expected value."""


def is_judgement(value: Stub, name: str) -> bool:
    """Return whether a method would let a returned object judge an expected value, as `startswith` and `equals` do.

    Objects that the test has made may have such a method: a `Trie` has `startswith`. If plain data has it, as a text
    has, what crossed answers. Reserved names count as such methods.
    """
    if name in value._remote_state.reserved:
        return True
    is_returned = name in PREDICATES and value._remote_state.standing is Standing.RESULT
    return is_returned and not hasattr(_plain_base(value), name)


class Handle(Stub):
    """A stand-in for an object without plain data; lists and texts have other stand-ins."""

    __slots__ = ("_remote_state",)
    _remote_equates = False
    """Whether the program's class defines equality."""

    def __eq__(self, other: Any) -> Any:
        # The program decides whether two of its objects are equal, since it could have returned a single object. No
        # other object equals a stand-in.
        if self is other:
            return True
        # Python then asks the other operand, and without an answer compares identities, which differ.
        if not isinstance(other, Handle):
            return NotImplemented
        if not (self._remote_equates or other._remote_equates):
            return False
        return self._remote_state.remote.request("eq", self, other)

    def __hash__(self) -> int:
        return hash_of(self) if self._remote_equates else object.__hash__(self)

    def __str__(self) -> str:
        return _text(self, "str")

    def __repr__(self) -> str:
        return _text(self, "repr")

    def __format__(self, spec: str) -> str:
        return _text(self, "format", spec)


def hash_of(value: Stub) -> int:
    """Request an object's hash, once."""
    state = value._remote_state
    if state.hash is None:
        state.hash = state.remote.request("hash", value)
    return int(state.hash)


def _text(self: Stub, kind: str, *spec: str) -> str:
    state = self._remote_state
    is_text = isinstance(self, str) and state.standing < Standing.MADE
    if is_text or (state.remote.quiet and not isinstance(self, Handle)):
        # Use the text that crossed: otherwise the program could give another text each time the library asks.
        return str(_of_plain_base(self, f"__{kind}__")(*spec))
    if state.remote.quiet:
        return f"<{state.name}>"
    return str(once(state, (kind, *spec), lambda: state.remote.request(kind, self, *spec)))


def name_of(target: Any) -> str:
    """Return a name for a called object without asking the program."""
    state = getattr(type(target), "_remote_state", None) and target._remote_state
    return state.name if isinstance(state, State) else type(target).__name__


def special(name: str) -> Callable[..., Any]:
    """Return a stand-in's method that forwards the special method `name` to the program."""
    if name in _OWN:
        return _OWN[name]

    def method(self: Stub, /, *args: Any, **kwargs: Any) -> Any:
        is_plain = _is_plain_result(self)
        if is_plain and name not in OPERATORS | OF_PLAIN_RESULTS:
            return _of_plain_base(self, name)(*args, **kwargs)
        if name in JUDGED:
            return _judged(self, name, args)
        return self._remote_state.remote.request("special", self, name, *args, **kwargs)

    method.__name__ = name
    return method


def _has(value: Stub, *names: str) -> bool:
    """Test if a stand-in's class has one of some methods; `hasattr` would ask the program, which may say yes."""
    return any(name in vars(kind) for kind in type.mro(type(value)) for name in names)


def _standing(value: Any) -> Standing:
    return value._remote_state.standing if isinstance(value, Stub) else Standing.RESULT


def _is_plain_result(value: Stub) -> bool:
    """Test if a returned object is also plain data, such as a list: then its contents answer, not the program."""
    return not isinstance(value, Handle) and _standing(value) < Standing.MADE


def _plain_base(value: Stub) -> Any:
    """Return the plain type of a stand-in that is plain data too: `list`, `int`."""
    return next(
        kind for kind in type(value).__mro__ if not (issubclass(kind, Stub) or kind is Stub)
    )


def _of_plain_base(value: Stub, name: str) -> Callable[..., Any]:
    """Return the method `name` of a stand-in's plain base type, such as list or int."""
    method = getattr(_plain_base(value), name, None)
    if method is None:
        return lambda *args: _refused(value, name, *args)
    return lambda *args, **kwargs: method(value, *args, **kwargs)


def _refused(value: Stub, name: str, *args: Any) -> Any:
    """Refuse a question about a returned object.

    Return NotImplemented if the other operand may answer in its place, as Python then asks it.

    Raises:
        TypeError: otherwise. The test does not pass, whether it catches the error or not.
    """
    if name in REFLECTED and _may_answer(args[0], REFLECTED[name], value):
        return NotImplemented
    return value._remote_state.remote.refuse(
        f"{name} is not asked of a returned {type(value).__name__!r} object"
    )


def _may_answer(other: Any, name: str, value: Stub) -> bool:
    """Test if the method `name` of the other operand's class, not of Python's plain types, may judge `value`."""
    # Searched in the classes: `hasattr` would ask the program, which may say yes to every name.
    kind = next(
        each for each in type(other).__mro__ if name in vars(each) or each is object
    )
    if kind is object or is_plain_type(kind):
        return False
    return not isinstance(other, Stub) or _is_asked(other, name, (value,))


def _judged(self: Stub, name: str, args: tuple[Any, ...]) -> Any:
    """Request order, arithmetic or containment from the program, if allowed for these operands.

    Without an answer of the program, containment is decided by iteration, order by fields, and anything
    else is refused.

    Raises:
        TypeError: if the program answers with plain data where an object is required.
    """
    if name == CONTAINS and _standing(self) < Standing.MADE:
        return _holds(self, args[0])
    # The digits that a number is rounded to are no operand.
    others = () if name in UNARY else args
    if not _is_asked(self, name, others):
        return (
            _by_fields(self, name, args[0])
            if name in ORDER
            else _refused(self, name, *args)
        )
    standing = _standing(self)
    is_distance = _is_distance(self, name, others)
    is_told = is_distance or (name in BINARY | UNARY and _is_told(self, name, others))
    result = self._remote_state.remote.request("special", self, name, *args)
    if is_told and not _is_value(name, result):
        detail = f"{name} of a {type(self).__name__!r} object and plain or returned data gives plain data"
        self._remote_state.remote.refuse(detail)
    if isinstance(result, Stub):
        state = result._remote_state
        is_in_place = result is self and name in BINARY and name.startswith("__i")
        state.standing = standing if is_in_place else max(state.standing, Standing.COMPUTED)
        # A sum in place is what tests keep accounts with.
        is_sum = is_in_place and name == "__iadd__"
        is_difference = is_distance or (
            not is_sum and any(_may_differ(name, other) for other in others)
        )
        state.differs = is_difference or any(map(_differs, (result, self, *others)))
    return result


def _holds(self: Stub, item: Any) -> Any:
    if not _has(self, "__iter__", "__getitem__"):
        return _refused(self, CONTAINS)
    return any(element is item or element == item for element in iter(self))


def _is_asked(self: Stub, name: str, others: tuple[Any, ...]) -> bool:
    """Test if a test-made or test-computed operand has the class of `self`.

    A computed object has an order only with its like, or with an object that the test has made.
    """
    operands = (self, *others)
    if name not in ORDER:
        return any(_standing(each) and type(each) is type(self) for each in operands)
    # A difference counts as returned.
    origins = [Standing.RESULT if _differs(each) else _standing(each) for each in operands]
    return all(origins) or _is_made(self, operands, origins)


def _is_told(self: Stub, name: str, others: tuple[Any, ...]) -> bool:
    """Test if an operand could tell the program an expected number: plain data may be the expected value.

    A difference may hold it; see `State.differs`. An operator between an object that the test has made and plain data
    may give a number, as in `Vector(3, 4) * 2 == 5`, unless it adds or subtracts.
    """
    operands = (self, *others)
    by_made = _is_made(self, operands, map(_standing, operands))
    with_plain = not all(isinstance(other, Stub) for other in others)
    tells_plain = with_plain and (name in ADDITIVE or not by_made)
    return tells_plain or any(map(_differs, operands))


def _is_distance(self: Stub, name: str, others: tuple[Any, ...]) -> bool:
    """Test if an operator tells the distance of a returned number or set from another object of the program.

    Plain data is compared by what it holds, and so must its distance from an expected value be.
    """
    has_result = any(
        isinstance(each, Stub) and not _standing(each) for each in (self, *others)
    )
    return has_result and name in DISTANCES and hasattr(_plain_base(self), name)


def _is_made(self: Stub, operands: tuple[Any, ...], origins: Iterable[Standing]) -> bool:
    """Test if a test-made operand has the class of `self`."""
    pairs = zip(operands, origins, strict=True)
    return any(
        origin is Standing.MADE and type(operand) is type(self) for operand, origin in pairs
    )


def _differs(value: Any) -> bool:
    return isinstance(value, Stub) and value._remote_state.differs


def _is_value(name: str, result: Any) -> bool:
    """Test if an operator's result is an object, or contents to compare, and no distance from an expected value."""
    is_contents = (
        isinstance(result, str | bytes | list | tuple | dict) and name not in DISTANCES
    )
    return is_contents or isinstance(result, Handle) or result is NotImplemented


def _may_differ(name: str, other: Any) -> bool:
    """Test if an operator may give the difference of an object from an expected value; `sum` begins with `0 + x`."""
    begins_sum = name == "__radd__" and type(other) in (int, float) and other == 0
    is_joined = isinstance(other, str) and "add" in name
    return name in ADDITIVE and not (
        begins_sum or is_joined or isinstance(other, Stub | FunctionType)
    )


def _by_fields(one: Stub, name: str, other: Any) -> Any:
    """Compare two returned objects of a data class with an order by their fields, in the judge.

    Return NotImplemented for different classes, and refuse a class with an order of its own.
    """
    order: tuple[str, ...] = getattr(type(one), "_remote_order", ())
    if not order:
        return _refused(one, name, other)
    if type(other) is not type(one):
        return NotImplemented
    get = one._remote_state.remote.get
    first = tuple(get(one, field) for field in order)
    second = tuple(get(other, field) for field in order)
    return getattr(operator, name)(first, second)


def _call(self: Stub, /, *args: Any, **kwargs: Any) -> Any:
    state = self._remote_state
    before = state.remote.asked
    result = state.remote.request("call", self, *args, **kwargs)
    # A class method that gives a new object of its class is a constructor, such as `Version.parse("1.2")`.
    if state.adopt is not None and is_new(result, before):
        return state.adopt(result)
    return result


def is_new(value: Any, before: int) -> bool:
    """Test if a value is a program object that became known after the request with a number."""
    return isinstance(value, Stub) and value._remote_state.born > before


def _iter(self: Stub) -> Any:
    if _is_plain_result(self):
        return _of_plain_base(self, "__iter__")()
    is_iterator = _has(self, "__next__") and not _has(self, "__len__")
    # Items that were fetched ahead would be lost with a new iterator.
    if is_iterator and getattr(type(self), "_remote_ahead", False):
        return self
    return begin(self)


def _reversed(self: Stub) -> Any:
    if _is_plain_result(self):
        return _of_plain_base(self, "__reversed__")()
    return backwards(self)


def _len(self: Stub) -> int:
    if _is_plain_result(self):
        return int(_of_plain_base(self, "__len__")())
    state = self._remote_state
    return length_of(state, lambda: int(state.remote.request("special", self, "__len__")))


def _getitem(self: Stub, key: Any) -> Any:
    if _is_plain_result(self):
        return _of_plain_base(self, "__getitem__")(key)
    state = self._remote_state
    ask = partial(state.remote.request, "special", self, "__getitem__", key)
    if type(key) is int:
        return item_at(state, key, ask)
    return items_at(state, key, ask()) if type(key) is slice else ask()


def _bool(self: Stub) -> bool:
    if _is_plain_result(self):
        # A list has no `__bool__`, and is true if it has items.
        base = _plain_base(self)
        return bool(base.__bool__(self)) if hasattr(base, "__bool__") else _len(self) > 0
    state = self._remote_state
    if state.differs:
        state.remote.refuse(
            f"__bool__ is not asked of a {type(self).__name__!r} object and plain data"
        )
    found = once(
        state, ("__bool__",), partial(state.remote.request, "special", self, "__bool__")
    )
    if type(found) is not bool:
        raise TypeError(f"__bool__ should return bool, returned {type(found).__name__}")
    return found


def viewed(self: Stub, name: str, found: Any) -> Any:
    """Check `items`, `keys` and `values` of a returned object against its other answers."""
    if name not in VIEWS or not isinstance(found, Handle) or _standing(self):
        return found
    # Asked before the view, so that the program has committed itself to a length.
    if _has(self, "__len__"):
        _len(self)
    return lambda *args, **kwargs: view(
        self._remote_state, name, _call(found, *args, **kwargs)
    )


def _enter(self: Stub) -> Any:
    standing = _standing(self)
    result = self._remote_state.remote.request("special", self, "__enter__")
    # Every object that arrives counts as returned; here the test only gets its own object back.
    if result is self:
        self._remote_state.standing = standing
    return result


def _await(self: Stub) -> Generator[None, None, Any]:
    return awaited(self._remote_state.remote.request, self)


def drive(method: str) -> Callable[..., Any]:
    """Return a method for `send`, `throw` or `close` of a coroutine."""

    def run(self: Stub, /, *args: Any) -> Any:
        state = self._remote_state
        # `send`, `throw` and `close` of a coroutine must drive one and the same task.
        state.driver = state.driver or Driver(state.remote.request, self)
        return getattr(state.driver, method)(*args)

    return run


def bind(self: Stub, instance: Any, owner: Any = None) -> Any:
    """Bind a function's stand-in to an instance: tests patch methods and store functions on their classes."""
    return (
        self
        if instance is None
        else lambda *args, **kwargs: _call(self, instance, *args, **kwargs)
    )


_OWN: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "__iter__": _iter,
    "__next__": next_item,
    "__reversed__": _reversed,
    "__len__": _len,
    "__getitem__": _getitem,
    "__bool__": _bool,
    "__enter__": _enter,
    "__exit__": leave,
    "__aexit__": leave_async,
    "__await__": _await,
    "__str__": Handle.__str__,
    "__repr__": Handle.__repr__,
    "__format__": Handle.__format__,
}
"""Special methods that need more than forwarding."""
