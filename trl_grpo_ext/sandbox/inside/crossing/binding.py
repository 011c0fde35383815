"""Descriptors of the program in classes of the tests, as in `price = Positive()`.

The object that a descriptor is bound to may be a case that holds what the test expects. The program gets a token for
it: it keeps in the token what it likes, and may hand it to functions of the tests, which get the object itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from trl_grpo_ext.sandbox.inside.crossing.values import of_module

BOUND = "bound"
"""What stands in a message for the special methods of such an object, which the program does not get."""


class Token:
    """An object, or a class, of the tests that the program may not look into."""

    __slots__ = ("_whole",)

    def __init__(self, whole: Any) -> None:
        self._whole = whole


_tokens: dict[int, Token] = {}  # each keeps its object alive, so that an `id` stays the same object


def whole(value: Any) -> Any:
    """Return what a token stands for; any other object itself."""
    return value._whole if type(value) is Token else value


def gets_whole(target: Any) -> bool:
    """Return whether the program, which uses `target`, may hand it tokens for the objects that they stand for.

    A function of the tests may have them, a mock, and the methods of a list or dict, as in `seen.append`. One of the
    library, such as `dataclasses.asdict`, might tell what they hold.
    """
    function = target.__func__ if isinstance(target, MethodType) else target
    if isinstance(function, FunctionType):
        return function.__globals__.get("__name__") == "tests"
    if isinstance(target, BuiltinFunctionType):
        return isinstance(target.__self__, list | dict | set | deque)
    kind = target if isinstance(target, type) else type(target)
    return kind.__module__ == "tests" or isinstance(target, of_module("unittest.mock", "NonCallableMock"))


def described(token: Token) -> tuple[str, str | None]:
    """Return the name of an object's class; for a class, `type` and its own name."""
    value = token._whole
    return ("type", value.__name__) if isinstance(value, type) else (type(value).__name__, None)


def has_tests(kind: Any) -> bool:
    """Whether a class of the tests holds tests, and what they expect."""
    if not isinstance(kind, type) or kind.__module__ != "tests":
        return False
    return issubclass(kind, of_module("unittest.case", "TestCase")) or any(name[:5] == "test_" for name in dir(kind))


def store(token: Any, name: Any, *values: Any) -> None:
    """Keep in an object what a descriptor without `__set__` has computed for it, under the descriptor's own name.

    Nothing else of the object is the program's to change. Without a value, forget it.
    """
    value = whole(token)
    kind = value if isinstance(value, type) else type(value)
    found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if type(token) is not Token or not (_is_of_program(found) and hasattr(value, "__dict__")):
        return
    if not isinstance(value, type) and not hasattr(type(found), "__set__"):
        vars(value).pop(name, None)
        vars(value).update(dict.fromkeys([name], *values) if values else {})


def _is_of_program(value: Any) -> bool:
    return hasattr(type(value), "_remote_class") or hasattr(type(value), "_remote_state")


def _token(value: Any) -> Any:
    if value is None or _is_of_program(value):
        return value
    return _tokens.setdefault(id(value), Token(value))


def _get(self: Any, instance: Any, owner: Any = None) -> Any:
    if has_tests(owner):
        return self
    return self._remote_state.remote.request("special", self, "__get__", _token(instance), _token(owner))


def _set(self: Any, instance: Any, value: Any) -> None:
    _check(instance)
    self._remote_state.remote.request("special", self, "__set__", _token(instance), value)


def _delete(self: Any, instance: Any) -> None:
    _check(instance)
    self._remote_state.remote.request("special", self, "__delete__", _token(instance))


def _check(instance: Any) -> None:
    if has_tests(type(instance)):
        raise AttributeError("an object of the program is not bound to a case of tests")


def _set_name(self: Any, owner: Any, name: str) -> None:
    if not (has_tests(owner) or _is_of_program(owner)):  # the program makes such a class itself, and names it there
        self._remote_state.remote.request("special", self, "__set_name__", _token(owner), name)


DESCRIPTOR: dict[str, Callable[..., Any]] = {
    "__get__": _get,
    "__set__": _set,
    "__delete__": _delete,
    "__set_name__": _set_name,
}
"""What the stand-in for a descriptor has, if the descriptor has it."""
