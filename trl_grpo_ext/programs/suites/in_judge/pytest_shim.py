"""Stand-in for pytest inside the judge, which has only the standard library; `pytest_runner` runs tests with it.

The source is sent to the judge as text. `test_module` refuses tests that need missing parts of pytest. Fixtures of
every scope are made anew for each test.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, ValuesView
from decimal import Decimal
from numbers import Complex
from typing import Any

Function = Callable[..., Any]


class Failed(AssertionError):  # noqa: N818  (pytest's name)
    """Raised by `pytest.fail`, and by `pytest.raises` if no exception occurs."""


class Skipped(AssertionError):  # noqa: N818  (pytest's name)
    """Raised by a test that skips itself; the judge decides whether it may, since a program could be the cause."""


def fail(reason: str = "", pytrace: bool = True, msg: str = "") -> None:
    raise Failed(reason or msg or "pytest.fail()")


def skip(reason: str = "", *, allow_module_level: bool = False, msg: str = "") -> None:
    raise Skipped(reason or msg or "pytest.skip()")


def xfail(reason: str = "") -> None:
    raise Skipped(reason or "pytest.xfail()")


fail.Exception = Failed  # type: ignore[attr-defined]
skip.Exception = Skipped  # type: ignore[attr-defined]


def importorskip(
    modname: str, minversion: str | None = None, reason: str | None = None
) -> Any:
    try:
        return importlib.import_module(modname)
    except ImportError as error:
        raise Skipped(reason or f"there is no module {modname}") from error


class _Raises:
    def __init__(self, expected: Any, match: str | re.Pattern[str] | None) -> None:
        self.expected, self.pattern = expected, match
        kinds = expected if isinstance(expected, tuple) else (expected,)
        if any(
            not isinstance(kind, type) or not issubclass(kind, BaseException)
            for kind in kinds
        ):
            raise TypeError(f"pytest.raises expects exception classes, got {expected!r}")
        self.value: Any = None
        self.type: Any = None

    def __enter__(self) -> _Raises:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, _: Any
    ) -> bool:
        if kind is None:
            raise Failed(f"did not raise {self.expected!r}")
        if not issubclass(kind, self.expected):
            return False
        self.value, self.type = value, kind
        return self.pattern is None or self.match(self.pattern)

    @property
    def typename(self) -> str:
        return str(self.type.__name__)

    @property
    def tb(self) -> types.TracebackType | None:
        return None if self.value is None else self.value.__traceback__

    def errisinstance(self, exc: Any) -> bool:
        return isinstance(self.value, exc)

    def match(self, regexp: str | re.Pattern[str]) -> bool:
        if not re.search(regexp, str(self.value)):
            raise Failed(f"{regexp!r} does not match {str(self.value)[:200]!r}")
        return True


def raises(
    expected_exception: Any,
    *args: Any,
    match: str | re.Pattern[str] | None = None,
    **kwargs: Any,
) -> _Raises:
    context = _Raises(expected_exception, match)
    if args:
        with context:
            args[0](*args[1:], **kwargs)
    return context


class warns:  # noqa: N801  (pytest's name)
    """Records warnings of a block; fails unless a warning matches."""

    def __init__(
        self, expected_warning: Any = Warning, *, match: str | None = None
    ) -> None:
        self.expected, self.pattern = expected_warning, match
        self.list: list[Any] = []
        self._recording = warnings.catch_warnings(record=True)

    def __enter__(self) -> warns:
        recorded = self._recording.__enter__()
        assert recorded is not None
        self.list = recorded
        warnings.simplefilter("always")
        return self

    def __exit__(self, *raised: Any) -> None:
        self._recording.__exit__(*raised)
        if raised[0] is not None:
            return
        for each in self.list:
            is_expected = issubclass(each.category, self.expected)
            if is_expected and re.search(self.pattern or "", str(each.message)):
                return
        raise Failed(f"no warning of {self.expected!r} matches {self.pattern!r}")

    def pop(self, cls: type[Warning] = Warning) -> Any:
        """Remove the first recorded warning of a class, and return it."""
        for place, each in enumerate(self.list):
            if issubclass(each.category, cls):
                return self.list.pop(place)
        raise AssertionError(f"{cls!r} not found in warning list")

    def clear(self) -> None:
        self.list.clear()

    def __len__(self) -> int:
        return len(self.list)

    def __getitem__(self, place: int) -> Any:
        return self.list[place]


# The sequences that compare item by item.
_ORDERED = (list, tuple, deque, range, ValuesView)


def _is_array(value: Any) -> bool:
    """Recognize a numpy array; without an import of numpy, no array exists."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ()))


def _is_bool(value: Any) -> bool:
    return isinstance(value, (bool, getattr(sys.modules.get("numpy"), "bool_", bool)))


