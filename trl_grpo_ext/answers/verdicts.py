"""The verdicts on answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.verdict import Status, Verdict

SHOWN_CHARS = 200  # of an answer, in a verdict


def graded(
    score: float, *, reason: str = "", answer: str | None = None, details: dict[str, str] | None = None
) -> Verdict:
    """The verdict for an answer that was read: right by a score of 1, wrong by 0, right in part by one between."""
    status = Status.CORRECT if score == 1 else Status.PARTIAL if score else Status.INCORRECT
    return Verdict(status=status, score=score, reason=reason, answer=shown(answer), details=details or {})


def right(answer: str | None = None, *, details: dict[str, str] | None = None) -> Verdict:
    """The verdict for an answer that is as asked."""
    return graded(1.0, answer=answer, details=details)


def wrong(reason: str, *, answer: str | None = None, details: dict[str, str] | None = None) -> Verdict:
    """The verdict for an answer that was read and is not as asked."""
    return graded(0.0, reason=reason, answer=answer, details=details)


def unreadable(reason: str, *, answer: str | None = None, details: dict[str, str] | None = None) -> Verdict:
    """The verdict for a completion in which there is no answer to read."""
    return Verdict(status=Status.UNPARSEABLE, score=0.0, reason=reason, answer=shown(answer), details=details or {})


def shown(answer: str | None) -> str | None:
    """As much of an answer as a verdict carries."""
    return answer if answer is None else answer[:SHOWN_CHARS]


def agreed(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict on a completion that gives several answers: theirs if they score alike, else `ambiguous`.

    Examples:
        >>> right = Verdict(status=Status.CORRECT, score=1.0)
        >>> agreed([right, Verdict(status=Status.INCORRECT, score=0.0)]).reason
        'ambiguous'
    """
    unscored = next((verdict for verdict in verdicts if verdict.score is None), None)
    if unscored is not None:
        return unscored
    if len({verdict.score for verdict in verdicts}) == 1:
        return verdicts[0]
    return replace(verdicts[0], status=Status.INCORRECT, score=0.0, reason="ambiguous")
