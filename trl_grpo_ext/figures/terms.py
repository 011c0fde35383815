"""Figures of one term in a batch."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from trl_grpo_ext.figures.advantages import Shares
from trl_grpo_ext.figures.arrays import mean
from trl_grpo_ext.rewards.unit_tests.scoring import FOOLED
from trl_grpo_ext.scorecard import Flags, Floats, Rows, Scorecard
from trl_grpo_ext.support.estimate import Estimate, Grouped
from trl_grpo_ext.verdict import Blame, Status, Verdict

MOST_WHY = 160  # characters; ours
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")

NO_REPEATS: Rows = np.empty((0, 2), dtype=np.intp)
UNKNOWN: Shares = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TermFigures:
    """What a term has found in a batch."""

    weight: float  # the weight in force
    verdicts: int  # how many it gave
    judged: int  # those of them that a gate did not leave out
    statuses: Mapping[Status, int]  # how many of these have each status
    # How many verdicts are not the policy's fault, or timed out, by `(blame, status, reason)`.
    failures: Mapping[tuple[Blame, Status, str], int]
    error: str  # what an exception has said in one of these, and where; empty if none has
    unread: Mapping[str, int]  # how many verdicts are unparseable, by reason
    reasons: Mapping[str, int]  # how many verdicts have a score, by reason
    causes: Mapping[str, int]  # how many verdicts that are not right say the same of why
    answers: int  # the verdicts with an extracted answer
    compared: int  # those of them where the primary verdict has one too
    same: int  # those of them where it is the same one
    fooled: int  # the completions that it failed and a naive grader would have passed
    failed_places: Mapping[int, int]  # how many of the grader's failures are at each place of a group, from 0
    gated: int  # the values that a closed gate has set
    covered: int  # the samples with a value, void ones included
    scores: Grouped  # the raw scores, before shape, gate and weight; those that a gate left out are not among them
    values: Grouped  # the values of the samples that are not void
    groups: int  # the groups with two or more values
    flat_groups: int  # those of them in which all values are the same
    flattened_groups: int  # those of them in which scores differ all the same: the shape makes them equal
    # Median and 95th percentile of a verdict's wall time; None for no verdicts.
    seconds: tuple[float | None, float | None]
    repeats: int  # the scores of completions that a sibling has given word for word
    contradictions: tuple[float, ...]  # by how much those of them differ that are not the sibling's
    driver_share: float | None  # its share of the advantages; None if no group is live, or if it cannot be told
    driver_where_primary_differs: float | None  # the same over the groups in which the primary term differs


def term_figures(
    card: Scorecard, term: str, repeats: Rows = NO_REPEATS, shares: Shares = UNKNOWN, apart: Shares = UNKNOWN
) -> TermFigures:
    """The figures of a term, given what `repeated_completions` has found, and its driver shares.

    `shares` are those over all groups, by term, and `apart` those over the groups in which the primary term differs;
    none where they are unknown.
    """
    verdicts = [verdict for verdict in card.verdicts[term] if verdict is not None]
    judged = [verdict for verdict in verdicts if not verdict.left_out]
    not_right = [verdict for verdict in judged if verdict.status is not Status.CORRECT]
    failures = [one for one in not_right if one.score is None or one.status is Status.TIMEOUT]
    answers = _answers(card, term)
    scores = np.array([None if one is None or one.left_out else one.score for one in card.verdicts[term]], dtype=float)
    column, differences = card.value_matrix[:, card.terms.index(term)], _repeated_scores(card, term, repeats)
    several = np.isfinite(card.by_group(column)).sum(axis=1) > 1
    is_flat = several & ~card.differs(column)
    return TermFigures(
        weight=card.weights[term],
        verdicts=len(verdicts),
        judged=len(judged),
        statuses=Counter(verdict.status for verdict in judged),
        failures=Counter((one.blame, one.status, one.reason) for one in failures),
        error=next((one.details["error"] for one in failures if "error" in one.details), ""),
        unread=Counter(verdict.reason for verdict in not_right if verdict.status is Status.UNPARSEABLE),
        reasons=Counter(verdict.reason for verdict in verdicts if verdict.score is not None),
        causes=Counter(map(why_of, not_right)),
        answers=sum(verdict.answer is not None for verdict in verdicts),
        compared=len(answers),
        same=sum(own == primary for own, primary in answers),
        fooled=sum(map(would_fool, not_right)),
        failed_places=_failed_places(card, term),
        gated=sum(card.gated[term]),
        covered=sum(value is not None for value in card.values[term]),
        scores=grouped(card, scores),
        values=grouped(card, column),
        groups=int(several.sum()),
        flat_groups=int(is_flat.sum()),
        flattened_groups=int((is_flat & _differs_before_shape(card, term, scores)).sum()),
        seconds=quantiles(verdicts),
        repeats=len(differences),
        contradictions=tuple(differences[differences > 0].tolist()),
        driver_share=shares.get(term),
        driver_where_primary_differs=apart.get(term),
    )


def _differs_before_shape(card: Scorecard, term: str, scores: Floats) -> Flags:
    """Mark groups whose scores differ. A score behind a closed gate, or of a void row, does not count."""
    is_open = np.isfinite(card.value_matrix[:, card.terms.index(term)]) & ~np.array(card.gated[term], dtype=bool)
    return card.differs(np.where(is_open, scores, np.nan))


def _failed_places(card: Scorecard, term: str) -> Counter[int]:
    """Count the grader's failures at each place of a group. Ranks hold the same places of all groups."""
    places: Counter[int] = Counter()
    for rows in card.members:
        for place, row in enumerate(rows):
            verdict = card.verdicts[term][row]
            places[place] += verdict is not None and verdict.blame is Blame.GRADER
    return +places


