"""Programs that attack a sandbox or its verdict, and programs that must not notice that there is one; run and checked.

The corpus is data: `assets/sandbox_programs.jsonl`, or a folder of JSON files in the same form. Programs run inside the
sandbox only, and only where a probe has shown that its walls hold: some would harm a machine without walls.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from trl_grpo_ext.rewards.unit_test_suites.columns import suite_from_row
from trl_grpo_ext.sandbox.isolation import Isolation
from trl_grpo_ext.sandbox.job import Ending, Job, Limits, RunResult, StdioCase, StdioSuite, Suite
from trl_grpo_ext.sandbox.zygote import scratch_prefix

SHIPPED = Path(__file__).parents[1] / "assets" / "sandbox_programs.jsonl"
PORT = 47999
ABSTRACT_NAME = "trl_grpo_ext_canary"
SECRET = "trl_grpo_ext_canary_secret"
CANARY_FOLDER = Path("/tmp/trl_grpo_ext_canary_dir")
SLACK_SECONDS = 2.0
"""How long after its time is up a program may still be there."""

_PORT_SECONDS = 120.0  # another process on this machine may be running the corpus
_LEFTOVER_SECONDS = 5.0
_NO_ANSWER = (Ending.NO_VERDICT, Ending.BAD_TESTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program of the corpus, and what must come of it.

    Attributes:
        id: Its name.
        category: What it tries; `benign` for programs that must pass, or fail as `per_test` says.
        job: The program, its tests and its limits.
        passed: Whether it must pass.
        outcomes: How it may end; any way, if empty.
        per_test: Which tests must pass; empty if that is not looked at.
        repeat: How often to run it; every run must end as it should.
        checks: What must hold on this machine afterwards.
        needs_namespaces: Whether it does what is only allowed in a process tree of its own.
        why: What it tries, in words.
    """

    id: str
    category: str
    job: Job
    passed: bool
    outcomes: tuple[str, ...] = ()
    per_test: tuple[bool, ...] = ()
    repeat: int = 1
    checks: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    needs_namespaces: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What came of one program: how it ended, and everything that is not as it should be."""

    id: str
    category: str
    ending: str
    seconds: float
    detail: str = ""
    broken: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """Whether all was as it should be."""
        return not self.broken

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values."""
        return asdict(self) | {"held": self.held}


class Runner(Protocol):
    """A sandbox that says which walls it has."""

    @property
    def isolation(self) -> Isolation:
        """The walls that programs run behind."""

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """One outcome a job, in order."""


def load_corpus(source: Path | None = None) -> list[Program]:
    """The programs of a JSONL file or of a folder of JSON files; by default, those that are shipped."""
    source = source or SHIPPED
    texts = (
        [path.read_text(encoding="utf-8") for path in sorted(source.glob("*.json"))]
        if source.is_dir()
        else source.read_text(encoding="utf-8").splitlines()
    )
    rows = [json.loads(text) for text in texts if text.strip()]
    return [_program(row) for row in rows if "completion" in row]


def run_corpus(sandbox: Runner, programs: Iterable[Program]) -> list[Record]:
    """Run every program, as many at a time as the sandbox does, and check what came of it.

    What one program did to the machine is blamed on every program that was looked at for it.
    """
    namespaces = sandbox.isolation.namespaces
    kept = [program for program in programs if namespaces or not program.needs_namespaces]
    kept.sort(key=lambda program: not _seconds_to_wait([program]))  # what shows late is done early
    outcomes: dict[str, list[RunResult]] = {program.id: [] for program in kept}
    with HostWatch(kept) as host:
        for turn in range(max((program.repeat for program in kept), default=0)):
            again = [program for program in kept if program.repeat > turn]
            for program, outcome in zip(again, _run_all(sandbox, [program.job for program in again]), strict=True):
                outcomes[program.id].append(outcome)
        left = leftover_processes(namespaces=namespaces)
        return [_record(program, outcomes[program.id], host, left) for program in kept]


def _run_all(sandbox: Runner, jobs: Sequence[Job]) -> list[RunResult]:
    """An outcome a job; NO_VERDICT for one that makes the sandbox itself raise, which is found by halving."""
    try:
        return sandbox.run(jobs)
    except Exception as error:
        if len(jobs) == 1:
            return [RunResult(ending=Ending.NO_VERDICT, detail=f"the sandbox raised {type(error).__name__}: {error}")]
        middle = len(jobs) // 2
        return _run_all(sandbox, jobs[:middle]) + _run_all(sandbox, jobs[middle:])


