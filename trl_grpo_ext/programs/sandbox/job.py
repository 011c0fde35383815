"""Jobs of the sandbox (program, tests, limits) and their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from trl_grpo_ext.support.budget import BUDGET_SPENT
from trl_grpo_ext.support.text import printable

FILES_NEED_NAMESPACES = (
    "the tests use files, which programs may write only in namespaces; see `doctor`"
)
"""Detail of a job without a verdict at a level of isolation where programs keep no files."""
ALL_SKIPPED = "every test skips itself"
"""Beginning of the detail of a job whose tests judged nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Resource limits of a run, each a finite number above 0; a run that exceeds a limit ends with a matching verdict.

    The judge of a program runs under `call_run.judge_limits` of these.

    Attributes:
        wall_seconds: Wall time for a whole suite of tests, from the moment the program may run.
        cpu_seconds: CPU time of each process of the run.
        memory_mb: Memory in MiB, for each process and for all processes together.
        processes: Processes and threads at the same time.
        output_kb: Printed output of a run in KiB.
        disk_mb: Files in the private temporary folder, and the largest file, in MiB; without namespaces, programs have
            no such folder.

    Raises:
        ValueError: for a limit that is not a finite number above 0, or a fraction where a whole number is required.
    """

    wall_seconds: float = 5.0
    cpu_seconds: float = 5.0
    memory_mb: int = 512
    processes: int = 32
    output_kb: int = 256
    disk_mb: int = 16

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if (
                # `True` is an int in Python. A comparison with NaN is false, so NaN is refused too.
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 < value < math.inf
            ):
                raise ValueError(
                    f"The limit {name} is a finite number above 0, got {value!r}."
                )
            if not isinstance(value, int) and name not in ("wall_seconds", "cpu_seconds"):
                raise ValueError(f"The limit {name} is a whole number, got {value!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSuite:
    """Tests that call the solution: Python code that a judge runs outside the solution's process.

    Attributes:
        setup: Code that runs first, once: imports, helpers, functions that `tests` call. Trusted.
        tests: Code snippets, one per test, each run in the namespace that `setup` leaves. A test that raises has
            failed.
        names: Global names of the solution that `setup` and `tests` use. Each is bound to a stand-in that calls the
            solution.
        imports: Packages that the tests import whatever the program does. A missing package is a fault of the tests.
        shares_files: Whether tests use files, as `tempfile` and `tmp_path` do: tests and program then write to a shared
            folder, which is deleted after the run.
        code: Setup and tests compiled by this Python with `inside.compiled.pack`; empty if each judge is to compile
            them. `Job.to_record` leaves it out, so it does not reach other machines.
    """

    tests: tuple[str, ...]
    names: tuple[str, ...]
    setup: str = ""
    imports: tuple[str, ...] = ()
    shares_files: bool = False
    code: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioCase:
    """Standard input for a whole program, and the output required."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioSuite:
    """Tests that run the solution as a program, once per case, and compare its printed output."""

    tests: tuple[StdioCase, ...]


Suite = CallSuite | StdioSuite


