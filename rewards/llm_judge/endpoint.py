"""An OpenAI-compatible endpoint, asked from a thread of its own, within limits.

It is not asked while it is down, nor more often than it allows.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from trl_grpo_ext.support.text import Once
from trl_grpo_ext.workers.processes import close_one, shared

if TYPE_CHECKING:
    import openai

logger = logging.getLogger(__name__)

T = TypeVar("T")

CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 5.0
NO_KEY = "none"  # the client insists on one; servers that need none do not look
# Statuses by which a server refuses this request, and not the next one.
_THIS_REQUEST = frozenset({400, 413, 422})
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a judge is, and how hard it may be asked. The secret is named, not held.

    Attributes:
        base_url: `http://host:port/v1`.
        api_key_env: The environment variable with the key; None for none.
        timeout: Seconds for a reply, with all retries of the request.
        max_retries: How often a request that was refused for now, or got through to nobody, is sent again.
        concurrency: Requests at a time.
        requests_per_minute: Requests in a minute, retries included; None for no limit.
    """

    base_url: str
    api_key_env: str | None
    timeout: float
    max_retries: int
    concurrency: int
    requests_per_minute: float | None

    def api_key(self) -> str:
        """The key, from the environment.

        Raises:
            EndpointError: if it is not there.
        """
        key = os.environ.get(self.api_key_env, "").strip() if self.api_key_env else NO_KEY
        if not key:
            raise EndpointError("judge_api_key_missing", is_down=True)
        return key


class Client:
    """One endpoint's client in this process, which any thread may ask.

    It is a thread with an event loop. Requests, pooling and retries are the `openai` package's.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._loop = asyncio.new_event_loop()
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._breaker = Breaker()
        self._pace = Pace(endpoint.requests_per_minute)
        self._client: openai.AsyncOpenAI | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="llm-judge", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What a coroutine that uses this client gives; called from any thread but the client's.

        Raises:
            EndpointError: if the client is closed meanwhile.
        """
        with self._lock:
            if self._closed:
                raise EndpointError("judge_closed", is_down=False)
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise EndpointError("judge_closed", is_down=False) from None
        except BaseException:  # Ctrl-C: the replies are no longer waited for
            future.cancel()
            raise

    async def chat(self, body: Mapping[str, Any]) -> Any:
        """The endpoint's reply to a request for a chat completion.

        Raises:
            EndpointError: if there is none.
        """
        async with self._slots:
            self._breaker.check()
            await self._pace.wait()
            return await self._breaker.call(lambda: self._send(body))

    async def _send(self, body: Mapping[str, Any]) -> Any:
        import openai

        try:
            create = self._open().chat.completions.create  # which imports much, outside the timeout
            # The client's own timeout is per read: a reply that drips in would never end.
            async with asyncio.timeout(self.endpoint.timeout):
                return await create(**body)
        except EndpointError:
            raise
        except TimeoutError:
            raise EndpointError("judge_timeout", is_down=True) from None
        except openai.APIStatusError as error:
            self._warn(error.status_code, error)
            is_down = error.status_code not in _THIS_REQUEST
            raise EndpointError(f"judge_http_{error.status_code}", is_down=is_down) from None
        except openai.APITimeoutError:
            raise EndpointError("judge_timeout", is_down=True) from None
        except openai.APIConnectionError as error:
            self._warn("unreachable", error.__cause__ or error)
            raise EndpointError("judge_unreachable", is_down=True) from None
        except Exception as error:  # a reply that is no JSON, or not of the API's form
            self._warn("malformed", error)
            raise EndpointError("judge_malformed", is_down=True) from None

    def _open(self) -> openai.AsyncOpenAI:
        import openai

        if self._client is None:
            self._client = openai.AsyncOpenAI(
                api_key=self.endpoint.api_key(),
                base_url=self.endpoint.base_url,
                max_retries=self.endpoint.max_retries,
                timeout=openai.Timeout(None, connect=min(CONNECT_SECONDS, self.endpoint.timeout)),
                http_client=openai.DefaultAsyncHttpxClient(event_hooks={"request": [self._pace_retry]}),
            )
        return self._client

    async def _pace_retry(self, request: Any) -> None:
        if request.headers.get("x-stainless-retry-count", "0") != "0":  # the first try has waited already
            await self._pace.wait()

    def abandon(self) -> None:
        """Let go of a client of the process that this one was forked from, whose thread is not here.

        Its loop is kept from being collected, which would close it, and what it shares with the parent.
        """
        _left_behind.append(self)

    def _warn(self, kind: int | str, error: BaseException) -> None:
        """Log each kind of failure once, without what might be secret: servers repeat keys and texts in messages."""
        message = "The judge at %s failed (%s, %s); such rows get no score."
        _once.warn(logger, (self.endpoint.base_url, kind), message, self.endpoint.base_url, kind, type(error).__name__)

    def close(self) -> None:
        """End what is under way, with no verdict, and the thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        ended = asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop)
        with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            ended.result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _shut_down(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        await self._loop.shutdown_default_executor()


_once = Once()
_left_behind: list[Client] = []


def shared_client(endpoint: Endpoint) -> Client:
    """This process's client of an endpoint, made when it is first asked for. A forked child makes its own."""
    return shared(("endpoint", endpoint), lambda: Client(endpoint))


def close_client(endpoint: Endpoint) -> None:
    """Close this process's client of an endpoint; it is made again when it is needed."""
    close_one(("endpoint", endpoint))
