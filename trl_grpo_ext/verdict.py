"""Verdicts: a verifier's status, score and blame for one completion.

A verdict is not a reward. It keeps apart five cases that a bare number mixes up: a wrong answer, an answer that could
not be parsed, an answer that made the grader run forever, a grader that broke, and a broken gold answer. Only the first
three are the policy's fault and may be trained on.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    """The completion fulfils a part of the task; its score lies strictly inside the verifier's range of scores."""
    INCORRECT = "incorrect"
    """The completion is readable and wrong."""
    SCORED = "scored"
    """The completion has a number, and no range tells which number is right."""
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
        score: A finite number; in [0, 1] for verifiers of correctness, any finite number for marks, costs and
            penalties. None exactly when `blame` is not POLICY.
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
                raise ValueError(
                    "A verdict that is the policy's fault needs a score, got None."
                )
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
    return Verdict(
        status=Status.ERROR,
        score=None,
        blame=Blame.GRADER,
        reason=reason,
        seconds=seconds,
        details=details,
    )


def skipped(reason: str, *, answer: str | None = None) -> Verdict:
    """Make the verdict of a dataset row without a usable gold answer: no score, the data's fault."""
    return Verdict(
        status=Status.SKIPPED, score=None, blame=Blame.DATA, answer=answer, reason=reason
    )


# The worst and the best score.
ScoreRange = tuple[float, float]
# The range of verifiers of correctness.
UNIT: ScoreRange = (0.0, 1.0)


def check_score_range(score_range: object) -> ScoreRange | None:
    """Return a declared range of scores as two floats; None stays None.

    Raises:
        ValueError: for anything but two finite numbers, the lower one first.

    Examples:
        >>> check_score_range([-1, 0])
        (-1.0, 0.0)
    """
    if score_range is None:
        return None
    bounds = list(score_range) if isinstance(score_range, list | tuple) else []
    are_numbers = all(
        isinstance(bound, Real) and not isinstance(bound, bool) for bound in bounds
    )
    if (
        len(bounds) != 2
        or not are_numbers
        or not -math.inf < bounds[0] < bounds[1] < math.inf
    ):
        raise ValueError(
            f"score_range is the lowest and the highest score that can be given, two finite numbers such as "
            f"[0, 50] or [-1, 0], got {score_range!r}. Leave it out if scores have no bounds."
        )
    return float(bounds[0]), float(bounds[1])


def as_verdict(result: object, score_range: ScoreRange | None = None) -> Verdict:
    """Convert a verifier function's result to a verdict; never raises.

    A number alone does not say which number is right: that takes a range, from the worst score to the best.

    | returned | status | score |
    |---|---|---|
    | a `Verdict` | as is | as is |
    | `True`, `False` | CORRECT, INCORRECT | 1, 0 |
    | a number, no range | SCORED | as is |
    | the top of the range | CORRECT | as is |
    | the bottom of the range | INCORRECT | as is |
    | between them | PARTIAL | as is |
    | outside of the range | SCORED | as is |
    | `None` | SKIPPED, the data's fault | none |
    | NaN, infinity | ERROR, the grader's fault | none |
    | anything else | ERROR, the grader's fault | none |

    Examples:
        >>> as_verdict(0.5).status, as_verdict(0.5, (0.0, 1.0)).status, as_verdict(0, (-1.0, 0.0)).status
        (<Status.SCORED: 'scored'>, <Status.PARTIAL: 'partial'>, <Status.CORRECT: 'correct'>)
        >>> as_verdict("yes").reason
        'returned_str'
        >>> as_verdict("yes").details["error"]
        "The value 'yes', a str, was returned, and a score is a number, True or False"
    """
    if isinstance(result, Verdict):
        return placed(result, score_range)
    if result is None:
        return skipped("returned_none")
    number = _as_number(result)
    if number is None:
        kind = type(result).__name__
        what = f"The value {reprlib.repr(result)}, a {kind}, was returned, and a score is a number, True or False"
        return grader_error(f"returned_{kind}", error=what)
    if isinstance(number, bool):
        return Verdict(
            status=Status.CORRECT if number else Status.INCORRECT, score=float(number)
        )
    if not math.isfinite(number):
        return grader_error("score_not_finite")
    return Verdict(status=_place(number, score_range), score=number)


def placed(verdict: Verdict, score_range: ScoreRange | None) -> Verdict:
    """Set a scored verdict's status to CORRECT, PARTIAL or INCORRECT by a declared range of scores.

    A verdict with another status, or with a score outside of the range, is returned unchanged.

    Examples:
        >>> placed(as_verdict(50.0), (0.0, 50.0)).status
        <Status.CORRECT: 'correct'>
    """
    if verdict.status is not Status.SCORED or verdict.score is None:
        return verdict
    status = _place(verdict.score, score_range)
    if status is Status.SCORED:
        return verdict
    return replace(verdict, status=status)


def _place(score: float, score_range: ScoreRange | None) -> Status:
    """Place a score in a declared range: CORRECT at its top, INCORRECT at its bottom, PARTIAL between, else SCORED."""
    if score_range is None:
        return Status.SCORED
    low, high = score_range
    if score == high:
        return Status.CORRECT
    if score == low:
        return Status.INCORRECT
    return Status.PARTIAL if low < score < high else Status.SCORED


def _as_number(result: object) -> bool | float | None:
    """Return a result as a bool or float, else None; 0-d arrays and tensors are numbers, strings are not."""
    item = getattr(result, "item", None)
    try:
        found: Any = result
        if not isinstance(result, Real):
            found = item() if callable(item) else None
        if found is None or isinstance(found, bool):
            return found
        return float(found)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
