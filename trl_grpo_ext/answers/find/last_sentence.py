"""Return the end of a completion: its last sentence, and its text without closing remarks."""

from __future__ import annotations

import re
from functools import lru_cache

from trl_grpo_ext.answers.find.final_answer import (
    FinalAnswer,
    after_thinking,
    upheld,
)
from trl_grpo_ext.answers.find.remarks import without_remarks
from trl_grpo_ext.answers.find.sentences import listed
from trl_grpo_ext.answers.read.answer import MAX_CHARS

# Characters at the end of a completion that are searched for its last sentence.
MAX_SAID = 1_000

_BOLD_MARKS = ("**", "__", "`")
_SENTENCE = re.compile(r"(?<=[.!?])(?<!i\.e\.)\s+")


@lru_cache(maxsize=64)
def ending(completion: str) -> str:
    """Return the end of a completion after its thinking, without courtesy, replaced values or closing remarks."""
    said = (after_thinking(completion) or "")[-MAX_CHARS:]
    return without_remarks(upheld(said))


def without_bold(text: str) -> str:
    """Remove the marks of bold letters and of code.

    Examples:
        >>> without_bold("It is **5** `km`.")
        'It is 5 km.'
    """
    for mark in _BOLD_MARKS:
        text = text.replace(mark, "")
    return text


def answer_of(answer: str) -> FinalAnswer:
    """Build the answer that a completion's last sentence gives."""
    return FinalAnswer((answer,), ("last_expression",))


@lru_cache(maxsize=64)
def last_sentence(text: str, name: str = "") -> str:
    """Return a text's last sentence, or its last list in one line, without bold marks.

    A full stop inside `name` ends no sentence: `Dr. Lee`.
    """
    plain = without_bold(text)
    plain = listed(plain) or plain
    if "." in name:
        plain = plain.replace(name, name.replace(".", ""))
    last_line = plain.rstrip().rpartition("\n")[2]
    return _SENTENCE.split(last_line)[-1].strip()
