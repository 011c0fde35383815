"""Runs a test of a module in the judge. Its source travels there behind that of `pytest_shim`, in one namespace."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # which is in the same namespace there
    from trl_grpo_ext.rewards.unit_tests.pytest_shim import Fixtures, Skipped

Function = Callable[..., Any]

_runs: dict[str, list[bool]] = {}
"""By the name of a test under decorators: for each time that its body was run, whether it came to its end.

A decorator of the program's decides whether the test runs at all, and could try until an answer passes.
"""


def own_body(function: Function) -> Any:
    """Decorate a test below all its other decorators, so that `check_own_body` knows whether its body has run."""
    runs = _runs.setdefault(function.__name__, [])

    async def run_async(*args: Any, **kwargs: Any) -> Any:
        place = len(runs)
        runs.append(False)
        result = await function(*args, **kwargs)
        runs[place] = True
        return result

    def run(*args: Any, **kwargs: Any) -> Any:
        place = len(runs)
        runs.append(False)
        result = function(*args, **kwargs)
        runs[place] = True
        return result

    return functools.wraps(function)(run_async if inspect.iscoroutinefunction(function) else run)


def check_own_body(name: str) -> None:
    """Raise an AssertionError unless the decorators of a test have run its body, and each time to its end."""
    runs = _runs.get(name)
    if runs is not None and not (runs and all(runs)):
        raise AssertionError(f"the decorators of {name} did not run it to its end")


def run_function(namespace: dict[str, Any], name: str) -> None:
    """Run a test function, once for each combination of its parameters."""
    _run(namespace, None, namespace[name], name)


def run_method(namespace: dict[str, Any], class_name: str, name: str) -> None:
    """Run a method of a test class, in an instance of its own; of a `unittest.TestCase`, as unittest does."""
    cls = namespace[class_name]
    if any(base.__module__ == "unittest.case" and base.__name__ == "TestCase" for base in cls.__mro__):
        _optional(namespace.get("setUpModule"))
        _run_case(cls, name)
        check_own_body(name)
        _optional(namespace.get("tearDownModule"))
        return
    _run(namespace, cls, getattr(cls, name), name)


def _run(namespace: dict[str, Any], cls: Any, function: Function, name: str) -> None:
    if skipped := getattr(function, "__skipped__", None) or getattr(cls, "__skipped__", None):
        raise Skipped(skipped)
    rows = [*getattr(cls, "__rows__", []), *getattr(function, "__rows__", [])]
    if not all(rows):
        raise Skipped("there is nothing to run it with")
    for combination in itertools.product(*rows):
        _run_once(namespace, cls, function, name, dict(itertools.chain(*(row.items() for row in combination))))


def _run_once(namespace: dict[str, Any], cls: Any, function: Function, name: str, given: Mapping[str, Any]) -> None:
    instance = None if cls is None else cls()
    test = function if cls is None else getattr(instance, name)
    fixtures = Fixtures(namespace, instance)
    before, after = ("setup_function", "teardown_function") if cls is None else ("setup_method", "teardown_method")
    owner = namespace.get if cls is None else lambda key: getattr(instance, key, None)
    _optional(namespace.get("setup_module"))
    _optional(getattr(cls, "setup_class", None))
    _optional(owner(before), test)
    try:
        for fixed in fixtures.autouse:
            fixtures.value(fixed)
        fixtures.call(test, given)
        check_own_body(name)
    finally:
        fixtures.close()
        _optional(owner(after), test)
        _optional(getattr(cls, "teardown_class", None))
        _optional(namespace.get("teardown_module"))


def _optional(function: Function | None, *arguments: Any) -> None:
    """Call a function that may not be there, with the argument that it may take."""
    if function is not None:
        function(*(arguments or (None,))[: len(inspect.signature(function).parameters)])


def _run_case(cls: type[Any], name: str) -> None:
    """Run it by unittest, and raise the first exception, of which unittest itself keeps the text only."""
    import unittest

    errors: list[BaseException] = []

    class FirstFailure(unittest.TestResult):
        def addError(self, test: Any, err: Any) -> None:  # noqa: N802
            errors.append(err[1])

        addFailure = addError  # noqa: N815

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
            errors.extend([err[1]] if err else [])

        def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
            errors.append(Skipped(reason))

    def same_sets(self: Any, first: Any, second: Any, msg: Any = None) -> None:  # its own shows `second` to `first`
        self.assertTrue(isinstance(first, Set) and isinstance(second, Set) and first == second, msg)

    unittest.TestCase.assertSetEqual = same_sets  # type: ignore[method-assign, assignment]
    unittest.TestSuite([cls(name)]).run(FirstFailure())
    if errors:
        raise errors[0]
