"""Compute a term's figures in a batch."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from trl_grpo_ext.figures.advantages import Shares
from trl_grpo_ext.figures.arrays import mean
from trl_grpo_ext.rewards.unit_tests.scoring import FOOLED
from trl_grpo_ext.scorecard import Flags, Floats, Rows, Scorecard
from trl_grpo_ext.support.estimate import Estimate, Grouped
from trl_grpo_ext.verdict import Blame, Status, Verdict

# Characters of a cause; our choice.
MOST_WHY = 160
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")

NO_REPEATS: Rows = np.empty((0, 2), dtype=np.intp)
UNKNOWN: Shares = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TermFigures:
    """A term's figures in a batch."""

    # Weight in force.
    weight: float
    # Number of the term's verdicts.
    verdicts: int
    # Verdicts that a gate did not leave out.
    judged: int
    # Judged verdicts by status.
    statuses: Mapping[Status, int]
    # Verdicts without a score, or timed out, by `(blame, status, reason)`.
    failures: Mapping[tuple[Blame, Status, str], int]
    # An exception's message and place from a failure; empty without an exception.
    error: str
    # Unparseable verdicts by reason.
    unread: Mapping[str, int]
    # Verdicts with a score by reason.
    reasons: Mapping[str, int]
    # Judged verdicts that are not correct, by `why_of`.
    causes: Mapping[str, int]
    # Verdicts with an extracted answer.
    answers: int
    # Verdicts with an answer whose sample's primary verdict has an answer too.
    compared: int
    # Compared verdicts whose answer equals the primary verdict's.
    same: int
    # Completions that the term failed and a naive grader would have passed.
    fooled: int
    # The grader's failures by position in the group, from 0.
    failed_places: Mapping[int, int]
    # Values that a closed gate set.
    gated: int
    # Samples with a value, void samples included.
    covered: int
    # Samples to which the term does not apply, though it applies to another sample of their group.
    left_out_of_groups: int
    # Raw scores, before shape, gate and weight; without verdicts that a gate left out.
    scores: Grouped
    # Values of samples that are not void.
    values: Grouped
    # Groups with at least two values.
    groups: int
    # Groups with at least two values, all equal.
    flat_groups: int
    # Flat groups whose scores differ: the shape made the values equal.
    flattened_groups: int
    # Median and 95th percentile of a verdict's wall time, in seconds; None without verdicts.
    seconds: tuple[float | None, float | None]
    # Pairs of scores of completions that repeat a sibling word for word.
    repeats: int
    # Score differences of the repeated completions whose scores differ.
    contradictions: tuple[float, ...]
    # The term's share of the advantages; None if no group is live, or if the share is unknown.
    driver_share: float | None
    # The term's share of the advantages over groups in which the primary term differs.
    driver_where_primary_differs: float | None


def term_figures(
    card: Scorecard,
    term: str,
    repeats: Rows = NO_REPEATS,
    shares: Shares = UNKNOWN,
    apart: Shares = UNKNOWN,
) -> TermFigures:
    """Compute a term's figures in a batch.

    Args:
        card: The batch's scorecard.
        term: The term's name.
        repeats: Pairs of rows from `repeated_completions`, (P, 2).
        shares: Driver shares over all groups; empty if unknown.
        apart: Driver shares over groups in which the primary term differs; empty if unknown.
    """
    verdicts = [verdict for verdict in card.verdicts[term] if verdict is not None]
    scores = _scores(card, term)
    column = _column(card, term)
    values_a_group = np.isfinite(card.by_group(column)).sum(axis=1)
    several = values_a_group > 1
    is_flat = several & ~card.differs(column)
    is_flattened = is_flat & _differs_before_shape(card, term, scores)
    differences = _repeated_scores(card, term, repeats)
    return TermFigures(
        weight=card.weights[term],
        verdicts=len(verdicts),
        reasons=Counter(
            verdict.reason for verdict in verdicts if verdict.score is not None
        ),
        **_counts(verdicts),
        **_answer_counts(card, term),
        failed_places=_failed_places(card, term),
        gated=sum(card.gated[term]),
        covered=sum(value is not None for value in card.values[term]),
        left_out_of_groups=_left_out_of_groups(card, term),
        scores=grouped(card, scores),
        values=grouped(card, column),
        groups=int(several.sum()),
        flat_groups=int(is_flat.sum()),
        flattened_groups=int(is_flattened.sum()),
        seconds=quantiles(verdicts),
        repeats=len(differences),
        contradictions=tuple(differences[differences > 0].tolist()),
        driver_share=shares.get(term),
        driver_where_primary_differs=apart.get(term),
    )


