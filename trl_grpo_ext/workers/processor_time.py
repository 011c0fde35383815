"""Limit the CPU time of a part of a call, for parts that take milliseconds unless an answer is hostile.

The kernel ends the worker when the CPU time is used up, even inside a loop of C code. It counts only the time when the
worker ran, so on a busy machine too the answer is to blame.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

OVER_TIME = signal.SIGPROF
"""The signal that ends a worker whose CPU time is used up."""


@contextlib.contextmanager
def processor_seconds(most: float) -> Iterator[None]:
    """End this worker process if the `with` block takes more than `most` seconds of CPU time.

    The call is then a TIMEOUT with score 0.
    """
    signal.setitimer(signal.ITIMER_PROF, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
