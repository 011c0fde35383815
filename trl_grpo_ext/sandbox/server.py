"""`trl-grpo-ext sandbox-server`: the sandbox of this machine for others, over HTTP with a token.

`POST /v1/run` runs jobs, see `wire_format`; `GET /v1/health` says what the server is. Both want the token. Every
refusal is `{"error": "why"}`: 400 what came is no request, 401 no token or another, 404 no such path, 408 it came too
slowly, 411 and 413 its length, 422 a job that asks for more than the server gives, 503 too much to do, with
`Retry-After`.

The transport is plain HTTP: on a network that others listen on, put it behind a tunnel or a proxy with TLS.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import io
import logging
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from trl_grpo_ext.cli.exit_status import refuse
from trl_grpo_ext.sandbox.job import Limits
from trl_grpo_ext.sandbox.sandbox import Sandbox
from trl_grpo_ext.sandbox.wire_format import (
    FORMAT,
    HEALTH_PATH,
    RUN_PATH,
    TOKEN_VARIABLE,
    OverLimitError,
    WireError,
    check_token,
    read_jobs,
    read_token,
    write_json,
    write_outcomes,
)
from trl_grpo_ext.support.version import __version__

logger = logging.getLogger(__name__)

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8750
MAXIMA = Limits(wall_seconds=120, cpu_seconds=120, memory_mb=4096, processes=512, output_kb=16_384, disk_mb=1024)
READ_SECONDS = 30.0  # for a whole request to arrive
WRITE_SECONDS = 30.0
END_SECONDS = 10.0  # for the last answers to go out
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 8 << 20
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
    read_seconds: float = READ_SECONDS


class RefusalError(Exception):
    """A request that is answered by a reason why not."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class SandboxServer(ThreadingHTTPServer):
    """Listens from its construction on; `serve_forever` answers, `stop` ends.

    Args:
        host: The address to listen at.
        port: The port; 0 for any that is free, see `server_port`.
        token: The secret that clients must send.
        sandbox: Runs the programs. It stays the caller's to close.
        settings: What to take.

    Raises:
        ValueError: for what is no token.
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


class _Handler(BaseHTTPRequestHandler):
    """One connection, one request."""

    server: SandboxServer
    protocol_version = "HTTP/1.1"
    server_version = "trl-grpo-ext"
    sys_version = ""

    def setup(self) -> None:
        """Read from the connection against one deadline, however slowly bytes trickle in."""
        super().setup()
        self._began = time.monotonic()
        self._unread = True
        self._jobs = 0
        self.rfile.close()
        until = self._began + self.server.settings.read_seconds
        self.rfile = io.BufferedReader(_DeadlineReader(self.connection, until), 1 << 16)

    def do_GET(self) -> None:
        self._answer(lambda: self._route({HEALTH_PATH: self._health}))

    def do_POST(self) -> None:
        self._answer(lambda: self._route({RUN_PATH: self._run}))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what `http.server` refuses by itself, such as another method, without quoting it."""
        self.close_connection = True
        self.command = getattr(self, "command", None) or "?"
        self.request_version = getattr(self, "request_version", "HTTP/1.1") or "HTTP/1.1"
        self._answer(lambda: _refuse(int(code)))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        """Nothing: the base class would log paths, in which there may be anything. See `_log`."""

    def _answer(self, make: Any) -> None:
        headers: Mapping[str, str] = {}
        try:
            status, body = 200, make()
        except RefusalError as refusal:
            status, body, headers = refusal.status, write_json({"error": str(refusal)}), refusal.headers
        except Exception as error:
            logger.error("A request failed: %s", type(error).__name__)
            status, body = 500, write_json({"error": f"the sandbox failed: {type(error).__name__}"})
        self._log(status)
        with contextlib.suppress(OSError):  # the client is gone
            self._send(status, body, headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.close_connection = True
        self.connection.settimeout(WRITE_SECONDS)
        self.send_response(status)
        everything = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
        for name, value in {**everything, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        if self._unread and self.command != "GET":
            self._linger()

    def _linger(self) -> None:
        """Take in some of what the client still sends; else it might never see why it was refused."""
        self.connection.shutdown(socket.SHUT_WR)
        until, left = time.monotonic() + _LINGER_SECONDS, _LINGER_BYTES
        while left > 0 and time.monotonic() < until:
            self.connection.settimeout(max(0.01, until - time.monotonic()))
            read = len(self.connection.recv(1 << 16))
            left -= read or left

    def _route(self, routes: Mapping[str, Any]) -> bytes:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        given = token.strip().encode("utf-8", "replace")
        if not hmac.compare_digest(given, self.server.token) or scheme.lower() != "bearer":
            raise RefusalError(401, "no token, or another than the server's", {"WWW-Authenticate": "Bearer"})
        if self.path not in routes:
            raise RefusalError(404, f"there are GET {HEALTH_PATH} and POST {RUN_PATH}")
        answer: bytes = routes[self.path]()
        return answer

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
        length = self._length()
        with self.server.turn():
            body = self._read_body(length)
            try:
                jobs = read_jobs(body, most=settings.max_jobs, maxima=settings.maxima)
            except WireError as error:
                raise RefusalError(400, str(error)) from None
            except OverLimitError as error:
                raise RefusalError(422, str(error)) from None
            del body
            self._jobs = len(jobs)
            outcomes = self.server.sandbox.run(jobs)
        return write_outcomes(outcomes, self.server.isolation)

    def _length(self) -> int:
        """How long the body is, from the header."""
        text = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (text.isascii() and text.isdigit() and len(text) < 20):
            raise RefusalError(411, "a request needs a Content-Length")
        if int(text) > self.server.settings.max_body_bytes:
            raise RefusalError(413, f"a request of {text} bytes; {self.server.settings.max_body_bytes} is the most")
        return int(text)

    def _read_body(self, length: int) -> bytes:
        try:
            body = self.rfile.read(length)
        except TimeoutError:
            raise RefusalError(408, "the request came too slowly") from None
        except OSError:
            raise RefusalError(400, "the connection broke") from None
        if len(body) < length:
            raise RefusalError(400, "the body is shorter than its Content-Length")
        self._unread = False
        return body

    def _log(self, status: int) -> None:
        """One line a request, in which nothing is the client's own words."""
        path = self.path if getattr(self, "path", None) in (RUN_PATH, HEALTH_PATH) else "?"
        method = self.command if self.command in ("GET", "POST") else "?"
        seconds = time.monotonic() - self._began
        logger.info("%s %s %s %d, %d jobs, %.2f s", self.client_address[0], method, path, status, self._jobs, seconds)


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until a time by the monotonic clock."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self._connection = connection
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes; raises TimeoutError when the time is up."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def _refuse(status: int) -> bytes:
    raise RefusalError(status, "no such request")


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `trl-grpo-ext sandbox-server`."""
    usual = Settings()
    parser.add_argument("--host", default=DEFAULT_HOST, help=f"the address to listen at ({DEFAULT_HOST})")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help=f"the port ({DEFAULT_PORT})")
    parser.add_argument(
        "--token-file", metavar="PATH", help=f"the file of the secret that clients send; without it, ${TOKEN_VARIABLE}"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="programs to run at a time (one a core)")
    parser.add_argument(
        "--packages",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder of packages that programs may import",
    )
    parser.add_argument(
        "--max-waiting",
        type=int,
        default=usual.max_waiting,
        metavar="N",
        help=f"requests at a time; to more the server says that it is busy ({usual.max_waiting})",
    )
    parser.add_argument(
        "--max-seconds",
        type=float,
        default=MAXIMA.wall_seconds,
        metavar="S",
        help=f"the most wall time, and CPU time, that a job may ask for ({MAXIMA.wall_seconds:g})",
    )
    parser.add_argument(
        "--max-memory-mb",
        type=int,
        default=MAXIMA.memory_mb,
        metavar="MIB",
        help=f"the most memory that a job may ask for ({MAXIMA.memory_mb})",
    )
    parser.add_argument(
        "--allow-unsafe",
        action="store_true",
        help="run programs without walls where this machine has none: they can then do what you can",
    )


def run_server(arguments: argparse.Namespace) -> int:
    """Serve as the flags say until told to end; the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    try:
        return _run_server(arguments)
    except (ValueError, OSError) as error:
        return refuse(error)


def _run_server(arguments: argparse.Namespace) -> int:
    from trl_grpo_ext.sandbox.local import LocalSandbox
    from trl_grpo_ext.workers.pool import usable_cores

    token = read_token(arguments.token_file)
    _warn_of_readers(arguments.token_file)
    missing = [folder for folder in arguments.packages if not Path(folder).is_dir()]
    if missing:
        raise ValueError(f"--packages names {missing[0]!r}, which is no folder.")
    settings = _settings(arguments)
    workers = usable_cores() if arguments.workers is None else arguments.workers
    sandbox = LocalSandbox(workers, packages=arguments.packages, allow_unsafe=arguments.allow_unsafe)
    sandbox.check()
    with SandboxServer(arguments.host, arguments.port, token, sandbox, settings) as server:
        shown = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        what = f"{workers} workers, isolation {server.isolation}"
        logger.info("Serving at http://%s:%d, %s", shown, server.server_port, what)
        try:
            serve(server)
        finally:
            sandbox.close()
    return 0


def _settings(arguments: argparse.Namespace) -> Settings:
    if arguments.max_waiting < 1:
        raise ValueError(f"--max-waiting is a whole number above 0, got {arguments.max_waiting}.")
    limits = MAXIMA.to_record() | {
        "wall_seconds": arguments.max_seconds,
        "cpu_seconds": arguments.max_seconds,
        "memory_mb": arguments.max_memory_mb,
    }
    return Settings(
        max_waiting=arguments.max_waiting,
        max_connections=max(64, 4 * arguments.max_waiting),
        maxima=Limits(**limits),
    )


def _warn_of_readers(file: str | None) -> None:
    if file is not None and Path(file).stat().st_mode & 0o077:
        logger.warning("The token in %s can be read by others on this machine; `chmod 600` it.", file)
