"""Send and receive messages on a descriptor: four bytes of length, big-endian, then a body of JSON or bytes.

All processes of the package use this framing: trainer, workers, zygotes, judges and programs. It also runs in jails, so
it imports only a few modules of Python's standard library.

The other end may be hostile. A message that is too long or is not JSON raises `FrameError` and nothing else. If the
other end closes the channel, even in the middle of a message, reading raises `EOFError`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from socket import socket

_READ_SIZE = 1 << 13
# PIPE_BUF: the number of bytes that a ready pipe or socket accepts without blocking.
_READY_SIZE = 1 << 12
_HEADER = 4

# References taken early: the program under test may run in the same process and replace these functions.
_read, _write, _poll = os.read, os.write, select.poll
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


def reset_signals() -> None:
    """Reset all signals to their default handling in a new process, which inherits ignored and blocked signals.

    Signals that Python itself ignores stay ignored, so writing to a broken pipe raises.
    """
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class FrameError(ValueError):
    """Received bytes that are not a valid message."""


class DeadlineError(Exception):
    """A deadline that passed before reading or writing was finished."""


class Deadline:
    """A time limit for reads and writes, which may be extended once.

    Args:
        seconds: The time limit, in seconds from now.
        put_off: Called when the time limit passes for the first time; returns the seconds of the extension, 0 for none.
    """

    def __init__(self, seconds: float, put_off: Callable[[], float] | None = None) -> None:
        self._at = time.monotonic() + seconds
        self._put_off = put_off

    def wait(self, descriptor: int, event: int) -> None:
        """Wait until the descriptor is readable (POLLIN) or writable (POLLOUT).

        Raises:
            DeadlineError: if the time limit passes first.
        """
        # Unlike select, poll accepts descriptors above 1023; a trainer may have thousands open.
        poller = _poll()
        poller.register(descriptor, event)
        while not poller.poll(max(0.0, self._at - time.monotonic()) * 1000):
            more = self._put_off() if self._put_off else 0.0
            self._put_off = None
            if more <= 0:
                raise DeadlineError
            self._at += more


def _no_constant(name: str) -> Any:
    raise FrameError(f"{name} is not JSON")


# No check for cycles: the values of a message are trees, since callers replace cycles by references.
to_json = json.JSONEncoder(
    check_circular=False, allow_nan=False, separators=(",", ":")
).encode
_parse = json.JSONDecoder(parse_constant=_no_constant).raw_decode


def from_json(text: str) -> Any:
    """Parse one JSON message.

    Raises:
        ValueError: for text that is not JSON; `FrameError`, a subclass, for NaN, infinity or several values.
    """
    value, end = _parse(text)
    if end != len(text):
        raise FrameError("more than one message in a frame")
    return value


class Channel:
    """One end of a message stream.

    Args:
        descriptor: A connected stream socket, or an end of a pair of pipes. The caller closes it.
        frame_bytes: The maximum length of one received message, in bytes.
        total_bytes: The maximum length of all received messages together, in bytes.
    """

    __slots__ = ("_buffer", "_descriptor", "_frame_bytes", "_left", "_poll")

    def __init__(
        self, descriptor: int, *, frame_bytes: int = 1 << 30, total_bytes: int = 1 << 40
    ) -> None:
        self._descriptor = descriptor
        self._frame_bytes = frame_bytes
        self._left = total_bytes
        self._buffer = b""
        self._poll = _poll()
        self._poll.register(descriptor, select.POLLIN)

    def send(self, message: Any, deadline: Deadline | None = None) -> None:
        """Write one message as JSON; see `send_bytes`.

        Raises:
            TypeError, ValueError, RecursionError: for a message that JSON cannot hold; then nothing is written.
        """
        self.send_bytes(to_json(message).encode(), deadline)

    def send_bytes(self, body: bytes, deadline: Deadline | None = None) -> None:
        """Write one message, in a single system call if the kernel accepts all bytes.

        Args:
            body: The message without its length.
            deadline: The time limit; None waits forever.

        Raises:
            OSError: if the other end is closed.
            DeadlineError: if the time limit passes because the other end does not read.
        """
        frame = len(body).to_bytes(_HEADER, "big") + body
        if deadline is None:
            written = _write(self._descriptor, frame)
            while written < len(frame):
                written += _write(
                    self._descriptor, memoryview(frame)[written : written + (1 << 20)]
                )
            return
        rest = memoryview(frame)
        while rest:
            deadline.wait(self._descriptor, select.POLLOUT)
            rest = rest[_write(self._descriptor, rest[:_READY_SIZE]) :]

    def receive(self, deadline: Deadline | None = None) -> Any:
        """Read one JSON message; see `receive_bytes`.

        Raises:
            FrameError: if the message is not JSON.
        """
        body = self.receive_bytes(deadline)
        try:
            return from_json(body.decode())
        except FrameError:
            raise
        except RecursionError:
            raise FrameError("a message that is nested too deeply") from None
        except ValueError as error:
            raise FrameError(f"a message that is not JSON: {str(error)[:100]}") from None

    def receive_bytes(self, deadline: Deadline | None = None) -> bytes:
        """Read one message as bytes.

        Raises:
            EOFError: if the other end has closed the channel.
            FrameError: if the message is too long, or all messages together are.
            DeadlineError: if the time limit passes first.
        """
        size = int.from_bytes(self._take(_HEADER, deadline), "big")
        if size > self._frame_bytes:
            raise FrameError(f"a message of {size} bytes")
        if size > self._left:
            raise FrameError("too many bytes in all")
        self._left -= size
        return self._take(size, deadline)

    def pending(self) -> bool:
        """Return whether unread bytes have arrived; False if the other end just closed the channel."""
        if self._buffer:
            return True
        if not any(events & _READABLE for _, events in self._poll.poll(0)):
            return False
        try:
            self._buffer = _read(self._descriptor, _READ_SIZE)
        except OSError:
            return False
        return bool(self._buffer)

    def ends_silently(self) -> bool:
        """Wait for the other end to close; return False if it sends a byte instead."""
        try:
            return not (self._buffer or _read(self._descriptor, 1))
        except ConnectionError:
            return True

    def _take(self, size: int, deadline: Deadline | None) -> bytes:
        """Read exactly `size` bytes, with no more system calls than needed."""
        buffer = self._buffer
        if len(buffer) < size:
            buffer = self._fill(buffer, size, deadline)
        self._buffer = buffer[size:]
        return buffer[:size]

    def _fill(self, buffer: bytes, size: int, deadline: Deadline | None) -> bytes:
        parts, have = [buffer], len(buffer)
        while have < size:
            if deadline is not None:
                deadline.wait(self._descriptor, select.POLLIN)
            try:
                part = _read(self._descriptor, max(_READ_SIZE, min(size - have, 1 << 20)))
            except ConnectionError:
                part = b""
            if not part:
                raise EOFError("the other end has closed the channel")
            parts.append(part)
            have += len(part)
        return b"".join(parts)


class Inbox:
    """A message buffer for a socket, for callers that poll several descriptors.

    Args:
        receiver: A connected stream socket. The caller closes it.
        most: The maximum number of bytes to accept in total.

    Attributes:
        descriptor: The socket's descriptor.
        ended: Whether the other end has closed the socket, or has sent more than `most` bytes.
    """

    def __init__(self, receiver: socket, most: int = 1 << 14) -> None:
        self.descriptor = receiver.fileno()
        self._receiver = receiver
        self.ended = False
        self._buffer = bytearray()
        self._most = most

    def next(self) -> dict[str, Any] | None:
        """Return the next complete message, else None.

        Bytes after the message stay unparsed, since a program under test may have sent them.
        """
        size = int.from_bytes(self._buffer[:_HEADER], "big")
        if len(self._buffer) < _HEADER + size:
            return None
        message: dict[str, Any] = from_json(self._buffer[_HEADER : _HEADER + size].decode())
        del self._buffer[: _HEADER + size]
        return message

    def take(self) -> list[dict[str, Any]]:
        """Return all complete messages."""
        return list(iter(self.next, None))

    def read(self) -> None:
        """Read available bytes into the buffer. If there are none, the other end broke the stream: it has ended."""
        # Imported here: workers load this module too, and use no inbox.
        from socket import MSG_DONTWAIT

        try:
            # `poll` reports an out-of-band byte as readable, and a read that waits would skip it and wait for ever.
            chunk = self._receiver.recv(1 << 16, MSG_DONTWAIT)
        except OSError:
            chunk = b""
        self._most -= len(chunk)
        self.ended = not chunk or self._most < 0
        self._buffer += chunk
