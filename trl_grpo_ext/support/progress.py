"""What a command says on stderr while it works, and what it keeps to itself."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 1.0


@contextmanager
def without_warnings() -> Iterator[None]:
    """Log no warning within the `with` block, such as a traceback whose place the command tells in a sentence."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(before)


class Progress:
    """Says on stderr how far something has got: after a second, and then less and less often.

    Args:
        what: What is being done, such as `checking data`.
        total: How many there are to do.
        unit: What they are, in the plural.
    """

    def __init__(self, what: str, total: int, unit: str) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.started = self.shown = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.started

    def show(self, done: int, beside: str = "") -> None:
        """Say that so many are done, and what else is known; nothing if it is too early, or if it is the last."""
        now = time.monotonic()
        if done < self.total and now - self.shown > max(SECONDS_BETWEEN_LINES, 0.2 * (now - self.started)):
            self.shown = now
            print(f"{self.what}: {done} of {self.total} {self.unit}{beside}", file=sys.stderr, flush=True)
