"""The main program of a worker process: `python -m trl_grpo_ext.workers.worker_main`.

Standard input is its channel to the trainer. Requests are pickles, since the worker trusts the trainer; replies are
JSON, since the worker has handled text of a model.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from trl_grpo_ext.support.lazy import find_object
from trl_grpo_ext.support.text import error_text
from trl_grpo_ext.workers.frames import Channel, FrameError, reset_signals

# Bytes of private memory; libraries mapped from files do not count (those of a CUDA build are huge).
MEMORY_LIMIT = 4 << 30
# The trainer kills a late worker itself. If the trainer is gone, the kernel kills the worker this much later.
GRACE_SECONDS = 2.0


@cache
def find_target(target: str) -> Callable[..., Any]:
    """Import the function that `"module:qualified.name"` names."""
    module, _, qualname = target.partition(":")
    found = find_object(module, qualname)
    if not callable(found):
        raise TypeError(f"{target} is not a function")
    return found


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run one request; return its value, or the exception's type and text."""
    try:
        if "path" in request:
            sys.path[:] = request["path"]
            return {"value": None}
        function = find_target(request["target"])
        # A request without arguments only imports the function.
        if "arguments" not in request:
            return {"value": None}
        signal.setitimer(signal.ITIMER_REAL, request["timeout"] + GRACE_SECONDS)
        try:
            return {"value": function(*pickle.loads(request["arguments"]))}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Exception as error:
        return {"failure": type(error).__name__, "error": error_text(error)}


def main() -> None:
    """Answer requests until standard input ends."""
    # A signal that the parent process blocks could not end this worker.
    reset_signals()
    channel = Channel(os.dup(0))
    # A verifier must neither print among the replies nor read the requests.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    # The trainer handles Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The default action of the alarm ends the process even inside a C loop.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _limit_memory()
    while True:
        try:
            request = pickle.loads(channel.receive_bytes())
        except (EOFError, FrameError):
            return
        _send(channel, answer(request) | {"cpu": time.process_time()})


def _limit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MEMORY_LIMIT if hard == resource.RLIM_INFINITY else min(MEMORY_LIMIT, hard)
    # macOS does not know this limit.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _send(channel: Channel, reply: dict[str, Any]) -> None:
    try:
        channel.send(reply)
    except (TypeError, ValueError, RecursionError) as error:
        # JSON cannot hold the function's return value.
        channel.send(
            {
                "failure": type(error).__name__,
                "error": error_text(error),
                "cpu": reply["cpu"],
            }
        )


if __name__ == "__main__":
    main()
