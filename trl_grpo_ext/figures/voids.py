"""Figures of void rows by cause, in groups with judged members.

An unusable gold answer or a broken grader voids a whole group. A void completion beside judged siblings may have caused
its own voiding.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Estimate

# The term without a value, empty for a failure outside the mix, and the reason code.
Cause = tuple[str, str]
# A reward function beside the mix gave NaN or infinity.
NOT_FINITE = "not_finite"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidFigures:
    """A batch's void rows with a common cause, beside judged siblings."""

    # Number of void rows.
    rows: int
    # Share of void rows in each group with judged members.
    shares: Estimate
    # In each of these groups: share of void rows times the deficit of its judged members' score to the batch's mean.
    lower: Estimate


def void_figures(card: Scorecard) -> dict[Cause, VoidFigures]:
    """Group a batch's void rows by cause; rows of entirely void groups are left out."""
    judged = {rows: scores for rows in card.members if (scores := _scores(card, rows))}
    if not judged or not any(card.void):
        return {}
    batch = fmean(score for scores in judged.values() for score in scores)
    causes = {rows: [cause_of(card, row) for row in rows] for rows in judged}
    found = dict.fromkeys(cause for those in causes.values() for cause in those if cause is not None)
    return {
        cause: VoidFigures(
            rows=sum(those.count(cause) for those in causes.values()),
            shares=Estimate.of([those.count(cause) / len(rows) for rows, those in causes.items()]),
            lower=Estimate.of(
                [those.count(cause) / len(rows) * (batch - fmean(judged[rows])) for rows, those in causes.items()]
            ),
        )
        for cause in found
    }


def cause_of(card: Scorecard, row: int) -> Cause | None:
    """Return a void row's cause; None for a row that is not void, or to which no term applies.

    Examples:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import MathVerifier
        >>> mix = RewardMix([RewardTerm(name="right", verifier=MathVerifier())])
        >>> cause_of(mix.score([Sample(text="4", row={"solution": ""})]), 0)
        ('right', 'gold_empty')
    """
    if not card.void[row]:
        return None
    for term in card.in_force:
        verdict = card.verdicts[term][row]
        if verdict is not None and card.values[term][row] is None:
            return term, verdict.reason or str(verdict.status)
    if not card.failed[row]:
        return None
    outcome = card.samples[row].outcome
    if outcome is None:
        return "", NOT_FINITE
    return "", "no_reward" if outcome.verdict is None else outcome.verdict.reason


def _scores(card: Scorecard, rows: tuple[int, ...]) -> list[float]:
    """Return the primary scores of a group's judged members, clipped to [0, 1]."""
    verdicts = [card.primary[row] for row in rows if not card.void[row]]
    return [min(1.0, max(0.0, one.score)) for one in verdicts if one is not None and one.score is not None]
