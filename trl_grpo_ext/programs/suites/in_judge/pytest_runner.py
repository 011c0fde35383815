"""Run one test function inside the judge; this source joins `pytest_shim` there, in one namespace.

A test may have a decorator from the program, which decides if the test runs at all. Such a decorator could pass its
own expected value or test case, read the real ones, or retry until an answer passes. So the decorator gets a function
that ignores its arguments, and each run of this function must reach the end of the test.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any

# In the judge, both modules share a namespace.
if TYPE_CHECKING:
    from trl_grpo_ext.programs.suites.in_judge.pytest_shim import (
        Fixtures,
        Skipped,
        skip_reason,
    )

Function = Callable[..., Any]


class _Body:
    """A decorated test's body, with a record of its runs.

    Attributes:
        function: The test function without decorators.
        granted: Runs the test on request of the program; None while the program may not run it.
        ends: One entry per run: True if the run reached its end.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.granted: Callable[[], Any] | None = None
        self.ends: list[bool] = []

    def run(self, *args: Any, **kwargs: Any) -> Any:
        place = len(self.ends)
        # Recorded before the run, because a decorator may swallow the exception that ends it.
        self.ends.append(False)
        result = self._for_caller()(*args, **kwargs)
        self.ends[place] = True
        return result

    async def run_async(self, *args: Any, **kwargs: Any) -> Any:
        place = len(self.ends)
        self.ends.append(False)
        result = await self.function(*args, **kwargs)
        self.ends[place] = True
        return result

    def _for_caller(self) -> Function:
        frame: Any = sys._getframe(1)
        # Below a frame of `ProgramProxy._call_back`, the program has asked for this run.
        while frame is not None and frame.f_code.co_name != "_call_back":
            frame = frame.f_back
        if frame is None:
            return self.function
        granted = self.granted
        if granted is None:
            raise AssertionError(f"the program may not run {self.function.__name__}")
        return lambda *args, **kwargs: granted()

    def check(self) -> None:
        """Raise an AssertionError unless the decorators ran the body at least once, and every run reached its end."""
        if not self.ends or not all(self.ends):
            raise AssertionError(
                f"the decorators of {self.function.__name__} did not run it to its end"
            )
        self.ends.clear()


# Qualified name of a test -> its body.
_bodies: dict[str, _Body] = {}


def own_body(function: Function) -> Any:
    """Register a test's body for the runner; applied as the innermost decorator of the test."""
    body = _bodies[function.__qualname__] = _Body(function)
    if inspect.iscoroutinefunction(function):

        async def test_async(*args: Any, **kwargs: Any) -> Any:
            return await body.run_async(*args, **kwargs)

        return functools.wraps(function)(test_async)

    def test(*args: Any, **kwargs: Any) -> Any:
        return body.run(*args, **kwargs)

    return functools.wraps(function)(test)


def _is_of_program(value: Any) -> bool:
    return any(
        kind.__module__.startswith("trl_grpo_ext.")
        for kind in (type(value), type(type(value)))
    )


def _body_of(cls: Any, name: str) -> _Body | None:
    places = [name]
    if cls is not None:
        places = [f"{base.__qualname__}.{name}" for base in cls.__mro__]
    for place in places:
        if place in _bodies:
            return _bodies[place]
    return None


def _through_program(function: Function, body: _Body | None, instance: Any) -> Function:
    """Wrap a test decorated by the program: the wrapper has the parameters of the undecorated test."""
    if body is None:
        raise AssertionError(
            "a decorator of the program has put something else in the place of a test"
        )
    own = body.function if instance is None else body.function.__get__(instance)

    def test(**kwargs: Any) -> None:
        body.granted = functools.partial(own, **kwargs)
        try:
            # A text in place of the instance, whose attributes may hold expected values.
            function(*([] if instance is None else ["self"]))
        finally:
            # A decorator must not run the body later, in the turn of another test.
            body.granted = None

    test.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]
    return test


def run_function(namespace: dict[str, Any], name: str) -> None:
    """Run a test function once for each combination of its `parametrize` rows."""
    _check_marks(namespace, None, namespace[name])
    _run(namespace, None, namespace[name], name)


def run_method(namespace: dict[str, Any], class_name: str, name: str) -> None:
    """Run a method of a test class in a fresh instance; a `unittest.TestCase` runs under unittest."""
    cls = namespace[class_name]
    if _is_of_program(cls):
        raise AssertionError(
            f"a decorator of the program has put another class in the place of {class_name}"
        )
    _check_marks(namespace, cls, getattr(cls, name))
    if any(
        base.__module__ == "unittest.case" and base.__name__ == "TestCase"
        for base in cls.__mro__
    ):
        _call_hook(namespace.get("setUpModule"))
        _run_case(cls, name)
        _call_hook(namespace.get("tearDownModule"))
        return
    _run(namespace, cls, getattr(cls, name), name)


