"""Have no array of the program without items equal anything that has items: numpy broadcasts it to nothing.

If the shape of `empty` is (0, 1), `numpy.allclose(empty, expected)` is true, and so are `(empty == expected).all()` and
`norm(empty - expected) < 1e-9`. So in the judge such an array is of a class of its own, which refuses these operations
with anything that has items, and numpy's comparisons refuse lists that hold nothing but such arrays.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from trl_grpo_ext.sandbox.inside.crossing.containers import CONTAINERS, SUBCLASSES, Container
from trl_grpo_ext.sandbox.inside.handle import Stub

# Refused with any operand that has items, a number among them.
_WITH_ANYTHING = frozenset({"equal", "not_equal", "subtract"})
# Refused with an array that has items. Whether all of no items are above 0 is for the test to ask.
_WITH_ARRAYS = frozenset({"less", "less_equal", "greater", "greater_equal"})
_COMPARING = ("allclose", "isclose", "array_equiv")
_ASSERTING = (
    "assert_allclose",
    "assert_almost_equal",
    "assert_array_almost_equal",
    "assert_array_equal",
    "assert_array_less",
)
_CONVERTING = ("array", "asarray", "asanyarray")
_DEEP = 4
"""How deep a list is searched for arrays of the program."""


def guard_empty_arrays(text: str) -> None:
    """Guard arrays of the program without items, and the comparisons of numpy if the tests' text names numpy."""
    CONTAINERS["ndarray"] = Container(_reading(CONTAINERS["ndarray"].empty), CONTAINERS["ndarray"].head)
    if "numpy" not in text or find_spec("numpy") is None:
        return
    numpy = importlib.import_module("numpy")
    _wrap(numpy, _COMPARING, _comparing)
    _wrap(numpy, _CONVERTING, _converting)
    # It is slow to import.
    if "testing" in text:
        _wrap(importlib.import_module("numpy.testing"), _ASSERTING, _comparing)


def _wrap(module: ModuleType, names: tuple[str, ...], wrapping: Callable[[Any], Any]) -> None:
    for name in names:
        own = getattr(module, name)
        setattr(module, name, functools.wraps(own)(wrapping(own)))


def _reading(empty: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap what makes an array that the program sends: one without items is marked."""

    def read(head: Any) -> Any:
        return _marked(empty(head))

    return read


def _marked(array: Any) -> Any:
    """Give an array without items the class that is guarded."""
    return array.view(_empty_array()) if array.size == 0 else array


def _comparing(own: Callable[..., Any]) -> Callable[..., Any]:
    def compare(one: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        # Passed on as they are read here: an object of the program may answer otherwise the next time.
        pair = [_read(one), _read(other)]
        if _is_empty(pair[0]) is not _is_empty(pair[1]):
            raise _refusal()
        return own(*pair, *args, **kwargs)

    return compare


def _read(value: Any) -> Any:
    """Read a list, or an object of the program with items, as numpy's comparisons do."""
    is_list = isinstance(value, list | tuple) or (isinstance(value, Stub) and hasattr(type(value), "__len__"))
    return importlib.import_module("numpy").asanyarray(value) if is_list else value


def _converting(own: Callable[..., Any]) -> Callable[..., Any]:
    def convert(value: Any, *args: Any, **kwargs: Any) -> Any:
        array = own(value, *args, **kwargs)
        return _marked(array) if _holds_empty(value) else array

    return convert


def _holds_empty(value: Any, depth: int = _DEEP) -> bool:
    """Test if a value is or holds an empty array of the program, or an object of the program, which may hold one."""
    if isinstance(value, list | tuple):
        return depth > 0 and any(_holds_empty(each, depth - 1) for each in value)
    return type(value) in SUBCLASSES or isinstance(value, Stub)


def _is_empty(value: Any) -> bool:
    """Test if a value has no items; a number has one."""
    if isinstance(value, list | tuple):
        return not value
    return getattr(value, "size", 1) == 0


def _refusal() -> AssertionError:
    # No ValueError, as of shapes that do not fit: a test may expect one of the program.
    return AssertionError("an array without items is compared with something that has items")


@functools.cache
def _empty_array() -> Any:
    """Make the class of arrays without items, which takes numpy."""
    ndarray: Any = importlib.import_module("numpy").ndarray

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        return value.view(ndarray) if type(value) in SUBCLASSES else value

    def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        others = [each for each in inputs if not _is_empty(each)]
        if len(inputs) > len(others) > 0 and _is_refused(ufunc.__name__, others):
            raise _refusal()
        named = {name: plain(value) for name, value in kwargs.items()}
        found = getattr(ufunc, method)(*map(plain, inputs), **named)
        return _marked(found) if type(found) is ndarray else found

    members = {"__array_ufunc__": array_ufunc, "__repr__": lambda self: repr(plain(self)), "__module__": "numpy"}
    made = type("ndarray", (ndarray,), members)
    SUBCLASSES.add(made)
    return made


def _is_refused(operation: str, others: list[Any]) -> bool:
    """Test if an operation of an array without items is refused with these operands, which have items."""
    is_array = any(isinstance(each, list | tuple) or getattr(each, "ndim", 0) for each in others)
    return operation in _WITH_ANYTHING or (operation in _WITH_ARRAYS and is_array)
