"""A call to run elsewhere, and what came of it. Plain values, shared by the pool and its workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from trl_grpo_ext.verdict import Status, Verdict, grader_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function named by import path, `"package.module:function"`, and its positional arguments.

    The arguments are pickled; what the function returns must be plain JSON values.
    """

    target: str
    arguments: tuple[Any, ...]


class Failure(StrEnum):
    """Why a call has no value."""

    TIMEOUT = "timeout"
    """It used up its time, most of it as CPU time: the fault of what it was given."""
    STARVED = "starved"
    """Its time passed while the worker had no CPU: the fault of the machine."""
    LOST = "lost"
    """The worker died, was killed from outside, or could not start."""
    RAISED = "raised"
    """The function raised an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a call: a value, or a failure with a detail, such as the exception's type."""

    value: Any = None
    failure: Failure | None = None
    detail: str = ""
    seconds: float = 0.0

    def to_verdict(self) -> Verdict:
        """The verdict of a call whose value is a verdict's record."""
        match self.failure:
            case None:
                return replace(Verdict.from_record(self.value), seconds=self.seconds)
            case Failure.TIMEOUT:
                return Verdict(status=Status.TIMEOUT, score=0.0, reason="timeout", seconds=self.seconds)
            case Failure.RAISED:
                return grader_error(f"raised_{self.detail}", seconds=self.seconds)
            case _:
                return grader_error(f"worker_{self.failure}", seconds=self.seconds)
