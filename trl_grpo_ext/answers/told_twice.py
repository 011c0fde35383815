"""Remove an amount's second form at a text's end: the amount in another unit, or an exact value's approximation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from trl_grpo_ext.answers.compare.roundings import is_rounding
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.tree import Apply, Node, Number, Quantity, Relation
from trl_grpo_ext.answers.read.units import unit

# Characters at a text's end that are searched for two forms of an amount.
_MAX_CHARS = 120
# Words of the first form.
_MAX_WORDS = 4
# A second form, such as "(75 miles)", ", or 29,032 feet" or ", which is approximately 2.667".
_AGAIN = re.compile(
    r"(?<=[\w)}°²³$*])"
    r"(?:,?\s+or\b|\s(?=\()|\s(?=about|approximately|roughly)"
    # concludes with an amount in another unit: "432 cents, which is $4.32"
    r"|(?P<concludes>,?\s+which\s+(?:is|equals)\b|,(?=\s)|\.\s+(?:This|That|It)\s+(?:is|equals)\b))"
    r"\s*\(?(?:or\s+)?(?P<claim>(?:(?:about|approximately|roughly|around|nearly|equal to|≈)\s*){0,2})"
    r"(?P<form>\$?[-−]?\d(?:[^()\n;?,]|,(?=\d)){0,40}?)\)?[\s.!*]*\Z",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r"(?:[-−+/×÷^]|(?<!\*)\*)\Z")
# Amounts in two units may differ by this share: 120 km is 75 miles.
_TOLERANCE = Fraction(1, 100)
_CELSIUS = unit("celsius")
_FAHRENHEIT = unit("fahrenheit")


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
    again = _again(text)
    if again is None or not again["claim"] or not any(map(_is_exact, map(_node, golds))):
        return text
    return _without_second(text, again, _is_rounded)


def _again(text: str) -> re.Match[str] | None:
    """Find the second form of an amount at a text's end."""
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
