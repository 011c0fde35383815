"""Gold answers, whatever a dataset has them as."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.rewards.answers.latex import strip_delimiters, without_commands
from trl_grpo_ext.rewards.answers.marks import box_answers

GOLD_COLUMNS = ("solution", "answer")
NOT_TEXT = "gold_not_text"
ADVICE = {
    "gold_missing": "Drop the row, or name the right column: column=...",
    "gold_empty": "Drop the row, or name the right column: column=...",
    NOT_TEXT: "The gold is a mapping, such as a message: put the field that holds the answer into a column of its own, "
    "as text or a number, and name that: column=...",
}

_SENTENCE = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,}\s+[A-Za-z]{2,}\s+[A-Za-z$\\]")


def holds_mapping(cell: object) -> bool:
    """Whether a cell is a mapping or a list that has one, such as a conversation: no text that could be compared.

    Example:
        >>> [holds_mapping(cell) for cell in ({"answer": "4"}, [{"role": "user", "content": "4"}], ["4", 5])]
        [True, True, False]
    """
    cell = _plain_list(cell)
    if isinstance(cell, list | tuple):
        return any(holds_mapping(item) for item in cell)
    return isinstance(cell, Mapping)


def alternatives(gold: object) -> list[Any]:
    """The golds that a cell holds: of a list, tuple or array each of its items, else the cell itself; no None, no NaN.

    Example:
        >>> alternatives(["a", None, ["b"]]), alternatives("a"), alternatives(float("nan"))
        (['a', 'b'], ['a'], [])
    """
    gold = _plain_list(gold)
    if isinstance(gold, list | tuple):
        return [one for item in gold for one in alternatives(item)]
    missing = gold is None or gold != gold  # NaN, which pandas has for a cell that is missing
    return [] if missing else [gold]


def _plain_list(cell: Any) -> Any:
    """An array of numpy or torch as the list, or the number, that it holds; anything else as it is."""
    to_list = getattr(cell, "tolist", None)
    return to_list() if callable(to_list) else cell


def gold_texts(gold: object) -> tuple[str, ...]:
    r"""The accepted golds of a row as texts; none if the row has no answer.

    A list has several that are each right. A number is itself, a bool yes or no, NaN none. Of a text, what follows
    GSM8K's `####`, else the last box, else what its dollars enclose.

    Example:
        >>> gold_texts(42.0), gold_texts("5 + 5 = 10\n#### 10"), gold_texts(["$x^2$", r"so \boxed{7}"])
        (('42',), ('10',), ('x^2', '7'))
    """
    return tuple(dict.fromkeys(filter(None, map(_gold_text, alternatives(gold)))))


def _gold_text(gold: object) -> str:
    if isinstance(gold, bool):
        return "yes" if gold else "no"
    if isinstance(gold, float):
        if not math.isfinite(gold):
            return ""
        return str(int(gold)) if gold.is_integer() else repr(gold)
    text = str(gold).strip()
    if "####" in text:
        text = text.rpartition("####")[2].strip()
    boxed = box_answers(text)
    return strip_delimiters(boxed[-1] if boxed else text)


def is_sentence(text: str) -> bool:
    """Whether the text is prose, such as a worked solution, in which the answer still has to be found.

    Example:
        >>> is_sentence("The answer is 5"), is_sentence(r"5 \text{ square metres}"), is_sentence("10 square feet")
        (True, False, False)
    """
    return _SENTENCE.search(without_commands(text)) is not None
