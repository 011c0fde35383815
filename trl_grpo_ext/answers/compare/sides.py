"""Compare the sides of directed amounts: `$45 less` is not `$45 more`, and "late by 5 minutes" is `5 minutes late`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from trl_grpo_ext.answers.compare.directions import NOUNS, WORDS
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.signal_words import OPPOSITES, has_words
from trl_grpo_ext.answers.read.spelling import without_text_commands
from trl_grpo_ext.answers.read.tree import OF_OWN_TYPE

# "More" and "fell": amounts of a change or a comparison.
_CHANGES = (
    "|".join((OPPOSITES[0][0], *(WORDS[gain] for gain, _ in NOUNS))),
    "|".join((OPPOSITES[0][1], *(WORDS[loss] for _, loss in NOUNS))),
)
# Pairs of sides whose second a minus sign tells, too.
_SIGNED = (
    _CHANGES,
    ("over|above", "under|below|beneath|short of"),
    (r"up(?:wards?)?", r"down(?:wards?)?"),
)
_OTHERS = (
    *OPPOSITES[1:],
    ("early|earlier|ahead|before", "late|later|behind|after"),
    ("north(?:wards?)?", "south(?:wards?)?"),
    ("east(?:wards?)?", "west(?:wards?)?"),
    ("forwards?", "back(?:wards?)?"),
    ("clockwise", "counter-?clockwise|anti-?clockwise"),
    ("surplus", "deficit|shortfall"),
)
_PAIRS = (*_SIGNED, *_OTHERS)
# Sides that end an amount, or that "than" follows; a counted thing may stand behind the others: "3 more pens".
_COMPARATIVES = frozenset((_CHANGES, *OPPOSITES[1:]))
_AMOUNT = r"[^\w\s]{0,3}\d[^\s()=]*(?:\s(?!by\b|of\b|left\b)[a-z°/]+){0,2}?"
_UNITS = r"(?:\s[a-z°]+){0,2}"
_TO = r"(?:\s(?:to|too|due|towards?)(?:\sthe)?)?"
_BY = r"(?:\s(?!or\b|and\b|not\b)[a-z]+){0,3}?(?::|\s(?:by|of|is|was))\s(?:(?:an?|about|exactly)\s)?"
_LONGEST = 120
# Questions that a side belongs to.
_ASKS_WHERE = re.compile(
    r"\b(?:where|direction|which way|position|compare[ds]?)\b", re.IGNORECASE
)
# An amount without a sign is positive then.
_ASKS_SIGNED = re.compile(r"\b(?:change[ds]?|elevation)\b", re.IGNORECASE)
_MINUS = re.compile(r"(\\?\$?)[-−]\s?(?=\\?\$?\d)")
_MARKUP = re.compile(r"\\boxed\{|[{}*_]|\\[()\[\]]|\$(?!\d)")
_MEASURED = re.compile(r"\d\S{0,20}\s[a-z]+")
_CONTENT = re.compile(r"[^\W\d_]{3,}|\b[A-Z]\b")


class Sided(NamedTuple):
    """An amount with the index of its pair of sides, and a flag for the second side."""

    amount: str
    pair: int
    is_second: bool
    # Words behind a place: "zero" of "5 degrees above zero"
    is_placed: bool


def by_amounts(
    golds: tuple[str, ...], answers: Sequence[str], sentence: str, question: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write golds with a side and answers as amounts: negative for the other side, and without an amount for no side.

    Args:
        golds: Golds. Golds that do not all have one side stay unchanged, with the answers.
        answers: Answers, which may leave the side to the sentence.
        sentence: The completion's last sentence.
        question: The question. An answer without a side answers only a question that tells the side.

    Examples:
        >>> asked = "How does Ann's age compare with Ben's?"
        >>> by_amounts(("4 years more",), ("4",), "Ann is 4 years more.", asked)
        (('4 years',), ('4',))
        >>> by_amounts(("4 years more",), ("4 years less",), "", asked)
        (('4 years',), ('-4 years',))
    """
    are_below = bool(golds) and all(map(_MINUS.match, golds))
    sided = [each for each in map(_sided, golds) if each]
    are_without_side = len(sided) < len(golds) or len({each[1:3] for each in sided}) > 1
    # Most golds have no side: their sentence is not looked at.
    if are_without_side and not are_below:
        return golds, tuple(answers)
    plain = _MARKUP.sub("", without_text_commands(sentence))
    if are_below:
        return golds, tuple(_with_minus_below(answer, plain) for answer in answers)
    told = tuple(_amount(answer, sided[0], plain, question) for answer in answers)
    return tuple(each.amount for each in sided), told


def _with_minus_below(answer: str, sentence: str) -> str:
    """Write an amount below a level with a minus sign: `-3 degrees` for "3 degrees below zero"."""
    said = _plain(answer)
    below = re.search(
        rf"(?<![\w.−-]){re.escape(said.partition(' below ')[0])}{_UNITS}\sbelow\s", sentence
    )
    return f"-{said.partition(' below ')[0]}" if below else answer


