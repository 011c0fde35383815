"""Waiting for the output and the end of a run's processes, within limits of time and memory."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trl_grpo_ext.sandbox.inside.program import EXIT_COMPILE_ERROR, EXIT_MEMORY
from trl_grpo_ext.sandbox.isolation import IsolationError
from trl_grpo_ext.sandbox.job import Ending, Limits, TestResult
from trl_grpo_ext.sandbox.zygote import Exit, LostError, Zygote
from trl_grpo_ext.workers.frames import Channel, Deadline, DeadlineError, Inbox

READY_SECONDS = 30.0  # from the order to fork until the walls are up, on a machine that is very busy
STATUS_SECONDS = 1.0  # to learn how a program ended that has ended
TICK_SECONDS = 0.05  # how often a run that takes long is looked at
_USUAL_DESCRIPTORS = 16  # of a process; those beyond count as full sockets
_MEMORY_SLACK = 64 << 20  # the pages of the zygote and the judge
_SIGNALS = {each.value: each.name for each in signal.Signals}  # most real-time signals have no name


class LimitError(Exception):
    """The program has used up what it may use: `result` is that of the test during which that happened."""

    def __init__(self, result: TestResult) -> None:
        super().__init__(result)
        self.result = result


class Monitor:
    """Waits for descriptors of a run, and notices when its time is up or it takes too much memory."""

    def __init__(self, zygote: Zygote, limits: Limits) -> None:
        self._zygote = zygote
        self._limits = limits
        self._memory = (limits.memory_mb << 20) + _MEMORY_SLACK
        self._poller = select.poll()
        self._poller.register(zygote.socket, select.POLLIN)
        self._at = time.monotonic() + READY_SECONDS
        self._look_at = math.inf  # when to look at the memory next

    def add(self, descriptor: int, event: int = select.POLLIN) -> None:
        self._poller.register(descriptor, event)

    def remove(self, descriptor: int) -> None:
        self._poller.unregister(descriptor)

    def await_ready(self, inbox: Inbox) -> None:
        """Wait for the first frame of a child, the last thing that it says before a program may run.

        Raises IsolationError if it says that it could not be jailed, and LostError if it says nothing.
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
        """The program may run from now on, for so long."""
        self._at = time.monotonic() + seconds
        self._look_at = time.monotonic() + TICK_SECONDS

    def wait(self) -> set[int]:
        """The descriptors on which something can be done; what the zygote says is taken in.

        Raises LimitError when the time is up, or too much memory is in use.
        """
        while True:
            now = time.monotonic()
            left = self._at - now
            if left <= 0:
                raise LimitError(_over_time(self._limits))
            # By the clock, not when nothing is to be done: a program could see to it that there always is.
            if now >= self._look_at:
                began = time.thread_time()
                if _use_more_than(self._memory, _below(self._zygote)):
                    raise LimitError(_over_memory(self._limits))
                # A program can make a look costly. Only CPU time counts: on a busy machine a look may wait.
                self._look_at = time.monotonic() + max(TICK_SECONDS, 3 * (time.thread_time() - began))
            found = {descriptor for descriptor, _ in self._poller.poll(1000 * min(left, TICK_SECONDS))}
            if self._zygote.socket.fileno() in found:
                found.remove(self._zygote.socket.fileno())
                self._zygote.collect()
                return found
            if found:
                return found


def tell(receiver: socket.socket, message: dict[str, Any]) -> None:
    """Send a frame to a child that will read it, or that is gone, which shows elsewhere."""
    with contextlib.suppress(OSError, DeadlineError):
        Channel(receiver.fileno()).send(message, Deadline(READY_SECONDS))


def await_exit(zygote: Zygote, number: int) -> Exit | None:
    """How a child ended that is about to end; None if it has not, after all."""
    deadline = time.monotonic() + STATUS_SECONDS
    while number not in zygote.exits and time.monotonic() < deadline:
        zygote.collect(0.01)
    return zygote.exits.get(number)


