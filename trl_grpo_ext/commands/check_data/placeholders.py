"""Find golds that look like placeholders of missing values, such as the `N/A` of a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from trl_grpo_ext.answers.golds import gold_texts
from trl_grpo_ext.commands.check_data.whole_columns import gold_columns
from trl_grpo_ext.mix.reward_mix import RewardMix

PLACEHOLDERS = frozenset(
    {
        "n/a",
        "#n/a",
        "na",
        "nan",
        "null",
        "none",
        "nil",
        "todo",
        "tbd",
        "unknown",
        "missing",
        "?",
        "??",
        "-",
        "--",
        "...",
    }
)


class Placeholders(NamedTuple):
    """A gold column's placeholders: rows and texts, beside counts of other golds, all and with digits."""

    column: str
    rows: list[int]
    texts: list[str]
    others: int
    with_digits: int


def placeholder_golds(mix: RewardMix, rows: Any) -> Iterator[Placeholders]:
    """Yield the placeholders of each gold column of a mix whose other golds mostly have digits.

    In a column of words, such as labels, `unknown` may be an answer.

    Examples:
        >>> from datasets import Dataset
        >>> from trl_grpo_ext import RewardTerm
        >>> from trl_grpo_ext.rewards import MathVerifier
        >>> mix = RewardMix([RewardTerm(name="math", verifier=MathVerifier())])
        >>> rows = Dataset.from_dict({"answer": ["4", "N/A", "1/2"]})
        >>> [(found.column, found.rows, found.texts) for found in placeholder_golds(mix, rows)]
        [('answer', [1], ['N/A'])]
    """
    for column in gold_columns(mix, rows):
        found: dict[int, str] = {}
        others = []
        for row, cell in enumerate(rows[column]):
            golds = gold_texts(cell)
            if not golds:
                continue
            if golds[0].casefold() in PLACEHOLDERS:
                found[row] = golds[0]
            else:
                others.append(golds[0])
        with_digits = sum(map(_has_digit, others))
        if found and with_digits > len(others) / 2:
            texts = list(dict.fromkeys(found.values()))
            yield Placeholders(column, list(found), texts, len(others), with_digits)


def _has_digit(gold: str) -> bool:
    return any(map(str.isdigit, gold))
