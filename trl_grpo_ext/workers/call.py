"""A call to run in a worker, and its result. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from trl_grpo_ext.support.budget import BUDGET_SPENT
from trl_grpo_ext.verdict import Status, Verdict, grader_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function named by import path, `"package.module:function"`, and its positional arguments.

    The arguments are pickled, or are the pickle; what the function returns must be plain JSON values.
    """

    target: str
    arguments: tuple[Any, ...] | bytes


class Failure(StrEnum):
    """Why a call has no value."""

    TIMEOUT = "timeout"
    """It used up its time, most of it as CPU time: the fault of what it was given."""
    STARVED = "starved"
    """Its time passed while the worker had no CPU: the fault of the machine."""
    WAITED = "waited"
    """Its time passed while the function waited for something else, such as a clock or a server."""
    LOST = "lost"
    """The worker died, was killed from outside, or could not start."""
    UNFINISHED = "unfinished"
    """The budget of the batch was spent before."""
    RAISED = "raised"
    """The function raised an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What came of a call.

    Attributes:
        value: What the function returned.
        failure: Why it returned nothing.
        detail: The type of the exception that a failure raised, if any.
        error: What that exception said, and where.
        seconds: From its start in a worker.
    """

    value: Any = None
    failure: Failure | None = None
    detail: str = ""
    error: str = ""
    seconds: float = 0.0

    def to_verdict(self) -> Verdict:
        """The verdict of a call whose value is a verdict's record."""
        match self.failure:
            case None:
                return Verdict(**(self.value | {"seconds": self.seconds}))
            case Failure.TIMEOUT:
                return Verdict(status=Status.TIMEOUT, score=0.0, reason="timeout", seconds=self.seconds)
            case Failure.WAITED:  # the completion kept nothing busy, and earns no 0 for a service that is down
                late = grader_error("timeout_waiting", seconds=self.seconds)
                return replace(late, status=Status.TIMEOUT)
            case Failure.RAISED:
                return grader_error(f"raised_{self.detail}", seconds=self.seconds, error=self.error)
            case Failure.UNFINISHED:
                return grader_error(BUDGET_SPENT, seconds=self.seconds)
            case _:
                return grader_error(f"worker_{self.failure}", seconds=self.seconds, error=self.error)
