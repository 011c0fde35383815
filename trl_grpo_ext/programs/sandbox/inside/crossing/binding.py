"""Descriptors of the program in classes of the tests, as in `price = Positive()`.

A descriptor receives the test's object, which may hold expected values. The program therefore gets a token in place of
the object. It can store attributes in the token, and pass the token to functions of the tests, which get the object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.values import of_module


class Token:
    """A token in place of a test object or class; its contents stay in the judge."""

    __slots__ = ("_whole",)

    def __init__(self, whole: Any) -> None:
        self._whole = whole


# Tokens keep their objects alive, so an `id` always means the same object.
_tokens: dict[int, Token] = {}


def whole(value: Any) -> Any:
    """Return a token's object; return any other value unchanged."""
    return value._whole if type(value) is Token else value


def gets_whole(target: Any) -> bool:
    """Return whether tokens among the arguments of a call become their objects.

    They do for functions and classes of the tests, for mocks, and for methods of a list or dict, such as `seen.append`.
    They do not for functions of Python's library: `dataclasses.asdict` would return the object's contents.
    """
    function = target.__func__ if isinstance(target, MethodType) else target
    if isinstance(function, FunctionType):
        return function.__globals__.get("__name__") == "tests"
    if isinstance(target, BuiltinFunctionType):
        return isinstance(target.__self__, list | dict | set | deque)
    kind = target if isinstance(target, type) else type(target)
    return kind.__module__ == "tests" or isinstance(
        target, of_module("unittest.mock", "NonCallableMock")
    )


def described(token: Token) -> tuple[str, str | None]:
    """Return an object's class name and None; for a class, `type` and the class's name."""
    value = token._whole
    if isinstance(value, type):
        return "type", value.__name__
    return type(value).__name__, None


def has_tests(kind: Any) -> bool:
    """Return whether a class of the tests contains tests, and with them expected values."""
    if not isinstance(kind, type) or kind.__module__ != "tests":
        return False
    return issubclass(kind, of_module("unittest.case", "TestCase")) or any(
        name[:5] == "test_" for name in dir(kind)
    )


def store(token: Any, name: Any, *values: Any) -> None:
    """Store the value that a descriptor computed in the token's object, under the descriptor's own name.

    The descriptor may have no `__set__`, as a cached property. The program can change no other attribute. Without a
    value, delete the stored value.
    """
    if type(token) is not Token:
        return
    value = whole(token)
    # A class has no attribute of its own to store in.
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return
    found = None
    for base in type(value).__mro__:
        if name in vars(base):
            found = vars(base)[name]
            break
    if not _is_of_program(found) or hasattr(type(found), "__set__"):
        return
    vars(value).pop(name, None)
    if values:
        vars(value)[name] = values[0]


def _is_of_program(value: Any) -> bool:
    return hasattr(type(value), "_remote_class") or hasattr(type(value), "_remote_state")


def _token(value: Any) -> Any:
    if value is None or _is_of_program(value):
        return value
    return _tokens.setdefault(id(value), Token(value))


def _get(self: Any, instance: Any, owner: Any = None) -> Any:
    # The program gets no token of a test case, which holds expected values.
    if has_tests(owner):
        return self
    return self._remote_state.remote.request(
        "special", self, "__get__", _token(instance), _token(owner)
    )


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
    # The program creates a class derived from its own classes itself, and calls `__set_name__` there.
    if not (has_tests(owner) or _is_of_program(owner)):
        self._remote_state.remote.request(
            "special", self, "__set_name__", _token(owner), name
        )


DESCRIPTOR: dict[str, Callable[..., Any]] = {
    "__get__": _get,
    "__set__": _set,
    "__delete__": _delete,
    "__set_name__": _set_name,
}
"""Methods of a descriptor's stand-in, each present if the descriptor has it."""
