"""Machines that answer over HTTP. A request goes to the least busy one, and to another if that one fails.

No proxy is used and no redirect is followed: a token and programs go to the address that was named, or nowhere.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from trl_grpo_ext.sandbox.wire_format import WireError, read_json

T = TypeVar("T")
logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
REST_SECONDS = 5.0  # how long a node that failed is asked only if no other can be
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_SHOWN = 300


class NodeError(Exception):
    """A node gave no answer that can be used; another, or the same one later, may."""


class BusyError(NodeError):
    """A node has too much to do; `seconds` is how long it says to wait."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class RefusedError(NodeError):
    """A node will not answer this request however often it is asked; `status` is the one of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(eq=False, slots=True)
class Node:
    """One machine.

    Attributes:
        address: As the user gave it.
        url: Its parts.
        busy: Requests to it that are under way.
        rests_until: The time, by the monotonic clock, before which it is asked only if no other can be.
    """

    address: str
    url: SplitResult
    busy: int = 0
    rests_until: float = 0.0

    @classmethod
    def parse(cls, address: str) -> Node:
        """The node at `http(s)://host[:port][/path]`.

        Raises:
            ValueError: for any other address.
        """
        try:
            url = urlsplit(address)
            valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
            valid = valid and address.isascii() and address.isprintable() and " " not in address
        except ValueError:
            valid = False
        if not valid or url.username is not None or url.query or url.fragment:
            raise ValueError(f"A sandbox's address is like http://cpu-node:8750, got {address!r}.")
        return cls(address, url)

    def connect(self) -> http.client.HTTPConnection:
        """A connection to it, not opened yet."""
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        return kind(self.url.hostname or "", self.url.port, timeout=CONNECT_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to ask, how long to wait for the answer, and how many bytes of it to read."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 30.0
    most: int = 1 << 20


class Nodes:
    """Machines that do the same. Safe to call from several threads.

    Args:
        addresses: At least one.
        attempts: How often a request may fail before it is given up.
    """

    def __init__(self, addresses: Sequence[str], *, attempts: int) -> None:
        self.all = [Node.parse(address) for address in addresses]
        self._attempts = attempts
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._open: set[http.client.HTTPConnection] = set()

    def ask(self, request: Request, read: Callable[[bytes], T]) -> T:
        """What `read` makes of the answer of a node. A node that is busy is asked again for `request.seconds`.

        Args:
            request: It may arrive more than once.
            read: Raises `WireError` or `NodeError` for an answer that cannot be used.

        Raises:
            NodeError: if no node has given one that can be used, after some attempts.
            RefusedError: if all have refused.
        """
        stop, until = self._stop, time.monotonic() + request.seconds
        failures, tried, refused = 0, set[Node](), set[Node]()
        while True:
            node = self._choose(tried, refused)
            pause = 0.0
            try:
                return self._ask_once(node, request, read, stop)
            except RefusedError:
                refused.add(node)
                if len(refused) == len(self.all):
                    raise
            except BusyError as error:
                pause = error.seconds
                if time.monotonic() + pause > until:
                    raise
            except NodeError as error:
                failures += 1
                if failures >= self._attempts or stop.is_set():
                    raise
                logger.warning("A sandbox failed; the request goes to another one: %s", error)
            tried.add(node)
            if len(tried | refused) == len(self.all):
                tried.clear()
                stop.wait(_with_jitter(pause or min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**failures)))

    def ask_node(self, node: Node, request: Request) -> bytes:
        """The answer of one node, asked once.

        Raises:
            NodeError: if no answer can be used.
        """
        return self._exchange(node, request, self._stop)

    def close(self) -> None:
        """End the requests that are under way."""
        with self._lock:
            stop, self._stop = self._stop, threading.Event()
            connections = list(self._open)
        stop.set()
        for connection in connections:
            _cut(connection.sock)

    def _choose(self, tried: set[Node], refused: set[Node]) -> Node:
        """The node that is best to ask now; it then has one request more."""
        now = time.monotonic()
        with self._lock:
            left = [node for node in self.all if node not in refused]
            rank = {node: (node in tried, node.rests_until > now, node.busy, random.random()) for node in left}
            node = min(left, key=rank.__getitem__)
            node.busy += 1
            return node

    def _ask_once(self, node: Node, request: Request, read: Callable[[bytes], T], stop: threading.Event) -> T:
        try:
            answer = read(self._exchange(node, request, stop))
        except (BusyError, RefusedError):
            raise
        except (NodeError, WireError) as error:
            node.rests_until = time.monotonic() + REST_SECONDS
            if isinstance(error, NodeError):
                raise
            raise NodeError(f"{node.address} gave a malformed answer: {error}") from None
        finally:
            with self._lock:
                node.busy -= 1
        node.rests_until = 0.0
        return answer

    def _exchange(self, node: Node, request: Request, stop: threading.Event) -> bytes:
        connection = node.connect()
        late = threading.Event()
        try:
            connection.connect()
            with self._watched(connection, request.seconds, late, stop):
                response = _send(connection, node, request)
                data = response.read(request.most + 1)
        except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: no name of a host, after all
            why = f"no answer within {request.seconds:.0f} s" if late.is_set() else _describe(error)
            raise NodeError(f"{node.address}: {'closed' if stop.is_set() else why}") from None
        finally:
            connection.close()
        if len(data) > request.most:
            raise NodeError(f"{node.address} answered with more than {request.most} bytes")
        _check_status(node, response, data)
        return data

    @contextlib.contextmanager
    def _watched(
        self, connection: http.client.HTTPConnection, seconds: float, late: threading.Event, stop: threading.Event
    ) -> Iterator[None]:
        """Cut the connection when the time is up, however slowly bytes trickle in, and when all is to end."""
        sock: socket.socket = connection.sock
        sock.settimeout(seconds + 1)

        def give_up() -> None:
            late.set()
            _cut(sock)

        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        with self._lock:
            self._open.add(connection)
        try:
            timer.start()
            if stop.is_set():
                _cut(sock)
            yield
        except RuntimeError as error:  # no room for a thread
            raise NodeError(f"{error}") from None
        finally:
            timer.cancel()
            with self._lock:
                self._open.discard(connection)


def _send(connection: http.client.HTTPConnection, node: Node, request: Request) -> http.client.HTTPResponse:
    headers = {"Connection": "close", "Accept": "application/json", **request.headers}
    # A server that refuses may answer, and hang up, before it has read all.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.request(request.method, node.url.path.rstrip("/") + request.path, request.body, headers)
    return connection.getresponse()


def _check_status(node: Node, response: http.client.HTTPResponse, data: bytes) -> None:
    status = response.status
    if status == 200:
        return
    message = f"{node.address} answered {status}: {_reason(data)}"
    if status in (429, 503):
        wait = response.headers.get("Retry-After", "")
        raise BusyError(message, float(min(10, int(wait))) if wait.isascii() and wait.isdigit() else 1.0)
    if 400 <= status < 500 and status != 408:
        raise RefusedError(message, status)
    raise NodeError(message)


def _reason(data: bytes) -> str:
    """What the answer to a failed request says, in short."""
    try:
        record = read_json(data)
    except WireError:
        return "no reason given"
    reason = record.get("error", record.get("detail")) if isinstance(record, dict) else None
    return ascii(reason)[1:-1][:_SHOWN] if isinstance(reason, str) else "no reason given"


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_SHOWN] if str(error) else type(error).__name__


def _cut(sock: socket.socket | None) -> None:
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _with_jitter(seconds: float) -> float:
    """So that many who were refused together do not come back together."""
    return seconds * random.uniform(0.5, 1.5)
