"""Stand-ins, in the program, for objects of the tests: each use of one is a message to the judge; see `given`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import lru_cache, partial
from typing import Any

from trl_grpo_ext.sandbox.inside.crossing.awaiting import awaited
from trl_grpo_ext.sandbox.inside.crossing.specials import ALL

CallBack = Callable[[int, str, tuple[Any, ...], dict[str, Any]], Any]
"""What comes of using an object of the tests, by its number: how it is used, and the arguments."""


class TestObject:
    """An object of the tests. Its class has the special methods that the object has; see `class_with`."""

    def __init__(self, call_back: CallBack, number: int) -> None:
        put = object.__setattr__
        put(self, "_call_back", call_back)
        put(self, "_number", number)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return _use(self, "get", name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            _use(self, "set", name, value)

    def __delattr__(self, name: str) -> None:
        _use(self, "delete", name)


class TestFunction(TestObject):
    """A function of the tests."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return _use(self, "call", *args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind like a function, which it stands for."""
        return self if instance is None else lambda *args, **kwargs: self(instance, *args, **kwargs)


def _use(target: TestObject, use: str, /, *args: Any, **kwargs: Any) -> Any:
    call_back: CallBack = object.__getattribute__(target, "_call_back")
    return call_back(object.__getattribute__(target, "_number"), use, args, kwargs)


def _special(name: str) -> Callable[..., Any]:
    def method(self: TestObject, /, *args: Any, **kwargs: Any) -> Any:
        return _use(self, "special", name, *args, **kwargs)

    method.__name__ = name
    return method


def _call(self: TestObject, /, *args: Any, **kwargs: Any) -> Any:
    return _use(self, "call", *args, **kwargs)


def _await(self: TestObject) -> Generator[None, None, Any]:
    return awaited(partial(_use, self))


_OWN = {"__call__": _call, "__await__": _await}


@lru_cache(maxsize=256)
def class_with(name: str, specials: tuple[str, ...]) -> type[TestObject]:
    """A class of stand-ins with these special methods."""
    members = {each: _OWN.get(each) or _special(each) for each in specials if each in ALL}
    if "__eq__" in members and "__hash__" not in members:
        members["__hash__"] = object.__hash__
    return type(name, (TestObject,), members)
