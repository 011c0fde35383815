"""Verdicts: a verifier's status, score and blame for one completion.

A verdict is not a reward. It keeps apart five cases that a bare number mixes up: a wrong answer, an answer that could
not be parsed, an answer that made the grader run forever, a grader that broke, and a broken gold answer. Only the first
three are the policy's fault and may be trained on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real
from typing import Any

# The reason code if a term's shape raises or returns a number that is not finite.
SHAPE_FAILED = "shape_failed"
# The end of the reason code if a gating or combined term has no score: `accuracy_unscored`.
UNSCORED = "_unscored"


class Status(StrEnum):
    """A verification's result."""

    CORRECT = "correct"
    """The completion fulfils the task."""
    PARTIAL = "partial"
    """The completion fulfils a part of the task; verifiers of correctness give a score strictly between 0 and 1."""
    INCORRECT = "incorrect"
    """The completion is readable and wrong."""
    UNPARSEABLE = "unparseable"
    """The completion contains no readable answer."""
    TIMEOUT = "timeout"
    """The answer used up the verifier's CPU time; without a score, the verifier waited too long for something else."""
    ERROR = "error"
    """The verifier failed."""
    SKIPPED = "skipped"
    """Nothing was judged: the gold answer is unusable, or, with a score, a closed gate left the completion out."""


class Blame(StrEnum):
    """The party at fault: policy, grader or data."""

    POLICY = "policy"
    """The model: the verdict has a score and may be trained on."""
    GRADER = "grader"
    """The verifier, its workers or its sandbox: no score."""
    DATA = "data"
    """The dataset row: no score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verifier's judgement of one completion.

    Attributes:
        status: The result of the verification.
        score: A finite number; in [0, 1] for verifiers of correctness, any finite number for shaping terms
            such as a length penalty. None exactly when `blame` is not POLICY.
        blame: The party that could mend the verdict: the policy, the grader or the data.
        answer: The answer extracted from the completion, or None.
        reason: A short stable code, such as `"no_boxed"`; empty if the status suffices.
        seconds: The wall time of judging, 0 or more; for a cached verdict, the time of the look-up. Equal completions
            that are judged once share a verdict.
        details: Short facts about the judgement by name, such as the rule that found the answer.

    Raises:
        ValueError: if `score` is missing though the policy is to blame, is present though it is not, or is
            not finite.

    Examples:
        >>> Verdict(status=Status.INCORRECT, score=0.0, answer="41").blame
        <Blame.POLICY: 'policy'>
        >>> Verdict(status=Status.ERROR, score=0.0, blame=Blame.GRADER)
        Traceback (most recent call last):
            ...
        ValueError: A verdict that is the grader's fault has no score, got 0.0; use score=None.
    """

    status: Status
    score: float | None
    blame: Blame = Blame.POLICY
    answer: str | None = None
    reason: str = ""
    seconds: float = 0.0
    details: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Strings are accepted, since verdicts come back from workers and parquet files as plain records.
        if type(self.status) is not Status:
            object.__setattr__(self, "status", Status(self.status))
        if type(self.blame) is not Blame:
            object.__setattr__(self, "blame", Blame(self.blame))
        if self.answer is not None and type(self.answer) is not str:
            object.__setattr__(self, "answer", str(self.answer))
        if type(self.reason) is not str:
            object.__setattr__(self, "reason", str(self.reason))
        if self.score is not None and type(self.score) is not float:
            object.__setattr__(self, "score", float(self.score))
        if self.blame is Blame.POLICY:
            if self.score is None:
                raise ValueError("A verdict that is the policy's fault needs a score, got None.")
            if not math.isfinite(self.score):
                raise ValueError(f"A verdict's score must be finite, got {self.score}.")
        elif self.score is not None:
            raise ValueError(
                f"A verdict that is the {self.blame}'s fault has no score, got {self.score}; use score=None."
            )

    @property
    def left_out(self) -> bool:
        """Whether a closed gate left the completion out of a group comparison."""
        return self.status is Status.SKIPPED and self.blame is Blame.POLICY

    def to_record(self) -> dict[str, Any]:
        """Return a dict of plain JSON values; `Verdict(**record)` reverses this."""
        # Written out, since a batch has thousands of verdicts and `asdict` is slow.
        return {
            "status": str(self.status),
            "score": self.score,
            "blame": str(self.blame),
            "answer": self.answer,
            "reason": self.reason,
            "seconds": self.seconds,
            "details": dict(self.details),
        }


def grader_error(reason: str, *, seconds: float = 0.0, error: str = "") -> Verdict:
    """Make the verdict of a failed verifier: no score, so the row leaves its group's baseline.

    `reason` is a code; `error`, kept in `details`, is the exception's message and place.
    """
    details = {"error": error} if error else {}
    return Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason=reason, seconds=seconds, details=details)


def skipped(reason: str, *, answer: str | None = None) -> Verdict:
    """Make the verdict of a dataset row without a usable gold answer: no score, the data's fault."""
    return Verdict(status=Status.SKIPPED, score=None, blame=Blame.DATA, answer=answer, reason=reason)


def as_verdict(result: object) -> Verdict:
    """Convert a verifier function's result to a verdict; never raises.

    | returned | status | score |
    |---|---|---|
    | a `Verdict` | as is | as is |
    | `True`, 1 | CORRECT | 1 |
    | `False`, 0 | INCORRECT | 0 |
    | between 0 and 1 | PARTIAL | as is |
    | above 1 | CORRECT | as is |
    | below 0 | INCORRECT | as is |
    | `None` | SKIPPED, the data's fault | none |
    | NaN, infinity | ERROR, the grader's fault | none |
    | anything else | ERROR, the grader's fault | none |

    Examples:
        >>> as_verdict(0.5).status
        <Status.PARTIAL: 'partial'>
        >>> as_verdict("yes").reason
        'returned_str'
    """
    if isinstance(result, Verdict):
        return result
    if result is None:
        return skipped("returned_none")
    score = _as_float(result)
    if score is None:
        return grader_error(f"returned_{type(result).__name__}")
    if not math.isfinite(score):
        return grader_error("score_not_finite")
    if 0 < score < 1:
        return Verdict(status=Status.PARTIAL, score=score)
    return Verdict(status=Status.CORRECT if score > 0 else Status.INCORRECT, score=score)


def _as_float(result: object) -> float | None:
    """Return a number as float, else None; 0-d arrays and tensors are numbers, strings are not."""
    item = getattr(result, "item", None)
    try:
        if isinstance(result, Real):
            return float(result)
        return float(item()) if callable(item) else None
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
