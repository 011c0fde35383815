"""Keep one form of an amount that is told twice: as equal forms, in two units, exact and rounded, or as a share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from trl_grpo_ext.answers.compare.roundings import is_rounding
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.signal_words import contains_any, has_words
from trl_grpo_ext.answers.read.tree import Apply, Node, Number, Quantity, Relation
from trl_grpo_ext.answers.read.units import NONE, is_unit, unit
from trl_grpo_ext.answers.read.working import size_of

# Characters at a text's end that are searched for two forms of an amount.
_MAX_CHARS = 120
# Words of the first form.
_MAX_WORDS = 4
# A second form, such as "(75 miles)", ", or 29,032 feet" or ", which is approximately 2.667".
_AGAIN = re.compile(
    r"(?=[\s.,])(?<=[\w)}°²³$*])"
    r"(?:,?\s+or\b|\s(?=\()|\s(?=about|approximately|roughly)"
    # concludes with an amount in another unit: "432 cents, which is $4.32"
    r"|(?P<concludes>,?\s+which\s+(?:is|equals)\b|,(?=\s)|\.\s+(?:This|That|It)\s+(?:is|equals)\b))"
    r"\s*\(?(?:or\s+)?(?P<claim>(?:(?:about|approximately|roughly|around|nearly|equal to|≈)\s*){0,2})"
    r"(?P<form>\$?[-−]?\d(?:[^()\n;?,]|,(?=\d)){0,40}?)\)?[\s.!*]*\Z",
    re.IGNORECASE,
)
# A second form follows one of these; this cheap test avoids the slow expression.
_SEPARATORS = (
    ",",
    "(",
    "or",
    "about",
    "approximately",
    "roughly",
    "which",
    "this",
    "that",
    "it",
)
_OPERATOR = re.compile(r"(?:[-−+/×÷^]|(?<!\*)\*)\Z")
# Amounts in two units may differ by this share: 120 km is 75 miles.
_TOLERANCE = Fraction(1, 100)
_CELSIUS = unit("celsius")
_FAHRENHEIT = unit("fahrenheit")
# A plain amount, or a formula: 13/52, 25%, $\\frac{1}{4}$
_AMOUNT = (
    r"(?:\d+ \d+/\d+(?![\d/])"
    r"|\$?\d[\d,]*(?:\.\d+)?(?:\s?[:/]\s?\d+|\s(?:out of|in)\s\d+)?(?:\\?%|\s?percent\b)?(?![$\\\d])"
    r"|\$[^$\n]{1,40}\$(?!\d)|\\\([^\n]{1,40}?\\\)|\\[dt]?frac(?:\{\d+\}\{\d+\}|\d\d))"
)
# A calculation before its result: "65% of $80, or $52"
_OPERATIONS = rf"(?:\s?(?:[-−+*/×÷·]|of)\s?{_AMOUNT}){{0,4}}"
_UNIT = r"(?:\s(?:of an? )?([a-z]+)\b)?"
_OR = re.compile(
    rf"(?<![\w.−-])({_AMOUNT}{_OPERATIONS}){_UNIT}"
    rf"(?:,?\s+or\s+(?:about\s+|just\s+|simply\s+)?|,\s+(?={_AMOUNT},?\s+or\s))({_AMOUNT}){_UNIT}(?![\w.]*\d)",
    re.IGNORECASE,
)
# Three forms of an amount, "1/2, 0.5, or 50%", are told once after two steps.
_MAX_FORMS = 3
# 8.5 kg (8500 g)
_OR_BRACKETED = re.compile(
    rf"(?<![\w.−-])({_AMOUNT}){_UNIT}\s+\((?:or\s+|=\s*|≈\s*|i\.e\.,?\s+|that is,?\s+|(?:about|approximately)\s+)?"
    rf"({_AMOUNT}){_UNIT}\)",
    re.IGNORECASE,
)
# 12 boys, or 37.5% of the class
_AS_SHARE = re.compile(
    r"(?<=\d)(?P<unit>[^\d,;()\n]{0,40}),\s(?:or|which (?:is|equals)|i\.e\.,?|that is,?)\s(?:about\s|just\s)?"
    rf"{_AMOUNT}\sof (?:the|all|his|her|their|its|your|my)\b[^,.;()\d]{{0,40}}"
    r"[\s.!*]*\Z",
    re.IGNORECASE,
)
# A rate or a difference behind an amount: "$840, i.e. $120 per day", "$84 (that's $28 off)"
_MEANS = r"(?:i\.e\.,?|that is,?|that['’]s|or|a)"
_GLOSS = re.compile(
    rf"(?<=[\w%*])(?:,\s(?:{_MEANS}|which (?:is|means)|meaning)|\s[—–-](?:\s{_MEANS})?|\s\({_MEANS}?)\s?"
    r"(?:about\s|only\s|just\s|exactly\s)?(?:a\s)?(?:(?P<saved>saving|discount|reduction|markdown)\sof\s)?"
    r"\\?[$€£]?\d[\d,.]{0,12}(?:\s[a-z]{2,15}){0,2}?"
    r"(?:\s(?:(?P<rate>(?:per|each|every|an?)\s(?P<per>[a-z]{2,15}))|(?P<less>off|cheaper|less|more|saved))\b|(?(saved)|(?!)))"
    r"(?:\s(?!so\b)[a-z]{1,15}){0,4}\)?[\s.!*]*\Z"
)
_PER = re.compile(r"\b(?:per|each|every|an?)\s([a-z]{3,15})\b")
_ASKS_RATE = re.compile(
    r"\b(?:per|each|every|apiece|an?|one|1|single|[a-z]*rate|speed|fast|average|mean|unit|hourly|daily|weekly|monthly"
    r"|yearly|annual(?:ly)?)\b",
    re.IGNORECASE,
)
_ASKS_DIFFERENCE = re.compile(
    r"\b(?:sav|discount|off\b|reduc|markdown|increas|decreas|cheap|less|more|fewer|differ|change|lower|higher|than\b)",
    re.IGNORECASE,
)
_ASKS_SHARE = re.compile(
    r"\b(?:per\s?cent\w*|fraction|share|part|portion|proportion|ratio|rate)\b|%",
    re.IGNORECASE,
)
_BOX_OR = re.compile(
    rf"\\boxed\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}\$?(,?\s+\(?or\s+({_AMOUNT})\)?)"
)
_SHARE_OF = re.compile(r"(\d%?|percent)\s+of\s", re.IGNORECASE)
_OUT_OF = re.compile(r"\s(?:out of|in)\s", re.IGNORECASE)


class Size(NamedTuple):
    """An amount as a number of its measures' first units.

    Attributes:
        value: The number; a percentage or a ratio becomes a fraction.
        measures: The unit's measures; empty without a unit.
        step: The value of the last written place of a decimal or a percentage; 0 for other amounts.
    """

    value: Fraction
    measures: tuple[tuple[str, int], ...]
    step: Fraction


def told_once(line: str) -> str:
    """Keep one form of an amount that a line tells twice.

    The last of two equal forms is kept, or the exact form before a rounded one.

    Examples:
        >>> told_once("That is 13 out of 52, or 1/4."), told_once("It takes 90 minutes, or 1.5 hours.")
        ('That is 1/4.', 'It takes 1.5 hours.')
        >>> told_once("It is 2/3, or 66.7%."), told_once("It is 1/4, or 1/3.")
        ('It is 2/3.', 'It is 1/4, or 1/3.')
        >>> told_once("You pay 65% of $80, or $52."), told_once("You pay 65% of $80, or $42.")
        ('You pay $52.', 'You pay 65% of $80, or $42.')
        >>> told_once("It is $1/2$, 0.5, or 50%."), told_once("It weighs 8.5 kg (8500 g).")
        ('It is 50%.', 'It weighs 8.5 kg.')
    """
    if "(" in line:
        line = _OR_BRACKETED.sub(_before_bracket, line)
    if " or " in line:
        for _ in range(_MAX_FORMS - 1):
            line = _OR.sub(_last_form, line)
    return without_other_unit(line)


def without_gloss(text: str, question: str) -> str:
    """Remove the share, the rate or the difference that a text's end adds to an amount, if the question asks for none.

    A rate is in units, because an amount for each thing may be asked for: "They get $40, which is $20 each."

    Examples:
        >>> told = "There are 12 boys, or 3/8 of the class."
        >>> without_gloss(told, "How many boys are there?"), without_gloss(told, "Which part is boys?") == told
        ('There are 12 boys', True)
        >>> told = "It costs $84, i.e. $12 per day."
        >>> without_gloss(told, "What is the price?"), without_gloss(told, "How much is it per day?") == told
        ('It costs $84', True)
    """
    if not _ASKS_SHARE.search(question):
        text = _AS_SHARE.sub(r"\g<unit>", text)
    gloss = _GLOSS.search(text, max(0, len(text) - _MAX_CHARS)) if question else None
    if gloss is None:
        return text
    before = text[: gloss.start()]
    line = before.rpartition("\n")[2]
    if not any(map(str.isdigit, line)):
        return text
    if gloss["rate"] and has_words(question, gloss["per"]):
        # "5 kg cost $15, or $3 per kg" offers no other answer.
        return before + gloss[0].replace(", or ", ", which is ", 1)
    if gloss["rate"] and not is_unit(gloss["per"]):
        return text
    asks = _ASKS_RATE if gloss["rate"] else _ASKS_DIFFERENCE
    is_asked = asks.search(question) and not _has_asked_rate(line, gloss["per"], question)
    return text if is_asked else before


def _has_asked_rate(line: str, other: str | None, question: str) -> bool:
    """Check whether a line tells the asked rate, and its gloss another rate: "$3 per kg, or $6 per box"."""
    if other is None or has_words(question, other):
        return False
    return any(has_words(question, told[1]) for told in _PER.finditer(line))


def box_told_once(text: str) -> str:
    r"""Remove an amount behind a text's last box, if the amount is only another form of the box's.

    Examples:
        >>> box_told_once(r"\boxed{13/52}, or 1/4"), box_told_once(r"\boxed{1/4}, or 1/3")
        ('\\boxed{13/52}', '\\boxed{1/4}, or 1/3')
    """
    either = _BOX_OR.match(text, max(text.rfind("\\boxed"), 0))
    if either is None:
        return text
    first, last = _size(either[1], None), _size(either[3], None)
    is_same = first is not None and last is not None and first.value == last.value
    return text[: either.start(2)] + text[either.end(2) :] if is_same else text


def without_other_unit(text: str) -> str:
    """Remove a converted amount at a text's end: "(75 miles)" behind "120 km".

    Different amounts stay.

    Examples:
        >>> without_other_unit("It is 120 km (75 miles)."), without_other_unit("It is 120 km (90 miles).")
        ('It is 120 km', 'It is 120 km (90 miles).')
        >>> without_other_unit("It is 0°C, or 32°F."), without_other_unit("It is 90 minutes (1 hour and 30 minutes)")
        ('It is 0°C', 'It is 90 minutes')
        >>> without_other_unit("It is 432 cents, which is $4.32.")
        'It is 432 cents, which is $4.32.'
    """
    again = _again(text)
    if again is None or again["concludes"]:
        return text
    return _without_second(text, again, _is_converted)


def without_approximation(text: str, golds: Sequence[str]) -> str:
    """Remove the approximation of an exact value at a text's end, if a gold is exact.

    Examples:
        >>> told = "It is 8/3, which is about 2.667."
        >>> without_approximation(told, ["8/3"]), without_approximation(told, ["2.667"]) == told
        ('It is 8/3', True)
        >>> without_approximation("It is 8/3, which is about 2.767.", ["8/3"])
        'It is 8/3, which is about 2.767.'
    """
    if not any(map(_is_exact, map(_node, golds))):
        return text
    again = _again(text)
    if again is None or not again["claim"]:
        return text
    return _without_second(text, again, _is_rounded)


def _last_form(either: re.Match[str]) -> str:
    """Return the second of two equal amounts, or an exact amount before its rounded value; else the whole text."""
    first, last = _size(either[1], either[2]), _size(either[3], either[4])
    if _is_worked_out(either[1], last):
        return f"{either[3]} {either[4]}" if either[4] else either[3]
    counts_things = either[2] is not None and not is_unit(either[2])
    if counts_things or first is None or last is None or first.measures != last.measures:
        return either[0]
    if first.value == last.value:
        return f"{either[3]} {either[4]}" if either[4] else either[3]
    return either[1] if _is_rounding(first, last) else either[0]


def _is_rounding(exact: Size, rounded: Size) -> bool:
    """Check whether a decimal rounds an exact amount: 0.667 for 2/3."""
    # Halves are rounded up: 1/8 is 0.13, not 0.12.
    error = 2 * (exact.value - rounded.value)
    return not exact.step and -rounded.step <= error < rounded.step


def _is_worked_out(working: str, result: Size | None) -> bool:
    """Check whether a calculation equals a result, in any unit: `65% of $80` equals $52."""
    node = read(_SHARE_OF.sub(r"\1 * ", working)).node
    size = size_of(node) if isinstance(node, Apply) else None
    return size is not None and result is not None and size.factor == result.value


def _before_bracket(either: re.Match[str]) -> str:
    """Return the amount before a bracket with an equal or a rounded amount; else the whole text."""
    first, last = _size(either[1], either[2]), _size(either[3], either[4])
    if first is None or last is None or first.measures != last.measures:
        return either[0]
    is_same = first.value == last.value or _is_rounding(first, last)
    return either[0][: either[0].index("(")].rstrip() if is_same else either[0]


def _size(amount: str, word: str | None) -> Size | None:
    """Return the size of an amount with the word behind it; None if either is unknown: `13/52`, `90 minutes`."""
    node = read(_OUT_OF.sub("/", amount)).node
    of = unit(word) if word and is_unit(word) else NONE
    if isinstance(node, Relation):
        node = node.sides[-1]
    match node:
        case Quantity(inner, own):
            node, of = inner, own
    match node:
        case Number(value, places):
            step = Fraction(1, 10**places) if places else Fraction(0)
        case Apply("%", (Number(share, places),)):
            value, step = share / 100, Fraction(1, 10 ** ((places or 0) + 2))
        case Apply("ratio", (Number(above), Number(below))) if below:
            value, step = above / below, Fraction(0)
        case _:
            return None
    return Size(value * of.factor, of.measures, step * of.factor)


def _again(text: str) -> re.Match[str] | None:
    """Find the second form of an amount at a text's end."""
    if not contains_any(text[-_MAX_CHARS:], _SEPARATORS):
        return None
    return _AGAIN.search(text, max(len(text) - _MAX_CHARS, 0))


