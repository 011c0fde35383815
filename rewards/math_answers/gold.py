"""Gold answers, whatever a dataset has them as."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from trl_grpo_ext.rewards.math_answers.extraction import box_runs, joined
from trl_grpo_ext.rewards.math_answers.notation import strip_delimiters, without_commands

_SENTENCE = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,}\s+[A-Za-z]{2,}\s+[A-Za-z$\\]")


def gold_texts(gold: object) -> tuple[str, ...]:
    r"""The accepted golds of a row as texts; none if the row has no answer.

    A list has several that are each right. A number is itself, a bool yes or no, NaN none. Of a text, what follows
    GSM8K's `####`, else the last box, else what its dollars enclose.

    Example:
        >>> gold_texts(42.0), gold_texts("5 + 5 = 10\n#### 10"), gold_texts(["$x^2$", r"so \boxed{7}"])
        (('42',), ('10',), ('x^2', '7'))
    """
    if isinstance(gold, Sequence) and not isinstance(gold, str):
        return tuple(dict.fromkeys(text for one in gold for text in gold_texts(one)))
    text = _one(gold)
    return (text,) if text else ()


def _one(gold: object) -> str:
    if gold is None:
        return ""
    if isinstance(gold, bool):
        return "yes" if gold else "no"
    if isinstance(gold, float):
        if not math.isfinite(gold):
            return ""
        return str(int(gold)) if gold.is_integer() else repr(gold)
    text = str(gold).strip()
    if "####" in text:
        text = text.rpartition("####")[2].strip()
    runs = box_runs(text)
    return strip_delimiters(joined(runs[-1]) if runs else text)


def is_sentence(text: str) -> bool:
    """Whether the text is prose, such as a worked solution, in which the answer still has to be found.

    Example:
        >>> is_sentence("The answer is 5"), is_sentence(r"5 \text{ square metres}"), is_sentence("10 square feet")
        (True, False, False)
    """
    return _SENTENCE.search(without_commands(text)) is not None