@lru_cache(maxsize=1024)
def _sided(text: str) -> Sided | None:
    """Split a text such as `$45 more`, "late by 5 minutes" or `3 km south of it`; None for other texts."""
    if len(text) > _LONGEST or not any(map(str.isdigit, text)):
        return None
    plain = _plain(text)
    if isinstance(read(plain).node, OF_OWN_TYPE):
        return None
    for place, pair in enumerate(_PAIRS):
        for words in pair:
            found = _amount_with(words, is_comparative=pair in _COMPARATIVES).fullmatch(
                plain
            )
            if found:
                amount = found["amount"] or found["by"]
                return Sided(amount, place, words == pair[1], bool(found["tail"]))
    return None


@lru_cache(maxsize=128)
def _amount_with(words: str, *, is_comparative: bool) -> re.Pattern[str]:
    start = r"\sthan" if is_comparative else ""
    return re.compile(
        rf"(?P<amount>{_AMOUNT}){_TO}\s(?:{words})\b(?P<tail>{start}\s[^\d,;:]{{1,40}})?"
        rf"|(?:an?\s)?(?:{words}){_BY}(?P<by>{_AMOUNT})",
        re.IGNORECASE,
    )


def _amount(answer: str, gold: Sided, sentence: str, question: str) -> str:
    """Return an answer's amount, with a minus sign for the gold's other side, or for a side that is left open."""
    pair = _PAIRS[gold.pair]
    own, other = pair[gold.is_second], pair[not gold.is_second]
    said = _plain(answer)
    result = said.rpartition("=")[2].strip()
    if pair in _SIGNED and _MINUS.match(result):
        return _MINUS.sub(r"\1", result) if gold.is_second else answer
    if _offers_both(sentence, own, other):
        return f"-{result}"
    is_turned = _is_turned(sentence, question)
    for words in (own, other):
        found = _amount_with(words, is_comparative=pair in _COMPARATIVES).fullmatch(said)
        if found:
            amount = found["amount"] or found["by"]
            return f"-{amount}" if (words == other) != is_turned else amount
    is_own = _told_side(result, own, other, sentence)
    if is_own is None:
        is_own, is_turned = _is_side_of(question, own, other, gold), False
    return answer if is_own != is_turned else f"-{result}"


def _offers_both(sentence: str, own: str, other: str) -> bool:
    """Check whether a sentence leaves the side open: "5 minutes late or early"."""
    either = rf"(?:{own}|{other})"
    joined = re.search(
        rf"\b({either})\s(?:[^.,;]{{0,30}}\s)?or\s[^.,;]{{0,30}}\b({either})\b",
        sentence,
        re.IGNORECASE,
    )
    if joined is None:
        return False
    return has_words(joined[0], own) and has_words(joined[0], other)


def _told_side(amount: str, own: str, other: str, sentence: str) -> bool | None:
    """Check whether a sentence puts an amount on the gold's own side; None without a side, or with both sides."""
    told = re.escape(amount)
    gap = r"(?:\s(?!or\b|and\b|but\b|not\b|than\b)[\w'’°%/]+){0,3}"
    for place in (
        rf"(?<![\w.]){told}{gap}\s(?:{{}})\b",
        rf"\b(?:{{}}){_BY}{told}",
        r"\b(?:{})\b",
    ):
        is_own, is_other = (
            re.search(place.replace("{}", words), sentence, re.IGNORECASE) is not None
            for words in (own, other)
        )
        if is_own != is_other:
            return is_own
    return None


def _is_side_of(question: str, own: str, other: str, gold: Sided) -> bool:
    """Check whether a question tells the side of an amount without a side."""
    is_other = has_words(question, other)
    if has_words(question, own) and not is_other:
        return True
    # "5 degrees" are above zero.
    is_below = gold.is_second and (gold.is_placed or _ASKS_SIGNED.search(question))
    return not question or not (is_other or is_below or _ASKS_WHERE.search(question))


def _is_turned(sentence: str, question: str) -> bool:
    """Check whether a sentence compares the question's things in the other order: "Ben has $4 less than Ann"."""
    before, than, behind = sentence.partition(" than ")
    if not than:
        return False
    # The unit stands in any question: "15 degrees colder"
    before = _MEASURED.sub("", before)
    order = [word.casefold() for word in _CONTENT.findall(question)]
    first, second = (
        {word.casefold() for word in _CONTENT.findall(side)} for side in (before, behind)
    )
    places = []
    for side in (first - second, second - first):
        places.append(min((order.index(word) for word in side & {*order}), default=-1))
    return 0 <= places[1] < places[0] or (places[0] < 0 <= places[1])


def _plain(text: str) -> str:
    return " ".join(without_text_commands(text).strip(" .*").split())