class approx:  # noqa: N801  (pytest's name)
    """Compares a number, or a list, tuple, dict or numpy array of numbers, within a tolerance."""

    __hash__ = None  # type: ignore[assignment]
    # Without these, numpy compares each item of an array with the approx, and returns an array.
    __array_ufunc__ = None
    __array_priority__ = 100

    def __init__(
        self,
        expected: Any,
        rel: float | None = None,
        abs: Any = None,  # noqa: A002
        nan_ok: bool = False,
    ) -> None:
        self.expected, self.nan_ok = expected, nan_ok
        self.abs = 1e-12 if abs is None else abs
        if rel is None:
            rel = 1e-6 if abs is None else 0.0
        self.rel = rel

    def __eq__(self, actual: object) -> bool:
        return self._same(self.expected, actual)

    def __repr__(self) -> str:
        return f"approx({self.expected!r})"

    def _same(self, expected: Any, actual: Any) -> bool:
        if isinstance(expected, Mapping):
            return self._same_items(expected, actual)
        if _is_array(expected):
            return self._same_as_array(expected, actual)
        if isinstance(expected, _ORDERED):
            is_ordered = isinstance(actual, _ORDERED) or (
                _is_array(actual) and actual.ndim > 0
            )
            return (
                is_ordered
                and len(expected) == len(actual)
                and all(map(self._same, expected, actual))
            )
        if _is_array(actual):
            # pytest takes an array without items to be close to any number.
            return actual.size > 0 and all(
                self._close(expected, item) for item in actual.ravel().tolist()
            )
        return self._close(expected, actual)

    def _same_items(self, expected: Mapping[Any, Any], actual: Any) -> bool:
        if not isinstance(actual, Mapping) or expected.keys() != actual.keys():
            return False
        return all(self._same(value, actual[key]) for key, value in expected.items())

    def _same_as_array(self, expected: Any, actual: Any) -> bool:
        """Compare a value with an expected array item by item; compare a number with every item."""
        if isinstance(actual, Complex):
            return expected.size > 0 and all(
                self._close(item, actual) for item in expected.ravel().tolist()
            )
        if _is_array(actual):
            return actual.shape == expected.shape and self._same(
                expected.tolist(), actual.tolist()
            )
        return self._same(expected.tolist(), actual)

    def _close(self, expected: Any, actual: Any) -> bool:
        try:
            # As in pytest, `approx(True)` equals no number, although `True == 1`.
            if _is_bool(expected) and not _is_bool(actual):
                return False
            if expected == actual:
                return True
            if _is_bool(expected):
                return False
            if not isinstance(actual, Complex | Decimal) and type(actual) is not type(
                expected
            ):
                return False
            are_nan = [math.isnan(abs(expected)), math.isnan(abs(actual))]
            if any(are_nan):
                return self.nan_ok and all(are_nan)
            if math.isinf(abs(expected)):
                return False
            # As in pytest, a Decimal compares only with a Decimal, in decimal arithmetic.
            at_most: Any = self.abs
            share: Any = self.rel
            if isinstance(expected, Decimal):
                at_most = Decimal(str(at_most))
                share = Decimal(str(share))
            difference = abs(expected - actual)
            return bool(difference <= max(at_most, share * abs(expected)))
        except (TypeError, ValueError, OverflowError):
            return False


class param:  # noqa: N801  (pytest's name)
    """A row of `parametrize` with values and marks; only skip marks have an effect, and row ids have none."""

    def __init__(self, *values: Any, marks: Any = (), **_: Any) -> None:
        self.values, self.marks = values, marks


class _Skip:
    """A mark that leaves out a test, a class, a module or a row of `parametrize`, if its condition holds."""

    def __init__(self, reason: str, is_met: bool = True) -> None:
        self.reason, self.is_met = reason, is_met

    def __call__(self, target: Any) -> Any:
        if self.is_met:
            target.__skipped__ = self.reason
        return target


def _is_met(conditions: Iterable[Any]) -> bool:
    """Test if a condition of `skipif` or `xfail` holds; a text stands in the tests, and pytest too evaluates it."""
    for condition in conditions:
        if isinstance(condition, str):
            modules = {name: importlib.import_module(name) for name in ("sys", "os")}
            condition = eval(condition, modules)  # noqa: PLW2901
        if condition:
            return True
    return False


def skip_reason(marks: Any) -> str:
    """Return why marks leave a test out; empty if they do not."""
    for mark in marks if type(marks) in (list, tuple) else [marks]:
        # `marks=pytest.mark.skip`, which nobody has called
        if type(mark) is types.MethodType and mark.__self__ is globals()["mark"]:
            mark = mark()  # noqa: PLW2901
        if type(mark) is _Skip and mark.is_met:
            return mark.reason
    return ""


