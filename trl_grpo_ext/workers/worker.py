"""A worker process, seen from the trainer: it answers one request at a time, and can be killed.

It never imports the user's `__main__`. It ends when the trainer does: its standard input closes, and a kernel timer
stops it should it be inside a call at that moment.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trl_grpo_ext.workers.call import Failure
from trl_grpo_ext.workers.frames import Channel, Deadline, DeadlineError
from trl_grpo_ext.workers.processes import ChildProcess
from trl_grpo_ext.workers.processor_time import OVER_TIME

START_TIMEOUT = 60.0  # seconds to start Python and import what is called, on a machine that is very busy
BUSY_SHARE = 0.5  # a call that ran out of time with less than this share of it as CPU time was starved, or waited


class LateError(Exception):
    """A call was not done when its time was up; `failure` says what it did with it, `seconds` how long it ran."""

    def __init__(self, failure: Failure, seconds: float) -> None:
        super().__init__(failure, seconds)
        self.failure = failure
        self.seconds = seconds


class Worker(ChildProcess):
    """One process that answers one request at a time."""

    def __init__(self) -> None:
        # One thread a worker: the pool is the parallelism, and BLAS threads on busy cores only spin.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        # Only this package's: a `types.py` in the current folder would keep Python from starting.
        environment["PYTHONPATH"] = str(Path(__file__).parents[2])
        command = [sys.executable, "-P", "-m", "trl_grpo_ext.workers.worker_main"]
        super().__init__(command, env=environment, cwd=_folder())
        self._channel = Channel(self.socket.fileno())
        self._prepared: set[str] = set()
        self._cpu_reported = 0.0
        self._queued_before: float | None = None
        try:
            self._ask({"path": sys.path}, Deadline(START_TIMEOUT))
        except BaseException:
            self.kill()
            raise

    def prepare(self, target: str) -> dict[str, Any]:
        """Import what is to be called, outside any call's deadline; the reply says whether that worked."""
        if target in self._prepared:
            return {"value": None}
        reply = self._ask({"target": target}, Deadline(START_TIMEOUT))
        if "failure" not in reply:
            self._prepared.add(target)
        return reply

    def call(self, target: str, arguments: bytes, timeout: float) -> dict[str, Any]:
        """Run a call for `timeout` seconds, or twice that if the machine left it no CPU for the first half.

        Raises:
            LateError: when its time is up, or its processor time.
            OSError, EOFError, FrameError: if the process is gone.
        """
        started = time.monotonic()
        self._queued_before = seconds_queued(self.pid)
        request = {"target": target, "arguments": arguments, "timeout": 2 * timeout}
        deadline = Deadline(timeout, lambda: timeout if self._why_late(timeout) is Failure.STARVED else 0.0)
        try:
            return self._ask(request, deadline)
        except DeadlineError:
            raise LateError(self._why_late(timeout), time.monotonic() - started) from None
        except EOFError:
            if self._ended_by(OVER_TIME):
                raise LateError(Failure.TIMEOUT, time.monotonic() - started) from None
            raise

    def _ended_by(self, number: int) -> bool:
        """Return whether a signal has ended it, or ends it within a second."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(1.0) == -number
        return False

    def _why_late(self, timeout: float) -> Failure:
        """What a call that is under way after `timeout` seconds did with them."""
        ran, enough = seconds_on_cpu(self.pid) - self._cpu_reported, BUSY_SHARE * timeout
        if ran >= enough:
            return Failure.TIMEOUT
        queued = seconds_queued(self.pid)
        if queued is None or self._queued_before is None or ran + queued - self._queued_before >= enough:
            return Failure.STARVED
        return Failure.WAITED if is_asleep(self.pid) else Failure.STARVED

    def _ask(self, request: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
        self._channel.send_bytes(pickle.dumps(request), deadline)
        reply: dict[str, Any] = self._channel.receive(deadline)
        self._cpu_reported = reply["cpu"]
        return reply


def _folder() -> str | None:
    """Where to begin: here, but for a folder that was removed, in which Python does not start."""
    try:
        Path.cwd()
    except OSError:
        return "/"
    return None


def seconds_on_cpu(pid: int) -> float:
    """The CPU time of a running process since it began; raises psutil's errors if there is none."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def seconds_queued(pid: int) -> float | None:
    """How long the threads of a process could have run and had no CPU; None where the kernel does not count it."""
    try:
        return sum(int(_of_thread(thread, "schedstat").split()[1]) for thread in _threads(pid)) / 1e9
    except (OSError, IndexError, ValueError):  # no Linux, a kernel without it, or a thread that has just ended
        return None


def is_asleep(pid: int) -> bool:
    """Whether at this moment all threads of a process wait for something else than a CPU, such as a clock or a socket.

    One that a quota or a signal has stopped does not: it would go on if it were let.
    """
    try:
        return all(_of_thread(thread, "stat").rpartition(")")[2].split()[0] == "S" for thread in _threads(pid))
    except (OSError, IndexError):
        return False


def _threads(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").iterdir()


def _of_thread(thread: Path, file: str) -> str:
    return (thread / file).read_text(encoding="utf-8", errors="replace")
