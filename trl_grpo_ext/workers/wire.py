"""Frames on a pipe: four bytes of length, then the payload."""

from __future__ import annotations

import os
import select
import struct
import time
from collections.abc import Callable

_WRITE_SIZE = 1 << 12  # PIPE_BUF: what a pipe that is ready takes without blocking
_HEADER = struct.Struct(">I")


class DeadlineError(Exception):
    """Nothing, or not everything, had come when the time was up."""


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
        poller = select.poll()
        poller.register(descriptor, event)
        while not poller.poll(max(0.0, self._at - time.monotonic()) * 1000):
            more = self._put_off() if self._put_off else 0.0
            self._put_off = None
            if more <= 0:
                raise DeadlineError
            self._at += more


def write_frame(descriptor: int, payload: bytes, *, deadline: Deadline | None = None) -> None:
    """Write one frame.

    Args:
        deadline: When to give up, for a descriptor that does not block; without one, writing may take for ever.

    Raises:
        OSError: when nobody reads any more.
        DeadlineError: when the time is up, because the pipe is full and stays so.
    """
    data = memoryview(_HEADER.pack(len(payload)) + payload)
    while data:
        if deadline is not None:
            deadline.wait(descriptor, select.POLLOUT)
        data = data[os.write(descriptor, data[:_WRITE_SIZE]) :]


def read_frame(descriptor: int, *, deadline: Deadline | None = None) -> bytes:
    """Read one frame.

    Args:
        deadline: When to give up; None waits for ever.

    Raises:
        EOFError: when the writer is gone.
        DeadlineError: when the time is up.
    """
    (size,) = _HEADER.unpack(_read_exactly(descriptor, _HEADER.size, deadline))
    return _read_exactly(descriptor, size, deadline)


def _read_exactly(descriptor: int, size: int, deadline: Deadline | None) -> bytes:
    received = bytearray()
    while len(received) < size:
        if deadline is not None:
            deadline.wait(descriptor, select.POLLIN)
        chunk = os.read(descriptor, min(size - len(received), 1 << 20))
        if not chunk:
            raise EOFError("the other end of the pipe is closed")
        received += chunk
    return bytes(received)
