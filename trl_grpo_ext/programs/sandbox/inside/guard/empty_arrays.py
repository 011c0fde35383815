"""Prevent the program's empty arrays and lists from equalling nonempty values: numpy broadcasts them to nothing.

If `empty` has the shape (0, 1), `numpy.allclose(empty, expected)` is true, and so are `(empty == expected).all()` and
`norm(empty - expected) < 1e-9`; if `expected` has one item, so are they for an empty list or `range(0)`. In the judge,
the program's empty arrays and all arrays of the tests therefore have a class of their own, which refuses these
operations between an empty and a nonempty operand. numpy's comparison functions refuse them too. Whatever numpy takes
for an array counts as one, including an object or a class of the program.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.containers import SUBCLASSES
from trl_grpo_ext.programs.sandbox.inside.handle import Stub
from trl_grpo_ext.programs.sandbox.inside.remote_class import RemoteClass

# Refused with any nonempty operand; a number counts as nonempty.
_WITH_ANYTHING = frozenset({"bitwise_xor", "equal", "logical_xor", "not_equal", "subtract"})
# Refused with a nonempty array only: a test may ask whether all items of an empty array are above 0.
_WITH_ARRAYS = frozenset({"less", "less_equal", "greater", "greater_equal"})
_COMPARING = ("allclose", "isclose", "array_equiv")
_ASSERTING = (
    "assert_allclose",
    "assert_almost_equal",
    "assert_array_almost_equal",
    "assert_array_equal",
    "assert_array_less",
)
# Always guarded, since libraries that the tests use may convert an array of the program.
_CONVERTING = ("array", "asarray", "asanyarray")
_DEEP = 4
"""Depth to which nested lists are searched for arrays of the program."""


def guard_empty_arrays(text: str) -> None:
    """Guard numpy's comparison functions if the tests' text mentions numpy."""
    if "numpy" not in text or find_spec("numpy") is None:
        return
    numpy = importlib.import_module("numpy")
    _wrap(numpy, _COMPARING, _comparing)
    _wrap(numpy, [*_CONVERTING, *_functions_named_in(text, numpy)], _converting)
    _wrap(numpy, sorted(_WITH_ANYTHING | _WITH_ARRAYS), _operating)
    # `numpy.testing` is slow to import.
    if "testing" in text:
        _wrap(importlib.import_module("numpy.testing"), _ASSERTING, _comparing)


def _functions_named_in(text: str, numpy: Any) -> list[str]:
    """List numpy functions named in the tests' text, without functions already guarded.

    Classes and ufuncs have attributes that a guard would hide.
    """
    words = set(re.findall(r"\.(\w+)", text)).difference(_CONVERTING, _COMPARING)
    found = []
    for word in words:
        function = vars(numpy).get(word)
        if callable(function) and not isinstance(function, type | numpy.ufunc):
            found.append(word)
    return found


def _wrap(module: ModuleType, names: Sequence[str], wrapping: Callable[[Any], Any]) -> None:
    for name in names:
        own = getattr(module, name)
        wrapped = functools.wraps(own)(wrapping(own))
        # The methods of a ufunc, such as `outer`.
        for each in dir(own):
            if not each.startswith("_"):
                setattr(wrapped, each, getattr(own, each))
        setattr(module, name, wrapped)


def guarding_empty(empty: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap the constructor of arrays sent by the program, so that empty arrays get the guarded class."""

    def made(head: Any) -> Any:
        array = empty(head)
        return guarded(array) if array.size == 0 else array

    return made


def guarded(array: Any) -> Any:
    """Return a view of an array with the guarded class."""
    return array.view(_guarded_array())


