"""Awaiting, at one end, what runs at the other: in an event loop of its own, a slice at a time.

Each end asks the other to go on for a moment, and lets its own tasks run in between. So what is awaited together runs
together, and a test can stop waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

_SLICE = 0.002
_QUICK_STEPS = 3
"""The first steps wait for nothing, so that what is begun together runs together."""


def awaited(ask: Callable[..., Any], *start: Any) -> Generator[None, None, Any]:
    """The `__await__` of a stand-in: `ask` has the other end `start` its object, `step` on with it, or `cancel`."""
    number = ask("start", *start)
    ended = False
    try:
        while not ended:
            ended, value, error = ask("step", number)
            if not ended:
                yield
    finally:
        if not ended:
            ask("cancel", number)
    if error is not None:
        raise error
    return value


class Tasks:
    """What the other end awaits here, by number."""

    def __init__(self) -> None:
        self._loop: Any = None
        self._tasks: list[Any] = []
        self._steps: list[int] = []

    def start(self, awaitable: Any) -> int:
        """Begin to run it; its number."""
        import asyncio

        async def wait() -> Any:
            return await awaitable

        self._loop = self._loop or asyncio.new_event_loop()
        self._tasks.append(self._loop.create_task(wait()))
        self._steps.append(0)
        return len(self._tasks) - 1

    def step(self, number: int) -> tuple[bool, Any, BaseException | None]:
        """Let all of them run for a moment: whether this one has ended, its result, and its exception."""
        task = self._tasks[number]
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
        """The other end no longer waits."""
        self._tasks[number].cancel()
        if not self._loop.is_running():
            self._run(self._tasks[number], _SLICE)

    def _run(self, task: Any, seconds: float) -> None:
        from asyncio import events

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
