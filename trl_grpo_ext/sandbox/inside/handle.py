"""Stand-ins, in the judge, for objects of the program that are not plain data.

A handle passes on what only the program can answer: attributes, calls, indexing, length, iteration, truth, text.
It has no `==` but identity, no order, no arithmetic, no `in` of its own and no conversion to a number: an object
that claims to equal the expected value, or to lie within a tolerance of it, is not believed. `in` goes through the
elements, which are compared here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from opcode import opmap
from types import ModuleType
from typing import Any, NoReturn, Protocol

MAX_ITEMS = 1_000_000
_FIRST_PULLS = 8
_LARGEST_CHUNK = 256

CALLABLE, TRUTHY, CLASS, AWAITABLE, ITERATOR, FINITE, EQUATES = 1, 2, 4, 8, 16, 32, 64
"""Flags that the program's end sends along with a handle."""

FORWARDED = frozenset({"__name__", "__qualname__", "__doc__", "__dict__", "__annotations__", "__wrapped__"})
"""The special attributes that are the program's to answer; all others are the handle's own."""


class Requester(Protocol):
    """What a handle asks."""

    quiet: bool

    def request(self, operation: str, /, *values: Any, **named: Any) -> Any:
        """What the program answers, or the exception that it raised."""

    def look_up(self, names: list[str]) -> dict[str, list[Any]]:
        """What the program has by each of these global names: a list of one, or none."""

    def overflow(self) -> NoReturn:
        """End the run: the program has sent too much."""


# None of these classes has a docstring, as `__doc__` is the object's own.
_doc: Any = property(lambda handle: handle._h_remote.request("get", handle, "__doc__"))


