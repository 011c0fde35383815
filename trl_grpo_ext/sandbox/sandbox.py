"""What a sandbox is to the rest of the package, and the one that a process shares."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from trl_grpo_ext.sandbox.job import Job, RunResult


class Sandbox(Protocol):
    """Runs programs against tests, here or elsewhere."""

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """One outcome a job, in order. Never raises for what a program does; its own failures are NO_VERDICT."""

    def check(self) -> str:
        """What programs are run behind. Raises a ValueError that says what is missing if they cannot be run."""

    def close(self) -> None:
        """End what it has started; it may be used again."""


_shared: dict[tuple[object, ...], Sandbox] = {}
_lock = threading.Lock()


def local_sandbox(*, workers: int | None = None, packages: Sequence[str] = (), allow_unsafe: bool = False) -> Sandbox:
    """The sandbox of this process with these settings, made when it is first asked for. A forked child makes its own.

    Args:
        workers: Programs to run at a time; by default one for each core that this rank may use.
        packages: Folders of packages that programs may import, besides Python's own library.
        allow_unsafe: Whether to run programs without walls where this machine has none.
    """
    from trl_grpo_ext.sandbox.local import LocalSandbox
    from trl_grpo_ext.workers.pool import usable_cores

    return shared(
        ("local", workers, tuple(packages), allow_unsafe),
        lambda: LocalSandbox(workers or usable_cores(), packages=packages, allow_unsafe=allow_unsafe),
    )


def shared(key: tuple[object, ...], make: Callable[[], Sandbox]) -> Sandbox:
    """The sandbox of this process by that key, made when it is first asked for. A forked child makes its own."""
    with _lock:
        if key not in _shared:
            _shared[key] = make()
        return _shared[key]


def close_sandboxes() -> None:
    """End the processes of this process's sandboxes; they start again when they are needed."""
    for sandbox in _shared.values():
        sandbox.close()


def _forget() -> None:
    # The parent's processes answer the parent. Its lock may be held by a thread that does not exist here.
    global _lock
    for sandbox in _shared.values():
        abandon = getattr(sandbox, "abandon", None)
        if abandon:
            abandon()
    _shared.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
atexit.register(close_sandboxes)
