"""Whether to ask an endpoint at all: not while it is down, and not more often than it allows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

FAILURES = 5  # one after another, without a success between them
REST_SECONDS = 30.0


class EndpointError(Exception):
    """A request that got no reply; the reason code says why.

    Attributes:
        reason: Such as `judge_http_503`.
        is_down: Whether the next request would probably fail as well.
    """

    def __init__(self, reason: str, *, is_down: bool) -> None:
        super().__init__(reason, is_down)
        self.reason = reason
        self.is_down = is_down


class Breaker:
    """Lets no request through to an endpoint that has failed several times running, until it has had a rest.

    After the rest one request goes first. If it fails, the endpoint rests again. So an endpoint that is dead costs a
    batch the time of about one request, not that of every request.

    Used within one event loop.
    """

    def __init__(self, *, failures: int = FAILURES, rest_seconds: float = REST_SECONDS) -> None:
        self._limit = failures
        self._rest_seconds = rest_seconds
        self._failures = 0
        self._rests_until = 0.0
        self._trial = asyncio.Lock()

    def check(self) -> None:
        """Raise an EndpointError while the endpoint rests."""
        if self._is_open and time.monotonic() < self._rests_until:
            raise EndpointError("judge_endpoint_down", is_down=False)

    async def call(self, send: Callable[[], Awaitable[T]]) -> T:
        """What `send` gives, if the endpoint may be asked."""
        if self._is_open:
            async with self._trial:
                self.check()
                if self._is_open:
                    return await self._watched(send)
        return await self._watched(send)

    @property
    def _is_open(self) -> bool:
        return self._failures >= self._limit

    async def _watched(self, send: Callable[[], Awaitable[T]]) -> T:
        try:
            result = await send()
        except EndpointError as error:
            self._failures = self._failures + 1 if error.is_down else 0
            self._rests_until = time.monotonic() + self._rest_seconds
            raise
        self._failures = 0
        return result


class Pace:
    """Spaces requests out evenly, so that no minute has more of them than allowed. Used within one event loop."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._turn = asyncio.Lock()

    async def wait(self) -> None:
        """Wait for one's turn. Who gives up waiting leaves no gap."""
        if not self._interval:
            return
        async with self._turn:
            await asyncio.sleep(max(0.0, self._next - time.monotonic()))
            self._next = time.monotonic() + self._interval
