"""Await, in a process, objects that run in another process, a time slice at a time.

Judge and program each run their own event loop. Each asks the other to continue for a moment, and runs its own tasks in
between. So objects that are awaited together run together, and a test can stop waiting.

While a test's event loop runs, plain functions of the program find the program's loop running, and the tasks and timers
that they leave there go on beside the test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import CoroutineType
from typing import Any

# Seconds that a step runs the loop.
_SLICE = 0.002
_QUICK_STEPS = 3
"""Number of first steps that do not wait, so that tasks started together run together."""
# Seconds between two moments in which the other end's tasks go on.
_PAUSE = 0.001


def awaited(ask: Callable[..., Any], *start: Any) -> Generator[None, None, Any]:
    """Await a stand-in's object; this generator is the stand-in's `__await__`.

    Args:
        ask: Sends requests to the other end: `start` begins a task and returns its number, `step` continues it,
            `cancel` stops it.
        start: Arguments of `start`.

    Raises:
        BaseException: any exception that ended the task.
    """
    number = ask("start", *start)
    ended = False
    try:
        while not ended:
            ended, value, error = ask("step", number)
            if not ended:
                yield
    finally:
        if not ended:
            # The test may stop waiting before the end, as `asyncio.wait_for` does.
            ask("cancel", number)
    if error is not None:
        raise error
    return value


class Driver:
    """A coroutine of the other end, driven through its stand-in by `send`, `throw` and `close`, as a task drives it.

    Args:
        ask: Sends requests to the other end, as for `awaited`; `close` closes a coroutine that has not begun.
        start: Arguments of `start` and `close`.
    """

    def __init__(self, ask: Callable[..., Any], *start: Any) -> None:
        self._ask = ask
        self._start = start
        self._steps: Any = awaited(ask, *start)
        self._has_begun = False

    def send(self, value: Any) -> Any:
        """Continue the coroutine."""
        self._check_not_ended()
        self._has_begun = True
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception where the coroutine waits; it then ends."""
        self._check_not_ended()
        self._close_unbegun()
        return self._steps.throw(*error)

    def close(self) -> None:
        """End the coroutine, wherever it is."""
        self._close_unbegun()
        self._steps.close()

    def _check_not_ended(self) -> None:
        if self._steps.gi_frame is None:
            raise RuntimeError("cannot reuse already awaited coroutine")

    def _close_unbegun(self) -> None:
        # The other end knows nothing yet, and would let the coroutine be awaited later.
        if not self._has_begun:
            self._has_begun = True
            self._ask("close", *self._start)


def close(awaitable: Any) -> None:
    """Close a coroutine of this process for the other end; leave any other object alone."""
    if isinstance(awaitable, CoroutineType):
        awaitable.close()


class Tender:
    """Has the other end's tasks and timers go on while an event loop of this process runs.

    Args:
        ask: Sends the request `go_on` to the other end.
    """

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._tended: Any = None

    def tend(self, loop: Any) -> None:
        """Begin with a loop, unless it is tended already."""
        if loop is not self._tended:
            self._tended = loop
            loop.call_later(_PAUSE, self._go_on, loop)

    def _go_on(self, loop: Any) -> None:
        if loop is not self._tended:
            return
        try:
            goes_on = self._ask("go_on")
        except AssertionError:
            # The program has caught a failed assertion of the tests. The loop would log it, and let the test go on.
            loop.stop()
            return
        if goes_on:
            loop.call_later(_PAUSE, self._go_on, loop)
        else:
            self._tended = None


class Tasks:
    """Numbered asyncio tasks, run in this process and awaited by the other end."""

    def __init__(self) -> None:
        self._loop: Any = None
        self._tasks: list[Any] = []
        self._steps: list[int] = []

    def start(self, awaitable: Any) -> int:
        """Start a task for an awaitable and return its number."""

        # `create_task` takes a coroutine, and an awaitable may be any object with `__await__`.
        async def wait() -> Any:
            return await awaitable

        self._tasks.append(self._own_loop().create_task(wait()))
        self._steps.append(0)
        return len(self._tasks) - 1

    def step(self, number: int) -> tuple[bool, Any, BaseException | None]:
        """Run all tasks for a moment; return whether task `number` has ended, its result, and its exception."""
        task = self._tasks[number]
        # The loop runs already if a task of it waits for the other end, which now asks back.
        if not task.done() and not self._loop.is_running():
            self._steps[number] += 1
            self._run(task, _SLICE if self._steps[number] > _QUICK_STEPS else 0.0)
        if not task.done():
            return False, None, None
        import asyncio

        if task.cancelled():
            return True, None, asyncio.CancelledError()
        error = task.exception()
        return True, None if error else task.result(), error

    def cancel(self, number: int) -> None:
        """Cancel a task because the other end no longer waits."""
        self._tasks[number].cancel()
        if not self._loop.is_running():
            self._run(self._tasks[number], _SLICE)

    def go_on(self) -> bool:
        """Run all tasks and timers that are ready; return whether any are left."""
        import asyncio

        if self._loop is None or self._loop.is_running():
            return False
        self._loop.call_soon(self._loop.stop)
        with _marked(None):
            self._loop.run_forever()
        has_handles = self._loop._ready or self._loop._scheduled
        return bool(has_handles or asyncio.all_tasks(self._loop))

    def beside(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Call a function that finds the loop running, like a function that a coroutine calls."""
        with _marked(running_loop() or self._own_loop()):
            return function(*args, **named)

    def _own_loop(self) -> Any:
        import asyncio

        self._loop = self._loop or asyncio.new_event_loop()
        return self._loop

    def _run(self, task: Any, seconds: float) -> None:
        timer = self._loop.call_later(seconds, self._loop.stop)
        stop = self._stop
        task.add_done_callback(stop)
        try:
            with _marked(None):
                self._loop.run_forever()
        finally:
            timer.cancel()
            task.remove_done_callback(stop)

    def _stop(self, _: Any) -> None:
        self._loop.stop()


def running_loop() -> Any:
    """Return the event loop that runs in this thread; None without one, and without asyncio."""
    # An import of asyncio would slow every fork.
    events = sys.modules.get("asyncio.events")
    return events._get_running_loop() if events is not None else None


@contextmanager
def _marked(loop: Any) -> Iterator[None]:
    """Mark a loop, or none, as this thread's running loop: asyncio refuses to run a loop beside another."""
    from asyncio import events

    outer = events._get_running_loop()
    events._set_running_loop(loop)
    try:
        yield
    finally:
        events._set_running_loop(outer)
