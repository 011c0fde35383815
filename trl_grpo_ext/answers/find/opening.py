"""Take an answer that opens a text before its working, unless the working announces another."""

from __future__ import annotations

import re
from fractions import Fraction

from trl_grpo_ext.answers.find.asked import (
    asked_unit,
    asks_percentage,
    known_numbers,
    numbers,
    question_of,
    task_of,
)
from trl_grpo_ext.answers.find.asked_values import stems
from trl_grpo_ext.answers.find.sentences import (
    BOLD_MARKS,
    MAX_PROMPT,
    MAX_TAIL_CHARS,
    MAX_WHOLE,
    SENTENCE_STOP,
    is_sentence,
    is_value,
)
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.numerals import is_whole
from trl_grpo_ext.answers.read.signal_words import (
    CONDITION,
    CONTRAST,
    DENIAL,
    DOUBT,
    SUMMING_UP,
    THEREFORE,
    TURN,
    WRONG,
    any_of,
)
from trl_grpo_ext.answers.read.tree import Apply, Number, Quantity, Relation

_CHOOSES = re.compile(r"\b(?:which|or)\b", re.IGNORECASE)
_PERCENTAGE = re.compile(r"\d[\d.,]*\s?(?:\\?%|percent\b)")
# An answer alone, before its working: "**60 pens**", "x = 7", "24. Because 12 + 12 = 24.", "$64 — he earns $84".
_OPENING_ANSWER = re.compile(
    r"(?:\*\*([^*\n]{0,60}\d[^*\n]{0,60})\*\*"
    r"|((?:[a-z]\s?=\s?)?[-−]?\\?[$€£]?\d(?:[\d,/]|\.(?=\d)){0,15}%?(?:\s[A-Za-z²³°]{1,15}){0,3})(?=\.\s|\n\s*\n|\s[—–]\s))"
    r"(?:[.:]?[ \t]*\n\s*|[.:]\s+(?=[A-Z])|\s[—–-]\s|(?<=\.\*\*)\s+(?=[A-Z]))(?=\S)"
)
# The same as a sentence, before a blank line: "The area is **40 cm²**."
_OPENING_SENTENCE = re.compile(
    r"\*{0,2}(?P<said>(?:[A-Z][^\n\d.!?:=*]{1,80}\s)?(?:\*\*)?(?P<value>[-−$€£]{0,2}\d(?:[\d,/]|\.(?=\d)){0,15}%?)"
    r"[^\n\d.!?=]{0,60}\.)(?:\*\*)?[ \t]*\n\s*\n\s*(?=\S)"
)
# Marks of formulas, and signs of multiplication, in LaTeX.
_OF_LATEX = re.compile(r"\\[()\[\]$]|\\(?:approx|text\s*\{[^{}]*\})")
_TIMES = re.compile(r"\\(?:times|cdot|div)(?![A-Za-z])")
_NEXT_ITEM = re.compile(r"\n\s*\d{1,2}[.)]\s")
_OPENS_AGAIN = any_of(
    TURN,
    WRONG,
    DENIAL,
    DOUBT,
    CONTRAST,
    "mistakes?|errors?|guess\\w*|answer"
    "|should|must|ignore|disregard|scratch|forget|unsure|uncertain|unclear|halve[sd]?|doubled?",
)
_CLAIMED = re.compile(r"(?<![\w.,])\d[\d,]*+(?:\.\d++)?(?!\s?[×*/÷+−-]\s?[$€£(]?\d)")
_RESULT = re.compile(r"[=≈]\s?[-−$€£\\(]{0,3}\Z")
# "24 + 3", "12/30"
_OPERATOR = re.compile(r"[\d)%$]\s?[-−+×*/÷]\s?[$€£(]{0,2}\Z")
# Two parts of a sum in a list: "* Pens: 4 * $3 = $12"
_PARTS = 2
_LABELLED_ITEM = re.compile(
    r"\s*(?:[-*•]|\d{1,2}[.)])\s+\**([A-Z][A-Za-z ]{1,30})\**:\**\s"
)
_SUMS = any_of(
    SUMMING_UP,
    "total|sum|answer|result|final|cost|price|amount|left|remain\\w*|rest|difference|average|mean|new|profit|change",
)
# "add the 3 sides", "Step 2: subtract"
_GIVEN_COUNT = re.compile(
    r"\b(?:all|the|these|those|both|its|their|step|part|case|method)\s\Z", re.IGNORECASE
)
_IS_SO = any_of(THEREFORE)
_SO_WORD = any_of(THEREFORE, "leaving|leaves")
_CONCLUDES = any_of(THEREFORE, "leaving|leaves|total|altogether|in all")
_UNREAL = any_of(CONDITION, "would|could|check")
# Another step that the working only names: "24 stickers first, then gives 4 away", "72 remain, and half are sold"
_GOES_ON = re.compile(
    r"[^,;=]{0,40}?(?:,\s(?:and|then|plus|minus|of which|multiplied|divided|times)"
    r"|\s(?:and|then|before|times|plus))\s"
    r"[^=;]{0,60}?(?:\d[\d.,]{0,15}|\bhalf\b)"
    r"[^\d=;]{0,40}\Z"
    # "$36, and the price falls by this", "13 cm; square it", "$36, which is subtracted"
    r"|[^\d=]{0,60}?\b(?:subtract|add|multipl|divid|squar|doubl|halv|remov|tak(?:e|en|ing) away"
    r"|(?:by|from|of) (?:this|that|it|these|those)\b)[^\d=]{0,60}\Z"
)
_OF_LETTER = re.compile(r"(?<![\w^])([a-z])\s?=\s?[$\\({]{0,2}[-−]?\Z")