class Ending(StrEnum):
    """A test's or run's ending; programs are responsible for all endings but SKIPPED and the last two."""

    PASSED = "passed"
    FAILED = "failed"
    """The program ran, but returned or printed a wrong value."""
    ERROR = "error"
    """The program raised an exception or ended early."""
    COMPILE_ERROR = "compile_error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output_limit"
    PROTOCOL = "protocol"
    """The program sent an unexpected message on the channel that carries its answers."""
    REFUSED = "refused"
    """The test would have run text of the program in the judge's process, as `eval` and `pickle.loads` do."""
    KILLED = "killed"
    """A signal ended the program, such as a segmentation fault or its own kill."""
    NOT_RUN = "not_run"
    """An earlier test failed and the run stopped, or the program had already ended."""
    SKIPPED = "skipped"
    """The test skipped itself, as on a machine without numpy: it neither passed nor failed."""
    BAD_TESTS = "bad_tests"
    """The tests themselves do not run: a fault of the data."""
    NO_VERDICT = "no_verdict"
    """The sandbox failed: a fault of the grader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """A test's ending and an explanation in a single line.

    The line holds only characters that any file and console can encode, and no terminal obeys.

    Examples:
        >>> TestResult(ending=Ending.ERROR, detail="SystemExit: \\ud800").detail
        'SystemExit: \\\\ud800'
    """

    # Keep pytest from collecting this class as a test.
    __test__ = False

    ending: Ending
    detail: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", printable(self.detail))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A program as the model wrote it, plus tests, limits and whether a failed test stops the run.

    `imports` lists packages, by import name, that the dataset row itself imports; the program is shown the installed
    ones. No name in it may come from the program. `may_be_cut` tells that nothing stands behind the program in its
    answer, so that the answer's end may cut the last statement; tests that call the program then leave it out.
    """

    program: str
    suite: Suite
    limits: Limits = field(default_factory=Limits)
    stop_at_first: bool = True
    imports: tuple[str, ...] = ()
    may_be_cut: bool = False

    def to_record(self) -> dict[str, Any]:
        """Return a dict of plain JSON values, from which `from_record` rebuilds the job without `suite.code`."""
        record = asdict(self)
        # Compiled code is valid on this machine only.
        record["suite"].pop("code", None)
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Job:
        """Rebuild a job from a dict made by `to_record`; compiled tests in it are not believed."""
        found, tests = record["suite"], record["suite"]["tests"]
        # Only a suite of calls has names.
        if "names" in found:
            # JSON has lists in place of tuples, and equal jobs are found by their hash.
            listed = {name: tuple(found[name]) for name in ("tests", "names", "imports")}
            suite: Suite = CallSuite(**{**found, **listed, "code": ""})
        else:
            suite = StdioSuite(tests=tuple(StdioCase(**case) for case in tests))
        limits, imports = Limits(**record["limits"]), tuple(record["imports"])
        return cls(**{**record, "suite": suite, "limits": limits, "imports": imports})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A job's result: ending, test results, isolation level and wall time.

    Attributes:
        ending: PASSED if every test passed that was not skipped, otherwise the ending of the first that failed;
            BAD_TESTS or NO_VERDICT if the program was not judged, as where every test was skipped.
        tests: Test results in order; empty for BAD_TESTS and NO_VERDICT.
        detail: A line that explains the ending, such as the failed assertion.
        level: Isolation level of the run, such as `"namespaces+landlock+seccomp"`.
        seconds: Wall time from the start of the run.
    """

    ending: Ending
    tests: tuple[TestResult, ...] = ()
    detail: str = ""
    level: str = ""
    seconds: float = 0.0

    @property
    def failure(self) -> str:
        """Reason code of a verdict whose ending is NO_VERDICT: budget spent or sandbox failed."""
        return BUDGET_SPENT if self.detail == BUDGET_SPENT else "sandbox_failed"

    def to_record(self) -> dict[str, Any]:
        """Return a dict of plain JSON values, from which `from_record` rebuilds the result."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunResult:
        """Rebuild a result from a dict made by `to_record`."""
        tests = tuple(
            TestResult(ending=Ending(each["ending"]), detail=each["detail"])
            for each in record["tests"]
        )
        return cls(**{**record, "ending": Ending(record["ending"]), "tests": tests})


def run_result_of(tests: tuple[TestResult, ...]) -> RunResult:
    """Build a run result from test results; ending and detail come from the first test that failed.

    Examples:
        >>> run_result_of((TestResult(ending=Ending.SKIPPED, detail="no GPU"),)).detail
        'every test skips itself: no GPU'
    """
    judged = [test for test in tests if test.ending is not Ending.SKIPPED]
    if tests and not judged:
        return RunResult(
            ending=Ending.BAD_TESTS, detail=f"{ALL_SKIPPED}: {tests[0].detail}"
        )
    first = next(
        (test for test in judged if test.ending is not Ending.PASSED),
        TestResult(ending=Ending.PASSED),
    )
    return RunResult(ending=first.ending, tests=tests, detail=first.detail)


def run_each_once(
    jobs: Sequence[Job], run: Callable[[list[Job]], Iterable[RunResult | None]]
) -> list[RunResult]:
    """Run identical jobs only once and return a result for each job, in order.

    If `run` returns None for a job, no budget was left for it, and its result is NO_VERDICT.
    """
    distinct = list(dict.fromkeys(jobs))
    results = dict(zip(distinct, run(distinct), strict=True))
    return [results[job] or no_verdict(BUDGET_SPENT) for job in jobs]


def no_verdict(detail: str) -> RunResult:
    """Build the result of a job that the grader failed to judge."""
    return RunResult(ending=Ending.NO_VERDICT, detail=detail)
