"""What checks keep of the primary verdicts of a generation batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from trl_grpo_ext.figures.batch import Batch
from trl_grpo_ext.figures.diversity import distinct_answers
from trl_grpo_ext.figures.moments import Moments, group_moments, known
from trl_grpo_ext.verdict import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryFacts:
    """What the primary verdicts say: of each sample, that of the first term in force that applies to it.

    Attributes:
        judged: The samples with a score.
        right: Those of them that are correct.
        scores: Their scores.
        group_scores: The mean scores of the groups: siblings are alike, so these are what chance is told from.
        cut, cut_right: The completions that were cut at the length limit, and those of them that are right.
        ended, ended_right: The same of those that came to an end. Samples of which nobody knows are in neither.
        unread_ended: The unparseable ones among those that were not cut.
        distinct_answers: Different answers a group, a mean; None where no answer is extracted.
    """

    judged: int
    right: int
    scores: Moments
    group_scores: Moments
    cut: int
    cut_right: int
    ended: int
    ended_right: int
    unread_ended: int
    distinct_answers: float | None


def primary_facts(batch: Batch) -> PrimaryFacts:
    """The facts of a batch's primary verdicts."""
    counts: Counter[str] = Counter()
    scores: list[float] = []
    for sample, verdict in zip(batch.card.samples, batch.primary, strict=True):
        if verdict is None or verdict.score is None:
            continue
        right = verdict.status is Status.CORRECT
        ending = {True: "cut", False: "ended", None: "unknown"}[sample.truncated]
        counts.update({"judged": 1, "right": right, ending: 1, f"{ending}_right": right})
        counts["unread_ended"] += verdict.status is Status.UNPARSEABLE and sample.truncated is not True
        scores.append(verdict.score)
    names = ("judged", "right", "cut", "cut_right", "ended", "ended_right", "unread_ended")
    return PrimaryFacts(
        scores=Moments.of(scores),
        group_scores=group_moments(batch.card.samples, [None if one is None else one.score for one in batch.primary]),
        distinct_answers=known(distinct_answers(batch)),
        **{name: counts[name] for name in names},
    )
