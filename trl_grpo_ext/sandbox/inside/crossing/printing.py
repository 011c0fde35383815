"""What is printed crosses to the end that called: it belongs to the stream that is current there."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from trl_grpo_ext.sandbox.inside.crossing.values import Json, checked

PRINTED = 64 << 10
"""The most characters that a call may print to a stream; the rest is dropped."""
STREAMS = ("stdout", "stderr")


class Capture(io.TextIOWrapper):
    """A standard stream that keeps the first so many bytes that are printed, until they are taken.

    It has a `buffer` like the real one, since programs write bytes to it.

    Args:
        most: The bytes that it keeps.
        number: The descriptor of the stream that it stands for, if it is to have one.
    """

    def __init__(self, most: int, number: int | None = None) -> None:
        self._bytes = io.BytesIO()
        self._most = most
        self._number = number
        super().__init__(self._bytes, encoding="utf-8", errors="backslashreplace", write_through=True)

    def fileno(self) -> int:
        """The descriptor, for `faulthandler` and its like."""
        return super().fileno() if self._number is None else self._number

    def write(self, text: str, /) -> int:
        """Keep `text` if there is room."""
        return super().write(text) if self._bytes.tell() < self._most else len(text)

    def take(self) -> str:
        """What was printed since this was called last."""
        if not self._bytes.tell():
            return ""
        self.flush()
        text = self._bytes.getvalue()[: self._most].decode("utf-8", "replace")
        self._bytes.seek(0)
        self._bytes.truncate()
        return text


def taken(captures: Mapping[str, Capture]) -> dict[str, str]:
    """Take what was printed, by the name of the stream."""
    found = {}
    for name, capture in captures.items():
        with suppress(ValueError):  # the program has closed it
            if text := capture.take():
                found[name] = text
    return found


def print_here(printed: Json) -> None:
    """Print what the other end has printed to the streams that are current here."""
    for name, text in checked(printed, dict).items():
        if name in STREAMS:
            getattr(sys, name).write(checked(text, str))


@contextmanager
def captured(redirected: Json, printed: dict[str, str]) -> Iterator[None]:
    """Put what is printed meanwhile into `printed`, where it goes to a stream that the caller has redirected.

    What an assertion that fails has printed before may be what the tests expect: it is kept.
    """
    own: dict[str, Any] = {name: getattr(sys, name) for name in STREAMS if name in checked(redirected, list)}
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
