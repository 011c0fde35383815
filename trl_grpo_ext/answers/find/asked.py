"""Adapt answers to the question: asked unit, remainder, profit or loss, yes or no."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.tree import Apply, Number, Quantity, Remainder
from trl_grpo_ext.answers.read.units import is_unit, unit

# Characters at the end of a prompt that are searched for the question.
MAX_PROMPT = 1_000
_QUESTION = re.compile(r"[^.?!\n]*\?[^?]*\Z")
_UNIT = re.compile(
    r"\b(?:how many|(?:answer|give|express\w*|measured)\b[^.?]{0,30}\bin|,\s+in)\s+([a-z]{2,20})\b", re.I
)
_OF_REST = re.compile(r"\b(?:remainder|remain\w*|left\s?over|left|extra)\b", re.IGNORECASE)
# Pairs of words for changes in opposite directions.
_DIRECTIONS = (
    (r"profit|gain|gained|earned", r"loss|lost|lose[sd]?"),
    (r"increase[sd]?|rise|rose|grow|grew|growth", r"decrease[sd]?|drop(?:ped)?|decline[sd]?|fall|fell|reduction"),
)
_DIRECTION = re.compile(rf"\b(?:{'|'.join(word for pair in _DIRECTIONS for word in pair)})\b", re.IGNORECASE)
_AUXILIARY = r"is|are|was|were|does|do|did|can|could|will|would|has|have|had|should"
_YES_OR_NO = re.compile(rf"^\W*(?:so\s+|then\s+)?(?:{_AUXILIARY})\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z]+(?:['’][a-z]+)?|\d[\d.,/]*")
_SILENT = frozenset(
    """a an the of is are was were be been does do did can could will would has have had should he she it they we i this
    that these those there his her their its both indeed all two so thus hence therefore then number to for in on at
    really exactly also enough's actually clearly""".split()  # noqa: SIM905
)
_NEGATIVE = re.compile(r"n['’]t$|^(?:not|no|never|neither|cannot)$")
_ENDING = re.compile(r"(?<=[a-z]{3})(?:s|es|ed|ing)$")
_OPEN = re.compile(r"\b(?:if|unless|might|may|maybe|perhaps|probably|whether|or|impossible|unclear|only)\b|\?", re.I)
_REASON = re.compile(r",?\s+(?:because|since|as)\s")
_CLAUSE = re.compile(r"[,;:]\s+|\b(?:so|thus|hence|therefore|but|which means|and therefore)\b")


def question_of(prompt: str) -> str:
    """Return a prompt's last question, as a sentence; empty if no question mark is found."""
    found = _QUESTION.search(prompt[-MAX_PROMPT:])
    return found[0].strip() if found else ""


def with_asked_unit(gold: str, answer: str, prompt: str) -> str:
    """Append the question's unit to a unitless gold if the answer uses another unit of equal measure.

    Examples:
        >>> [with_asked_unit("12", said, "How many dollars is that?") for said in ("12 cents", "12", "12 pens")]
        ['12 dollars', '12', '12']
    """
    given = read(answer).node
    if not isinstance(given, Quantity) or not isinstance(read(gold).node, Number):
        return gold
    asked = _UNIT.search(question_of(prompt))
    if asked is None or not is_unit(asked[1]):
        return gold
    wanted = unit(asked[1])
    is_other_unit = wanted.measures == given.unit.measures and wanted != given.unit
    return f"{gold} {asked[1]}" if is_other_unit else gold


