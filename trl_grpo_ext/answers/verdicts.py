"""Constructors of verdicts on answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.verdict import Status, Verdict

# Characters of an answer that a verdict keeps.
SHOWN_CHARS = 200


def graded(
    score: float,
    *,
    reason: str = "",
    answer: str | None = None,
    details: dict[str, str] | None = None,
) -> Verdict:
    """Build the verdict of an answer that was read: score 1 is correct, 0 incorrect, a score between partial."""
    status = Status.PARTIAL
    if score in (0, 1):
        status = Status.CORRECT if score else Status.INCORRECT
    return Verdict(
        status=status,
        score=score,
        reason=reason,
        answer=shortened_answer(answer),
        details=details or {},
    )


def right(answer: str | None = None, *, details: dict[str, str] | None = None) -> Verdict:
    """Build the verdict of a correct answer."""
    return graded(1.0, answer=answer, details=details)


def wrong(
    reason: str, *, answer: str | None = None, details: dict[str, str] | None = None
) -> Verdict:
    """Build the verdict of a readable but incorrect answer."""
    return graded(0.0, reason=reason, answer=answer, details=details)


def unreadable(
    reason: str, *, answer: str | None = None, details: dict[str, str] | None = None
) -> Verdict:
    """Build the verdict of a completion without a readable answer."""
    return Verdict(
        status=Status.UNPARSEABLE,
        score=0.0,
        reason=reason,
        answer=shortened_answer(answer),
        details=details or {},
    )


def shortened_answer(answer: str | None) -> str | None:
    """Cut an answer to the `SHOWN_CHARS` characters that a verdict keeps."""
    if answer is None:
        return None
    return answer[:SHOWN_CHARS]


def agreed(verdicts: Sequence[Verdict]) -> Verdict:
    """Combine the verdicts on a completion's answers: return the first if all scores agree, else `ambiguous`.

    A verdict without a score wins over all others.

    Examples:
        >>> right = Verdict(status=Status.CORRECT, score=1.0)
        >>> agreed([right, Verdict(status=Status.INCORRECT, score=0.0)]).reason
        'ambiguous'
    """
    for verdict in verdicts:
        if verdict.score is None:
            return verdict
    if len({verdict.score for verdict in verdicts}) == 1:
        return verdicts[0]
    return replace(verdicts[0], status=Status.INCORRECT, score=0.0, reason="ambiguous")
