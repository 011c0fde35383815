"""What checks keep of a term in a generation batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trl_grpo_ext.figures.batch import Batch
from trl_grpo_ext.figures.grader_time import verdict_seconds
from trl_grpo_ext.figures.moments import known
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Blame, Status, Verdict

SAME_SCORE = 0.1  # scores closer than that are the same: a model that judges is not exact; ours
FOOLED = "passes_naively"  # the reason that `UnitTestVerifier` gives with `second_opinion`


@dataclass(frozen=True, slots=True, kw_only=True)
class TermFacts:
    """What a term has found in a batch.

    Attributes:
        weight: The weight in force.
        verdicts: How many it gave.
        statuses: How many of each status.
        failures: Of the verdicts that are not the policy's fault, or that timed out, how many of each
            `(blame, status, reason)`.
        unread: Of the unparseable verdicts, how many of each reason.
        reasons: Of the verdicts with a score, how many of each reason.
        answers: The verdicts with an extracted answer.
        compared: Those of them where the primary verdict has one too.
        same: Those of them where it is the same one.
        fooled: The completions that it failed and a naive grader would have passed.
        gated: The values that a closed gate has set.
        value_sum: The sum of its values, over `valued` samples.
        valued: The samples with a value that are not void.
        groups: The groups with two or more values.
        flat_groups: Those of them in which all values are the same.
        seconds_p95: The 95th percentile of the wall time of a verdict; None for no verdicts.
        repeats: The scores of completions that a sibling has given word for word.
        contradictions: Those of them that are not the sibling's.
        driver_share: Its share of the advantages in groups where the primary term differs; None if there are none.
    """

    weight: float
    verdicts: int
    statuses: Mapping[Status, int]
    failures: Mapping[tuple[Blame, Status, str], int]
    unread: Mapping[str, int]
    reasons: Mapping[str, int]
    answers: int
    compared: int
    same: int
    fooled: int
    gated: int
    value_sum: float
    valued: int
    groups: int
    flat_groups: int
    seconds_p95: float | None
    repeats: int
    contradictions: int
    driver_share: float | None

    @property
    def in_force(self) -> bool:
        """Whether it counts towards the reward now."""
        return self.weight != 0


def term_facts(batch: Batch, term: str, driver_share: float | None, repeats: Sequence[tuple[int, int]]) -> TermFacts:
    """The facts of a term, given its driver share and what `repeated_completions` has found."""
    card = batch.card
    apart = _repeated_scores(card, term, repeats)
    column = card.terms.index(term)
    verdicts = [verdict for verdict in card.verdicts[term] if verdict is not None]
    pairs = [
        (own.answer, primary.answer)
        for own, primary in zip(card.verdicts[term], batch.primary, strict=True)
        if own is not None and primary is not None and own.answer is not None and primary.answer is not None
    ]
    values = batch.values[:, column]
    several = np.isfinite(batch.by_group(values)).sum(axis=1) > 1
    flat = ~batch.differs(values)
    return TermFacts(
        weight=card.weights[term],
        verdicts=len(verdicts),
        statuses=Counter(verdict.status for verdict in verdicts),
        failures=Counter(
            (verdict.blame, verdict.status, verdict.reason)
            for verdict in verdicts
            if verdict.score is None or verdict.status is Status.TIMEOUT
        ),
        unread=Counter(verdict.reason for verdict in verdicts if verdict.status is Status.UNPARSEABLE),
        reasons=Counter(verdict.reason for verdict in verdicts if verdict.score is not None),
        answers=sum(verdict.answer is not None for verdict in verdicts),
        compared=len(pairs),
        same=sum(own == primary for own, primary in pairs),
        fooled=sum(would_fool(verdict) for verdict in verdicts),
        gated=sum(card.gated[term]),
        value_sum=float(np.nansum(values)),
        valued=int(np.isfinite(values).sum()),
        groups=int(several.sum()),
        flat_groups=int((several & flat).sum()),
        repeats=len(apart),
        contradictions=sum(difference > SAME_SCORE for difference in apart),
        seconds_p95=known(verdict_seconds(card, term)[1]),
        driver_share=driver_share,
    )


def would_fool(verdict: Verdict) -> bool:
    """Whether the completion failed, but a naive grader would have passed it.

    Example:
        >>> would_fool(Verdict(status=Status.INCORRECT, score=0.0, reason="passes_naively"))
        True
    """
    if verdict.status is Status.CORRECT:
        return False
    return verdict.reason == FOOLED or verdict.details.get("naive_grader") == "passed"


def repeated_completions(card: Scorecard) -> list[tuple[int, int]]:
    """The rows of completions that a sibling has given word for word, each with the row of the first of these."""
    first: dict[object, int] = {}
    pairs = []
    for row, sample in enumerate(card.samples):
        # The text of a conversation is its last message: the length stands for what came before.
        length = None if sample.completion_ids is None else len(sample.completion_ids)
        before = first.setdefault((sample.group, sample.text, length), row)
        if before != row and sample.group is not None:
            pairs.append((before, row))
    return pairs


def _repeated_scores(card: Scorecard, term: str, repeats: Sequence[tuple[int, int]]) -> list[float]:
    """By how much the scores of repeated completions differ; a timeout, which is found elsewhere, is left out."""
    column = card.verdicts[term]
    pairs = ((column[before], column[row]) for before, row in repeats)
    return [
        abs(one.score - other.score)
        for one, other in pairs
        if one is not None
        and other is not None
        and one.score is not None
        and other.score is not None
        and Status.TIMEOUT not in (one.status, other.status)
    ]
