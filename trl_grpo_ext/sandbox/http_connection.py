"""One HTTP connection with one request, read against a deadline and answered with JSON.

Whatever a client sends, the answer is a status and a JSON object, and nothing of its words gets into the log.
"""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from trl_grpo_ext.sandbox.wire_format import write_json

logger = logging.getLogger(__name__)

WRITE_SECONDS = 30.0
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 8 << 20


class RefusalError(Exception):
    """A request that is answered by a reason why not."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class JsonConnection(BaseHTTPRequestHandler):
    """Answers GET and POST by what `answer` returns; every refusal is `{"error": "why"}`.

    Attributes:
        read_seconds: How long a request may take to arrive.
        paths: Those that the log may name.
        note: What the log says of the request besides its path.
    """

    protocol_version = "HTTP/1.1"
    server_version = "trl-grpo-ext"
    sys_version = ""
    read_seconds = 30.0
    paths: tuple[str, ...] = ()
    note = "0 jobs"

    def setup(self) -> None:
        """Read from the connection against one deadline, however slowly bytes trickle in."""
        super().setup()
        self._began = time.monotonic()
        self._unread = True
        self.rfile.close()
        until = self._began + self.read_seconds
        self.rfile = io.BufferedReader(_DeadlineReader(self.connection, until), 1 << 16)

    def answer(self) -> bytes:
        """The body of the answer.

        Raises:
            RefusalError: if there is none.
        """
        raise NotImplementedError

    def do_GET(self) -> None:
        self._answer(self.answer)

    def do_POST(self) -> None:
        self._answer(self.answer)

    def body_length(self, most: int) -> int:
        """How long the body is, as the header says."""
        text = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (text.isascii() and text.isdigit() and len(text) < 20):
            raise RefusalError(411, "a request needs a Content-Length")
        if int(text) > most:
            raise RefusalError(413, f"a request of {text} bytes; {most} is the most")
        return int(text)

    def read_body(self, length: int) -> bytes:
        """The body, of that length."""
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

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what `http.server` refuses by itself, such as another method, without quoting it."""
        self.close_connection = True
        self.command = getattr(self, "command", None) or "?"
        self.request_version = getattr(self, "request_version", "HTTP/1.1") or "HTTP/1.1"
        self._answer(lambda: _refuse(int(code)))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        """Nothing: the base class would log paths, in which there may be anything. See `_log`."""

    def _answer(self, make: Callable[[], bytes]) -> None:
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

    def _log(self, status: int) -> None:
        """One line a request, in which nothing is the client's own words."""
        path = self.path if getattr(self, "path", None) in self.paths else "?"
        method = self.command if self.command in ("GET", "POST") else "?"
        seconds = time.monotonic() - self._began
        logger.info("%s %s %s %d, %s, %.2f s", self.client_address[0], method, path, status, self.note, seconds)


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