def with_asked_part(found: FinalAnswer, golds: Sequence[str], prompt: str) -> FinalAnswer:
    """Reduce `7 remainder 2` to its remainder if the question asks for remainders, else to the quotient.

    Examples:
        >>> said = FinalAnswer(("7, with a remainder of 2",), ("last_expression",))
        >>> [with_asked_part(said, ["2"], asked).answers[0] for asked in ("How many are left over?", "How many bags?")]
        ['2', '7']
    """
    parts = [read(answer).node for answer in found.answers]
    question = question_of(prompt)
    if not question or not any(isinstance(part, Remainder) for part in parts):
        return found
    if not all(isinstance(read(gold).node, Number | Quantity) for gold in golds):
        return found
    asks_for_rest = _OF_REST.search(question) is not None
    answers = []
    for part, answer in zip(parts, found.answers, strict=True):
        if isinstance(part, Remainder):
            number = part.rest if asks_for_rest else part.quotient
            answers.append(str(number.value))
        else:
            answers.append(answer)
    return replace(found, answers=tuple(answers))


def with_asked_direction(found: FinalAnswer, sentence: str, prompt: str) -> FinalAnswer:
    """Negate an answer whose direction contradicts the question: a loss where a profit is asked for.

    Without a question, the words "not a profit" in the sentence tell the asked direction.

    Examples:
        >>> said = FinalAnswer(("$20",), ("last_expression",))
        >>> with_asked_direction(said, "That is a loss of $20.", "How much profit did he make?").answers
        ('-$20',)
        >>> with_asked_direction(said, "That is a loss of $20.", "How much did he lose?").answers
        ('$20',)
    """
    if found.problem or len(found.answers) != 1 or not _DIRECTION.search(sentence):
        return found
    if not isinstance(_amount(found.answers[0]), Number):
        return found
    asked = question_of(prompt) or " ".join(re.findall(r"\bnot an?\s+(\w+)", sentence))
    for pair in _DIRECTIONS:
        for one, other in (pair, pair[::-1]):
            if not _has(asked, one) or _has(asked, other):
                continue
            said = (
                rf"(?:{other})\b(?:\s+(?:of|by|is|was|about|exactly|only|a|an|total))*\s+{re.escape(found.answers[0])}"
            )
            if _has(sentence, said):
                return replace(found, answers=("-" + found.answers[0],))
    return found


def _has(text: str, words: str) -> bool:
    return re.search(rf"\b(?:{words})(?!\w)", text, re.IGNORECASE) is not None


def _amount(text: str) -> object:
    match read(text).node:
        case Quantity(amount) | Apply("%", (amount,)):
            return amount
        case node:
            return node


def says_yes_or_no(sentence: str, prompt: str) -> str:
    """Return `yes` or `no` if a sentence repeats the question's words in order, affirmed or denied; else empty.

    Examples:
        >>> asked = "He has 5 litres. Does he have enough paint?"
        >>> says_yes_or_no("So he won't have enough paint.", asked), says_yes_or_no("He has enough paint.", asked)
        ('no', 'yes')
        >>> says_yes_or_no("Tom is older than Ann.", "Is Ann older than Tom?")
        ''
    """
    question = question_of(prompt)
    if not _YES_OR_NO.match(question):
        return ""
    asked, is_denied = _content(question)
    sentence = _REASON.split(sentence, maxsplit=1)[0]
    clause = next((one for one in reversed(_CLAUSE.split(sentence)) if one.strip(" .!")), "")
    said, denied = _content(clause)
    is_statement = re.search(rf"\b(?:{_AUXILIARY})(?:n['’]t)?\b|\bwon['’]t\b|\bcannot\b", clause, re.IGNORECASE)
    if not said or is_denied or not is_statement or _OPEN.search(clause):
        return ""
    # A search in one iterator keeps the order of the words.
    rest = iter(asked)
    if not all(word in rest for word in said):
        return ""
    return "no" if denied else "yes"


def _content(text: str) -> tuple[list[str], bool]:
    """Return a text's content words, in order and stemmed, and whether the text denies them."""
    is_denied = False
    content = []
    for found in _WORD.findall(text.casefold()):
        word = found.rstrip(".,/")
        if _NEGATIVE.search(word):
            is_denied = not is_denied
        elif word not in _SILENT:
            content.append(_ENDING.sub("", word))
    return content, is_denied
