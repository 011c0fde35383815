"""A client of an OpenAI-compatible endpoint: a background thread, a limit of concurrency and a circuit breaker."""

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
# The client requires some key; a server without authentication ignores it.
NO_KEY = "none"
# HTTP statuses that reject a single request, and say nothing about the next request.
_THIS_REQUEST = frozenset({400, 413, 422})
# So many consecutive failures open the circuit breaker.
FAILURES = 5
REST_SECONDS = 30.0


class EndpointError(Exception):
    """Signals a failed request: the endpoint gave no reply.

    Attributes:
        reason: The reason code, such as `judge_http_503`.
        is_down: True if the next request would probably fail too.
    """

    def __init__(self, reason: str, *, is_down: bool) -> None:
        super().__init__(reason, is_down)
        self.reason = reason
        self.is_down = is_down


class Breaker:
    """A circuit breaker: after several consecutive failures, block all requests for a rest period.

    After the rest, a single trial request goes first. If the trial fails, the endpoint rests again. So a dead endpoint
    costs a batch the time of about one request, instead of the time of every request.

    Use a breaker within one event loop only.
    """

    def __init__(
        self, *, failures: int = FAILURES, rest_seconds: float = REST_SECONDS
    ) -> None:
        self._limit = failures
        self._rest_seconds = rest_seconds
        self._failures = 0
        self._rests_until = 0.0
        self._trial = asyncio.Lock()

    def check(self) -> None:
        """Raise an EndpointError with the reason `judge_endpoint_down` during a rest period."""
        if self._is_open and time.monotonic() < self._rests_until:
            raise EndpointError("judge_endpoint_down", is_down=False)

    async def call(self, send: Callable[[], Awaitable[T]]) -> T:
        """Await `send` and return its result, unless the endpoint rests; count success and failure."""
        if self._is_open:
            async with self._trial:
                # While this request waited, a trial may have failed, or closed the breaker.
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
            if error.is_down:
                self._failures += 1
            else:
                # The endpoint has answered, so it is up, though it has refused this request.
                self._failures = 0
            self._rests_until = time.monotonic() + self._rest_seconds
            raise
        self._failures = 0
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address and limits of a judge's endpoint; the key is named, never stored.

    Attributes:
        base_url: The address, `http://host:port/v1`.
        api_key_env: The environment variable with the key; None for no key.
        timeout: Time limit for a reply, all retries included, in seconds.
        concurrency: The most concurrent requests.
    """

    base_url: str
    api_key_env: str | None
    timeout: float
    concurrency: int

    def api_key(self) -> str:
        """Read the key from the environment.

        Raises:
            EndpointError: if the variable is missing or empty.
        """
        if not self.api_key_env:
            return NO_KEY
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise EndpointError("judge_api_key_missing", is_down=True)
        return key


class Client:
    """A thread-safe client of one endpoint: a background thread with an event loop.

    The `openai` package does the requests, connection pooling and retries.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._loop = asyncio.new_event_loop()
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._breaker = Breaker()
        self._client: openai.AsyncOpenAI | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="llm-judge", daemon=True
        )
        self._thread.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the client's event loop, and return its result; call it from any other thread.

        Raises:
            EndpointError: if the client is closed, before or during the run.
        """
        with self._lock:
            if self._closed:
                raise EndpointError("judge_closed", is_down=False)
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise EndpointError("judge_closed", is_down=False) from None
        except BaseException:
            # After Ctrl-C, nobody waits for the replies.
            future.cancel()
            raise

    async def chat(self, body: Mapping[str, Any]) -> Any:
        """Request a chat completion, and return the endpoint's reply.

        Raises:
            EndpointError: if the endpoint gives no reply, or may not be asked now.
        """
        async with self._slots:
            self._breaker.check()
            return await self._breaker.call(lambda: self._send(body))

    async def _send(self, body: Mapping[str, Any]) -> Any:
        import openai

        try:
            # Opening the client imports many modules, so it stays outside the timeout.
            create = self._open().chat.completions.create
            # The client's own timeout is per read, and would never end a slowly dripping reply.
            async with asyncio.timeout(self.endpoint.timeout):
                return await create(**body)
        except EndpointError:
            raise
        except TimeoutError:
            raise EndpointError("judge_timeout", is_down=True) from None
        except openai.APIStatusError as error:
            self._warn(error.status_code, error)
            is_down = error.status_code not in _THIS_REQUEST
            raise EndpointError(
                f"judge_http_{error.status_code}", is_down=is_down
            ) from None
        except openai.APITimeoutError:
            raise EndpointError("judge_timeout", is_down=True) from None
        except openai.APIConnectionError as error:
            self._warn("unreachable", error.__cause__ or error)
            raise EndpointError("judge_unreachable", is_down=True) from None
        except Exception as error:
            # The reply is no JSON, or breaks the API's format.
            self._warn("malformed", error)
            raise EndpointError("judge_malformed", is_down=True) from None

    def _open(self) -> openai.AsyncOpenAI:
        import openai

        if self._client is None:
            connect_seconds = min(CONNECT_SECONDS, self.endpoint.timeout)
            self._client = openai.AsyncOpenAI(
                api_key=self.endpoint.api_key(),
                base_url=self.endpoint.base_url,
                timeout=openai.Timeout(None, connect=connect_seconds),
            )
        return self._client

    def abandon(self) -> None:
        """Abandon a client inherited by fork, whose thread exists only in the parent process.

        A reference keeps the event loop alive: collecting it would close sockets shared with the parent.
        """
        _left_behind.append(self)

    def _warn(self, kind: int | str, error: BaseException) -> None:
        """Log each kind of failure once, without the message: servers repeat secret keys and texts in messages."""
        message = "The judge at %s failed (%s, %s); such rows get no score."
        url = self.endpoint.base_url
        _once.warn(logger, (url, kind), message, url, kind, type(error).__name__)

    def close(self) -> None:
        """Cancel pending requests, and stop the thread; may be called twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        ended = asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop)
        with contextlib.suppress(
            concurrent.futures.TimeoutError, concurrent.futures.CancelledError
        ):
            ended.result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        # A running loop cannot be closed.
        if not self._thread.is_alive():
            self._loop.close()

    async def _shut_down(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        # The loop resolves host names in threads of its own.
        await self._loop.shutdown_default_executor()


_once = Once()
_left_behind: list[Client] = []


def shared_client(endpoint: Endpoint) -> Client:
    """Return this process's client of an endpoint, made at first use; a forked child makes its own client."""
    return shared(("endpoint", endpoint), lambda: Client(endpoint))


def close_client(endpoint: Endpoint) -> None:
    """Close this process's client of an endpoint; the next use makes a new client."""
    close_one(("endpoint", endpoint))