def without_working(text: str, prompt: str) -> str:
    """Return an answer that opens a text if the working below announces no other, else the text.

    Examples:
        >>> asked = "Ann has 15 stickers. She buys 9 and gives 4 away. How many are left?"
        >>> without_working("**20**\\n\\nShe has 15 + 9 = 24 first, then gives 4 away.", asked)
        '20'
        >>> [without_working("20. " + said, asked) for said in ("She gives 4 away.", "So 18 are left.")]
        ['20', '20. So 18 are left.']
    """
    opening = _opening_of(text)
    if opening is None:
        return text
    answer, value, below = opening
    question = question_of(prompt) or task_of(prompt)
    is_of_question = answer == value or stems(answer) & stems(question)
    # "1. Add 9" begins a list of steps; "which" asks for a value of the prompt.
    is_step = value.isdigit() and _NEXT_ITEM.search(below) is not None
    if is_step or not is_of_question or _CHOOSES.search(question):
        return text
    is_copied = known_numbers(prompt).issuperset(numbers(value)) and "=" not in value
    if is_copied or _OPENS_AGAIN.search(below) or _OPENS_AGAIN.search(answer):
        return text
    is_working = any(map(str.isdigit, below)) and (is_sentence(below) or "=" in below)
    last = _last_with_digit(below)
    if not is_working or (
        _announced(last, value, prompt) and not _is_breakdown(below, question)
    ):
        return text
    # An equation that gives the answer is read, since it may be false.
    is_told_again = "=" in last and _is_same_number(numbers(last)[-1], value)
    return text if is_told_again else answer


def _opening_of(text: str) -> tuple[str, str, str] | None:
    """Split a text into an opening answer, its value and the text below; None without an opening answer."""
    alone = _OPENING_ANSWER.match(text)
    value = (alone[1] or alone[2]).strip(" .:") if alone else ""
    if alone and is_value(value):
        return value, value, text[alone.end() :]
    sentence = _OPENING_SENTENCE.match(text)
    if sentence is None or not is_value(sentence["value"]):
        return None
    return sentence["said"], sentence["value"], text[sentence.end() :]


def is_overruled(text: str, answer: str, prompt: str) -> bool:
    """Check whether working below a marked answer at a text's start concludes with another new value.

    Examples:
        >>> asked = "Ann has 15 stickers. She buys 9 and gives 4 away. How many are left?"
        >>> [is_overruled("The answer is 20." + said, "20", asked) for said in (" So 18 are left.", " So 20 are left.")]
        [True, False]
    """
    at = text.find(answer, 0, MAX_WHOLE)
    before = text[: max(at, 0)]
    is_opening = at >= 0 and not any(map(str.isdigit, before))
    if not is_opening or not prompt or not any(map(str.isdigit, answer)):
        return False
    below = text[at + len(answer) :]
    sentence = _last_with_digit(below)
    concluding = list(_CONCLUDES.finditer(sentence))
    known = known_numbers(prompt)
    told_again = set(numbers(answer)).intersection(numbers(below)) - known
    if told_again or not concluding or _UNREAL.search(sentence):
        return False
    other = _announced(sentence[concluding[-1].start() :], answer, prompt)
    return bool(other) and other not in known


