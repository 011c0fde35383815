"""A zygote, seen from the trainer: it is started, given orders, and ended."""

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
from io import FileIO
from pathlib import Path
from typing import Any

from trl_grpo_ext.sandbox.isolation import Isolation, IsolationError
from trl_grpo_ext.sandbox.job import Limits
from trl_grpo_ext.sandbox.packages import NOTHING, Shown
from trl_grpo_ext.workers.frames import Deadline, DeadlineError
from trl_grpo_ext.workers.processes import ChildProcess

START_SECONDS = 60.0  # Python's start and a dozen imports, on a machine that is very busy
END_SECONDS = 15.0  # to kill what a program has left
_MESSAGE_BYTES = 1 << 16
# `-I -S` leaves the package's folder out of the search path; it is there only while its modules are loaded.
_BOOT = (
    "import sys; root = sys.argv.pop(1); sys.path.insert(0, root); "
    "from trl_grpo_ext.sandbox.inside.zygote_main import main; sys.path.remove(root); main()"
)
_LIBRARIES = "LD_LIBRARY_PATH"


class LostError(Exception):
    """The zygote, or a process of a run, could not start or was killed from outside: what it ran has no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a child ended: its number, its wait status, the CPU seconds and the memory that it used."""

    number: int
    status: int
    cpu_seconds: float
    memory_kb: int


class Zygote(ChildProcess):
    """One warm process that forks jailed children. To kill it ends everything in its process tree.

    Its children get the walls of `isolation`, and may import what is `shown`, besides Python's own library. Raises
    IsolationError if this machine lacks a wall, which the message names, and LostError if it could not start.
    """

    def __init__(self, isolation: Isolation, shown: Shown = NOTHING) -> None:
        self.namespaces = isolation.namespaces
        """Whether its children have process trees of their own."""
        # Without a file system of their own, programs begin here, and find links to what they are shown.
        self._folder = "" if isolation.namespaces else tempfile.mkdtemp(prefix="trl_grpo_ext-")
        if self._folder:
            Path(self._folder).chmod(0o755)
        config = {
            "namespaces": isolation.namespaces,
            "landlock": isolation.landlock,
            "filtered": isolation is not Isolation.NONE,
            "mark": zygote_mark(),
            "folder": self._folder,
            "shown": {f"{self._folder}/{target}": source for target, source in shown.places},
            "path": [f"{self._folder}/{folder}" for folder in shown.path],
        }
        self.exits: dict[int, Exit] = {}
        """How children ended by themselves, by their number."""
        self._numbers = itertools.count()
        try:
            super().__init__(
                [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(__file__).resolve().parents[2]), json.dumps(config)],
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
        self, *wanted: tuple[str, Limits, Sequence[socket.socket | FileIO]], shares_files: bool = False
    ) -> Iterator[list[int]]:
        """Fork children, each a (kind, limits, files); their numbers. The files are theirs then, and closed here.

        Those whose numbers are in the list at the end are killed. With `shares_files`, all write to one folder.
        """
        numbers = [next(self._numbers) for _ in wanted]
        order = [
            {"id": number, "kind": kind, "limits": asdict(limits), "descriptors": len(files)}
            for number, (kind, limits, files) in zip(numbers, wanted, strict=True)
        ]
        passed = [file for _, _, files in wanted for file in files]
        self._order({"spawn": order, "shares_files": shares_files}, [file.fileno() for file in passed])
        try:
            for file in passed:
                file.close()
            yield numbers
        finally:
            self._end(numbers)

    def collect(self, seconds: float = 0.0) -> None:
        """Take in what the zygote says, if need be after a wait: `exits` then holds the children that have ended."""
        # poll, unlike select, takes descriptors above 1023: a trainer may have thousands open.
        poller = select.poll()
        poller.register(self.socket, select.POLLIN)
        while poller.poll(1000 * seconds):
            self._receive()
            seconds = 0.0

    def _end(self, numbers: list[int]) -> None:
        """Kill these children, wait until they are gone, and forget them."""
        self._order({"end": numbers}, [])
        deadline = Deadline(END_SECONDS)
        while "ended" not in self._receive(deadline):
            pass
        for number in numbers:
            self.exits.pop(number, None)

    def kill(self) -> None:
        """End it, with all that runs under it."""
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
            message = self.socket.recv(_MESSAGE_BYTES)
        except (OSError, DeadlineError) as error:
            raise LostError(f"the zygote does not answer: {type(error).__name__}") from error
        if not message:
            raise LostError("the zygote is gone")
        answer: dict[str, Any] = json.loads(message)
        for left in (Exit(**each) for each in answer.get("exits", ())):
            self.exits[left.number] = left
        return answer


def _library_path() -> str:
    """Where shared libraries are looked for; everything else of the environment stays outside.

    Packages of conda look for theirs in Python's own folder, by the way that leads there from where they are installed.
    Programs see packages elsewhere.
    """
    return ":".join([*filter(None, [os.environ.get(_LIBRARIES)]), f"{sys.base_prefix}/lib"])


def zygote_mark() -> str:
    """What the command lines of this process's zygotes, and of all that they fork, contain."""
    return f"trl_grpo_ext zygote of {os.getpid()};"
