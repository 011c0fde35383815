"""One verdict made of the verdicts of several verifiers, which it keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from trl_grpo_ext.verdict import Blame, Verdict, grader_error

Parts = Mapping[str, Verdict]  # by the verifier's name, in the order in which they judged


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedVerdict(Verdict):
    """A verdict that remembers those it was made of, so that their verifiers can make metrics of them.

    Attributes:
        parts: The verdicts of the verifiers that were asked. A record does not hold them.
    """

    parts: Parts = field(default_factory=dict, compare=False, repr=False)

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values, of which `Verdict.from_record` makes a verdict without parts."""
        known = {each.name: getattr(self, each.name) for each in fields(Verdict)}
        return Verdict(**known).to_record()


def compose(parts: Parts, decided_by: str | None) -> ComposedVerdict:
    """The verdict of the verifier `decided_by`, or of all of them if it is None, with the rest as its details.

    Example:
        >>> from trl_grpo_ext.verdict import Status
        >>> wrong = Verdict(status=Status.INCORRECT, score=0.0, reason="not_equal")
        >>> compose({"math": wrong}, "math").reason
        'math: not_equal'
    """
    deciding = parts[decided_by] if decided_by is not None else next(iter(parts.values()))
    agreeing = parts.values() if decided_by is None else [deciding]
    return ComposedVerdict(
        status=deciding.status,
        score=deciding.score,
        blame=deciding.blame,
        answer=next((part.answer for part in agreeing if part.answer is not None), None),
        reason=_reason(decided_by, deciding),
        seconds=math.fsum(part.seconds for part in parts.values()),
        details=_details(parts),
        parts=parts,
    )


def unscored_first(parts: Parts) -> str | None:
    """The verifier to blame where some have no score: the grader's fault comes before the data's."""
    for blame in (Blame.GRADER, Blame.DATA):
        for name, part in parts.items():
            if part.blame is blame:
                return name
    return None


def within_unit(verdict: Verdict) -> Verdict:
    """The verdict, or the grader's error where its score is none of correctness, in [0, 1]."""
    if verdict.score is None or 0.0 <= verdict.score <= 1.0:
        return verdict
    return replace(grader_error("score_outside_0_1", seconds=verdict.seconds), answer=verdict.answer)


def part_verdicts(verdicts: Sequence[Verdict | None], name: str) -> list[Verdict]:
    """What one verifier said of the samples that it was asked about."""
    composed = (verdict for verdict in verdicts if isinstance(verdict, ComposedVerdict))
    return [verdict.parts[name] for verdict in composed if name in verdict.parts]


def _reason(decided_by: str | None, deciding: Verdict) -> str:
    if decided_by is None:
        return ""
    return f"{decided_by}: {deciding.reason}" if deciding.reason else decided_by


def _details(parts: Parts) -> dict[str, str]:
    details = {}
    for name, part in parts.items():
        score = "" if part.score is None else f" {part.score:g}"
        details[name] = f"{part.status}{score}" + (f" ({part.reason})" if part.reason else "")
        if part.answer is not None:
            details[f"{name}.answer"] = part.answer
        details |= {f"{name}.{key}": value for key, value in part.details.items()}
    return details
