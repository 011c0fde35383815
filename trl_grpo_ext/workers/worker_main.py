"""What a worker process runs: `python -m trl_grpo_ext.workers.worker_main`.

Standard input is its channel to the trainer. Requests are pickles, since the trainer is trusted; replies are JSON,
since the worker has handled a model's text.
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

MEMORY_LIMIT = 4 << 30  # bytes of private memory; libraries mapped from files (a CUDA build's are huge) do not count
# The trainer kills a late worker itself. Should the trainer be gone, the kernel does it this much later.
GRACE_SECONDS = 2.0


@cache
def find_target(target: str) -> Callable[..., Any]:
    """The function that `"module:qualified.name"` names."""
    module, _, qualname = target.partition(":")
    found = find_object(module, qualname)
    if not callable(found):
        raise TypeError(f"{target} is not a function")
    return found


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run one request; an exception is an answer too."""
    try:
        if "path" in request:
            sys.path[:] = request["path"]
            return {"value": None}
        function = find_target(request["target"])
        if "arguments" not in request:  # only asked to import it
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
    reset_signals()  # one that is blocked would not end it
    channel = Channel(os.dup(0))
    # Whatever a verifier prints must not end up among the replies, nor may it read the requests.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's to handle
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process even inside a C loop
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
    with contextlib.suppress(ValueError, OSError):  # macOS does not know this limit
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _send(channel: Channel, reply: dict[str, Any]) -> None:
    try:
        channel.send(reply)
    except (TypeError, ValueError, RecursionError) as error:  # what the function returned is no JSON
        channel.send({"failure": type(error).__name__, "error": error_text(error), "cpu": reply["cpu"]})


if __name__ == "__main__":
    main()
