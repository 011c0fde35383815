"""Messages on a descriptor: four bytes of length, most significant first, then that much; JSON, or bytes.

This is the one framing of the package. Trainer, workers, zygotes, judges and programs talk by it, so it runs in jails
too: it imports nothing but a little of Python's own library.

The other end may be hostile. A message that is too long or is not JSON raises `FrameError`, and nothing else; a
channel that the other end has closed, be it in the middle of a message, raises `EOFError`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

_READ_SIZE = 1 << 13
_READY_SIZE = 1 << 12  # PIPE_BUF: what a pipe or a socket that is ready takes without blocking
_HEADER = 4

# The program under test shares the process of one end and may replace any of these.
_read, _write, _poll = os.read, os.write, select.poll
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


def reset_signals() -> None:
    """Have all signals do what they do by default: a process inherits which ones its parent ignores or blocks.

    For a process that was just started. What Python itself ignores stays so: a pipe that is broken raises.
    """
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class FrameError(ValueError):
    """What came is no message."""


class DeadlineError(Exception):
    """The time was up before everything had come."""


class Deadline:
    """A time to give up at, which may be put off once.

    Args:
        seconds: From now.
        put_off: Asked when the time is up for the first time: how many more seconds to wait, 0 for none.
    """

    def __init__(self, seconds: float, put_off: Callable[[], float] | None = None) -> None:
        self._at = time.monotonic() + seconds
        self._put_off = put_off

    def wait(self, descriptor: int, event: int) -> None:
        """Wait until there is something to read (POLLIN) or room to write; raises DeadlineError when the time is up."""
        # poll, unlike select, takes descriptors above 1023: a trainer may have thousands open.
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


# The values in a message are trees: a cycle has become a reference before it gets here.
to_json = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":")).encode
_parse = json.JSONDecoder(parse_constant=_no_constant).raw_decode


def from_json(text: str) -> Any:
    """The value of one message, in fewer steps than `json.loads`: what they touch, a forked process copies.

    Raises:
        ValueError: if it is not JSON, of which `FrameError` is one kind.
    """
    value, end = _parse(text)
    if end != len(text):
        raise FrameError("more than one message in a frame")
    return value


class Channel:
    """One end of a stream of messages.

    Args:
        descriptor: A connected stream socket or a pair of pipes' end. It stays the caller's to close.
        frame_bytes: The longest message to accept.
        total_bytes: The most to accept in all.
    """

    __slots__ = ("_buffer", "_descriptor", "_frame_bytes", "_left", "_poll")

    def __init__(self, descriptor: int, *, frame_bytes: int = 1 << 30, total_bytes: int = 1 << 40) -> None:
        self._descriptor = descriptor
        self._frame_bytes = frame_bytes
        self._left = total_bytes
        self._buffer = b""
        self._poll = _poll()
        self._poll.register(descriptor, select.POLLIN)

    def send(self, message: Any, deadline: Deadline | None = None) -> None:
        """Write one message as JSON; see `send_bytes`.

        Raises:
            TypeError, ValueError, RecursionError: for a message that is not JSON; nothing is written then.
        """
        self.send_bytes(to_json(message).encode(), deadline)

    def send_bytes(self, body: bytes, deadline: Deadline | None = None) -> None:
        """Write one message, in one system call where the kernel takes it whole.

        Args:
            body: The message.
            deadline: When to give up; without one, writing waits without limit.

        Raises:
            OSError: if the other end is closed.
            DeadlineError: if the time is up because the other end does not read.
        """
        frame = len(body).to_bytes(_HEADER, "big") + body
        if deadline is None:
            written = _write(self._descriptor, frame)
            while written < len(frame):
                written += _write(self._descriptor, memoryview(frame)[written : written + (1 << 20)])
            return
        rest = memoryview(frame)
        while rest:
            deadline.wait(self._descriptor, select.POLLOUT)
            rest = rest[_write(self._descriptor, rest[:_READY_SIZE]) :]

    def receive(self, deadline: Deadline | None = None) -> Any:
        """Read one message, which is JSON; see `receive_bytes`.

        Raises:
            FrameError: if it is not.
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
        """Read one message.

        Raises:
            EOFError: if the other end has closed the channel.
            FrameError: if what came is too long a message.
            DeadlineError: if the time is up.
        """
        size = int.from_bytes(self._take(_HEADER, deadline), "big")
        if size > self._frame_bytes:
            raise FrameError(f"a message of {size} bytes")
        if size > self._left:
            raise FrameError("too many bytes in all")
        self._left -= size
        return self._take(size, deadline)

    def pending(self) -> bool:
        """Whether bytes have come that were not read; False too if the other end has just closed the channel."""
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
        """Wait for the other end to close the channel; whether it has sent not one byte more."""
        try:
            return not (self._buffer or _read(self._descriptor, 1))
        except ConnectionError:
            return True

    def _take(self, size: int, deadline: Deadline | None) -> bytes:
        """The next `size` bytes, and not one read more than it takes."""
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
    """Messages that arrive on a descriptor, as they come, for who waits for several descriptors at once.

    Args:
        descriptor: A connected stream socket. It stays the caller's to close.
        most: The most bytes to accept in all.

    Attributes:
        descriptor: As above.
        ended: Whether the other end has closed it, or has sent too much.
    """

    def __init__(self, descriptor: int, most: int = 1 << 14) -> None:
        self.descriptor = descriptor
        self.ended = False
        self._buffer = bytearray()
        self._most = most

    def next(self) -> dict[str, Any] | None:
        """The next message, if it has come whole. What lies behind it is not looked at: it may be a program's."""
        size = int.from_bytes(self._buffer[:_HEADER], "big")
        if len(self._buffer) < _HEADER + size:
            return None
        message: dict[str, Any] = from_json(self._buffer[_HEADER : _HEADER + size].decode())
        del self._buffer[: _HEADER + size]
        return message

    def take(self) -> list[dict[str, Any]]:
        """All messages that have come."""
        return list(iter(self.next, None))

    def read(self) -> None:
        """Read what is there, without waiting if there is something."""
        try:
            chunk = _read(self.descriptor, 1 << 16)
        except OSError:
            chunk = b""
        self._most -= len(chunk)
        self.ended = not chunk or self._most < 0
        self._buffer += chunk
