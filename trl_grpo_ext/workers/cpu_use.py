"""How a process spent its time: on a CPU, waiting for one, or waiting for something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


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
