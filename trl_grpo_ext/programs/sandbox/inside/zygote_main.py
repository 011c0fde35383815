"""Run a zygote: a warm Python process that forks a jailed child for each program and never reads a program itself.

The trainer starts it by `exec` with an almost empty environment and a socket as standard input, from which the zygote
takes orders once its walls are up. A program travels through a socket of its child only, so no program finds another in
its memory. With namespaces, the zygote is process 1 of its process tree, and all its children die with it. Without
namespaces, each child asks the kernel for SIGKILL at the zygote's death.

Orders from the trainer are JSON messages, together with the descriptors of the children to fork:

    {"spawn": [{"id": 7, "kind": "solution", "limits": {...}, "descriptors": 2}], "shares_files": false}
    {"end": [7]}                                   kill these children, and clean up
    {"pause": true}                                stop all processes of all children, or let them go on (false)

With `shares_files`, the children of an order write to a common folder, which is deleted with them.

Answers: `{"up": true}` or `{"failed": "why"}` once; `{"exits": [{"number": 7, "status": .., "cpu_seconds": ..,
"memory_kb": ..}]}` when a child has ended; exits with `"ended": true` when ordered children were killed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from trl_grpo_ext.programs.sandbox.inside import answers, cells, judge, program
from trl_grpo_ext.programs.sandbox.inside.rehearsal import rehearse
from trl_grpo_ext.programs.sandbox.walls import kernel
from trl_grpo_ext.programs.sandbox.walls.jail import Cell
from trl_grpo_ext.programs.sandbox.walls.namespaces import check_shown, hide_host, set_up
from trl_grpo_ext.workers.frames import Channel, from_json, reset_signals, to_json

MESSAGE_BYTES = 1 << 16
MAX_DESCRIPTORS = 16
# Interval between thread counts of programs where the kernel does not limit threads.
_LOOK_MS = 5
# The default stack limit of Linux.
_STACK_BYTES = 8 << 20
# Lists of walls are kept by kind, limits and descriptors; few combinations occur.
_KEPT_WALLS = 16
# Loaded before the fork: programs use these modules often, and loading them takes longer than the rest of a run.
# threading and random are left out: their work after every fork would take longer still.
_PRELOADED = (
    "array bisect cmath contextlib copy dataclasses datetime decimal enum fractions functools heapq io itertools json "
    "math numbers operator re string textwrap time traceback types typing"
)
PRELOADED = tuple(_PRELOADED.split())


@dataclass(slots=True)
class Child:
    """A jailed process, known by a number that the trainer chose."""

    number: int
    pid: int
    watch: int
    kind: str
    limits: dict[str, Any]


class Forker:
    """A loop that forks jailed children on the trainer's order and reports their exits."""

    def __init__(self, control: socket.socket, cell: Cell) -> None:
        self._control = control
        self._cell = cell
        self._children: dict[int, Child] = {}
        self._walls: dict[tuple[object, ...], list[kernel.PreparedCall]] = {}
        self._shares_files = False
        self._poller = select.poll()
        self._poller.register(control, select.POLLIN)
        self._fork = kernel.forking(kernel.CLONE_NEWPID) if cell.namespaces else os.fork

    def serve(self) -> None:
        """Carry out orders until the trainer closes its socket."""
        self._tell({"up": True})
        while True:
            watched = bool(self._children) and self._cell.tasks is None
            for descriptor, _ in self._poller.poll(_LOOK_MS if watched else None):
                if descriptor != self._control.fileno():
                    # An order that came in the same round may already have ended this child.
                    if descriptor in self._children:
                        self._tell({"exits": [self._reap(self._children[descriptor])]})
                elif not self._obey():
                    self._end([child.number for child in self._children.values()])
                    return
            if watched:
                self._kill_greedy()

    def _obey(self) -> bool:
        """Carry out an order; return False if the trainer is gone."""
        try:
            message, descriptors, _, _ = socket.recv_fds(
                self._control, MESSAGE_BYTES, MAX_DESCRIPTORS
            )
        except OSError:
            return False
        if not message:
            return False
        order = from_json(message.decode())
        if "spawn" in order:
            self._share_files(order["spawn"], order["shares_files"])
            self._spawn(order["spawn"], descriptors)
        if "pause" in order:
            self._signal(signal.SIGSTOP if order["pause"] else signal.SIGCONT)
        if "end" in order:
            self._tell({"exits": self._end(order["end"]), "ended": True})
        return True

    def _share_files(self, children: Sequence[dict[str, Any]], shares_files: bool) -> None:
        """Mount a common folder for an order's children if requested; orders run singly, so children never mix."""
        if shares_files and self._cell.namespaces:
            self._cell.mount_shared(children[0]["limits"]["disk_mb"])
            self._shares_files = True

    def _spawn(self, children: Sequence[dict[str, Any]], descriptors: list[int]) -> None:
        """Fork children in quick succession: after a fork, each page that this process writes to is copied again."""
        prepared, left = [], iter(descriptors)
        for child in children:
            placed = [] if child["kind"] == "program" else [-1, -1, -1]
            placed += itertools.islice(left, child["descriptors"])
            prepared.append(
                (
                    child["kind"],
                    self._walls_of(child["kind"], child["limits"], tuple(placed)),
                )
            )
        born = []
        for kind, calls in prepared:
            pid = self._fork()
            if pid == 0:
                _live(self._cell, calls, kind)
            born.append(pid)
        for child, pid in zip(children, born, strict=True):
            watch = os.pidfd_open(pid)
            self._children[watch] = Child(
                child["id"], pid, watch, child["kind"], child["limits"]
            )
            self._poller.register(watch, select.POLLIN)
        for descriptor in descriptors:
            os.close(descriptor)

    def _walls_of(
        self, kind: str, limits: dict[str, Any], placed: tuple[int, ...]
    ) -> list[kernel.PreparedCall]:
        shared = self._shares_files
        key = kind, shared, *limits.values(), *placed
        if key not in self._walls:
            if len(self._walls) >= _KEPT_WALLS:
                self._walls.clear()
            keeps_files = shared or kind != "judge"
            walls = self._cell.walls(
                limits,
                descriptors=len(placed),
                keeps_files=keeps_files,
                own_folder=not shared,
            )
            self._walls[key] = [*self._cell.place(placed), *walls]
        return self._walls[key]

    def _reap(self, child: Child) -> dict[str, Any]:
        # Before `wait4`, which frees the process number and the clock that belongs to it.
        cpu_seconds = _charged_seconds(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        self._poller.unregister(child.watch)
        os.close(child.watch)
        del self._children[child.watch]
        return {
            "number": child.number,
            "status": status,
            "cpu_seconds": cpu_seconds,
            "memory_kb": usage.ru_maxrss,
        }

    def _end(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        ended = [child for child in self._children.values() if child.number in numbers]
        for child in ended:
            os.kill(child.pid, signal.SIGKILL)
        left = [self._reap(child) for child in ended]
        if self._shares_files:
            self._cell.unmount_shared()
            self._shares_files = False
        return left

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to all children; in namespaces, to their descendants as well."""
        # -1 means every process of this tree but its first. Elsewhere it would mean every process of the machine.
        is_first = self._cell.namespaces and os.getpid() == 1
        receivers = [-1]
        if not is_first:
            receivers = [child.pid for child in self._children.values()]
        for pid in receivers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _kill_greedy(self) -> None:
        """Kill programs with too many threads.

        The kernel's limit does not help here: it ignores processes of root, and counts all processes of any other user
        together, including processes outside the sandbox.
        """
        for child in self._children.values():
            if (
                child.kind != "judge"
                and kernel.threads(child.pid) > child.limits["processes"]
            ):
                os.kill(child.pid, signal.SIGKILL)

    def _tell(self, answer: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            # The trainer is gone; the next poll notices.
            self._control.send(to_json(answer).encode())


def _live(cell: Cell, calls: list[kernel.PreparedCall], kind: str) -> NoReturn:
    """Live as a child: put up the walls, play a role, exit."""
    try:
        cell.lock(calls)
    except OSError as error:
        with contextlib.suppress(OSError):
            Channel(3).send({"failed": str(error)})
        os._exit(1)
    try:
        _ROLES[kind]()
        os._exit(0)
    finally:
        # Whatever a role raises, a child must not return into the zygote's loop.
        os._exit(1)


_ROLES: dict[str, Callable[[], None]] = {
    "program": lambda: program.run_program(3),
    "solution": lambda: answers.serve(3, 4),
    "judge": lambda: judge.judge(3, 4),
    "session": lambda: cells.serve(3, 4),
}


def _prepared(config: dict[str, Any]) -> Cell:
    """Put up this process's walls and prepare everything that children would otherwise repeat.

    Raises:
        OSError: if a wall cannot be put up.
    """
    # Imports come first: behind the walls, Python's library may be unreadable.
    for name in PRELOADED:
        importlib.import_module(name)
    # A child inherits these mappings, and RLIMIT_AS counts them.
    with open("/proc/self/statm") as sizes:
        base_bytes = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _raise_stack()
    cell = set_up(config, base_bytes)
    check_shown(config["shown"], cell.user)
    sys.path += config["path"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hide_host(cell)
    program.cap_thread_stacks()
    rehearse()
    gc.collect()
    # A collection in a child would otherwise write to each object, and so copy its page.
    gc.freeze()
    return cell


def _charged_seconds(pid: int) -> float:
    """Return the CPU time by which the kernel measures a process against RLIMIT_CPU; the process may have ended.

    The kernel may charge a whole tick to the process that runs when the tick comes. A process that runs only then is
    charged many times the CPU time that `wait4` reports.
    """
    # The number of Linux's clock CPUCLOCK_PROF of a process.
    return time.clock_gettime(~pid << 3)


def _raise_stack() -> None:
    """Raise the stack limit to Linux's default, so that programs recurse as deeply as elsewhere."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = _STACK_BYTES if hard == resource.RLIM_INFINITY else min(_STACK_BYTES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))


def main() -> None:
    """Set up the zygote from the JSON in the command line, then serve orders."""
    reset_signals()
    config = json.loads(sys.argv[1])
    # Folders of the new root must be accessible to another user.
    os.umask(0o022)
    control = socket.socket(fileno=os.dup(0))
    with open("/dev/null") as null:
        os.dup2(null.fileno(), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - every child's, who finds /dev/null there too
    try:
        cell = _prepared(config)
        forker = Forker(control, cell)
    except OSError as error:
        control.send(json.dumps({"failed": f"{error}"}).encode())
        return
    forker.serve()
    if not cell.namespaces:
        # Imported here, because an import before the forks would slow every child.
        import shutil

        # The trainer removes this folder too, unless it has died.
        shutil.rmtree(config["folder"], ignore_errors=True)
