"""Wait for output and exit of a run's processes, with time and memory limits."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.program import EXIT_COMPILE_ERROR, EXIT_MEMORY
from trl_grpo_ext.programs.sandbox.isolation import IsolationError
from trl_grpo_ext.programs.sandbox.job import Ending, Limits, TestResult
from trl_grpo_ext.programs.sandbox.zygote import Exit, LostError, Zygote
from trl_grpo_ext.workers.frames import Channel, Deadline, DeadlineError, Inbox

# Time from the fork order until all walls are up, on a very busy machine.
READY_SECONDS = 30.0
# Time to wait for the exit status of a program that has ended.
STATUS_SECONDS = 1.0
# Interval between memory checks of a running program.
TICK_SECONDS = 0.05
# A process may have this many descriptors; each further descriptor counts as a full socket.
_USUAL_DESCRIPTORS = 16
# Pages of zygote and judge, which do not count as memory of the program.
_MEMORY_SLACK = 64 << 20
# Most real-time signals have no name.
_SIGNALS = {each.value: each.name for each in signal.Signals}


class LimitError(Exception):
    """A program exceeded a limit; `result` belongs to the test that was running."""

    def __init__(self, result: TestResult) -> None:
        super().__init__(result)
        self.result = result


class Monitor:
    """A poller for the descriptors of a run that raises LimitError for exceeded time or memory."""

    def __init__(self, zygote: Zygote, limits: Limits) -> None:
        self._zygote = zygote
        self._limits = limits
        self._memory = (limits.memory_mb << 20) + _MEMORY_SLACK
        self._poller = select.poll()
        self._poller.register(zygote.socket, select.POLLIN)
        self._at = time.monotonic() + READY_SECONDS
        # Time of the next memory check; none until the program may run.
        self._look_at = math.inf

    def add(self, descriptor: int, event: int = select.POLLIN) -> None:
        self._poller.register(descriptor, event)

    def remove(self, descriptor: int) -> None:
        self._poller.unregister(descriptor)

    def await_ready(self, inbox: Inbox) -> None:
        """Wait for a child's first frame, sent before any code of the program runs.

        Raises:
            IsolationError: if the child reports that a wall could not be put up.
            LostError: if the child ends or stays silent.
        """
        self.add(inbox.descriptor)
        frame = inbox.next()
        try:
            while frame is None and not inbox.ended:
                if inbox.descriptor in self.wait():
                    inbox.read()
                    frame = inbox.next()
        except LimitError:
            raise LostError("the jail was not up in time") from None
        finally:
            self.remove(inbox.descriptor)
        if frame is None:
            raise LostError("the jail ended before it was up")
        if "ready" not in frame:
            raise IsolationError(str(frame.get("failed")))

    def start(self, seconds: float) -> None:
        """Start the program's clock: from now on, the program may run for `seconds`."""
        self._at = time.monotonic() + seconds
        self._look_at = time.monotonic() + TICK_SECONDS

    def wait(self) -> set[int]:
        """Wait until a descriptor is ready, handle messages of the zygote, and return all ready descriptors.

        The result may be empty after a message of the zygote.

        Raises:
            LimitError: if time is up, or the program uses too much memory.
        """
        while True:
            now = time.monotonic()
            left = self._at - now
            if left <= 0:
                raise LimitError(_over_time(self._limits))
            # Check memory by the clock, not in idle moments: a program could prevent idle moments.
            if now >= self._look_at:
                cost = self.check_memory()
                # A program can make a check costly. Only CPU time counts: on a busy machine a check may wait.
                self._look_at = time.monotonic() + max(TICK_SECONDS, 3 * cost)
            found = {
                descriptor
                for descriptor, _ in self._poller.poll(1000 * min(left, TICK_SECONDS))
            }
            if self._zygote.socket.fileno() in found:
                found.remove(self._zygote.socket.fileno())
                self._zygote.collect()
                # Even an empty set is returned, because the caller may wait for the exit of a child.
                return found
            if found:
                return found

    def check_memory(self) -> float:
        """Measure the memory of all processes below the zygote; pages that they share count once.

        Returns:
            The CPU seconds that the check took.

        Raises:
            LimitError: if they use too much together, or if time is up before all are measured.
        """
        began = time.thread_time()
        tasks = [task for pid in _below(self._zygote) for task in _live_task(pid)]
        # The upper bounds are quick to read, and show for most programs that memory is within the limit.
        if sum(most for _, most in tasks) <= self._memory:
            return time.thread_time() - began
        # In a thread: these reads take no timeout, and a program can make them slow.
        measured: list[tuple[int, float]] = []
        reader = threading.Thread(
            target=lambda: measured.append(_sum_of_shares(tasks)), daemon=True
        )
        # A process that forks again and again would hold up the reads, while others take memory.
        self._zygote.pause(True)
        reader.start()
        reader.join(max(0.0, self._at - time.monotonic()))
        self._zygote.pause(False)
        if not measured:
            raise LimitError(_over_time(self._limits))
        total, cost = measured[0]
        if total > self._memory:
            raise LimitError(_over_memory(self._limits))
        return time.thread_time() - began + cost


def tell(receiver: socket.socket, message: dict[str, Any]) -> None:
    """Send a frame to a child, ignoring errors.

    A child that is gone is noticed elsewhere, by its exit.
    """
    with contextlib.suppress(OSError, DeadlineError):
        Channel(receiver.fileno()).send(message, Deadline(READY_SECONDS))


