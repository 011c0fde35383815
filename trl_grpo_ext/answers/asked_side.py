r"""Choose the asked side of a comparison: 2/3 of "2/3 > 3/5" to the question "Which is larger?"."""

from __future__ import annotations

import re

from trl_grpo_ext.answers.find.asked import OPPOSITES, question_of
from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.find.hedges import is_hedged
from trl_grpo_ext.answers.find.last_sentence import (
    MAX_SAID,
    ending,
    last_sentence,
    said,
)
from trl_grpo_ext.answers.find.rejections import only_rejects

_MORE, _LESS = OPPOSITES[0]
_ASKS = re.compile(
    rf"\b(?:which|what)\b[^?]*\b(?:(?P<more>{_MORE})|(?:{_LESS}))\b", re.IGNORECASE
)
_NUMBER = r"[-−]?(?:\\[dt]?frac\{\d+\}\{\d+\}|\\?sqrt\{?\(?\d+[)}]?|√\d+|\d[\d,]*(?:\.\d+)?(?:/\d+|\^\{?\d+\}?)?)\\?%?"
_OPEN, _CLOSE = r"[\s$*]*(?:\\\(\s*)?", r"(?:\s*\\\))?[\s$*]*"
_COMPARED = re.compile(
    rf"(?:.*[\s$(*])?{_OPEN}(?P<first>{_NUMBER}){_CLOSE}"
    rf"(?:(?:is|are)\s+(?:the\s+)?(?:(?P<more>{_MORE})|{_LESS})(?:\s+(?!than\b)[a-z]+)?(?:\s+than{_OPEN}(?P<than>{_NUMBER}){_CLOSE})?"
    rf"|(?:(?P<above>>|\\gt\b)|<|\\lt\b){_OPEN}(?P<second>{_NUMBER}){_CLOSE})[\s.!*]*",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")


def with_asked_side(found: FinalAnswer, completion: str, prompt: str) -> FinalAnswer:
    """Replace an answer by the asked side of the comparison that the last sentence concludes with.

    Examples:
        >>> with_asked_side(FinalAnswer(problem="no_answer"), "So 3/5 < 2/3.", "Which is larger, 2/3 or 3/5?").answers
        ('2/3',)
        >>> with_asked_side(said("3/5"), "$2/3$ is larger than $3/5$.", "Which is larger, 2/3 or 3/5?").answers
        ('2/3',)
    """
    asked = _ASKS.search(question_of(prompt))
    if asked is None or {*found.marks} & {"boxed", "answer_tag"}:
        return found
    sentence = last_sentence(ending(completion)[-MAX_SAID:])
    compared = _COMPARED.fullmatch(sentence)
    if compared is None or is_hedged(sentence) or only_rejects(sentence, ""):
        return found
    is_first = bool(compared["more"] or compared["above"]) == bool(asked["more"])
    other = compared["than"] or compared["second"]
    side = compared["first"] if is_first else other
    if not side or not {*_DIGITS.findall(side)} <= {*_DIGITS.findall(prompt)}:
        return found
    return said(side)
