"""Read golds from rows, where no verdict tells the gold."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.answers.find.final_answer import final_answer
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.text import on_one_line

# Columns, the usual first.
GOLD = ("solution", "answer", "gold", "target", "label", "tests", "test_list", "test")
# Texts of a batch that are read, of whole groups; ours, since this runs during training.
MOST_TEXTS = 64
# Characters at a text's end that are read, and of a number.
MOST_END, MOST_NUMBER = 256, 60


def gold_column(row: Mapping[str, Any]) -> str | None:
    """Find the usual gold or test column of this row; None without one.

    Examples:
        >>> gold_column({"level": 5, "answer": "42"})
        'answer'
    """
    for name in GOLD:
        if row.get(name):
            return name
    return None


def void_golds(card: Scorecard) -> Counter[str]:
    """Count the groups without a judged member by the text of their gold; a row without a gold column counts as ``."""
    found: Counter[str] = Counter()
    for rows in card.members:
        if not all(card.void[row] for row in rows):
            continue
        row = card.samples[rows[0]].row or {}
        gold = next((row[name] for name in GOLD if name in row), "")
        found[on_one_line(str(gold), MOST_NUMBER)] += 1
    return found


def number(text: str) -> float | None:
    """Convert a number's text, commas left out, to a float; None for other texts.

    Examples:
        >>> number("1,250"), number("12 apples")
        (1250.0, None)
    """
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def number_beside_gold(card: Scorecard) -> tuple[str, str] | None:
    """Return the commonest last number of a group's completions with its gold, for verifiers that tell no answers.

    None where that number is the gold, where it has the batch's best score, and where golds are no numbers. So a
    dataset whose golds are mostly right, or a verifier that converts them, gives none.
    """
    scores = [verdict.score for verdict in card.primary if verdict is not None and verdict.score is not None]
    pairs: Counter[tuple[str, str]] = Counter()
    best: set[tuple[str, str]] = set()
    most = MOST_TEXTS * len(card.members) // max(1, len(card))
    for rows in card.members[: max(1, most)]:
        found = [(row, _pair(card, row)) for row in rows]
        counts = Counter(pair for _, pair in found if pair is not None)
        for pair, count in counts.items():
            pairs[pair] = max(count, pairs[pair])
        best |= {pair for row, pair in found if pair is not None and _score(card, row) == max(scores, default=None)}
    for pair, _ in itertools.islice(pairs.most_common(), 1):
        if pair not in best and number(pair[0]) != number(pair[1]):
            return pair
    return None


def _score(card: Scorecard, row: int) -> float | None:
    verdict = card.primary[row]
    return None if verdict is None else verdict.score


def _pair(card: Scorecard, row: int) -> tuple[str, str] | None:
    """Return a text's last number and its row's gold; None if either is no number."""
    sample = card.samples[row]
    column = gold_column(sample.row)
    gold = "" if column is None else str(sample.row[column])[:MOST_NUMBER]
    if number(gold) is None:
        return None
    answers = final_answer(sample.text[-MOST_END:], answer_from="last_number").answers
    if not answers or number(answers[0]) is None:
        return None
    return answers[0][:MOST_NUMBER], gold
