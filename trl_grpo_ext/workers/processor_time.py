"""A bound on the processor time of a part of a call, for parts that take milliseconds unless an answer is hostile.

The kernel ends the worker when the time is used up, also inside a loop of C code. It counts only the time that the
worker ran, so the bound is the answer's fault on a machine that is busy, too.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

OVER_TIME = signal.SIGPROF
"""The signal that ends a worker whose processor time is used up."""


@contextlib.contextmanager
def processor_seconds(most: float) -> Iterator[None]:
    """End this process, a worker, if the block takes more processor time: the call is then a TIMEOUT with score 0."""
    signal.setitimer(signal.ITIMER_PROF, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
