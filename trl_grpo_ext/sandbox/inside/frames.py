"""JSON messages on a descriptor: four bytes of length, most significant first, then that much JSON.

The other end may be hostile. A message that is too long, is not JSON or is cut short raises `FrameError`, and
nothing else; a channel that the other end closed between two messages raises `EOFError`.
"""

from __future__ import annotations

import json
import os
import select
from typing import Any

_READ_SIZE = 1 << 13
_HEADER = 4

# The program under test shares the process of one end and may replace any of these.
_read, _write, _poll = os.read, os.write, select.poll
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


class FrameError(ValueError):
    """What came is no message."""


def _no_constant(name: str) -> Any:
    raise FrameError(f"{name} is not JSON")


# The values in a message are trees: a cycle has become a reference before it gets here.
_encode = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":")).encode
_parse = json.JSONDecoder(parse_constant=_no_constant).raw_decode


def _decode(text: str) -> Any:
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

    def send(self, message: Any) -> None:
        """Write one message, in one system call where the kernel takes it whole."""
        body = _encode(message).encode()
        frame = len(body).to_bytes(_HEADER, "big") + body
        written = _write(self._descriptor, frame)
        while written < len(frame):
            written += _write(self._descriptor, memoryview(frame)[written : written + (1 << 20)])

    def receive(self) -> Any:
        """Read one message.

        Raises:
            EOFError: if the other end has closed the channel.
            FrameError: if what came is no message, or too long a one.
        """
        size = int.from_bytes(self._take(_HEADER), "big")
        if size > self._frame_bytes:
            raise FrameError(f"a message of {size} bytes")
        if size > self._left:
            raise FrameError("too many bytes in all")
        self._left -= size
        try:
            return _decode(self._take(size).decode())
        except EOFError:
            raise FrameError("a message that is cut short") from None
        except FrameError:
            raise
        except RecursionError:
            raise FrameError("a message that is nested too deeply") from None
        except ValueError as error:
            raise FrameError(f"a message that is not JSON: {str(error)[:100]}") from None

    def pending(self) -> bool:
        """Whether bytes have come that nobody has read; False too if the other end has just closed the channel."""
        if self._buffer:
            return True
        if not any(events & _READABLE for _, events in self._poll.poll(0)):
            return False
        try:
            self._buffer = _read(self._descriptor, _READ_SIZE)
        except OSError:
            return False
        return bool(self._buffer)

    def _take(self, size: int) -> bytes:
        """The next `size` bytes, and not one read more than it takes."""
        buffer = self._buffer
        if len(buffer) < size:
            buffer = self._fill(buffer, size)
        self._buffer = buffer[size:]
        return buffer[:size]

    def _fill(self, buffer: bytes, size: int) -> bytes:
        parts, have = [buffer], len(buffer)
        while have < size:
            try:
                part = _read(self._descriptor, max(_READ_SIZE, min(size - have, 1 << 20)))
            except ConnectionError:
                part = b""
            if not part:
                raise EOFError("the other end has closed the channel")
            parts.append(part)
            have += len(part)
        return b"".join(parts)
