"""Figures of primary verdicts, and each shadow term's agreement with them.

A sample's primary verdict comes from the first term in force that applies to the sample.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trl_grpo_ext.figures.terms import grouped
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Estimate, Grouped, mean_of_known
from trl_grpo_ext.verdict import Status, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryFigures:
    """Figures of a batch's primary verdicts: each sample's verdict from the first applicable term in force."""

    # Samples with a score.
    judged: int
    # Judged samples that are correct.
    right: int
    # Judged samples with status `SCORED`: no score range tells whether they are correct.
    unplaced: int
    # Scores of the judged samples.
    scores: Grouped
    # Scores of completions that were cut at the length limit.
    cut_scores: Estimate
    # Scores of completions that ended by themselves. Completions whose end is unknown are in neither estimate.
    ended_scores: Estimate
    # Unparseable completions that were not cut.
    unread_ended: int
    # Share of verdicts with a readable answer.
    answered: Estimate
    # Mean number of different answers over groups with an answer; None without such a group.
    distinct_answers: float | None
    # Share of pairs of siblings with one answer, less that of pairs of other groups; None without such pairs.
    sibling_match: float | None
    # Completion lengths in tokens, by status.
    lengths: Mapping[Status, Estimate]

    @property
    def cut_share(self) -> Estimate:
        """Share of cut completions. Completions whose end is unknown do not count."""
        cut = self.cut_scores.count
        ended = self.ended_scores.count
        return Estimate.share(cut, cut + ended)


def primary_figures(card: Scorecard) -> PrimaryFigures:
    """Compute the figures of a batch's primary verdicts."""
    judged = right = unplaced = unread_ended = 0
    scores = np.full(len(card), np.nan)
    lengths: dict[Status, list[int | None]] = {status: [] for status in Status}
    by_ending: dict[bool | None, list[float]] = {True: [], False: [], None: []}
    for row, verdict in enumerate(card.primary):
        if verdict is None:
            continue
        sample = card.samples[row]
        lengths[verdict.status].append(sample.length)
        if verdict.score is None:
            continue
        judged += 1
        right += verdict.status is Status.CORRECT
        unplaced += verdict.status is Status.SCORED
        by_ending[sample.truncated].append(verdict.score)
        is_unread = verdict.status is Status.UNPARSEABLE
        unread_ended += is_unread and sample.truncated is not True
        scores[row] = verdict.score
    answers = [read_answer(verdict) for verdict in card.primary]
    answered = len(answers) - answers.count(None)
    verdicts = len(answers) - card.primary.count(None)
    return PrimaryFigures(
        judged=judged,
        right=right,
        unplaced=unplaced,
        scores=grouped(card, scores),
        cut_scores=Estimate.of(by_ending[True]),
        ended_scores=Estimate.of(by_ending[False]),
        unread_ended=unread_ended,
        answered=Estimate.share(answered, verdicts),
        distinct_answers=_distinct_answers(card, answers),
        sibling_match=_sibling_match(card, answers),
        lengths={status: Estimate.of(found) for status, found in lengths.items()},
    )


def _distinct_answers(card: Scorecard, answers: Sequence[str | None]) -> float | None:
    distinct = []
    for rows in card.members:
        # A missing answer does not count as a distinct answer.
        in_group = {answers[row] for row in rows} - {None}
        if in_group:
            distinct.append(len(in_group))
    return mean_of_known(distinct)


def _sibling_match(card: Scorecard, answers: Sequence[str | None]) -> float | None:
    """Compare how often siblings give one answer with how often completions of different groups do."""
    together: Counter[str | None] = Counter()
    within = same = 0
    for rows in card.members:
        given = Counter(answers[row] for row in rows)
        # Missing answers are no pair.
        del given[None]
        together += given
        within += _pairs(given.total())
        same += sum(map(_pairs, given.values()))
    between = _pairs(together.total()) - within
    if not within or not between:
        return None
    same_between = sum(map(_pairs, together.values())) - same
    return same / within - same_between / between


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def read_answer(verdict: Verdict | None) -> str | None:
    """Return a verdict's answer; None for an unparseable completion, whose answer only shows the unreadable text."""
    if verdict is None or verdict.status is Status.UNPARSEABLE:
        return None
    return verdict.answer


def pass_rates(card: Scorecard, ks: Iterable[int]) -> dict[int, float | None]:
    """Compute pass@k for each k: the mean over groups with at least k judged completions; None without such a group."""
    judged = []
    for rows in card.members:
        group = [passes(card.primary[row]) for row in rows]
        judged.append([passed for passed in group if passed is not None])
    rates: dict[int, float | None] = {}
    for k in ks:
        estimates = []
        for flags in judged:
            if len(flags) >= k:
                estimates.append(pass_at_k(len(flags), flags.count(True), k))
        rates[k] = mean_of_known(estimates)
    return rates


