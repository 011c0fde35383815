"""Start, order and end a zygote: the trainer's side."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import Any

from trl_grpo_ext.programs.sandbox.isolation import Isolation, IsolationError
from trl_grpo_ext.programs.sandbox.job import Limits
from trl_grpo_ext.programs.sandbox.packages import NOTHING, VisiblePackages
from trl_grpo_ext.workers.frames import Deadline, DeadlineError
from trl_grpo_ext.workers.processes import ChildProcess

# Time for Python's start and a dozen imports, on a very busy machine.
START_SECONDS = 60.0
# Time to kill the processes that a program has left.
END_SECONDS = 15.0
_MESSAGE_BYTES = 1 << 16
# `-I -S` keeps the package's folder out of the search path; the folder is there only while its modules are loaded.
_BOOT = (
    "import sys; root = sys.argv.pop(1); sys.path.insert(0, root); "
    "from trl_grpo_ext.programs.sandbox.inside.zygote_main import main; sys.path.remove(root); main()"
)
_LIBRARIES = "LD_LIBRARY_PATH"


class LostError(Exception):
    """A zygote or a run's process could not start or was killed from outside; programs get no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The exit of a child: number, wait status, CPU seconds as the kernel charges them, and peak memory in KiB."""

    number: int
    status: int
    cpu_seconds: float
    memory_kb: int


class Zygote(ChildProcess):
    """A warm Python process that forks jailed children. Killing it ends everything in its process tree.

    Args:
        isolation: Walls around the children.
        shown: Packages that children may import besides Python's library.

    Raises:
        IsolationError: if this machine lacks a wall, which the message names.
        LostError: if the process could not start.
    """

    def __init__(self, isolation: Isolation, shown: VisiblePackages = NOTHING) -> None:
        self.namespaces = isolation.namespaces
        """Whether each child has a process tree of its own."""
        # Without a private file system, programs begin in this folder and find links to their packages there.
        self._folder = (
            "" if isolation.namespaces else tempfile.mkdtemp(prefix="trl_grpo_ext-")
        )
        if self._folder:
            Path(self._folder).chmod(0o755)
        config = _config(isolation, shown, self._folder)
        self.exits: dict[int, Exit] = {}
        """Exits of children that ended by themselves, by child number."""
        self._numbers = itertools.count()
        try:
            super().__init__(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-c",
                    _BOOT,
                    str(Path(__file__).resolve().parents[3]),
                    json.dumps(config),
                ],
                kind=socket.SOCK_SEQPACKET,
                env={"MALLOC_ARENA_MAX": "1", _LIBRARIES: _library_path()},
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            self._remove_folder()
            raise
        try:
            answer = self._receive(Deadline(START_SECONDS))
            if "failed" in answer:
                raise IsolationError(answer["failed"])
        except BaseException:
            self.kill()
            raise

    @contextlib.contextmanager
    def children(
        self,
        *wanted: tuple[str, Limits, Sequence[socket.socket | FileIO]],
        shares_files: bool = False,
    ) -> Iterator[list[int]]:
        """Fork children and yield their numbers; children still listed at the end are killed.

        Args:
            wanted: A triple (kind, limits, files) per child. The files become the child's and are closed here.
            shares_files: Whether all children write to a shared folder.
        """
        numbers = [next(self._numbers) for _ in wanted]
        order = []
        passed: list[socket.socket | FileIO] = []
        for number, (kind, limits, files) in zip(numbers, wanted, strict=True):
            order.append(
                {
                    "id": number,
                    "kind": kind,
                    "limits": _limits_record(limits),
                    "descriptors": len(files),
                }
            )
            passed += files
        self._order(
            {"spawn": order, "shares_files": shares_files},
            [file.fileno() for file in passed],
        )
        try:
            # A copy that stays open here would hide from the trainer that the child has closed its end.
            for file in passed:
                file.close()
            yield numbers
        finally:
            self._end(numbers)

    def pause(self, paused: bool) -> None:
        """Stop all processes of all children, threads included, or let them go on.

        A stopped child can be killed, and its exit is reported.

        Raises:
            LostError: if the zygote is gone.
        """
        self._order({"pause": paused}, [])

    def collect(self, seconds: float = 0.0) -> None:
        """Read messages of the zygote and record exits of children in `exits`.

        Args:
            seconds: Time to wait for the first message.
        """
        # `select.select` fails for descriptors above 1023, and a trainer may have thousands open.
        poller = select.poll()
        poller.register(self.socket, select.POLLIN)
        while poller.poll(1000 * seconds):
            self._receive()
            # Only the first message is waited for; others are read if they have arrived.
            seconds = 0.0

    def _end(self, numbers: list[int]) -> None:
        """Kill children, wait until they are gone, and forget their exits."""
        self._order({"end": numbers}, [])
        deadline = Deadline(END_SECONDS)
        # Exits of children may be reported before the order is confirmed.
        while "ended" not in self._receive(deadline):
            pass
        for number in numbers:
            self.exits.pop(number, None)

    def kill(self) -> None:
        """End the zygote with all processes below it, and remove its folder."""
        super().kill()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _order(self, order: dict[str, Any], descriptors: Sequence[int]) -> None:
        try:
            socket.send_fds(self.socket, [json.dumps(order).encode()], list(descriptors))
        except OSError as error:
            raise LostError(f"the zygote takes no orders: {error}") from error

    def _receive(self, deadline: Deadline | None = None) -> dict[str, Any]:
        try:
            if deadline is not None:
                deadline.wait(self.socket.fileno(), select.POLLIN)
            # A SOCK_SEQPACKET socket keeps messages apart, so each read returns one whole message.
            message = self.socket.recv(_MESSAGE_BYTES)
        except (OSError, DeadlineError) as error:
            raise LostError(
                f"the zygote does not answer: {type(error).__name__}"
            ) from error
        if not message:
            raise LostError("the zygote is gone")
        answer: dict[str, Any] = json.loads(message)
        for left in (Exit(**each) for each in answer.get("exits", ())):
            self.exits[left.number] = left
        return answer


@lru_cache(maxsize=16)
def _limits_record(limits: Limits) -> dict[str, Any]:
    """Convert limits to a JSON object, cached: all programs of a run share a few limits."""
    return asdict(limits)


def _library_path() -> str:
    """Return the search path for shared libraries; no other variable of the environment reaches the zygote.

    Conda packages find their libraries in Python's own folder by a path relative to where they are installed. Programs
    see packages at other paths, so that folder is added to the search path.
    """
    return ":".join([*filter(None, [os.environ.get(_LIBRARIES)]), f"{sys.base_prefix}/lib"])


def zygote_mark() -> str:
    """Return a marker text contained in command lines of this process's zygotes and their children."""
    return f"trl_grpo_ext zygote of {os.getpid()};"


def _config(isolation: Isolation, shown: VisiblePackages, folder: str) -> dict[str, Any]:
    """Return the settings of a zygote whose programs begin in this folder."""
    return {
        "namespaces": isolation.namespaces,
        "landlock": isolation.landlock,
        "filtered": isolation is not Isolation.NONE,
        "mark": zygote_mark(),
        "folder": folder,
        "shown": {f"{folder}/{target}": source for target, source in shown.places},
        "path": [f"{folder}/{each}" for each in shown.path],
    }
