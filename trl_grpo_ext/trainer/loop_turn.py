"""A turn on an event loop: calls of one loop run in turns, and a call that blocks holds up all others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

REMEDY = "`await` what takes long, if need be by `asyncio.to_thread`"


class LoopTurn:
    """An awaitable's turn on an event loop, which runs the calls of other rollouts too."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None

    def result(self, given: Awaitable[Any]) -> Any:
        """Run an awaitable on the loop, from another thread, and return its result."""
        return asyncio.run_coroutine_threadsafe(self._run(given), self._loop).result()

    def is_its_own(self) -> bool:
        """Return whether the awaitable holds the loop now."""
        return self._task is not None and self._holder() is self._task

    def other(self) -> asyncio.Task[Any] | None:
        """Return the other task that holds the loop now; None if there is none."""
        holder = self._holder()
        return None if holder is self._task else holder

    async def _run(self, given: Awaitable[Any]) -> Any:
        self._task = asyncio.current_task()
        return await given

    def _holder(self) -> asyncio.Task[Any] | None:
        # None while the loop waits for what its tasks await.
        return asyncio.current_task(self._loop)