def _counts(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Count a term's verdicts, as fields of `TermFigures`. Verdicts behind a closed gate do not count."""
    statuses: Counter[Status] = Counter()
    failures: Counter[tuple[Blame, Status, str]] = Counter()
    errors = []
    unread: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    fooled = 0
    for verdict in verdicts:
        if verdict.left_out:
            continue
        statuses[verdict.status] += 1
        if verdict.status is Status.CORRECT:
            continue
        causes[why_of(verdict)] += 1
        fooled += would_fool(verdict)
        if verdict.status is Status.UNPARSEABLE:
            unread[verdict.reason] += 1
        if _has_failed(verdict):
            failures[verdict.blame, verdict.status, verdict.reason] += 1
            if "error" in verdict.details:
                errors.append(verdict.details["error"])
    return {
        "judged": statuses.total(),
        "statuses": statuses,
        "failures": failures,
        "error": next(iter(errors), ""),
        "unread": unread,
        "causes": causes,
        "fooled": fooled,
    }


def _has_failed(verdict: Verdict) -> bool:
    return verdict.score is None or verdict.status is Status.TIMEOUT


def _left_out_of_groups(card: Scorecard, term: str) -> int:
    """Count the samples that the term skips in groups with a judged sample."""
    verdicts = card.verdicts[term]
    count = 0
    for rows in card.members:
        without = sum(verdicts[row] is None for row in rows)
        if without < len(rows):
            count += without
    return count


def _scores(card: Scorecard, term: str) -> Floats:
    """Return the term's raw scores, (N,); NaN without a score, or behind a gate that leaves verdicts out."""
    scores = np.full(len(card), np.nan)
    for row, verdict in enumerate(card.verdicts[term]):
        if verdict is None or verdict.left_out or verdict.score is None:
            continue
        scores[row] = verdict.score
    return scores


def _column(card: Scorecard, term: str) -> Floats:
    """Return the term's values, (N,); NaN for void samples and without a value."""
    column: Floats = card.value_matrix[:, card.terms.index(term)]
    return column


def _differs_before_shape(card: Scorecard, term: str, scores: Floats) -> Flags:
    """Mark groups whose scores differ. A score behind a closed gate, or of a void row, does not count."""
    has_value = np.isfinite(_column(card, term))
    is_gated = np.array(card.gated[term], dtype=bool)
    is_open = has_value & ~is_gated
    return card.differs(np.where(is_open, scores, np.nan))


def _failed_places(card: Scorecard, term: str) -> Counter[int]:
    """Count the grader's failures at each position in a group. Each rank handles fixed positions of all groups."""
    places: Counter[int] = Counter()
    for rows in card.members:
        for place, row in enumerate(rows):
            verdict = card.verdicts[term][row]
            if verdict is not None and verdict.blame is Blame.GRADER:
                places[place] += 1
    return places


def why_of(verdict: Verdict) -> str:
    """Return a verdict's reason in words, or else its code: `NameError: name 'solve' is not defined`."""
    why = verdict.details.get("why", verdict.reason)
    return why[:MOST_WHY]


def without_names(why: str) -> str:
    """Replace quoted names and numbers by `...`, so that similar explanations become equal.

    Examples:
        >>> without_names("NameError: name 'solve' is not defined")
        'NameError: name ... is not defined'
    """
    return _QUOTED.sub("...", why)


def _answer_counts(card: Scorecard, term: str) -> dict[str, Any]:
    """Count a term's answers, and answers equal to the primary term's, as fields of `TermFigures`."""
    answers = compared = same = 0
    for own, primary in zip(card.verdicts[term], card.primary, strict=True):
        if own is None or own.answer is None:
            continue
        answers += 1
        if primary is None or primary.answer is None:
            continue
        compared += 1
        same += own.answer == primary.answer
    return {"answers": answers, "compared": compared, "same": same}


def grouped(card: Scorecard, column: Floats) -> Grouped:
    """Summarize a column's finite numbers, (N,); a sample without a known group forms a group of its own."""
    finite = column[np.isfinite(column)]
    group_means = mean(card.by_group(column))
    every_group = np.append(group_means, column[card.is_alone])
    low = float(finite.min(initial=math.inf))
    high = float(finite.max(initial=-math.inf))
    return Grouped(
        numbers=Estimate.of(finite.tolist()),
        groups=Estimate.of(every_group.tolist()),
        low=low,
        high=high,
        at_low=int(np.count_nonzero(finite == low)),
        at_high=int(np.count_nonzero(finite == high)),
    )


def quantiles(verdicts: Sequence[Verdict]) -> tuple[float | None, float | None]:
    """Compute median and 95th percentile of the verdicts' wall time, in seconds; None without verdicts."""
    if not verdicts:
        return None, None
    seconds = sorted(verdict.seconds for verdict in verdicts)
    return _quantile(seconds, 0.5), _quantile(seconds, 0.95)


def _quantile(numbers: Sequence[float], share: float) -> float:
    """Return the number below which such a share of sorted numbers lies, interpolated as `np.percentile` does.

    For the few numbers of a batch, numpy's function takes ten times as long.
    """
    place = share * (len(numbers) - 1)
    below = math.floor(place)
    above = math.ceil(place)
    step = numbers[above] - numbers[below]
    return numbers[below] + (place - below) * step


def would_fool(verdict: Verdict) -> bool:
    """Check whether a completion failed although a naive grader would have passed it.

    Examples:
        >>> would_fool(Verdict(status=Status.INCORRECT, score=0.0, reason="passes_naively"))
        True
    """
    if verdict.status is Status.CORRECT:
        return False
    return verdict.reason == FOOLED or verdict.details.get("naive_grader") == "passed"


def repeated_completions(card: Scorecard) -> Rows:
    """Find completions that repeat a sibling word for word: pairs of rows, (P, 2), the first occurrence first."""
    first: dict[object, int] = {}
    pairs = []
    for row, sample in enumerate(card.samples):
        if sample.group is None:
            continue
        # A conversation's text is its last message only: the length distinguishes earlier messages.
        before = first.setdefault((sample.group, sample.text, sample.length), row)
        if before != row:
            pairs.append((before, row))
    return np.array(pairs, dtype=np.intp).reshape(-1, 2)


def _repeated_scores(card: Scorecard, term: str, repeats: Rows) -> Floats:
    """Compute score differences of repeated completions, leaving out timeouts, which other figures count."""
    scores = np.full(len(card), np.nan)
    for row, verdict in enumerate(card.verdicts[term]):
        if verdict is None or verdict.status is Status.TIMEOUT or verdict.score is None:
            continue
        scores[row] = verdict.score
    first = scores[repeats[:, 0]]
    second = scores[repeats[:, 1]]
    differences: Floats = np.abs(first - second)
    return differences[~np.isnan(differences)]
