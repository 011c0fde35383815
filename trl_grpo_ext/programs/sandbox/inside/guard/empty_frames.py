"""Prevent the program's empty frames from equalling nonempty values, as `empty_arrays` does for arrays.

`(frame == 1).all().all()` is true for a frame without rows, and so is `(frame.values == wanted.values).all()` if
`wanted` has a single row. In the judge, pandas' comparisons and differences therefore refuse an empty and a nonempty
operand together, and an empty frame gives arrays of the guarded class. This holds for what the tests ask: pandas
itself and other libraries compare as ever.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.guard.empty_arrays import (
    as_array,
    guarded,
    is_called_by_tests,
    is_empty,
    is_refused,
    refusal,
)
from trl_grpo_ext.programs.sandbox.inside.handle import Stub

_OPERATIONS = {
    "not_equal": "__ne__ ne",
    "equal": "__eq__ eq",
    "subtract": "__sub__ __rsub__ sub rsub subtract",
    "logical_xor": "__xor__ __rxor__",
    "less": "__lt__ lt __gt__ gt __le__ le __ge__ ge",
}
"""Names of numpy's operations, and of the methods of pandas that do the same."""
_CLASSES = (
    "DataFrame",
    "Series",
    "Index",
    "RangeIndex",
    "MultiIndex",
    "CategoricalIndex",
    "DatetimeIndex",
    "TimedeltaIndex",
)


def guard_empty_frames(text: str) -> None:
    """Guard pandas if the tests' text mentions it; otherwise it is guarded when the program sends a frame."""
    if "pandas" in text and find_spec("pandas") is not None:
        _guard()


def after_guard(own: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a constructor of pandas' objects: its first call guards pandas."""

    def make(*parts: Any) -> Any:
        _guard()
        return own(*parts)

    return make


@functools.cache
def _guard() -> None:
    """Guard methods of pandas' classes, once; this imports pandas."""
    pandas = importlib.import_module("pandas")
    for kind in (getattr(pandas, name) for name in _CLASSES):
        # What a class of indexes inherits from another one is guarded there.
        is_first = not issubclass(kind, pandas.Index) or kind is pandas.Index
        for operation, names in _OPERATIONS.items():
            for name in names.split():
                if name in vars(kind) or (is_first and hasattr(kind, name)):
                    setattr(kind, name, _comparing(operation, getattr(kind, name)))
        for name in ("values", "to_numpy", "__array__"):
            if name in vars(kind) or (is_first and hasattr(kind, name)):
                setattr(kind, name, _giving(getattr(kind, name)))


def _comparing(operation: str, own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def compare(self: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_called_by_tests():
            return own(self, other, *args, **kwargs)
        array = as_array(other)
        if is_empty(self) is not is_empty(array):
            others = [array if is_empty(self) else self]
            if is_refused(operation, others):
                raise refusal()
        # A program's object may answer differently when read again.
        return own(self, array if isinstance(other, Stub) else other, *args, **kwargs)

    return compare


def _giving(own: Any) -> Any:
    get: Callable[..., Any] = getattr(own, "fget", own)

    @functools.wraps(get)
    def give(self: Any, *args: Any, **kwargs: Any) -> Any:
        array = get(self, *args, **kwargs)
        is_array = type(array) is importlib.import_module("numpy").ndarray
        return (
            guarded(array)
            if is_array and is_empty(array) and is_called_by_tests()
            else array
        )

    return property(give) if isinstance(own, property) else give
