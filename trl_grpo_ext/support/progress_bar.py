"""Show the progress of a command on stderr, and silence warnings."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 1.0


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress log warnings in the `with` block, such as a traceback that the command summarises in a sentence."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(before)


class Progress:
    """A progress line on stderr, shown after a second and then at growing intervals.

    Args:
        what: The activity, such as `checking data`.
        total: The number of items.
        unit: The name of the items, in the plural.
    """

    def __init__(self, what: str, total: int, unit: str) -> None:
        self.what = what
        self.total = total
        self.unit = unit
        self.started = time.monotonic()
        self.shown = self.started

    @property
    def seconds(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self.started

    def show(self, done: int, beside: str = "") -> None:
        """Print the number of finished items and a remark, unless a line was shown recently or all items are done."""
        now = time.monotonic()
        # Lines become rarer in a long command, so that they do not fill the screen.
        pause = max(SECONDS_BETWEEN_LINES, 0.2 * (now - self.started))
        if done < self.total and now - self.shown > pause:
            self.shown = now
            print(
                f"{self.what}: {done} of {self.total} {self.unit}{beside}",
                file=sys.stderr,
                flush=True,
            )