def _run(namespace: dict[str, Any], cls: Any, function: Function, name: str) -> None:
    # The program could forge the marks of an object of its own.
    marked = None if _is_of_program(function) else function
    rows = [*getattr(cls, "__rows__", []), *getattr(marked, "__rows__", [])]
    if not all(rows):
        raise AssertionError("there is nothing to run it with")
    # The judge's, which knows the rows that skip themselves.
    run_row = namespace.get("__trl_run_row__", lambda _, run: run())
    for place, combination in enumerate(itertools.product(*rows)):
        run = functools.partial(_run_row, namespace, cls, function, name, combination)
        run_row(place, run)


def _run_row(
    namespace: dict[str, Any],
    cls: Any,
    function: Function,
    name: str,
    rows: Iterable[Mapping[str, Any]],
) -> None:
    given: dict[str, Any] = {}
    for row in rows:
        given.update(row)
    # A mark of `pytest.param`; the judge decides, since its condition may ask the program.
    reason = given.pop("__skipped__", "")
    if reason:
        raise Skipped(reason)
    _run_once(namespace, cls, function, name, given)


def _check_marks(namespace: Mapping[str, Any], cls: Any, function: Function) -> None:
    """Raise Skipped if a mark of the module, the class or the test leaves the test out."""
    marked = None if _is_of_program(function) else function
    for owner in (marked, cls):
        reason = getattr(owner, "__skipped__", "")
        if reason:
            raise Skipped(reason)
    for marks in (namespace.get("pytestmark"), getattr(cls, "pytestmark", None)):
        reason = skip_reason(marks)
        if reason:
            raise Skipped(reason)


def _run_once(
    namespace: dict[str, Any],
    cls: Any,
    function: Function,
    name: str,
    given: Mapping[str, Any],
) -> None:
    instance = None if cls is None else cls()
    body = _body_of(cls, name)
    if _is_of_program(function):
        test = _through_program(function, body, instance)
    else:
        test = function if cls is None else getattr(instance, name)
    fixtures = Fixtures(namespace, instance)
    if cls is None:
        before = namespace.get("setup_function")
        after = namespace.get("teardown_function")
    else:
        before = getattr(instance, "setup_method", None)
        after = getattr(instance, "teardown_method", None)
    _call_hook(namespace.get("setup_module"))
    _call_hook(getattr(cls, "setup_class", None))
    _call_hook(before, test)
    try:
        for fixed in fixtures.autouse:
            fixtures.value(fixed)
        fixtures.call(test, given)
        if body is not None:
            body.check()
    finally:
        fixtures.close()
        _call_hook(after, test)
        _call_hook(getattr(cls, "teardown_class", None))
        _call_hook(namespace.get("teardown_module"))


def _call_hook(hook: Any, *arguments: Any) -> None:
    """Call a setup or teardown function, if the tests define it, with as many arguments as it accepts.

    A hook gets the test function. A program that brings a hook, by `from solution import *`, could run the test with
    one answer after the other until it passes.
    """
    # An exact type check, since the stand-in of a program's object may claim to be a method.
    function = hook.__func__ if type(hook) is types.MethodType else hook
    if inspect.isfunction(function):
        given = arguments or (None,)
        count = len(inspect.signature(hook).parameters)
        hook(*given[:count])


def _run_case(cls: type[Any], name: str) -> None:
    """Run a test case under unittest, and raise its first exception: unittest itself keeps only the text."""
    import unittest

    errors: list[BaseException] = []

    class FirstFailure(unittest.TestResult):
        def addError(self, test: Any, err: Any) -> None:  # noqa: N802
            errors.append(err[1])

        addFailure = addError  # noqa: N815

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
            errors.extend([err[1]] if err else [])

        def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
            # A decorator skips without an exception.
            errors.append(sys.exc_info()[1] or Skipped(reason))

    # The original `assertSetEqual` calls a method of `first` with `second`, and so could show the expected value to the
    # program's object.
    def same_sets(self: Any, first: Any, second: Any, msg: Any = None) -> None:
        self.assertTrue(
            isinstance(first, Set) and isinstance(second, Set) and first == second, msg
        )

    unittest.TestCase.assertSetEqual = same_sets  # type: ignore[method-assign, assignment]
    case, body = cls(name), _body_of(cls, name)
    function = getattr(cls, name)
    if _is_of_program(function):
        vars(case)[name] = _through_program(function, body, case)
    # A suite, unlike a case, also calls `setUpClass` and `tearDownClass`.
    unittest.TestSuite([case]).run(FirstFailure())
    if errors:
        raise errors[0]
    if body is not None:
        body.check()