def _announced(sentence: str, value: str, prompt: str) -> str:
    """Return the number that a sentence announces in place of a value; empty if it announces none, or the value."""
    if not asks_percentage(prompt):
        sentence = _PERCENTAGE.sub("", sentence)
    told = [found for found in _CLAIMED.finditer(sentence) if _is_claimed(found, prompt)]
    if "\\" in sentence:
        return sentence
    if not told:
        return ""
    last = told[-1]
    number = last[0].replace(",", "").rstrip(".")
    goes_on = _GOES_ON.match(sentence, last.end()) and not _IS_SO.search(sentence)
    if goes_on or _is_same_number(number, value) or _is_of_other(last, value, prompt):
        return ""
    return number


def _last_with_digit(text: str) -> str:
    """Return a text's last sentence that has a number, in digits."""
    end = text[-MAX_TAIL_CHARS:]
    for line in reversed(in_digits(BOLD_MARKS.sub("", end)).splitlines()):
        for sentence in reversed(SENTENCE_STOP.split(line)):
            if any(map(str.isdigit, sentence)):
                return _OF_LATEX.sub("", _TIMES.sub("×", sentence))
    return ""


def _is_breakdown(text: str, question: str) -> bool:
    """Check whether a text ends in a list of labelled parts, of which the last is not the asked thing or a sum."""
    items = [_LABELLED_ITEM.match(line) for line in text.rstrip().splitlines()[-_PARTS:]]
    labels = [item[1] for item in items if item]
    if len(labels) < _PARTS or len(set(labels)) < _PARTS:
        return False
    return not stems(labels[-1]) & stems(question) and not _SUMS.search(labels[-1])


def _is_claimed(number: re.Match[str], prompt: str) -> bool:
    """Check whether a sentence claims a number: the prompt lacks the number, or a calculation gives the number."""
    is_known = number[0].replace(",", "").rstrip(".") in known_numbers(prompt)
    before = number.string[: number.start()]
    if _GIVEN_COUNT.search(before) or _OPERATOR.search(before):
        return False
    return not is_known or bool(_RESULT.search(before) or _SO_WORD.search(before))


def _is_same_number(number: str, value: str) -> bool:
    """Compare a number with a value: `0.35` and `35` both equal the value 35 %, and roundings equal exact values."""
    if number in numbers(value):
        return True
    node = read(value).node
    if isinstance(node, Relation):
        node = node.sides[-1]
    if isinstance(node, Quantity):
        node = node.amount
    if isinstance(node, Apply) and node.name == "%":
        node = node.arguments[0]
    size = Fraction(number.replace(",", ""))
    if not isinstance(node, Number) or (is_whole(node) and size.denominator == 1):
        return False
    sizes = (node.value, node.value * 100, node.value / 100)
    return any(abs(one - size) * 100 <= abs(one) for one in sizes)


def _is_of_other(number: re.Match[str], value: str, prompt: str) -> bool:
    """Check whether a number is of another letter, `x = 12` for "twice x", or in another unit than a value."""
    letter = _OF_LETTER.search(number.string[: number.start()])
    if letter:
        asked = rf"\b(?:for|find|what is|value of)\W{{0,3}}{letter[1]}\b"
        is_asked = re.search(asked, prompt[-MAX_PROMPT:], re.IGNORECASE) is not None
        return not is_asked and not re.match(rf"\W{{0,3}}{letter[1]}\s?=", value)
    own = read(value).node
    behind = number.string[number.start() :].split()[:2]
    other = read(" ".join(behind).strip(" .,;:!")).node
    if not isinstance(own, Quantity) or not isinstance(other, Quantity):
        return False
    return own.unit != other.unit and bool(asked_unit(other.unit, prompt, is_whole=False))
