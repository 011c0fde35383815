"""The figures of one prompt: what all of an evaluation's figures, and comparisons of two, are means of."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trl_grpo_ext.figures.pairs import passes
from trl_grpo_ext.figures.primary import pass_at_k, read_answer
from trl_grpo_ext.scorecard import Scorecard

FEWEST_VOTES = 3  # of two, either they agree or each has half of the vote: that is pass@1 again


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFigures:
    """One prompt in numbers.

    Attributes:
        key: The same for the same prompt and dataset row.
        values: By name: `pass@k`, `maj@k`, `tied@k`, `tokens`, and each term's mean as `score/<term>`. What is unknown
            is missing.
    """

    key: str
    values: Mapping[str, float]


def prompt_figures(card: Scorecard, ks: Sequence[int]) -> Iterator[PromptFigures]:
    """The figures of each prompt of a batch, for these numbers of completions."""
    for rows in card.members:
        first = card.samples[rows[0]]
        said = json.dumps([first.prompt, dict(first.row)], sort_keys=True, default=str)
        values = {**_outcomes(card, rows, ks), **_term_scores(card, rows)}
        tokens = card.tokens[list(rows)]
        if np.isfinite(tokens).any():
            values["tokens"] = float(np.nanmean(tokens))
        yield PromptFigures(key=hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest(), values=values)


def _outcomes(card: Scorecard, rows: Sequence[int], ks: Sequence[int]) -> dict[str, float]:
    """pass@k, maj@k and tied@k by the primary verdicts; completions that these could not judge are left out.

    The votes of maj@k are of k completions each, and no completion is in two, so that their mean is unbiased.
    """
    verdicts = [card.primary[row] for row in rows]
    judged = [(read_answer(one), passed) for one in verdicts if (passed := passes(one)) is not None]
    values: dict[str, float] = {}
    for k in ks:
        if len(judged) < k:
            continue
        values[f"pass@{k}"] = pass_at_k(len(judged), sum(passed for _, passed in judged), k)
        if k >= FEWEST_VOTES:
            votes = [majority(judged[start : start + k]) for start in range(0, len(judged) - k + 1, k)]
            values[f"maj@{k}"] = sum(right for right, _ in votes) / len(votes)
            values[f"tied@{k}"] = sum(tied for _, tied in votes) / len(votes)
    return values


def majority(attempts: Sequence[tuple[str | None, bool]]) -> tuple[float, bool]:
    """How right the most frequent answer is, in [0, 1], and whether several are the most frequent.

    Several share the vote, which is what drawing one of them comes to. No answer is no vote; without votes it is 0.

    Args:
        attempts: The answer of each completion, None for none, and whether it is right.

    Examples:
        >>> majority([("4", True), ("5", False), ("4", True), (None, False)])
        (1.0, False)
        >>> majority([("4", True), ("5", False)])
        (0.5, True)
    """
    by_answer: dict[str, list[bool]] = defaultdict(list)
    for answer, right in attempts:
        if answer is not None:
            by_answer[answer].append(right)
    votes = Counter({answer: len(found) for answer, found in by_answer.items()})
    most = max(votes.values(), default=0)
    winners = [by_answer[answer] for answer, count in votes.items() if count == most]
    shares = [sum(found) / len(found) for found in winners]
    return (sum(shares) / len(shares) if shares else 0.0), len(winners) > 1


def _term_scores(card: Scorecard, rows: Sequence[int]) -> dict[str, float]:
    """The mean raw score of each term that has judged any of these completions."""
    means = {}
    for term in card.terms:
        verdicts = (card.verdicts[term][row] for row in rows)
        scores = [one.score for one in verdicts if one is not None and one.score is not None and not one.left_out]
        if scores:
            means[f"score/{term}"] = sum(scores) / len(scores)
    return means