class _Marks:
    """Stand-in for `pytest.mark`; an expected failure is left out, and other marks have no effect."""

    def parametrize(
        self, argnames: str | Iterable[str], argvalues: Iterable[Any], **_: Any
    ) -> Function:
        listed = argnames.split(",") if isinstance(argnames, str) else argnames
        names = [name.strip() for name in listed if name.strip()]
        rows = [_row(names, values) for values in argvalues]

        def mark(target: Any) -> Any:
            target.__rows__ = [rows, *getattr(target, "__rows__", [])]
            return target

        return mark

    def skip(self, target: Any = None, *, reason: str = "") -> Any:
        if callable(target):
            return _Skip("skip")(target)
        return _Skip(reason or target or "skip")

    def skipif(self, *conditions: Any, condition: Any = False, reason: str = "") -> Any:
        return _Skip(reason or "skipif", _is_met((*conditions, condition)))

    def xfail(
        self, *conditions: Any, condition: Any = False, reason: str = "", **_: Any
    ) -> Any:
        if conditions and callable(conditions[0]):
            return _Skip("xfail")(conditions[0])
        is_bare = not conditions and condition is False
        return _Skip(reason or "xfail", is_bare or _is_met((*conditions, condition)))

    def __getattr__(self, name: str) -> Function:
        def mark(*args: Any, **kwargs: Any) -> Any:
            is_bare = len(args) == 1 and callable(args[0]) and not kwargs
            return args[0] if is_bare else lambda target: target

        return mark


mark = _Marks()


def _row(names: list[str], values: Any) -> dict[str, Any]:
    reason = ""
    if isinstance(values, param):
        reason = skip_reason(values.marks)
        values = values.values
    elif len(names) == 1:
        values = (values,)
    row = dict(zip(names, values, strict=True))
    if reason:
        row["__skipped__"] = reason
    return row


def fixture(
    function: Function | None = None,
    *,
    name: str | None = None,
    autouse: bool = False,
    **_: Any,
) -> Any:
    def make(target: Any) -> Any:
        target.__fixture__ = (name or target.__name__, autouse)
        return target

    return make if function is None else make(function)


yield_fixture = fixture


class Fixtures:
    """The fixtures of one test: made on demand, and torn down in reverse order."""

    def __init__(self, namespace: dict[str, Any], instance: Any) -> None:
        members = []
        if instance is not None:
            members = [getattr(instance, name) for name in dir(instance)]
        # Name -> the function that makes the fixture; the tests' own replace pytest's.
        self.makers: dict[str, Any] = {**globals().get("BUILTIN_FIXTURES", {})}
        self.autouse: list[str] = []
        for value in [*namespace.values(), *members]:
            label = _label(value)
            if isinstance(label, tuple):
                name, is_autouse = label
                self.makers[name] = value
                if is_autouse:
                    self.autouse.append(name)
        self.values: dict[str, Any] = {}
        self.opened: list[Iterator[Any]] = []

    def value(self, name: str) -> Any:
        if name not in self.values:
            if name not in self.makers:
                raise NameError(f"there is no fixture {name!r} in the sandbox")
            made = self.call(self.makers[name], {})
            # Only a generator function has a teardown; a generator returned by a plain function is the fixture's value.
            if inspect.isgeneratorfunction(self.makers[name]):
                self.opened.append(made)
                made = next(made)
            self.values[name] = made
        return self.values[name]

    def call(self, function: Function, given: Mapping[str, Any]) -> Any:
        # `unittest.mock.patch` passes its mocks as the first arguments, `patch.multiple` by their names.
        by_place = 0
        by_name = set()
        for outer in getattr(function, "patchings", ()):
            for patch in (outer, *outer.additional_patchers):
                if patch.attribute_name:
                    by_name.add(patch.attribute_name)
                elif repr(patch.new) == "sentinel.DEFAULT":
                    by_place += 1
        wanted = [*given]
        for parameter in [*inspect.signature(function).parameters.values()][by_place:]:
            is_variable = parameter.kind in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            )
            is_needed = parameter.default is parameter.empty and not is_variable
            if is_needed and parameter.name not in by_name and parameter.name not in given:
                wanted.append(parameter.name)
        arguments = {
            name: given[name] if name in given else self.value(name) for name in wanted
        }
        result = function(**arguments)
        # An exact type check: the stand-in of a program's object may claim to be a coroutine.
        if type(result) is types.CoroutineType:
            # `asyncio` is slow to import, and seldom needed.
            return importlib.import_module("asyncio").run(result)
        return result

    def close(self) -> None:
        for opened in reversed(self.opened):
            next(opened, None)


def _label(value: Any) -> Any:
    # `getattr` would ask the stand-in of a solution's object, which could answer with a forged label.
    function = getattr(value, "__func__", value) if inspect.isroutine(value) else None
    return function.__dict__.get("__fixture__") if inspect.isfunction(function) else None
