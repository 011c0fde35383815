"""What came of running a program against a suite of tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from trl_grpo_ext.sandbox.limits import Limits
from trl_grpo_ext.sandbox.suite import CallSuite, Suite


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
    """How one test ended, and a line that says why."""

    __test__ = False  # pytest, this is no test

    ending: Ending
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A program, the tests that it must pass, and what it may use.

    Attributes:
        program: Python source, as the model wrote it.
        suite: The tests.
        limits: What the program may use.
        stop_at_first: Whether to stop at the first test that does not pass.
    """

    program: str
    suite: Suite
    limits: Limits = field(default_factory=Limits)
    stop_at_first: bool = True

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values."""
        record = asdict(self) | {"kind": "call" if isinstance(self.suite, CallSuite) else "stdio"}
        record["suite"].pop("code", None)  # which is for this machine only
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a job.

    Attributes:
        ending: PASSED if every test passed, else how the first one that did not pass ended; BAD_TESTS or
            NO_VERDICT if there is nothing to say of the program.
        tests: One result a test, in order; empty for BAD_TESTS and NO_VERDICT.
        detail: A line that says why, such as the assertion that failed.
        level: The isolation that the program ran under, such as `"namespaces+landlock+seccomp"`.
        seconds: Wall time from the start of the run.
        cpu_seconds: CPU time of the program's processes.
    """

    ending: Ending
    tests: tuple[TestResult, ...] = ()
    detail: str = ""
    level: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values, the inverse of `from_record`."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Outcome:
        """The outcome that `to_record` was called on."""
        tests = tuple(TestResult(ending=Ending(each["ending"]), detail=each["detail"]) for each in record["tests"])
        return cls(**{**record, "ending": Ending(record["ending"]), "tests": tests})


def outcome_of(tests: tuple[TestResult, ...]) -> Outcome:
    """The outcome of a run with these results: as the first that did not pass."""
    first = next((test for test in tests if test.ending is not Ending.PASSED), None)
    if first is None:
        return Outcome(ending=Ending.PASSED, tests=tests)
    return Outcome(ending=first.ending, tests=tests, detail=first.detail)