def _comparing(own: Callable[..., Any]) -> Callable[..., Any]:
    signature = importlib.import_module("inspect").signature(own)
    compared = list(signature.parameters)[:2]

    def compare(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        # The values read here are passed on: a program's object may answer differently when read again.
        for name in compared:
            given.arguments[name] = as_array(given.arguments[name])
        one, other = (given.arguments[name] for name in compared)
        if is_empty(one) is not is_empty(other):
            raise refusal()
        return own(*given.args, **given.kwargs)

    return compare


def _operating(own: Callable[..., Any]) -> Callable[..., Any]:
    def operate(*args: Any, **kwargs: Any) -> Any:
        if not is_called_by_tests():
            return own(*args, **kwargs)
        read = map(as_array, args)
        return own(*[guarded(each) if is_empty(each) else each for each in read], **kwargs)

    return operate


def as_array(value: Any) -> Any:
    """Convert a value to an array, as numpy does before comparing; numbers and other single values stay."""
    array = importlib.import_module("numpy").asanyarray(value)
    # An object of the program may answer differently when numpy reads it again.
    is_single = array.ndim == 0 and not isinstance(value, Stub | RemoteClass)
    return value if is_single else array


def _converting(own: Callable[..., Any]) -> Callable[..., Any]:
    def convert(*args: Any, **kwargs: Any) -> Any:
        array = own(*args, **kwargs)
        if type(array) is not importlib.import_module("numpy").ndarray:
            return array
        if is_called_by_tests() or _holds_guarded([*args, *kwargs.values()]):
            return guarded(array)
        return array

    return convert


def _holds_guarded(value: Any, depth: int = _DEEP) -> bool:
    """Test if a value holds guarded arrays or program objects, which may hold guarded arrays."""
    if isinstance(value, list | tuple):
        return depth > 0 and any(_holds_guarded(each, depth - 1) for each in value)
    return type(value) in SUBCLASSES or isinstance(value, Stub)


def is_called_by_tests() -> bool:
    """Test if tests call a guarded function: libraries that they use have empty arrays of their own."""
    # Frame 0 is this function, frame 1 the guard, frame 2 the guard's caller.
    return sys._getframe(2).f_globals.get("__name__") == "tests"


def is_empty(value: Any) -> bool:
    """Test if a value converted by `as_array` is an array without items."""
    return bool(getattr(value, "size", 1) == 0)


def refusal() -> AssertionError:
    """Return the error that an operation of empty and nonempty operands ends with."""
    # Not a ValueError, as numpy raises for mismatched shapes: a test may expect the program to raise ValueError.
    return AssertionError(
        "an array or frame without items is compared with something that has items"
    )


@functools.cache
def _guarded_array() -> Any:
    """Create the guarded class of arrays, once; this imports numpy."""
    ndarray: Any = importlib.import_module("numpy").ndarray

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        if type(value) in SUBCLASSES:
            return value.view(ndarray)
        return value

    def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        inputs = tuple(map(as_array, inputs))
        others = [each for each in inputs if not is_empty(each)]
        # Some operands are empty, and some are not.
        if len(inputs) > len(others) > 0 and is_refused(ufunc.__name__, others):
            raise refusal()
        named = {name: plain(value) for name, value in kwargs.items()}
        found = getattr(ufunc, method)(*map(plain, inputs), **named)
        # `array += 1` names the array itself as the place of the result.
        places: Any = kwargs.get("out") or ()
        if len(places) == 1:
            return places[0]
        # The result is guarded too: a test may compare it next, as in `norm(empty - expected) < 1e-9`.
        if type(found) is ndarray:
            return guarded(found)
        return found

    members = {
        "__array_ufunc__": array_ufunc,
        "__repr__": lambda self: repr(plain(self)),
        "__module__": "numpy",
    }
    made = type("ndarray", (ndarray,), members)
    SUBCLASSES.add(made)
    return made


def is_refused(operation: str, others: list[Any]) -> bool:
    """Test if an empty array refuses an operation with these nonempty operands."""
    is_array = any(getattr(each, "ndim", 0) for each in others)
    return operation in _WITH_ANYTHING or (operation in _WITH_ARRAYS and is_array)
