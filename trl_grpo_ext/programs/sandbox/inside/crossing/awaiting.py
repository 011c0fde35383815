"""Await, in a process, objects that run in another process, a time slice at a time.

Judge and program each run their own event loop. Each asks the other to continue for a moment, and runs its own tasks in
between. So objects that are awaited together run together, and a test can stop waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import CoroutineType
from typing import Any

# Seconds that a step runs the loop.
_SLICE = 0.002
_QUICK_STEPS = 3
"""Number of first steps that do not wait, so that tasks started together run together."""


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


class Tasks:
    """Numbered asyncio tasks, run in this process and awaited by the other end."""

    def __init__(self) -> None:
        self._loop: Any = None
        self._tasks: list[Any] = []
        self._steps: list[int] = []

    def start(self, awaitable: Any) -> int:
        """Start a task for an awaitable and return its number."""
        import asyncio

        # `create_task` takes a coroutine, and an awaitable may be any object with `__await__`.
        async def wait() -> Any:
            return await awaitable

        self._loop = self._loop or asyncio.new_event_loop()
        self._tasks.append(self._loop.create_task(wait()))
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

    def _run(self, task: Any, seconds: float) -> None:
        from asyncio import events

        # asyncio refuses to run a loop while another loop of the thread is marked as running.
        outer = events._get_running_loop()
        events._set_running_loop(None)
        timer = self._loop.call_later(seconds, self._loop.stop)
        stop = self._stop
        task.add_done_callback(stop)
        try:
            self._loop.run_forever()
        finally:
            timer.cancel()
            task.remove_done_callback(stop)
            events._set_running_loop(outer)

    def _stop(self, _: Any) -> None:
        self._loop.stop()
