"""A job for the sandbox: a program, its tests and its limits. And the result of a job."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from trl_grpo_ext.support.budget import BUDGET_SPENT
from trl_grpo_ext.support.text import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run of a program may use, finite numbers above 0; beyond it the run ends, and the verdict says so.

    Attributes:
        wall_seconds: Wall time for a whole suite of tests, from the moment the program may run.
        cpu_seconds: CPU time of each of its processes.
        memory_mb: Memory of each process, and of all of them together, in MiB.
        processes: Processes and threads at a time.
        output_kb: What one run may print, in KiB.
        disk_mb: What it may keep in its private temporary folder, in MiB; without namespaces it has none.
    """

    wall_seconds: float = 5.0
    cpu_seconds: float = 5.0
    memory_mb: int = 512
    processes: int = 32
    output_kb: int = 256
    disk_mb: int = 16

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"The limit {name} is a finite number above 0, got {value!r}.")
            if not isinstance(value, int) and name not in ("wall_seconds", "cpu_seconds"):
                raise ValueError(f"The limit {name} is a whole number, got {value!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSuite:
    """Tests that call the solution: Python code that a judge runs outside the solution's process.

    Attributes:
        setup: Code to run first, once, such as imports, helpers and the functions that `tests` call. Trusted.
        tests: One snippet of code a test, run in the namespace that `setup` leaves. A test that raises has failed.
        names: What `setup` and `tests` take from the solution. They are bound to stand-ins that call it.
        imports: Packages that the setup and the tests import whatever the program does. If one is not there, the tests
            are at fault.
        shares_files: Whether the tests use files, as `tempfile` and `tmp_path` do: they and the program then write to
            one folder, which is gone after the run.
        code: The setup and the tests compiled by this Python, by `inside.compiled.pack`; nothing to have each judge
            compile them. It never leaves this machine, and none is taken from another.
    """

    tests: tuple[str, ...]
    names: tuple[str, ...]
    setup: str = ""
    imports: tuple[str, ...] = ()
    shares_files: bool = False
    code: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioCase:
    """What a whole program reads from standard input, and what it must print."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioSuite:
    """Tests that run the solution as a program, once a case, and compare what it prints."""

    tests: tuple[StdioCase, ...]


Suite = CallSuite | StdioSuite


class Ending(StrEnum):
    """How a test, or a whole run, ended. All but the last two are the program's doing."""

    PASSED = "passed"
    FAILED = "failed"
    """The program ran, and what it returned or printed is wrong."""
    ERROR = "error"
    """It raised an exception or ended early."""
    COMPILE_ERROR = "compile_error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output_limit"
    PROTOCOL = "protocol"
    """It spoke out of turn on the channel that its answers travel by."""
    REFUSED = "refused"
    """The test would have run text of the program outside the program's process, as `eval` and `pickle.loads` do."""
    KILLED = "killed"
    """A signal ended it, such as a segmentation fault or its own kill."""
    NOT_RUN = "not_run"
    """An earlier test failed and the run stopped there, or the program had ended."""
    BAD_TESTS = "bad_tests"
    """The tests themselves do not run: the data's fault."""
    NO_VERDICT = "no_verdict"
    """The sandbox failed before the program could begin: the grader's fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """How one test ended, and a line that says why, in characters that any file takes and no terminal obeys.

    Examples:
        >>> TestResult(ending=Ending.ERROR, detail="SystemExit: \\ud800").detail
        'SystemExit: \\\\ud800'
    """

    __test__ = False  # tells pytest that this is not a test

    ending: Ending
    detail: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", printable(self.detail))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A program as the model wrote it, its tests and limits, and whether to stop at the first test that fails.

    `imports` are packages, by import name, that the row itself imports. The program is shown those that are installed;
    no name may come from the program.
    """

    program: str
    suite: Suite
    limits: Limits = field(default_factory=Limits)
    stop_at_first: bool = True
    imports: tuple[str, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values, the inverse of `from_record`."""
        record = asdict(self)
        record["suite"].pop("code", None)  # which is for this machine only
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Job:
        """The job that `to_record` was called on."""
        found, tests = record["suite"], record["suite"]["tests"]
        if "names" in found:
            listed = {name: tuple(found[name]) for name in ("tests", "names", "imports")}
            suite: Suite = CallSuite(**{**found, **listed})
        else:
            suite = StdioSuite(tests=tuple(StdioCase(**case) for case in tests))
        limits, imports = Limits(**record["limits"]), tuple(record["imports"])
        return cls(**{**record, "suite": suite, "limits": limits, "imports": imports})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What came of a job.

    Attributes:
        ending: PASSED if every test passed, else how the first one that did not pass ended; BAD_TESTS or
            NO_VERDICT if there is nothing to say of the program.
        tests: One result a test, in order; empty for BAD_TESTS and NO_VERDICT.
        detail: A line that says why, such as the assertion that failed.
        level: The isolation that the program ran under, such as `"namespaces+landlock+seccomp"`.
        seconds: Wall time from the start of the run.
    """

    ending: Ending
    tests: tuple[TestResult, ...] = ()
    detail: str = ""
    level: str = ""
    seconds: float = 0.0

    @property
    def failure(self) -> str:
        """The reason code where the grader has failed: NO_VERDICT."""
        return BUDGET_SPENT if self.detail == BUDGET_SPENT else "sandbox_failed"

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values, the inverse of `from_record`."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunResult:
        """The outcome that `to_record` was called on."""
        tests = tuple(TestResult(ending=Ending(each["ending"]), detail=each["detail"]) for each in record["tests"])
        return cls(**{**record, "ending": Ending(record["ending"]), "tests": tests})


def run_result_of(tests: tuple[TestResult, ...]) -> RunResult:
    """The outcome of a run with these results: as the first that did not pass."""
    first = next((test for test in tests if test.ending is not Ending.PASSED), TestResult(ending=Ending.PASSED))
    return RunResult(ending=first.ending, tests=tests, detail=first.detail)


def run_each_once(jobs: Sequence[Job], run: Callable[[list[Job]], Iterable[RunResult | None]]) -> list[RunResult]:
    """The results of these jobs, in order, of which `run` runs identical ones once; None is one without budget left."""
    distinct = list(dict.fromkeys(jobs))
    results = dict(zip(distinct, run(distinct), strict=True))
    return [results[job] or no_verdict(BUDGET_SPENT) for job in jobs]


def no_verdict(detail: str) -> RunResult:
    """The outcome of a job that the grader has failed."""
    return RunResult(ending=Ending.NO_VERDICT, detail=detail)
