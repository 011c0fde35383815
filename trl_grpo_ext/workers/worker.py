"""The trainer's side of a worker process, which answers one request at a time and can be killed.

It never imports the user's `__main__`. It ends when the trainer ends, since its standard input closes; inside a call, a
kernel timer ends it.
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

# Seconds to start Python and import the target, even on a very busy machine.
START_TIMEOUT = 60.0
# A late call whose CPU time is below this share of its wall time was starved or waited.
BUSY_SHARE = 0.5


class LateError(Exception):
    """A call that exceeded its time limit: `failure` says how it spent the time, `seconds` how long it ran."""

    def __init__(self, failure: Failure, seconds: float) -> None:
        super().__init__(failure, seconds)
        self.failure = failure
        self.seconds = seconds


class Worker(ChildProcess):
    """A worker process that answers one request at a time."""

    def __init__(self) -> None:
        # One thread per worker: the pool runs workers in parallel, and BLAS threads on busy cores only spin.
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        # Only this package's folder: a `types.py` in the current folder would keep Python from starting.
        environment["PYTHONPATH"] = str(Path(__file__).parents[2])
        command = [sys.executable, "-P", "-m", "trl_grpo_ext.workers.worker_main"]
        super().__init__(command, env=environment, cwd=_folder())
        self._channel = Channel(self.socket.fileno())
        self._prepared: set[str] = set()
        self._cpu_reported = 0.0
        self._queued_before: float | None = None
        self._path: list[str] = []
        try:
            self._share_path()
        except BaseException:
            self.kill()
            raise

    def prepare(self, target: str) -> dict[str, Any]:
        """Import the target function before any call's deadline begins; the reply says whether the import worked."""
        if target in self._prepared:
            return {"value": None}
        # A notebook may have added a folder since the worker's start.
        self._share_path()
        reply = self._ask({"target": target}, Deadline(START_TIMEOUT))
        if "failure" not in reply:
            self._prepared.add(target)
        return reply

    def _share_path(self) -> None:
        """Let the worker import from the folders of this process, unless it knows them."""
        path = list(sys.path)
        if path != self._path:
            self._ask({"path": path}, Deadline(START_TIMEOUT))
            self._path = path

    def call(self, target: str, arguments: bytes, timeout: float) -> dict[str, Any]:
        """Call a function with pickled arguments, for `timeout` seconds, or twice that if the machine left it no CPU.

        Raises:
            LateError: if the wall time or the CPU time is used up.
            OSError, EOFError, FrameError: if the process is gone.
        """
        started = time.monotonic()
        self._queued_before = seconds_queued(self.pid)
        request = {"target": target, "arguments": arguments, "timeout": 2 * timeout}
        deadline = Deadline(
            timeout, lambda: timeout if self._why_late(timeout) is Failure.STARVED else 0.0
        )
        try:
            return self._ask(request, deadline)
        except DeadlineError:
            raise LateError(self._why_late(timeout), time.monotonic() - started) from None
        except EOFError:
            if self._ended_by(OVER_TIME):
                raise LateError(Failure.TIMEOUT, time.monotonic() - started) from None
            raise

    def _ended_by(self, number: int) -> bool:
        """Wait up to a second for the process to end; return whether signal `number` killed it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(1.0) == -number
        return False

    def _why_late(self, timeout: float) -> Failure:
        """Classify a call that still runs after `timeout` seconds, by its CPU time and its time in the run queue."""
        ran, enough = seconds_on_cpu(self.pid) - self._cpu_reported, BUSY_SHARE * timeout
        if ran >= enough:
            return Failure.TIMEOUT
        queued = seconds_queued(self.pid)
        if (
            queued is None
            or self._queued_before is None
            or ran + queued - self._queued_before >= enough
        ):
            return Failure.STARVED
        return Failure.WAITED if is_asleep(self.pid) else Failure.STARVED

    def _ask(self, request: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
        self._channel.send_bytes(pickle.dumps(request), deadline)
        reply: dict[str, Any] = self._channel.receive(deadline)
        self._cpu_reported = reply["cpu"]
        return reply


def _folder() -> str | None:
    """Return the start folder: None for the current folder, `/` if that was removed (Python would fail to start)."""
    try:
        Path.cwd()
    except OSError:
        return "/"
    return None


def seconds_on_cpu(pid: int) -> float:
    """Return the CPU time of a running process since its start; raise psutil's errors if the process is gone."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def seconds_queued(pid: int) -> float | None:
    """Sum the seconds that a process's threads waited for a CPU; None if the kernel does not count them."""
    try:
        return (
            sum(int(_of_thread(thread, "schedstat").split()[1]) for thread in _threads(pid))
            / 1e9
        )
    except (OSError, IndexError, ValueError):
        # No Linux, a kernel without schedstat, or a thread that has just ended.
        return None


def is_asleep(pid: int) -> bool:
    """Return whether every thread of a process sleeps, waiting for example for a clock or a socket.

    A thread stopped by a quota or a signal does not count as asleep: it would run if it were allowed to.
    """
    try:
        return all(
            _of_thread(thread, "stat").rpartition(")")[2].split()[0] == "S"
            for thread in _threads(pid)
        )
    except (OSError, IndexError):
        return False


def _threads(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").iterdir()


def _of_thread(thread: Path, file: str) -> str:
    return (thread / file).read_text(encoding="utf-8", errors="replace")
