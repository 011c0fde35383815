"""Figures of primary verdicts, and each shadow term's agreement with them.

A sample's primary verdict comes from the first term in force that applies to the sample.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
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
    # Completion lengths in tokens, by status.
    lengths: Mapping[Status, Estimate]

    @property
    def cut_share(self) -> Estimate:
        """Share of cut completions. Completions whose end is unknown do not count."""
        cut, ended = self.cut_scores.count, self.ended_scores.count
        return Estimate.share(cut, cut + ended)


def primary_figures(card: Scorecard) -> PrimaryFigures:
    """Compute the figures of a batch's primary verdicts."""
    counts: Counter[str] = Counter()
    scores = np.full(len(card), np.nan)
    lengths: dict[Status, list[int | None]] = {status: [] for status in Status}
    by_ending: dict[bool | None, list[float]] = {True: [], False: [], None: []}
    for row, (sample, verdict) in enumerate(zip(card.samples, card.primary, strict=True)):
        if verdict is None:
            continue
        lengths[verdict.status].append(sample.length)
        if verdict.score is None:
            continue
        counts["judged"] += 1
        counts["right"] += verdict.status is Status.CORRECT
        counts["unplaced"] += verdict.status is Status.SCORED
        by_ending[sample.truncated].append(verdict.score)
        counts["unread_ended"] += verdict.status is Status.UNPARSEABLE and sample.truncated is not True
        scores[row] = verdict.score
    names = ("judged", "right", "unplaced", "unread_ended")
    answers = [read_answer(verdict) for verdict in card.primary]
    # A missing answer does not count as a distinct answer.
    distinct = [{answers[row] for row in rows} - {None} for rows in card.members]
    return PrimaryFigures(
        scores=grouped(card, scores),
        cut_scores=Estimate.of(by_ending[True]),
        ended_scores=Estimate.of(by_ending[False]),
        answered=Estimate.share(len(answers) - answers.count(None), len(answers) - card.primary.count(None)),
        distinct_answers=mean_of_known(len(group) for group in distinct if group),
        lengths={status: Estimate.of(found) for status, found in lengths.items()},
        **{name: counts[name] for name in names},
    )


def read_answer(verdict: Verdict | None) -> str | None:
    """Return a verdict's answer; None for an unparseable completion, whose answer only shows the unreadable text."""
    return None if verdict is None or verdict.status is Status.UNPARSEABLE else verdict.answer


def pass_rates(card: Scorecard, ks: Iterable[int]) -> dict[int, float | None]:
    """Compute pass@k for each k: the mean over groups with at least k judged completions; None without such a group."""
    passed = [passes(verdict) for verdict in card.primary]
    judged = [[passed[row] for row in rows if passed[row] is not None] for rows in card.members]
    rates: dict[int, float | None] = {}
    for k in ks:
        large = [group for group in judged if len(group) >= k]
        rates[k] = mean_of_known(pass_at_k(len(group), group.count(True), k) for group in large)
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
    return 1 - math.comb(size - right, k) / math.comb(size, k)


def ks_for(settings: Mapping[str, Any], mode: str) -> tuple[int, ...]:
    """List the k of pass@k: powers of two below the group size, and the group size; fixed for a run and a mode.

    Examples:
        >>> ks_for({"num_generations": 12, "num_generations_eval": 1}, "train")
        (1, 2, 4, 8, 12)
    """
    size = int(settings.get("num_generations") or 1)
    if mode == "eval":
        size = int(settings.get("num_generations_eval") or size)
    return tuple(sorted({2**power for power in range(size.bit_length()) if 2**power < size} | {size}))


def passes(verdict: Verdict | None) -> bool | None:
    """Check whether a verdict is correct; None if the term does not apply, could not judge, or gives only a score.

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
        return self.primary_only / passed if passed else math.nan

    @property
    def kappa(self) -> float:
        """Cohen's kappa: 1 for full agreement, 0 for chance; NaN if both judges give one constant verdict."""
        if not self.size:
            return math.nan
        primary = (self.both + self.primary_only) / self.size
        shadow = (self.both + self.shadow_only) / self.size
        by_chance = primary * shadow + (1 - primary) * (1 - shadow)
        agreed = (self.both + self.neither) / self.size
        return (agreed - by_chance) / (1 - by_chance) if by_chance < 1 else math.nan


def agreement(card: Scorecard, term: str) -> Agreement:
    """Compare a term's verdicts with the primary verdicts, over completions that both terms judged."""
    counts = Counter(zip(map(passes, card.primary), map(passes, card.verdicts[term]), strict=True))
    return Agreement(
        both=counts[True, True],
        primary_only=counts[True, False],
        shadow_only=counts[False, True],
        neither=counts[False, False],
    )
