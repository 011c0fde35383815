"""Figures of void rows by their cause, in groups of which other members could be judged.

A row that cannot be judged against, or a grader that is down, leaves the whole group void. A completion that is void
beside judged siblings may have brought it about.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Estimate

Cause = tuple[str, str]  # the term that has no value, empty for a failure outside of the mix; and the reason
NOT_FINITE = "not_finite"  # a reward function beside the mix gave NaN or infinity


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidFigures:
    """The void rows of one cause in a batch, beside siblings that could be judged."""

    rows: int  # how many they are
    shares: Estimate  # their share in each group that could be judged
    # Their share in each of these groups, times how much lower its judged members score than the batch.
    lower: Estimate


def void_figures(card: Scorecard) -> dict[Cause, VoidFigures]:
    """The void rows of a batch by cause; none of groups that are void as a whole."""
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
    """Why a row is void; None for one that is not, or that no term applies to.

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
    """The primary scores, in [0, 1], of the members that could be judged."""
    verdicts = [card.primary[row] for row in rows if not card.void[row]]
    return [min(1.0, max(0.0, one.score)) for one in verdicts if one is not None and one.score is not None]
