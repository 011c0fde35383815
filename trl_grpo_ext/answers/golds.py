"""Turn a dataset cell into gold answers, as texts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, time, timedelta
from functools import lru_cache
from typing import Any

from trl_grpo_ext.answers.find.marks import box_answers, tags
from trl_grpo_ext.answers.find.phrases import formal, informal
from trl_grpo_ext.answers.find.sentences import is_value, value_said
from trl_grpo_ext.answers.read.spelling import restored, strip_delimiters

# 2000, 10
_LISTED_NUMBER = r"-?\\?\$?\d{1,12}(?:\.\d{1,6})?"
_LISTED_THOUSANDS = re.compile(
    rf"(?=.{{0,80}}\d{{4}})\(?{_LISTED_NUMBER}(?:(?:[,;]\s|,?\sand\s){_LISTED_NUMBER}){{1,9}}\)?"
)
# $30,000; $280,000
_THOUSANDS_APART = re.compile(
    r"\\?\$?\d[\d,]{0,15}(?:\.\d{1,6})?(?:(?:;\s|\sand\s)\\?\$?\d[\d,]{0,15}(?:\.\d{1,6})?){1,9}"
)
_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:(?:,|\{,\})\d{3})+(?!\d|,\d)")
_COMMAS = re.compile(r",|\{,\}")

GOLD_COLUMNS = ("solution", "answer")
NOT_TEXT = "gold_not_text"
ADVICE = {
    "gold_missing": "Drop the row, or name the right column: column=...",
    "gold_empty": "Drop the row, or name the right column: column=...",
    NOT_TEXT: "The gold is no text and no number. Of a mapping, such as a message, put the field that holds the answer "
    "into a column of its own, and name that: column=... `datasets` turns texts of JSON files into dates: CSV files "
    "keep their texts.",
}


def is_not_text(cell: object) -> bool:
    """Check whether a cell's golds lack a text form: a mapping (such as a message), bytes or a date.

    A date is rejected because its original spelling is lost.

    Examples:
        >>> [is_not_text(cell) for cell in ({"answer": "4"}, [{"role": "user", "content": "4"}], ["4", 5])]
        [True, True, False]
        >>> is_not_text(date(1917, 10, 28))
        True
    """
    return any(
        isinstance(one, Mapping | bytes | date | time | timedelta)
        for one in alternatives(cell)
    )


def alternatives(gold: Any) -> list[Any]:
    """List a cell's accepted golds: each item of a list, tuple or array, else the cell itself; skip None and NaN.

    Examples:
        >>> alternatives(["a", None, ["b"]]), alternatives("a"), alternatives(float("nan"))
        (['a', 'b'], ['a'], [])
    """
    # numpy arrays and torch tensors have `tolist`.
    to_list = getattr(gold, "tolist", None)
    if callable(to_list):
        gold = to_list()
    if isinstance(gold, list | tuple):
        found: list[Any] = []
        for item in gold:
            found += alternatives(item)
        return found
    # pandas stores a missing cell as NaN, and NaN differs from itself.
    if gold is None or gold != gold:
        return []
    return [gold]


def gold_texts(gold: object) -> tuple[str, ...]:
    r"""Convert a cell to its accepted golds as texts; empty if the row has no answer.

    Each item of a list is a separate gold. A bool becomes `yes` or `no`; NaN gives no gold. From a text, take the
    content of the last answer tag, then the part after GSM8K's `####`, else the content of the last box, else the text
    without surrounding dollars.

    Examples:
        >>> gold_texts(42.0), gold_texts("5 + 5 = 10\n#### 10"), gold_texts(["$x^2$", r"so \boxed{7}"])
        (('42',), ('10',), ('x^2', '7'))
        >>> gold_texts("<think>6 * 7</think><answer>42</answer>")
        ('42',)
    """
    # The usual cell, looked up for each completion.
    if isinstance(gold, str):
        return tuple(filter(None, (_gold_in(gold),)))
    return tuple(dict.fromkeys(filter(None, map(_gold_text, alternatives(gold)))))


def _gold_text(gold: object) -> str:
    if isinstance(gold, bool):
        return "yes" if gold else "no"
    if isinstance(gold, float):
        if not math.isfinite(gold):
            return ""
        if gold.is_integer():
            return str(int(gold))
        return repr(gold)
    return _gold_in(str(gold))


@lru_cache(maxsize=256)
def _gold_in(text: str) -> str:
    """Return the gold in a text, cached: each completion of a group looks it up."""
    text = restored(text).strip()
    tagged = tags(text)
    if tagged:
        text = tagged[-1].content.strip()
    if "####" in text:
        text = text.rpartition("####")[2].strip()
    boxed = box_answers(text)
    return strip_delimiters(boxed[-1].content if boxed else text)


def gold_values(cell: object) -> tuple[str, ...]:
    """Convert a cell to its golds, each without a sentence around the value: `The final answer is 5.` gives `5`."""
    return tuple(map(_gold_value, gold_texts(cell)))


def _gold_value(gold: str) -> str:
    said = formal(gold) or informal(gold)
    return value_said(said[-1].content) if said and not is_value(gold) else gold


def with_plain_thousands(
    golds: tuple[str, ...], completion: str
) -> tuple[tuple[str, ...], str]:
    r"""Remove commas between thousands from golds that list numbers, and from a completion beside such golds.

    Then the commas of a list are told from the commas of its numbers. A gold that lists by commas keeps them.

    Examples:
        >>> with_plain_thousands(("2000, 10",), "It made $2,000 at $10 each.")
        (('2000, 10',), 'It made $2000 at $10 each.')
        >>> with_plain_thousands(("$30,000; $280,000",), "$30,000 and $280,000")
        (('$30000; $280000',), '$30000 and $280000')
        >>> with_plain_thousands(("1, 200",), "1,200"), with_plain_thousands(("1, 200, 3000",), "1,200,3000")
        ((('1, 200',), '1,200'), (('1, 200, 3000',), '1,200,3000'))
    """
    golds = tuple(
        _plain(gold) if _THOUSANDS_APART.fullmatch(gold) else gold for gold in golds
    )
    if "," not in completion or not any(map(_LISTED_THOUSANDS.fullmatch, golds)):
        return golds, completion
    return golds, _plain(completion)


def _plain(text: str) -> str:
    """Remove commas between thousands."""
    return _THOUSANDS.sub(lambda number: _COMMAS.sub("", number[0]), text)
