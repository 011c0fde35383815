"""Calls for worker processes, and their results, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from trl_grpo_ext.support.budget import BUDGET_SPENT
from trl_grpo_ext.verdict import Status, Verdict, grader_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function named by import path, `"package.module:function"`, with positional arguments.

    `arguments` is a tuple, or a pickled tuple as bytes. The function must return plain JSON values.
    """

    target: str
    arguments: tuple[Any, ...] | bytes


class Failure(StrEnum):
    """The reason why a call returned no value."""

    TIMEOUT = "timeout"
    """The call used up its time limit, most of it as CPU time: the completion's fault."""
    STARVED = "starved"
    """The time limit passed while the worker got no CPU: the machine's fault."""
    WAITED = "waited"
    """The time limit passed while the function waited, for example for a clock or a server."""
    LOST = "lost"
    """The worker process died, was killed from outside, or could not start."""
    UNFINISHED = "unfinished"
    """The batch's time budget was spent before the call finished."""
    RAISED = "raised"
    """The function raised an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """A call's return value, or its failure.

    Attributes:
        value: The function's return value.
        failure: The reason why there is no value; None for a call that returned.
        detail: The type name of the exception behind the failure, if any.
        error: The message and the place of that exception.
        seconds: The wall time of the call, from its start in a worker.
    """

    value: Any = None
    failure: Failure | None = None
    detail: str = ""
    error: str = ""
    seconds: float = 0.0

    def to_verdict(self) -> Verdict:
        """Make a verdict of the call; a returned value must be a verdict's record.

        | failure | status | score | blame |
        |---|---|---|---|
        | none | the record's | the record's | the record's |
        | TIMEOUT | TIMEOUT | 0 | policy |
        | WAITED | TIMEOUT | none | grader |
        | others | ERROR | none | grader |
        """
        match self.failure:
            case None:
                return Verdict(**(self.value | {"seconds": self.seconds}))
            case Failure.TIMEOUT:
                return Verdict(
                    status=Status.TIMEOUT, score=0.0, reason="timeout", seconds=self.seconds
                )
            # The completion used no CPU time: a service that is down must not cost it the score.
            case Failure.WAITED:
                late = grader_error("timeout_waiting", seconds=self.seconds)
                return replace(late, status=Status.TIMEOUT)
            case Failure.RAISED:
                return grader_error(
                    f"raised_{self.detail}", seconds=self.seconds, error=self.error
                )
            case Failure.UNFINISHED:
                return grader_error(BUDGET_SPENT, seconds=self.seconds)
            case _:
                return grader_error(
                    f"worker_{self.failure}", seconds=self.seconds, error=self.error
                )
