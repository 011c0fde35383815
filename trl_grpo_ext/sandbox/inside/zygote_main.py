"""What a zygote runs: a warm Python that forks a jailed child for each program, and never reads the program itself.

It is started by `exec` with an empty environment, goes into namespaces of its own, and then takes orders on
descriptor 0. A child's program comes through the child's own pipe, so nothing of one program can be found in the
memory of another. The zygote is process 1 of its process tree: when it goes, however it goes, all its children do.

Orders are JSON messages, with the descriptors of the children that they ask for:

    {"spawn": [{"id": 7, "kind": "solution", "limits": {...}, "descriptors": 2}]}
    {"end": [7]}                                   kill these children, and clean up

Answers: `{"up": true}` or `{"failed": "why"}` once; `{"exit": 7, "status": .., "cpu": .., "memory_kb": ..}` for each
child that ended; `{"ended": [...]}` with the exits of those that were killed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from trl_grpo_ext.sandbox.inside import filesystem, judge, kernel, landlock, solution
from trl_grpo_ext.sandbox.inside.frames import Channel
from trl_grpo_ext.sandbox.inside.jail import Cell, becoming, prepare
from trl_grpo_ext.sandbox.inside.rehearsal import rehearse
from trl_grpo_ext.sandbox.inside.scratch import clear, unnamed_bytes, used_bytes

MESSAGE_BYTES = 1 << 16
MAX_DESCRIPTORS = 16
_KEPT_WALLS = 16  # by kind and limits, of which there are few
NOBODY = 65534
# A user number that nobody has, one a zygote: the limit of processes counts by user.
FIRST_SPARE_USER = 2_000_000_000
# Loaded before the fork: programs use them often, and loading them costs more than the rest of a run. Not threading or
# random: what these do after every fork costs more than that.
PRELOADED = (
    "array",
    "bisect",
    "cmath",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "io",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "re",
    "string",
    "textwrap",
    "time",
    "traceback",
    "types",
    "typing",
)


@dataclass(slots=True)
class Child:
    """A jailed process, by the number that the trainer gave it."""

    number: int
    pid: int
    watch: int
    kind: str
    limits: dict[str, Any]


class Zygote:
    """Forks jailed children on order, and says how they ended."""

    def __init__(self, control: socket.socket, cell: Cell) -> None:
        self._control = control
        self._cell = cell
        self._children: dict[int, Child] = {}
        self._walls: dict[tuple[object, ...], list[kernel.Call]] = {}
        self._poller = select.poll()
        self._poller.register(control, select.POLLIN)
        self._self = kernel.pidfd_open(os.getpid()) if cell.namespaces else -1

    def serve(self) -> None:
        """Take orders until the trainer is gone."""
        self._tell({"up": True})
        while True:
            watched = bool(self._children) and not self._cell.namespaces
            for descriptor, _ in self._poller.poll(50 if watched else None):
                if descriptor != self._control.fileno():
                    if descriptor in self._children:
                        self._tell(self._reap(self._children[descriptor]))
                elif not self._obey():
                    self._end([child.number for child in self._children.values()])
                    return
            if watched:
                self._kill_greedy()

    def _obey(self) -> bool:
        """Carry out one order; False when there will be no more."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, MAX_DESCRIPTORS)
        except OSError:
            return False
        if not message:
            return False
        order = json.loads(message)
        for child in order.get("spawn", ()):
            count = child["descriptors"]
            own, descriptors = descriptors[:count], descriptors[count:]
            self._spawn(child, own)
            for descriptor in own:
                os.close(descriptor)
        if "end" in order:
            self._tell({"ended": self._end(order["end"])})
        return True

    def _spawn(self, child: dict[str, Any], descriptors: Sequence[int]) -> None:
        kind = child["kind"]
        placed = descriptors if kind == "program" else [-1, -1, -1, *descriptors]
        calls = [*self._cell.place(placed), *self._walls_of(kind, child["limits"], len(placed))]
        if self._cell.namespaces:
            kernel.unshare(kernel.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            _live(self._cell, calls, kind)
        if self._cell.namespaces:  # the next child's process tree begins here again, not in this one's
            kernel.setns(self._self, kernel.CLONE_NEWPID)
        watch = os.pidfd_open(pid)
        self._children[watch] = Child(child["id"], pid, watch, kind, child["limits"])
        self._poller.register(watch, select.POLLIN)

    def _walls_of(self, kind: str, limits: dict[str, Any], descriptors: int) -> list[kernel.Call]:
        key = kind, tuple(limits.values())
        if key not in self._walls:
            if len(self._walls) >= _KEPT_WALLS:
                self._walls.clear()
            self._walls[key] = self._cell.walls(limits, descriptors=descriptors, keeps_files=kind != "judge")
        return self._walls[key]

    def _reap(self, child: Child) -> dict[str, Any]:
        _, status, usage = os.wait4(child.pid, 0)
        self._poller.unregister(child.watch)
        os.close(child.watch)
        del self._children[child.watch]
        cpu = usage.ru_utime + usage.ru_stime
        return {"exit": child.number, "status": status, "cpu": cpu, "memory_kb": usage.ru_maxrss}

    def _end(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        ended = [child for child in self._children.values() if child.number in numbers]
        for child in ended:
            os.kill(child.pid, signal.SIGKILL)
        exits = [self._reap(child) for child in ended]
        if not self._cell.namespaces:
            clear(self._cell.scratch)
        return exits

    def _kill_greedy(self) -> None:
        """Without a world of its own, only a look now and then bounds what a program keeps and starts."""
        named = used_bytes(self._cell.scratch)
        for child in self._children.values():
            if child.kind != "judge":
                kept = named + unnamed_bytes(child.pid, self._cell.scratch)
                # The kernel does not count root's processes, nor a user's apart from the user's others.
                if kept > child.limits["disk_mb"] << 20 or _tasks(child.pid) > child.limits["processes"]:
                    os.kill(child.pid, signal.SIGKILL)

    def _tell(self, answer: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the trainer is gone, which the next poll shows
            self._control.send(json.dumps(answer).encode())


def _tasks(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def _live(cell: Cell, calls: list[kernel.Call], kind: str) -> NoReturn:
    """What a child does from its birth to its end."""
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
        os._exit(1)


_ROLES: dict[str, Callable[[], None]] = {
    "program": lambda: solution.run_program(3),
    "solution": lambda: solution.serve(3, 4),
    "judge": lambda: judge.judge(3, 4),
}


def enter_namespaces(folder: str, readable: list[str]) -> int | None:
    """Go into namespaces of one's own; the children of this process will be in a new process tree.

    Returns:
        The user that children must become, None if they may stay who this process is.

    Raises:
        OSError: if this machine does not allow it.
    """
    kinds = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
    # Root's processes are not counted against the limit of processes, so root's children become nobody.
    user = NOBODY if os.getuid() == 0 and kernel.has_capability(kernel.CAP_SETUID) else None
    try:
        _enter_user_namespace(kinds, other=user)
    except OSError:
        if not kernel.has_capability(kernel.CAP_SYS_ADMIN):
            raise
        kernel.unshare(kinds)
        user = FIRST_SPARE_USER + os.getpid()
    filesystem.make_private_root(folder, readable)
    return user


def _enter_user_namespace(kinds: int, *, other: int | None) -> None:
    """Enter a user namespace, and with its powers the other kinds, in which this user and the other one exist."""
    waits, go = os.pipe()
    identifiers = {"uid_map": os.getuid(), "gid_map": os.getgid()}
    parent = os.getpid()
    helper = os.fork()
    if helper == 0:  # maps of two users can be written from outside only
        os.close(go)
        status = 1
        try:
            if os.read(waits, 1):
                for name, own in identifiers.items():
                    lines = [f"{each} {each} 1\n" for each in (own, other) if each is not None]
                    if other is None and name == "gid_map":
                        _write(f"/proc/{parent}/setgroups", "deny")
                    _write(f"/proc/{parent}/{name}", "".join(lines))
                status = 0
        finally:
            os._exit(status)
    os.close(waits)
    try:
        kernel.unshare(kernel.CLONE_NEWUSER | kinds)
        os.write(go, b"x")
    finally:
        os.close(go)
        _, status = os.waitpid(helper, 0)
    if status:
        raise OSError("user namespace: its users could not be named")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _succeeds(attempt: Callable[[], None]) -> bool:
    """Whether a child of this process can do it."""
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _keep(zygote: int) -> NoReturn:
    """Wait for the zygote to end. It cannot be this process: only a child is in the new process tree."""
    kernel.perform([kernel.closing_from(0)])
    _, status = os.waitpid(zygote, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _spare_user(readable: list[str], scratch: str) -> int | None:
    """A user that owns nothing, if this process may become it and could still read Python's library."""
    if not kernel.has_capability(kernel.CAP_SETUID):
        return None
    user = FIRST_SPARE_USER + os.getpid()

    def attempt() -> None:
        kernel.perform(becoming(user))
        os.listdir(os.path.dirname(os.__file__))

    if not _succeeds(attempt):
        return None
    os.chown(scratch, user, user)
    return user


def _check_packages(packages: list[str], user: int | None) -> None:
    """Raise an OSError unless children can read these folders."""
    for folder in packages:

        def attempt(folder: str = folder) -> None:
            if user is not None:
                kernel.perform(becoming(user))
            os.listdir(folder)

        if not _succeeds(attempt):
            raise OSError(f"packages: programs may not read {folder}; make it readable for all users")


def set_up(config: dict[str, Any]) -> Cell:
    """Put up the walls that children share, and prepare theirs. In a new process tree, it returns in a child.

    Raises:
        OSError: if this machine lacks what was asked for.
    """
    version = landlock.abi() if config["landlock"] else 0
    if config["landlock"] and not version:
        raise OSError("Landlock: this kernel does not have it, or it is off")
    readable = filesystem.readable_paths(config["packages"])
    scratch, user, tasks = config["scratch"], None, None
    if config["namespaces"]:
        user = enter_namespaces(scratch, readable)
        scratch = filesystem.PRIVATE_SCRATCH
        # The keeper, the zygote and the judge are there beside the program; of another user, only the judge.
        tasks = 3 if user is None else 1
        zygote = os.fork()
        if zygote:
            _keep(zygote)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    elif config["filtered"]:
        user = _spare_user(readable, scratch)
        tasks = None if user is None else 1
    cell = prepare(
        namespaces=config["namespaces"],
        landlock_abi=version,
        filtered=config["filtered"],
        scratch=scratch,
        readable=readable,
    )
    return replace(cell, user=user, tasks=tasks)


def main() -> None:
    """Set up as the first argument says, and serve."""
    config = json.loads(sys.argv[1])
    os.umask(0o022)  # folders of the new root are for another user to enter
    control = socket.socket(fileno=os.dup(0))
    with open("/dev/null") as null:
        os.dup2(null.fileno(), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - every child's, who finds /dev/null there too
    # Before the walls are up: afterwards Python's library may be out of reach.
    for name in PRELOADED:
        importlib.import_module(name)
    with open("/proc/self/statm") as sizes:
        base_bytes = int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    try:
        cell = set_up(config)
        _check_packages(config["packages"], cell.user)
    except OSError as error:
        control.send(json.dumps({"failed": str(error)}).encode())
        return
    sys.path += config["packages"]
    os.environ.clear()
    os.environ |= {"HOME": cell.scratch, "TMPDIR": cell.scratch, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rehearse()
    gc.collect()
    gc.freeze()
    Zygote(control, replace(cell, base_bytes=base_bytes)).serve()