def pass_at_k(size: int, right: int, k: int) -> float:
    """Estimate pass@k without bias: the share of k-subsets of `size` completions with at least one of `right` correct.

    NaN for fewer than k completions. Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code".

    Examples:
        >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 0, 4)
        (0.25, 0.5, 0.0)
    """
    if not 0 < k <= size:
        return math.nan
    without_a_right_one = math.comb(size - right, k)
    return 1 - without_a_right_one / math.comb(size, k)


def ks_for(settings: Mapping[str, Any], mode: str) -> tuple[int, ...]:
    """List the k of pass@k: powers of two below the group size, and the group size; fixed for a run and a mode.

    Examples:
        >>> ks_for({"num_generations": 12, "num_generations_eval": 1}, "train")
        (1, 2, 4, 8, 12)
    """
    size = int(settings.get("num_generations") or 1)
    if mode == "eval":
        size = int(settings.get("num_generations_eval") or size)
    ks = []
    power = 1
    while power < size:
        ks.append(power)
        power *= 2
    return (*ks, size)


def passes(verdict: Verdict | None) -> bool | None:
    """Check a completion's verdict: correct or not; None without verdict, without score, or with status `SCORED`.

    Examples:
        >>> passes(Verdict(status=Status.PARTIAL, score=0.5)), passes(None)
        (False, None)
        >>> passes(Verdict(status=Status.SCORED, score=37.5)) is None
        True
    """
    if verdict is None or verdict.score is None or verdict.status is Status.SCORED:
        return None
    return verdict.status is Status.CORRECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Counts of completions that two judges find correct: both, only the primary term, only the shadow, neither.

    Examples:
        >>> agreement = Agreement(both=40, primary_only=10, shadow_only=0, neither=50)
        >>> agreement.fails_where_primary_passes, agreement.kappa
        (0.2, 0.8)
    """

    both: int = 0
    primary_only: int = 0
    shadow_only: int = 0
    neither: int = 0

    def __add__(self, other: Agreement) -> Agreement:
        """Add the counts of two batches."""
        return Agreement(
            both=self.both + other.both,
            primary_only=self.primary_only + other.primary_only,
            shadow_only=self.shadow_only + other.shadow_only,
            neither=self.neither + other.neither,
        )

    @property
    def size(self) -> int:
        return self.both + self.primary_only + self.shadow_only + self.neither

    @property
    def fails_where_primary_passes(self) -> float:
        """Share of completions that the shadow fails among those the primary term passes; NaN if none passes."""
        passed = self.both + self.primary_only
        if not passed:
            return math.nan
        return self.primary_only / passed

    @property
    def kappa(self) -> float:
        """Cohen's kappa: 1 for full agreement, 0 for chance; NaN if both judges give one constant verdict."""
        if not self.size:
            return math.nan
        primary = (self.both + self.primary_only) / self.size
        shadow = (self.both + self.shadow_only) / self.size
        both_by_chance = primary * shadow
        neither_by_chance = (1 - primary) * (1 - shadow)
        by_chance = both_by_chance + neither_by_chance
        if by_chance >= 1:
            return math.nan
        agreed = (self.both + self.neither) / self.size
        return (agreed - by_chance) / (1 - by_chance)


def _marks(verdicts: Sequence[Verdict | None]) -> list[bool | None]:
    """Check a batch's verdicts; without a score range, 1 and 0 mean right and wrong if no other score occurs."""
    scores = {verdict.score for verdict in verdicts if verdict is not None}
    if not scores <= {0.0, 1.0, None}:
        return list(map(passes, verdicts))
    marks = []
    for verdict in verdicts:
        is_number = verdict is not None and verdict.status is Status.SCORED
        marks.append(verdict.score == 1.0 if verdict and is_number else passes(verdict))
    return marks


def agreement(card: Scorecard, term: str) -> Agreement:
    """Compare a term's verdicts with the primary verdicts, over completions that both terms judged."""
    primary = _marks(card.primary)
    shadow = _marks(card.verdicts[term])
    counts = Counter(zip(primary, shadow, strict=True))
    # Pairs with None, an unjudged completion, are not read.
    return Agreement(
        both=counts[True, True],
        primary_only=counts[True, False],
        shadow_only=counts[False, True],
        neither=counts[False, False],
    )