def check_killed(left: Exit | None, limits: Limits) -> None:
    """See whether a process was killed from outside, for one that cannot kill itself and that its program cannot kill.

    That is every judge, and a program that is the first process of a process tree. The kernel kills these too, but only
    for the memory or the processor time that they have used. Raises LostError if so.
    """
    if left is None or os.waitstatus_to_exitcode(left.status) != -signal.SIGKILL:
        return
    if left.cpu_seconds < limits.cpu_seconds / 2 and left.memory_kb < limits.memory_mb << 9:  # half of each
        raise LostError("a process was killed from outside")


def read_exit(left: Exit, limits: Limits) -> TestResult:
    """What the end of a process says of its program; for one that ended before it had answered."""
    code = os.waitstatus_to_exitcode(left.status)
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and left.cpu_seconds >= 0.9 * limits.cpu_seconds):
        return TestResult(ending=Ending.TIMEOUT, detail=f"over {limits.cpu_seconds:g} s of processor time")
    if code < 0:
        name = _SIGNALS.get(-code, f"signal {-code}")
        return TestResult(ending=Ending.KILLED, detail=f"ended by {name}")
    if code == EXIT_MEMORY:
        return _over_memory(limits)
    if code == EXIT_COMPILE_ERROR:
        return TestResult(ending=Ending.COMPILE_ERROR)
    return TestResult(ending=Ending.ERROR, detail=f"the program exited with status {code}")


def _over_time(limits: Limits) -> TestResult:
    """The result of a test during which the time was up."""
    return TestResult(ending=Ending.TIMEOUT, detail=f"over {limits.wall_seconds:g} s")


def _over_memory(limits: Limits) -> TestResult:
    """The result of a test that needed too much memory."""
    return TestResult(ending=Ending.MEMORY, detail=f"over {limits.memory_mb} MiB")


def _below(zygote: Zygote) -> list[int]:
    """The processes that run under a zygote."""
    found, waiting = [], _children(zygote.pid)
    while waiting:
        current = waiting.pop()
        waiting += _children(current)
        found.append(current)
    return found[1:] if zygote.namespaces else found  # the only child of a keeper is its zygote


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, _read(f"{task}/children").split())
    return children


def _use_more_than(limit: int, pids: list[int]) -> bool:
    """Whether processes use more memory than this together; what they share counts once."""
    tasks = [task for pid in pids for task in _live_task(pid)]
    # What each has by itself is quickly read, and is enough to know of most programs that they do not.
    return sum(most for _, most in tasks) > limit and sum(_proportional_bytes(*task) for task in tasks) > limit


def _live_task(pid: int) -> Iterator[tuple[Path, int]]:
    """A thread of a process that has not ended, as the first may have; and at most how many bytes the process uses."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            if found := _sum_of_lines(_read(f"{task}/status"), ("VmRSS:", "VmSwap:", "VmPTE:")):
                descriptors = sum(1 for _ in (task / "fd").iterdir()) - _USUAL_DESCRIPTORS
                yield task, found + max(0, descriptors) * _socket_bytes()
                return


def _proportional_bytes(task: Path, most: int) -> int:
    """What a process uses, and of what it shares its part only; `most` counts all that it shares."""
    text = _read(f"{task}/smaps_rollup")
    return most - _sum_of_lines(text, ("Rss:", "Swap:")) + _sum_of_lines(text, ("Pss:", "SwapPss:"))


def _sum_of_lines(text: str, names: tuple[str, ...]) -> int:
    """Bytes in the lines that begin so, of a file that the kernel writes."""
    return sum(1024 * int(line.split()[1]) for line in text.splitlines() if line.startswith(names))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


@functools.cache
def _socket_bytes() -> int:
    """The most that one socket holds for whoever reads it."""
    return int(_read("/proc/sys/net/core/wmem_default") or 1 << 18)