def await_exit(zygote: Zygote, number: int) -> Exit | None:
    """Wait up to `STATUS_SECONDS` for a child's exit; return None if the child still runs."""
    deadline = time.monotonic() + STATUS_SECONDS
    while number not in zygote.exits and time.monotonic() < deadline:
        zygote.collect(0.01)
    return zygote.exits.get(number)


def check_killed(left: Exit | None, limits: Limits) -> None:
    """Raise LostError if something outside the sandbox killed a process.

    Call it only for processes that neither kill themselves nor can be killed by the program: judges, and programs that
    are process 1 of a process tree. The kernel kills such a process only for its use of memory or CPU time, so a
    SIGKILL below the limit of CPU time and half of that of memory came from outside.

    Raises:
        LostError: if the process was killed from outside.
    """
    if left is None or os.waitstatus_to_exitcode(left.status) != -signal.SIGKILL:
        return
    # The shift by 9 instead of 10 gives half of the memory limit in KiB.
    if left.cpu_seconds < limits.cpu_seconds and left.memory_kb < limits.memory_mb << 9:
        raise LostError("a process was killed from outside")


def read_exit(left: Exit, limits: Limits) -> TestResult:
    """Turn the exit of a program that gave no answer into a test result."""
    code = os.waitstatus_to_exitcode(left.status)
    # `limiting` sets soft and hard limit to one value, and at the hard limit the kernel sends SIGKILL.
    if code == -signal.SIGXCPU or (
        code == -signal.SIGKILL and left.cpu_seconds >= limits.cpu_seconds
    ):
        return TestResult(
            ending=Ending.TIMEOUT, detail=f"over {limits.cpu_seconds:g} s of processor time"
        )
    if code < 0:
        # A negative code is the number of the signal that ended the process.
        name = _SIGNALS.get(-code, f"signal {-code}")
        return TestResult(ending=Ending.KILLED, detail=f"ended by {name}")
    if code == EXIT_MEMORY:
        return _over_memory(limits)
    if code == EXIT_COMPILE_ERROR:
        return TestResult(ending=Ending.COMPILE_ERROR)
    return TestResult(ending=Ending.ERROR, detail=f"the program exited with status {code}")


def _over_time(limits: Limits) -> TestResult:
    """Build the test result for exceeded wall time."""
    return TestResult(ending=Ending.TIMEOUT, detail=f"over {limits.wall_seconds:g} s")


def _over_memory(limits: Limits) -> TestResult:
    """Build the test result for exceeded memory."""
    return TestResult(ending=Ending.MEMORY, detail=f"over {limits.memory_mb} MiB")


def _below(zygote: Zygote) -> list[int]:
    """List process numbers below a zygote, without the zygote itself."""
    found, waiting = [], _children(zygote.pid)
    while waiting:
        current = waiting.pop()
        waiting += _children(current)
        found.append(current)
    # With namespaces, the process that the trainer started is a keeper, and its only child is the zygote.
    return found[1:] if zygote.namespaces else found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            # The kernel lists a child under the thread that started the child.
            children += map(int, _read(f"{task}/children").split())
    return children


def _live_task(pid: int) -> Iterator[tuple[Path, int]]:
    """Yield a live thread of a process and an upper bound of the process's memory in bytes.

    The first thread may have ended while others run. Nothing is yielded for a process that has ended.
    """
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            resident = _sum_of_lines(
                _read(f"{task}/status"), (b"VmRSS:", b"VmSwap:", b"VmPTE:")
            )
            # A thread that has ended has no lines on memory.
            if not resident:
                continue
            descriptors = sum(1 for _ in (task / "fd").iterdir())
            # Each may be a socket full of unread data.
            sockets = max(0, descriptors - _USUAL_DESCRIPTORS)
            yield task, resident + sockets * _socket_bytes()
            return


def _sum_of_shares(tasks: list[tuple[Path, int]]) -> tuple[int, float]:
    """Return the memory of processes in bytes, with shared pages by their shares, and the CPU seconds this took."""
    began = time.thread_time()
    total = sum(_proportional_bytes(task, most) for task, most in tasks)
    return total, time.thread_time() - began


def _proportional_bytes(task: Path, most: int) -> int:
    """Return memory of a process in bytes, where each shared page counts by its share.

    Args:
        task: The folder of a thread in /proc.
        most: Upper bound of the memory, in which shared pages count in full.
    """
    text = _read(f"{task}/smaps_rollup")
    # A process that has ended since its upper bound was read holds nothing; one that hides its pages counts in full.
    pid = int(task.parent.parent.name)
    if not text and not any(_live_task(pid)):
        return 0
    in_full = _sum_of_lines(text, (b"Rss:", b"Swap:"))
    by_shares = _sum_of_lines(text, (b"Pss:", b"SwapPss:"))
    return most - in_full + by_shares


def _sum_of_lines(text: bytes, names: tuple[bytes, ...]) -> int:
    r"""Add up the kB figures of lines that begin with a name in `names`, and return bytes.

    A program chooses the name of its process, which stands in the text: any bytes, though the kernel writes a newline
    in it as `\n`. So lines end with a newline only, and nothing is decoded.
    """
    return sum(
        1024 * int(line.split()[1]) for line in text.split(b"\n") if line.startswith(names)
    )


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


@functools.cache
def _socket_bytes() -> int:
    """Return how many bytes an unread socket may hold."""
    return int(_read("/proc/sys/net/core/wmem_default") or 1 << 18)