class Handle:
    __slots__ = ("_h_ahead", "_h_flags", "_h_hash", "_h_name", "_h_number", "_h_pulls", "_h_remote")
    __doc__ = _doc

    def __init__(self, remote: Requester, number: int, flags: int, name: str) -> None:
        put = object.__setattr__
        put(self, "_h_remote", remote)
        put(self, "_h_number", number)
        put(self, "_h_flags", flags)
        put(self, "_h_name", name)
        put(self, "_h_ahead", deque())
        put(self, "_h_pulls", (0, 0))
        put(self, "_h_hash", None)

    def __eq__(self, other: Any) -> Any:
        # Two objects of the program are equal if it says so, as it could have made them one. No other object ever is.
        if self is other or not isinstance(other, Handle):
            return True if self is other else NotImplemented
        return bool((self._h_flags | other._h_flags) & EQUATES) and self._h_remote.request("eq", self, other)

    def __ne__(self, other: Any) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        if not self._h_flags & EQUATES:
            return object.__hash__(self)
        if self._h_hash is None:
            object.__setattr__(self, "_h_hash", self._h_remote.request("hash", self))
        return int(self._h_hash)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in FORWARDED:
            raise AttributeError(f"{self._h_name!r} object has no attribute {name!r}", name=name, obj=self)
        return self._h_remote.request("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._h_remote.request("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._h_remote.request("delete", self, name)

    def __dir__(self) -> list[str]:
        return list(self._h_remote.request("dir", self))

    def __getitem__(self, key: Any) -> Any:
        return self._h_remote.request("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._h_remote.request("setitem", self, key, value)

    def __delitem__(self, key: Any) -> None:
        self._h_remote.request("delitem", self, key)

    def __len__(self) -> int:
        return int(self._h_remote.request("len", self))

    def __bool__(self) -> bool:
        return bool(self._h_flags & TRUTHY or self._h_remote.request("bool", self))

    def __str__(self) -> str:
        return describe(self) if self._h_remote.quiet else str(self._h_remote.request("str", self))

    def __repr__(self) -> str:
        return describe(self) if self._h_remote.quiet else str(self._h_remote.request("repr", self))

    def __format__(self, spec: str) -> str:
        return str(self._h_remote.request("format", self, spec))

    def __iter__(self) -> Iterator[Any]:
        if self._h_flags & ITERATOR:
            return self
        iterator: Iterator[Any] = self._h_remote.request("iter", self)
        return iterator

    def __next__(self) -> Any:
        if not self._h_ahead:
            _pull(self)
        item, error = self._h_ahead.popleft()
        if error is not None:
            raise error
        return item

    def __copy__(self) -> Any:
        return self._h_remote.request("copy", self)

    def __deepcopy__(self, memo: Any) -> Any:
        return self._h_remote.request("deepcopy", self)

    def __enter__(self) -> Any:
        return self._h_remote.request("enter", self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        # What a failed assertion says may be what the tests expect.
        told = AssertionError() if isinstance(error, AssertionError) else error
        swallow = self._h_remote.request("exit", self, told)
        return bool(swallow) and error is not None and _may_be_swallowed(error)


class CallableHandle(Handle):
    __slots__ = ()
    __doc__ = _doc

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._h_remote.request("call", self, *args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind like a function: tests patch methods and store functions on their classes."""
        if instance is None or self._h_flags & CLASS:
            return self
        return lambda *args, **kwargs: self(instance, *args, **kwargs)


class ClassHandle(CallableHandle):
    __slots__ = ()
    __doc__ = _doc

    def __instancecheck__(self, instance: Any) -> bool:
        """Whether an object of the program is an instance of its class is the program's to say; no other object is."""
        return isinstance(instance, Handle) and bool(self._h_remote.request("isinstance", instance, self))

    def __subclasscheck__(self, subclass: Any) -> bool:
        return isinstance(subclass, Handle) and bool(self._h_remote.request("issubclass", subclass, self))


class AwaitableHandle(Handle):
    __slots__ = ()
    __doc__ = _doc

    def __await__(self) -> Iterator[Any]:
        return self

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """Run to the end, as a coroutine that never waits does."""
        raise StopIteration(self._h_remote.request("await", self))

    def send(self, value: Any) -> Any:
        """The same, as the protocol of coroutines has it."""
        return next(self)

    def throw(self, error: Any, *rest: Any) -> Any:
        """Stop waiting."""
        raise error

    def close(self) -> None:
        """Nothing waits here."""


def make_handle(remote: Requester, number: int, flags: int, name: str) -> Handle:
    """The stand-in for object `number` of the program."""
    if flags & CLASS:
        return ClassHandle(remote, number, flags, name)
    if flags & AWAITABLE:
        return AwaitableHandle(remote, number, flags, name)
    return (CallableHandle if flags & CALLABLE else Handle)(remote, number, flags, name)


def describe(handle: Handle) -> str:
    """What to call a handle without asking the program."""
    return f"<{handle._h_name}>"


def _pull(handle: Handle) -> None:
    """Fetch the next items. The first come one by one, as a generator may never come to one that is not needed."""
    pulls, count = handle._h_pulls
    grown = 1 << min(max(0, pulls - _FIRST_PULLS), 8)
    items, error = handle._h_remote.request("next", handle, _LARGEST_CHUNK if handle._h_flags & FINITE else grown)
    count += len(items)
    if count > MAX_ITEMS:
        handle._h_remote.overflow()
    object.__setattr__(handle, "_h_pulls", (pulls + 1, count))
    handle._h_ahead.extend((item, None) for item in items)
    if error is not None:
        handle._h_ahead.append((None, error))


def _may_be_swallowed(error: BaseException) -> bool:
    """Whether a context manager of the program may swallow `error`: only one that the test raised on purpose.

    Were it any error, a program could swallow the failing assertion, or the TypeError of comparing its answer.
    """
    trace = error.__traceback__
    if isinstance(error, AssertionError) or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return code.co_filename.startswith("<test") and code.co_code[trace.tb_lasti] == opmap["RAISE_VARARGS"]


_SAMPLES: tuple[Any, ...] = ([], (), {}, {}.values(), {}.items(), set(), range(0), "", b"", "é")
_FINITE = tuple(type(iter(sample)) for sample in _SAMPLES)


def flags_of(value: Any) -> int:
    """The flags of an object, as the program's end sends them."""
    kind = type(value)
    flags = CALLABLE if callable(value) else 0
    if not hasattr(kind, "__bool__") and not hasattr(kind, "__len__"):
        flags |= TRUTHY
    if isinstance(value, type):
        flags |= CLASS
    if hasattr(kind, "__await__"):
        flags |= AWAITABLE
    if hasattr(kind, "__next__"):
        flags |= ITERATOR
    if vars(object)["__eq__"] is not getattr(kind, "__eq__", None):
        flags |= EQUATES
    return flags | FINITE if kind in _FINITE else flags


class SolutionModule(ModuleType):
    """What `import solution` gives the tests."""

    def __init__(self, program: Requester) -> None:
        super().__init__("solution")
        self.__dict__["_remote"] = program

    def __getattr__(self, name: str) -> Any:
        program: Requester = self.__dict__["_remote"]
        if name == "__all__":
            return program.request("public")
        if name.startswith("__"):
            raise AttributeError(f"module 'solution' has no attribute {name!r}", name=name, obj=self)
        found = program.look_up([name])[name]
        if not found:
            raise AttributeError(f"module 'solution' has no attribute {name!r}", name=name, obj=self)
        return found[0]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self.__dict__["_remote"].request("set_name", name, value)

    def __delattr__(self, name: str) -> None:
        self.__dict__["_remote"].request("delete_name", name)
