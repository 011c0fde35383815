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
    if not any(card.void):
        return {}
    groups = _judged_groups(card)
    if not groups:
        return {}
    batch_mean = fmean(score for group in groups for score in group.scores)
    figures = {}
    for group in groups:
        for cause in group.causes:
            if cause is not None and cause not in figures:
                figures[cause] = _figures_of(cause, groups, batch_mean)
    return figures


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group with judged members."""

    # Primary scores of the judged members, clipped to [0, 1].
    scores: list[float]
    # Each member's cause; None for a member with a reward.
    causes: list[Cause | None]


def _judged_groups(card: Scorecard) -> list[_Group]:
    groups = []
    for rows in card.members:
        scores = _scores(card, rows)
        if scores:
            causes = [cause_of(card, row) for row in rows]
            groups.append(_Group(scores=scores, causes=causes))
    return groups


def _figures_of(cause: Cause, groups: list[_Group], batch_mean: float) -> VoidFigures:
    rows = 0
    shares = []
    lower = []
    for group in groups:
        count = group.causes.count(cause)
        share = count / len(group.causes)
        rows += count
        shares.append(share)
        lower.append(share * (batch_mean - fmean(group.scores)))
    return VoidFigures(
        rows=rows,
        shares=Estimate.of(shares),
        lower=Estimate.of(lower),
    )


def cause_of(card: Scorecard, row: int) -> Cause | None:
    """Return a void row's cause; None for rows with a reward, and for rows without an applicable term.

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
    if outcome.verdict is None:
        return "", "no_reward"
    return "", outcome.verdict.reason


def _scores(card: Scorecard, rows: tuple[int, ...]) -> list[float]:
    """Return the primary scores of a group's judged members, clipped to [0, 1]."""
    scores = []
    for row in rows:
        verdict = card.primary[row]
        if card.void[row] or verdict is None or verdict.score is None:
            continue
        scores.append(min(1.0, max(0.0, verdict.score)))
    return scores
