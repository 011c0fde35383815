"""Check and perform the program's uses of test objects, in the judge.

When a test passes an object to the program, such as a fake clock, a `Mock` or a `StringIO`, the program gets a stand-in
for it, and each use of the stand-in is a request to this module. Requests are hostile until checked. An attribute whose
name begins with an underscore would lead to the tests' code and to expected values, and a replaced method, or a mock's
own method, would answer for the program: such requests fail with an exception in the program.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from functools import cache, partial
from types import FunctionType, MethodType
from typing import Any

from trl_grpo_ext.sandbox.inside.contained import holds_stand_in
from trl_grpo_ext.sandbox.inside.crossing.awaiting import Tasks
from trl_grpo_ext.sandbox.inside.crossing.binding import has_tests, store
from trl_grpo_ext.sandbox.inside.crossing.classes import ALL, BINDING, DATA_CLASS
from trl_grpo_ext.sandbox.inside.crossing.values import of_module
from trl_grpo_ext.sandbox.inside.handle import Stub
from trl_grpo_ext.sandbox.inside.remote_class import RemoteClass

tasks = Tasks()

_OF_PARTIALS = frozenset({"func", "args", "keywords"})


def is_data_class(kind: type) -> bool:
    """Return whether a class of the tests holds only data.

    Its objects then cross to the program as copies of their attributes, not as stand-ins.
    """
    if kind.__module__ != "tests":
        return False
    bases = [base for base in kind.__mro__ if base is not object]
    by_itself = "__dataclass_fields__" in vars(kind)
    behaviour = DATA_CLASS if by_itself else DATA_CLASS - {"__eq__", "__hash__"}
    return all(base.__module__ == "tests" and _is_data(base, behaviour) for base in bases)


def _is_data(kind: type, allowed: frozenset[str]) -> bool:
    slots = vars(kind).get("__slots__", ())
    fields = {*vars(kind).get("__dataclass_fields__", ()), *([slots] if isinstance(slots, str) else slots)}
    return all(
        name in allowed or name in fields or (name == "__hash__" and value is None)
        for name, value in vars(kind).items()
    )


def specials_of(value: Any) -> list[str]:
    """List special methods of an object's class that differ from those of `object`."""
    kind, plain = type(value), vars(object)
    found = ((name, getattr(kind, name, None)) for name in ALL)
    own = (name for name, method in found if method is not None and method is not plain.get(name))
    # A function binds without a word to the judge, and a method is bound already.
    binding = () if isinstance(value, FunctionType | MethodType | type) else BINDING
    return sorted([*own, *(name for name in binding if hasattr(kind, name))])


def _checked_name(target: Any, name: Any) -> str:
    _check_no_tests(target)
    if type(name) is not str or name.startswith("_") or name in _of_mocks(target):
        raise AttributeError(f"{type(target).__name__!r} object has no attribute {name!r}", name=str(name))
    return name


def _check_no_tests(target: Any) -> None:
    """Refuse uses of a test class, which contains expected values.

    A decorator of the program may receive such a class; it may only pass the class on.

    Raises:
        TypeError: if `target` is a unittest test case or a class with a method named `test_...`.
    """
    if has_tests(target):
        raise TypeError(f"the program may only pass on {target.__name__!r}, which has tests")


def _check_no_accessor(target: Any) -> None:
    """Refuse to make an `operator.attrgetter` and the like: these take names that lead to the tests' code.

    Raises:
        TypeError: if `target` is such a class.
    """
    if target in (operator.attrgetter, operator.methodcaller):
        raise TypeError(f"the program may not call operator.{target.__name__} of the tests")


def _call(target: Any, /, *args: Any, **kwargs: Any) -> Any:
    _check_no_tests(target)
    _check_no_accessor(target)
    return target(*args, **kwargs)


def _of_mocks(target: Any) -> frozenset[str]:
    """Return reserved names: of mocks (`assert_called_once`), test cases (`assertEqual`) and partials.

    The arguments of a partial may be expected values.
    """
    if isinstance(target, partial):
        return _OF_PARTIALS
    if isinstance(target, of_module("unittest.case", "TestCase")):
        return frozenset(dir(sys.modules["unittest.case"].TestCase))
    return _names_of_mocks() if _is_mock(target) else frozenset()


def _is_mock(target: Any) -> bool:
    """Return whether an object is a mock or a function made by `create_autospec`, which stores its mock."""
    mock = getattr(target, "mock", None) if isinstance(target, FunctionType) else target
    return isinstance(mock, of_module("unittest.mock", "NonCallableMock"))


@cache
def _names_of_mocks() -> frozenset[str]:
    mock = sys.modules["unittest.mock"]
    return frozenset({*dir(mock.MagicMock()), *dir(mock.AsyncMock())})


def _check_no_method(target: Any, name: Any) -> None:
    """Refuse changes of behaviour: a test object's methods, and class attributes other than data.

    Raises:
        AttributeError: if `name` is hidden or names a method.
    """
    found = getattr(type(target), _checked_name(target, name), None)
    if isinstance(target, type):
        found = next((vars(kind)[name] for kind in target.__mro__ if name in vars(kind)), found)
    if callable(found) or (isinstance(target, type) and hasattr(type(found), "__get__")):
        raise AttributeError(f"the method {name!r} of a test's object is not to be replaced")


def _set(target: Any, name: Any, value: Any) -> None:
    _check_no_method(target, name)
    if _is_mock(target) and holds_stand_in(value):
        raise AttributeError(f"{name!r} of a mock is not to be an object of the program, which would answer for it")
    setattr(target, name, value)


def _delete(target: Any, name: Any) -> None:
    _check_no_method(target, name)
    delattr(target, name)


def _special(target: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
    binds = name in BINDING and args and isinstance(args[0], Stub | RemoteClass | None)
    if name not in ALL and not binds:  # a descriptor reads what it binds to, which is to be the program's
        raise AttributeError(f"{name!r} is not asked of a test's object")
    _check_no_tests(target)
    kind = type(target)
    method = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if method is None:
        raise TypeError(f"{kind.__name__!r} object has no {name}")
    # A mock stored on the class has no `__get__`, so it is called without the object.
    bind = getattr(type(method), "__get__", None)
    return (method if bind is None else bind(method, target, kind))(*args, **kwargs)


def _signature(target: Any) -> list[tuple[Any, ...]]:
    """Describe parameters of a test's function: name, kind, whether a default exists, annotation.

    An annotation is a list of one object, or an empty list. Default values stay in the judge, since they may be
    expected values.
    """
    import inspect

    if not inspect.isroutine(target):
        raise TypeError(f"{type(target).__name__!r} object has no signature")
    return [
        (one.name, int(one.kind), one.default is not one.empty, [] if one.annotation is one.empty else [one.annotation])
        for one in inspect.signature(target).parameters.values()
    ]


USES: dict[str, Callable[..., Any]] = {
    "call": _call,
    "get": lambda target, name: getattr(target, _checked_name(target, name)),
    "set": _set,
    "delete": _delete,
    "store": store,
    "special": _special,
    "signature": _signature,
    "start": tasks.start,
    "step": lambda _, number: tasks.step(number),
    "cancel": lambda _, number: tasks.cancel(number),
}
"""Uses of test objects that the program may request, by name; the first argument is the test object."""
