"""Forward printed text to the calling process (judge or program), whose current streams receive it."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.values import Json, checked

PRINTED = 64 << 10
"""Largest number of bytes that a call may print to a stream; the rest is dropped."""
STREAMS = ("stdout", "stderr")


class Capture(io.TextIOWrapper):
    """A standard stream that keeps printed text, up to a limit, until `take` is called.

    The stream has a `buffer` like a real standard stream, because programs write bytes to it.

    Args:
        most: Number of bytes to keep.
        number: File descriptor to report as `fileno`; None for no descriptor.
    """

    def __init__(self, most: int, number: int | None = None) -> None:
        self._bytes = io.BytesIO()
        self._most = most
        self._number = number
        super().__init__(
            self._bytes, encoding="utf-8", errors="backslashreplace", write_through=True
        )

    def fileno(self) -> int:
        """Return the file descriptor, which `faulthandler` and similar modules need."""
        return super().fileno() if self._number is None else self._number

    def write(self, text: str, /) -> int:
        """Keep `text` if the limit is not reached."""
        return super().write(text) if self._bytes.tell() < self._most else len(text)

    def take(self) -> str:
        """Return text printed since the previous call."""
        if not self._bytes.tell():
            return ""
        self.flush()
        # The limit may cut a character in two.
        text = self._bytes.getvalue()[: self._most].decode("utf-8", "replace")
        self._bytes.seek(0)
        self._bytes.truncate()
        return text


def taken(captures: Mapping[str, Capture]) -> dict[str, str]:
    """Take the printed text of each stream, by stream name; streams without text are left out."""
    found = {}
    for name, capture in captures.items():
        # The program may have closed the stream.
        with suppress(ValueError):
            if text := capture.take():
                found[name] = text
    return found


def print_here(printed: Json) -> None:
    """Print text from the other process to this process's current streams."""
    for name, text in checked(printed, dict).items():
        if name in STREAMS:
            getattr(sys, name).write(checked(text, str))


@contextmanager
def captured(redirected: Json, printed: dict[str, str]) -> Iterator[None]:
    """Capture text printed inside the block to the streams that the caller redirected, and store it in `printed`.

    If an assertion fails, its printed text is discarded: it may show the tests' expected values.
    """
    own: dict[str, Any] = {
        name: getattr(sys, name) for name in STREAMS if name in checked(redirected, list)
    }
    captures = {name: Capture(PRINTED) for name in own}
    vars(sys).update(captures)
    try:
        yield
    except AssertionError:
        captures.clear()
        raise
    finally:
        vars(sys).update(own)
        printed.update(taken(captures))
