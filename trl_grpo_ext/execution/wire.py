"""Frames on a pipe: four bytes of length, then the payload."""

from __future__ import annotations

import os
import select
import struct
import time

_HEADER = struct.Struct(">I")


class DeadlineError(Exception):
    """Nothing, or not everything, had come when the time was up."""


def write_frame(descriptor: int, payload: bytes) -> None:
    """Write one frame. Raises OSError (a broken pipe) when nobody reads any more."""
    data = memoryview(_HEADER.pack(len(payload)) + payload)
    while data:
        data = data[os.write(descriptor, data) :]


def read_frame(descriptor: int, *, deadline: float | None = None) -> bytes:
    """Read one frame.

    Args:
        deadline: The `time.monotonic()` at which to give up; None waits for ever.

    Raises:
        EOFError: when the writer is gone.
        DeadlineError: when the time is up.
    """
    (size,) = _HEADER.unpack(_read_exactly(descriptor, _HEADER.size, deadline))
    return _read_exactly(descriptor, size, deadline)


def _read_exactly(descriptor: int, size: int, deadline: float | None) -> bytes:
    received = bytearray()
    while len(received) < size:
        if deadline is not None:
            _wait_readable(descriptor, deadline)
        chunk = os.read(descriptor, min(size - len(received), 1 << 20))
        if not chunk:
            raise EOFError("the other end of the pipe is closed")
        received += chunk
    return bytes(received)


def _wait_readable(descriptor: int, deadline: float) -> None:
    # poll, unlike select, takes descriptors above 1023: a trainer may have thousands open.
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise DeadlineError
