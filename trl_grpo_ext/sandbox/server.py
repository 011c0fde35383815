"""`trl-grpo-ext sandbox-server`: the sandbox of this machine for others, over HTTP with a token.

`POST /v1/run` runs jobs, see `wire_format`; `GET /v1/health` says what the server is. Both want the token. Every
refusal is `{"error": "why"}`: 400 not a request, 401 no token or a wrong one, 404 no such path, 408 it came too
slowly, 411 and 413 its length, 422 a job that asks for more than the server gives, 503 too much to do, with
`Retry-After`.

The transport is plain HTTP: on a network that others listen on, put it behind a tunnel or a proxy with TLS.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Any

from trl_grpo_ext.sandbox.access_token import check_token
from trl_grpo_ext.sandbox.http_connection import JsonConnection, RefusalError
from trl_grpo_ext.sandbox.job import Limits
from trl_grpo_ext.sandbox.sandbox import Sandbox
from trl_grpo_ext.sandbox.wire_format import (
    FORMAT,
    HEALTH_PATH,
    RUN_PATH,
    OverLimitError,
    WireError,
    read_jobs,
    write_json,
    write_outcomes,
)
from trl_grpo_ext.support.version import __version__

logger = logging.getLogger(__name__)

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8750
MAXIMA = Limits(wall_seconds=120, cpu_seconds=120, memory_mb=4096, processes=512, output_kb=16_384, disk_mb=1024)
END_SECONDS = 10.0  # for the last answers to go out
_RETRY_SECONDS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a server takes.

    Attributes:
        max_body_bytes: The longest request.
        max_jobs: Jobs in one request.
        max_waiting: Requests to run jobs that are under way at a time, those that still arrive included.
        max_connections: Connections at a time, each with a thread.
        maxima: The most that a job may ask for.
        read_seconds: How long a request may take to arrive.
    """

    max_body_bytes: int = 16 << 20
    max_jobs: int = 64
    max_waiting: int = 16
    max_connections: int = 64
    maxima: Limits = MAXIMA
    read_seconds: float = 30.0


class SandboxServer(ThreadingHTTPServer):
    """Listens from its construction on; `serve_forever` answers, `stop` ends.

    Args:
        host: The address to listen at.
        port: The port; 0 for any that is free, see `server_port`.
        token: The secret that clients must send.
        sandbox: Runs the programs. It stays the caller's to close.
        settings: What to take.

    Raises:
        ValueError: for an invalid token.
        OSError: if the address cannot be had.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, token: str, sandbox: Sandbox, settings: Settings | None = None) -> None:
        self.token = check_token(token, "the argument token").encode()
        self.sandbox = sandbox
        self.settings = settings or Settings()
        self.stopping = threading.Event()
        self._turns = threading.BoundedSemaphore(self.settings.max_waiting)
        self._connections = threading.BoundedSemaphore(self.settings.max_connections)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    @property
    def isolation(self) -> str:
        """The walls that programs run behind."""
        return str(getattr(getattr(self.sandbox, "isolation", None), "label", "unknown"))

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """A place among the requests that are under way.

        Raises:
            RefusalError: if there is none.
        """
        if self.stopping.is_set() or not self._turns.acquire(blocking=False):
            why = "the server ends" if self.stopping.is_set() else "the server has too much to do"
            raise RefusalError(503, why, {"Retry-After": str(_RETRY_SECONDS)})
        try:
            yield
        finally:
            self._turns.release()

    def stop(self) -> None:
        """Take no more requests, give those that are under way no verdict, and wait until they are answered."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        self.sandbox.close()
        until = time.monotonic() + END_SECONDS
        for _ in range(self.settings.max_connections):
            if not self._connections.acquire(timeout=max(0.0, until - time.monotonic())):
                break
        self.sandbox.close()  # one may have begun while it was closed

    def server_bind(self) -> None:
        """Bind, without asking who in the world has this address."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, if there is room for one."""
        if not self._connections.acquire(blocking=False):
            self._turn_away(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong with a connection, without what came by it."""
        logger.warning("%s: %s", client_address[0], type(sys.exc_info()[1]).__name__)

    def _turn_away(self, request: socket.socket) -> None:
        body = write_json({"error": "the server has too many connections"})
        head = f"HTTP/1.1 503 Busy\r\nRetry-After: {_RETRY_SECONDS}\r\nContent-Length: {len(body)}\r\n"
        with contextlib.suppress(OSError):
            request.settimeout(0.1)
            request.sendall(head.encode() + b"Content-Type: application/json\r\nConnection: close\r\n\r\n" + body)
        self.shutdown_request(request)


class _Handler(JsonConnection):
    """A request to run jobs, or for the server's health."""

    server: SandboxServer
    paths = (RUN_PATH, HEALTH_PATH)

    def setup(self) -> None:
        """Read against the deadline that the server's settings give."""
        self.read_seconds = self.server.settings.read_seconds
        super().setup()

    def answer(self) -> bytes:
        """The body of the answer."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        given = token.strip().encode("utf-8", "replace")
        if not hmac.compare_digest(given, self.server.token) or scheme.lower() != "bearer":
            raise RefusalError(401, "no token, or another than the server's", {"WWW-Authenticate": "Bearer"})
        if (self.command, self.path) == ("GET", HEALTH_PATH):
            return self._health()
        if (self.command, self.path) == ("POST", RUN_PATH):
            return self._run()
        raise RefusalError(404, f"there are GET {HEALTH_PATH} and POST {RUN_PATH}")

    def _health(self) -> bytes:
        settings = self.server.settings
        return write_json(
            {
                "status": "ok",
                "format": FORMAT,
                "version": __version__,
                "isolation": self.server.isolation,
                "max_jobs": settings.max_jobs,
                "max_body_bytes": settings.max_body_bytes,
                "maxima": settings.maxima.to_record(),
            }
        )

    def _run(self) -> bytes:
        settings = self.server.settings
        length = self.body_length(settings.max_body_bytes)
        with self.server.turn():
            body = self.read_body(length)
            try:
                jobs = read_jobs(body, most=settings.max_jobs, maxima=settings.maxima)
            except WireError as error:
                raise RefusalError(400, str(error)) from None
            except OverLimitError as error:
                raise RefusalError(422, str(error)) from None
            del body
            self.note = f"{len(jobs)} jobs"
            outcomes = self.server.sandbox.run(jobs)
        return write_outcomes(outcomes, self.server.isolation)


def serve(server: SandboxServer) -> None:
    """Answer until this process is told to end, by SIGTERM or Ctrl-C, or the server is stopped. In the main thread."""
    ends = threading.Thread(target=server.stop, name="stop")

    def end(number: int, _frame: Any) -> None:
        if not server.stopping.is_set():
            server.stopping.set()
            logger.info("%s: the server ends", signal.Signals(number).name)
            ends.start()  # not here: it waits for the loop that this has interrupted

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.serve_forever(poll_interval=0.1)
        if ends.ident is not None:
            ends.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