def why_of(verdict: Verdict) -> str:
    """Why a completion is not right, in its verdict's words: `NameError: name 'solve' is not defined`."""
    return verdict.details.get("why", verdict.reason)[:MOST_WHY]


def without_names(why: str) -> str:
    """What verdicts that differ only in names and numbers have in common.

    Examples:
        >>> without_names("NameError: name 'solve' is not defined")
        'NameError: name ... is not defined'
    """
    return _QUOTED.sub("...", why)


def _answers(card: Scorecard, term: str) -> list[tuple[str, str]]:
    """The answers that the term and the primary term have read in the same completions."""
    pairs = zip(card.verdicts[term], card.primary, strict=True)
    return [
        (own.answer, primary.answer)
        for own, primary in pairs
        if own is not None and primary is not None and own.answer is not None and primary.answer is not None
    ]


def grouped(card: Scorecard, column: Floats) -> Grouped:
    """The finite numbers of a column, (N,); a sample whose group is unknown is a group by itself."""
    alone = column[[sample.group is None for sample in card.samples]]
    finite = column[np.isfinite(column)]
    return Grouped(
        numbers=Estimate.of(finite.tolist()),
        groups=Estimate.of(np.append(mean(card.by_group(column)), alone).tolist()),
        low=float(finite.min(initial=math.inf)),
        high=float(finite.max(initial=-math.inf)),
    )


def quantiles(verdicts: Sequence[Verdict]) -> tuple[float | None, float | None]:
    """The median and the 95th percentile of the wall time of a verdict, in seconds; None for no verdicts."""
    if not verdicts:
        return None, None
    median, high = np.percentile([verdict.seconds for verdict in verdicts], (50, 95)).tolist()
    return median, high


def would_fool(verdict: Verdict) -> bool:
    """Whether the completion failed, but a naive grader would have passed it.

    Examples:
        >>> would_fool(Verdict(status=Status.INCORRECT, score=0.0, reason="passes_naively"))
        True
    """
    if verdict.status is Status.CORRECT:
        return False
    return verdict.reason == FOOLED or verdict.details.get("naive_grader") == "passed"


def repeated_completions(card: Scorecard) -> Rows:
    """(P, 2) the rows of completions that a sibling has given word for word, each after that of the first of these."""
    first: dict[object, int] = {}
    pairs = []
    for row, sample in enumerate(card.samples):
        # The text of a conversation is its last message: the length stands for what came before.
        before = first.setdefault((sample.group, sample.text, sample.length), row)
        if before != row and sample.group is not None:
            pairs.append((before, row))
    return np.array(pairs, dtype=np.intp).reshape(-1, 2)


def _repeated_scores(card: Scorecard, term: str, repeats: Rows) -> Floats:
    """By how much the scores of repeated completions differ; a timeout, which is found elsewhere, is left out."""
    counted = [None if one is None or one.status is Status.TIMEOUT else one.score for one in card.verdicts[term]]
    scores = np.array(counted, dtype=float)
    differences: Floats = np.abs(scores[repeats[:, 0]] - scores[repeats[:, 1]])
    return differences[~np.isnan(differences)]
