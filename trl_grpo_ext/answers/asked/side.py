r"""Choose the asked side of a comparison: 2/3 of "2/3 > 3/5" to the question "Which is larger?"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.answers.find.asked import is_opposed, question_of
from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.find.hedges import is_hedged
from trl_grpo_ext.answers.find.last_sentence import (
    MAX_SAID,
    answer_of,
    ending,
    last_sentence,
)
from trl_grpo_ext.answers.find.rejections import only_rejects
from trl_grpo_ext.answers.read.signal_words import (
    CONDITION,
    DENIAL,
    DOUBT,
    OPPOSITES,
    SUMMING_UP,
    THEREFORE,
    any_of,
)
from trl_grpo_ext.answers.read.spelling import without_text_commands

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
_ASKS_WHICH = re.compile(r"\b(?:which|what)\s+([a-z]+)\b", re.IGNORECASE)
# Not "September".
_COMPARES = re.compile(r"\b(?:more|less|fewer|worse|[a-z]{2,}er)\b")
_THAN = re.compile(r"\b(?:than|compared (?:to|with))\b", re.IGNORECASE)
# "Machine 2 beats machine 1", "Choose plan 1 over plan 2"
_OVER = re.compile(
    r"\b(?:beats?|outperforms?|over|instead of|rather than)\b", re.IGNORECASE
)
_OPENER = re.compile(
    rf"\W*(?:(?:{THEREFORE}|{SUMMING_UP}|then|this means(?: that)?)\W+)?(?:the\s+)?",
    re.IGNORECASE,
)
_DENIED = any_of(DENIAL, DOUBT, CONDITION)
_BRACKET = re.compile(r"\([^()]*\)")
# "Machine 2", "class 7B"
_NUMBERED = re.compile(r"\b([A-Za-z]+)\s(\d{1,4}[A-Z]?)\b(?![.,]?\d)")
_ASKS_YEAR = re.compile(r"\b(?:which|what) year\b", re.IGNORECASE)
_IN_YEAR = re.compile(r"\b(in)\s(\d{4})\b", re.IGNORECASE)


def with_asked_side(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Replace an answer by the asked side of the comparison that the last sentence concludes with.

    Examples:
        >>> asked = "Which is larger, 2/3 or 3/5?"
        >>> with_asked_side(FinalAnswer(problem="no_answer"), ["2/3"], "So 3/5 < 2/3.", asked).answers
        ('2/3',)
        >>> with_asked_side(answer_of("3/5"), ["2/3"], "$2/3$ is larger than $3/5$.", asked).answers
        ('2/3',)
        >>> asked = "Bus 1 takes 9 minutes, bus 2 takes 8. Which bus is faster?"
        >>> with_asked_side(answer_of("1"), ["2"], "Bus 2 is faster than bus 1.", asked).answers
        ('2',)
        >>> with_asked_side(FinalAnswer(("Bus 2",), ("boxed",)), ["2"], "", asked).answers
        ('2',)
    """
    question = question_of(prompt)
    if not _ASKS_WHICH.search(question):
        return found
    found = _with_number(found, golds, prompt)
    if {*found.marks} & {"boxed", "answer_tag"}:
        return found
    sentence = last_sentence(ending(completion)[-MAX_SAID:])
    side = _asked_number(sentence, question, prompt) or _asked_thing(
        sentence, golds, question, prompt
    )
    if not side or is_hedged(sentence) or only_rejects(sentence, ""):
        return found
    return answer_of(side)


def _with_number(found: FinalAnswer, golds: Sequence[str], prompt: str) -> FinalAnswer:
    """Replace a numbered thing of the prompt by its number, if all golds are numbers: `Machine 2` by `2`."""
    if not all(map(str.isdecimal, golds)):
        return found
    numbers = []
    for answer in found.answers:
        plain = without_text_commands(answer).strip(" .")
        thing = _NUMBERED.fullmatch(plain)
        is_known = thing is not None and plain.casefold() in prompt.casefold()
        numbers.append(thing[2] if thing and is_known else answer)
    return replace(found, answers=tuple(numbers))


def _asked_number(sentence: str, question: str, prompt: str) -> str:
    """Return the asked side of a comparison of two numbers of the prompt; empty if the sentence makes none."""
    asked = _ASKS.search(question)
    compared = _COMPARED.fullmatch(sentence) if asked else None
    if asked is None or compared is None:
        return ""
    is_first = bool(compared["more"] or compared["above"]) == bool(asked["more"])
    other = compared["than"] or compared["second"]
    side = compared["first"] if is_first else other
    is_of_prompt = {*_DIGITS.findall(side or "")} <= {*_DIGITS.findall(prompt)}
    return side if side and is_of_prompt else ""


def _asked_thing(sentence: str, golds: Sequence[str], question: str, prompt: str) -> str:
    """Return the asked one of two numbered things, such as `Machine 2`, in the gold's form; empty for other sentences.

    A thing that a sentence alone compares is asked, too: "Machine 2 is faster by 5 parts." Years are such things:
    "Sales were higher in 2022 than in 2021."
    """
    plain = _BRACKET.sub("", sentence)
    known = prompt.casefold()
    told = [each for each in _NUMBERED.finditer(plain) if each[0].casefold() in known]
    if not told and _ASKS_YEAR.search(question):
        told = [each for each in _IN_YEAR.finditer(plain) if each[2] in known]
    side = None if _DENIED.search(plain) else _preferred(plain, told, question)
    if side is None:
        return ""
    for gold in golds:
        if gold.casefold() == side[0].casefold():
            return gold
    return side[2]


def _preferred(
    sentence: str, told: Sequence[re.Match[str]], question: str
) -> re.Match[str] | None:
    """Return the thing that a sentence says to be as asked; None if the sentence leaves it open."""
    is_compared = _COMPARES.search(sentence) is not None
    is_opposite = is_opposed(question, sentence)
    if len(told) == 1:
        is_subject = _OPENER.fullmatch(sentence, 0, told[0].start()) is not None
        is_asked = _asks_for(told[0][1], question)
        return (
            told[0] if is_subject and is_asked and is_compared and not is_opposite else None
        )
    if len(told) != 2 or len({each[1].casefold() for each in told}) > 1:
        return None
    first, second = told
    if _OVER.search(sentence, first.end(), second.start()):
        return first
    if not is_compared or not _THAN.search(sentence, first.end(), second.start()):
        return None
    return second if is_opposite else first


def _asks_for(noun: str, question: str) -> bool:
    """Check whether a question asks for one of a noun's things: "Which bus is faster?", "Which is faster?"."""
    asked = {word.casefold() for word in _ASKS_WHICH.findall(question)}
    return not asked.isdisjoint({noun.casefold(), "is", "was", "one", "of"})
