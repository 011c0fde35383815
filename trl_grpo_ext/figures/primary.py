"""Figures of the primary verdicts, and how a shadow agrees with these.

A sample's primary verdict is that of the first term in force that applies to it.
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
    """What the primary verdicts say: of each sample, that of the first term in force that applies to it."""

    judged: int  # the samples with a score
    right: int  # those of them that are correct
    unplaced: int  # those of them of which no range tells whether they are right
    scores: Grouped  # their scores
    cut_scores: Estimate  # the scores of completions that were cut at the length limit
    # The scores of completions that came to an end. A completion whose end is unknown is in neither.
    ended_scores: Estimate
    unread_ended: int  # the unparseable ones among those that were not cut
    answered: Estimate  # how many of the verdicts have an answer that could be read
    distinct_answers: float | None  # different answers a group: the mean over groups with one; None if none has one
    lengths: Mapping[Status, Estimate]  # completion lengths in tokens by status

    @property
    def cut_share(self) -> Estimate:
        """Share of cut completions. Completions whose end is unknown do not count."""
        cut, ended = self.cut_scores.count, self.ended_scores.count
        return Estimate.share(cut, cut + ended)


def primary_figures(card: Scorecard) -> PrimaryFigures:
    """The figures of a batch's primary verdicts."""
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
    # Having no answer is not one more answer.
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
    """A verdict's answer; None for what a verifier has put there to show what it could not read."""
    return None if verdict is None or verdict.status is Status.UNPARSEABLE else verdict.answer


def pass_rates(card: Scorecard, ks: Iterable[int]) -> dict[int, float | None]:
    """pass@k by k, the mean over groups with at least k judged completions; None where no group has as many."""
    passed = [passes(verdict) for verdict in card.primary]
    judged = [[passed[row] for row in rows if passed[row] is not None] for rows in card.members]
    rates: dict[int, float | None] = {}
    for k in ks:
        large = [group for group in judged if len(group) >= k]
        rates[k] = mean_of_known(pass_at_k(len(group), group.count(True), k) for group in large)
    return rates


def pass_at_k(size: int, right: int, k: int) -> float:
    """The share of the subsets of `k` among `size` completions that hold one of the `right` ones: unbiased.

    NaN if there are fewer than k (Chen et al. 2021, "Evaluating Large Language Models Trained on Code").

    Examples:
        >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 0, 4)
        (0.25, 0.5, 0.0)
    """
    return 1 - math.comb(size - right, k) / math.comb(size, k) if 0 < k <= size else math.nan


def ks_for(settings: Mapping[str, Any], mode: str) -> tuple[int, ...]:
    """Powers of two below the group size, and the group size: fixed for a run and a mode.

    Examples:
        >>> ks_for({"num_generations": 12, "num_generations_eval": 1}, "train")
        (1, 2, 4, 8, 12)
    """
    size = int(settings.get("num_generations") or 1)
    if mode == "eval":
        size = int(settings.get("num_generations_eval") or size)
    return tuple(sorted({2**power for power in range(size.bit_length()) if 2**power < size} | {size}))


def passes(verdict: Verdict | None) -> bool | None:
    """Whether the completion is correct; None where the term does not apply, could not judge it, or cannot tell.

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
    """Two judges on the same completions: how many are right by both, by one, by neither.

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
        """The completions of both."""
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
        """The share of the completions right by the primary term that are not by the shadow; NaN if none is right."""
        passed = self.both + self.primary_only
        return self.primary_only / passed if passed else math.nan

    @property
    def kappa(self) -> float:
        """Cohen's kappa, at most 1, and 0 for an agreement that is chance; NaN where each says one thing only."""
        if not self.size:
            return math.nan
        primary, shadow = (self.both + self.primary_only) / self.size, (self.both + self.shadow_only) / self.size
        by_chance = primary * shadow + (1 - primary) * (1 - shadow)
        agreed = (self.both + self.neither) / self.size
        return (agreed - by_chance) / (1 - by_chance) if by_chance < 1 else math.nan


def agreement(card: Scorecard, term: str) -> Agreement:
    """A term against the primary verdicts, over the completions that both could judge; right is CORRECT."""
    counts = Counter(
        (passes(primary), passes(own)) for primary, own in zip(card.primary, card.verdicts[term], strict=True)
    )
    return Agreement(
        both=counts[True, True],
        primary_only=counts[True, False],
        shadow_only=counts[False, True],
        neither=counts[False, False],
    )