def _node(text: str) -> Node:
    """Read a text's value, without a letter that equals it: `x = 7/3`."""
    node = read(text).node
    return node.sides[-1] if isinstance(node, Relation) else node


def _without_second(
    text: str, again: re.Match[str], is_same: Callable[[Node, Node], bool]
) -> str:
    """Remove the second of two forms at a text's end, if the words before it end with the same amount."""
    second = read(again["form"]).node
    words = text[max(again.start() - _MAX_CHARS, 0) : again.start()].split()
    for count in range(1, min(_MAX_WORDS, len(words)) + 1):
        if _OPERATOR.search(" ".join(words[:-count])):
            continue
        if is_same(_node(" ".join(words[-count:]).strip("*")), second):
            return text[: again.start()]
    return text


def _is_converted(first: Node, second: Node) -> bool:
    """Check whether two amounts in different units are the same amount, up to a rounding."""
    match first, second:
        case (Quantity(Number(one), unit=own), Quantity(Number(other), unit=of)):
            if (own, of) == (_FAHRENHEIT, _CELSIUS):
                one, other = other, one
            if {own, of} == {_FAHRENHEIT, _CELSIUS}:
                return abs(one * 9 / 5 + 32 - other) <= 1
            if own.measures != of.measures or own == of:
                return False
            size = one * own.factor
            return abs(size - other * of.factor) <= abs(size) * _TOLERANCE
    return False


def _is_rounded(first: Node, second: Node) -> bool:
    """Check whether the second number is the exact first amount's rounding, without a unit or in the same unit."""
    if not _is_exact(first):
        return False
    if isinstance(second, Quantity):
        if not isinstance(first, Quantity) or first.unit != second.unit:
            return False
        second = second.amount
    amount = first.amount if isinstance(first, Quantity) else first
    return isinstance(second, Number) and is_rounding(amount, second)


def _is_exact(node: Node) -> bool:
    """Check whether an amount is a fraction, a root or another formula, not a decimal or a whole number."""
    amount = node.amount if isinstance(node, Quantity) else node
    if isinstance(amount, Number):
        return amount.places is None and amount.value.denominator > 1
    return isinstance(amount, Apply)