def leftover_processes(*, namespaces: bool) -> list[int]:
    """Processes of this process's sandboxes that run though no program does."""
    until = time.monotonic() + _LEFTOVER_SECONDS
    while (left := _sandboxed(namespaces)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def parent_memory_kb() -> int:
    """The memory that this process itself uses now, in KiB; 0 where there is no /proc to say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


class HostWatch:
    """What programs try to reach on this machine: laid out, and looked at afterwards."""

    def __init__(self, programs: Sequence[Program]) -> None:
        checks = [check for program in programs for check in program.checks]
        self._until = time.monotonic() + _seconds_to_wait(programs)
        named = {check["path"] for check in checks if check["type"].startswith("path_absent")}
        self._there = {path for path in named if os.path.lexists(path)}
        self._paths = named
        self._opened = contextlib.ExitStack()
        self._listeners: list[socket.socket] = []
        self._folders: dict[str, set[str]] = {}
        self._reached: list[str] | None = None
        self._keep = CANARY_FOLDER / "keep"
        self._was: tuple[Any, ...] = ()

    def __enter__(self) -> HostWatch:
        try:
            self._listeners = [self._listen(kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
            self._lay_out()
            if sys.platform == "linux":
                for name in ("\0" + ABSTRACT_NAME, str(CANARY_FOLDER / "socket")):
                    self._listeners += [self._bind_unix(name, kind) for kind in _kinds(name)]
            self._folders = {name: _names(name) for name in ("purelib", "stdlib")}
            before = os.environ.get("HF_TOKEN")
            self._opened.callback(_set_variable, "HF_TOKEN", before)
            os.environ["HF_TOKEN"] = SECRET
        except BaseException:
            self._opened.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()
        for path in self._paths - self._there:
            if ABSTRACT_NAME in path:
                with contextlib.suppress(OSError):
                    Path(path).unlink()

    def broken(self, program: Program) -> list[str]:
        """What `program` may have done to the machine."""
        if self._reached is None:
            time.sleep(max(0.0, self._until - time.monotonic()))
            self._reached = self._look()
        found = list(self._reached) if program.category != "benign" else []
        for check in program.checks:
            found += self._check(check)
        return list(dict.fromkeys(found))

    def _look(self) -> list[str]:
        """What no program at all may have reached."""
        found = ["a connection was made" for _ in select.select(self._listeners, [], [], 0)[0]]
        now = _state(self._keep)
        if now != self._was:
            found.append(f"{self._keep} was changed from {self._was} to {now}")
        return found

    def _check(self, check: Mapping[str, Any]) -> list[str]:
        kind = check["type"]
        if kind.startswith("path_absent") and check["path"] not in self._there and os.path.lexists(check["path"]):
            return [f"{check['path']} was written"]
        if kind == "path_present" and not os.path.lexists(check["path"]):
            return [f"{check['path']} was removed"]
        folder = {"no_new_file_in_site_packages": "purelib", "no_new_file_in_stdlib": "stdlib"}.get(kind)
        if folder and (new := _names(folder) - self._folders[folder]):
            return [f"new in {folder}: {', '.join(sorted(new))}"]
        return []

    def _listen(self, kind: socket.SocketKind) -> socket.socket:
        """A socket on the port that programs try; whoever runs the corpus has it to himself."""
        until = time.monotonic() + _PORT_SECONDS
        while True:
            listener = socket.socket(socket.AF_INET, kind)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(kind is socket.SOCK_STREAM))
            try:
                listener.bind(("127.0.0.1", PORT))
            except OSError:
                listener.close()
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
                continue
            return self._ready(listener)

    def _bind_unix(self, name: str, kind: socket.SocketKind) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, kind)
        listener.bind(name)
        return self._ready(listener)

    def _ready(self, listener: socket.socket) -> socket.socket:
        self._opened.enter_context(listener)
        if listener.type is socket.SOCK_STREAM:
            listener.listen()
        return listener

    def _lay_out(self) -> None:
        """A folder and a file that everybody may write to: only the sandbox stands before them."""
        _empty(CANARY_FOLDER)
        CANARY_FOLDER.mkdir(exist_ok=True)
        self._opened.callback(CANARY_FOLDER.rmdir)
        self._opened.callback(_empty, CANARY_FOLDER)
        CANARY_FOLDER.chmod(0o777)
        self._keep.write_text("canary")
        self._keep.chmod(0o666)
        self._was = _state(self._keep)


def _seconds_to_wait(programs: Iterable[Program]) -> float:
    """How long after the programs' start all that they do has been done."""
    checks = [check for program in programs for check in program.checks if check["type"] == "path_absent_after"]
    return max((float(check["s"]) + SLACK_SECONDS for check in checks), default=0.0)


def _program(row: Mapping[str, Any]) -> Program:
    expected = row["expected"]
    per_test = tuple(bool(each) for each in expected.get("per_test") or ())
    job = Job(
        program=row["completion"],
        suite=_suite(row),
        limits=_limits(row["limits"]),
        stop_at_first=not per_test and not row.get("groups"),
    )
    return Program(
        id=row["id"],
        category=row["category"],
        job=job,
        passed=expected["passed"],
        outcomes=tuple(expected.get("outcome", ())),
        per_test=per_test,
        repeat=row.get("repeat") or 1,
        checks=tuple(row.get("host_checks") or ()),
        needs_namespaces=row.get("needs") == "namespaces",
        why=row.get("why", ""),
    )


def _suite(row: Mapping[str, Any]) -> Suite:
    if row["kind"] == "stdio":
        return StdioSuite(tests=tuple(StdioCase(stdin=case["stdin"], stdout=case["stdout"]) for case in row["tests"]))
    return suite_from_row({"tests": row["tests"]})


def _limits(limits: Mapping[str, Any]) -> Limits:
    return Limits(
        wall_seconds=limits["wall_s"],
        cpu_seconds=limits["cpu_s"],
        memory_mb=limits["memory_mb"],
        processes=limits["pids"],
        output_kb=limits["output_kb"],
        disk_mb=limits["disk_mb"],
    )


def _record(program: Program, outcomes: Sequence[RunResult], host: HostWatch, left: Sequence[int]) -> Record:
    broken = [text for outcome in outcomes for text in _wrong(program, outcome)] + host.broken(program)
    if left and any(check["type"] == "no_leftover_process" for check in program.checks):
        broken.append(f"processes were left: {list(left)}")
    return Record(
        id=program.id,
        category=program.category,
        ending=str(outcomes[-1].ending),
        seconds=max(outcome.seconds for outcome in outcomes),
        detail=outcomes[-1].detail,
        broken=tuple(dict.fromkeys(broken)),
    )


def _wrong(program: Program, outcome: RunResult) -> Iterator[str]:
    """What is wrong with how one run ended."""
    if outcome.ending in _NO_ANSWER:  # a program that can have its verdict thrown out never loses
        yield f"it ended without a verdict: {outcome.ending}, {outcome.detail}"
    elif (outcome.ending is Ending.PASSED) != program.passed:
        yield f"it {outcome.ending}: {outcome.detail}" if program.passed else "it passed"
    elif program.outcomes and outcome.ending not in program.outcomes:
        yield f"it ended as {outcome.ending}, not {' or '.join(program.outcomes)}"
    if program.per_test and tuple(test.ending is Ending.PASSED for test in outcome.tests) != program.per_test:
        yield f"its tests ended as {[str(test.ending) for test in outcome.tests]}"
    if outcome.seconds > program.job.limits.wall_seconds + SLACK_SECONDS:
        yield f"it took {outcome.seconds:.1f} s"
    if SECRET in json.dumps(outcome.to_record()):
        yield "a secret of the environment was printed"


def _sandboxed(namespaces: bool) -> list[int]:
    """Processes with the command line of this process's zygotes, but these and a judge that waits at each."""
    mark = f"{scratch_prefix()}{os.getpid()}-".encode()
    parents = {pid: _parent(pid) for pid in _pids() if mark in _read(f"/proc/{pid}/cmdline")}
    zygotes = {pid for pid, parent in parents.items() if parent == os.getpid()}
    if namespaces:  # process 1 of the new process tree is a child of the one that was started
        zygotes |= {pid for pid, parent in parents.items() if parent in zygotes}
    children = {zygote: [pid for pid, parent in parents.items() if parent == zygote] for zygote in zygotes}
    judges = {pids[0] for pids in children.values() if len(pids) == 1}
    return sorted(parents.keys() - zygotes - judges)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _parent(pid: int) -> int:
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _names(folder: str) -> set[str]:
    with contextlib.suppress(OSError):
        return {path.name for path in Path(sysconfig.get_path(folder)).iterdir()}
    return set()


def _kinds(name: str) -> tuple[socket.SocketKind, ...]:
    # In the file system a name stands for one socket.
    return (socket.SOCK_STREAM, socket.SOCK_DGRAM) if name.startswith("\0") else (socket.SOCK_STREAM,)


def _state(path: Path) -> tuple[Any, ...]:
    """All of a file and its folder that a program could change."""
    try:
        found = path.stat()
        names = sorted({each.name for each in path.parent.iterdir()} - {"socket"})
        return path.read_text(), oct(found.st_mode), found.st_nlink, found.st_uid, found.st_mtime_ns, names
    except OSError as error:
        return (type(error).__name__,)


def _empty(folder: Path) -> None:
    if folder.is_dir():
        for path in folder.iterdir():
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
