r"""Make a gold exact if the question asks for its rounding: an unrounded answer, `46.85` for `46.9`, is not asked."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.spans import RANGE

# Characters at the end of a prompt that are searched.
MAX_PROMPT = 1_000
_NEAREST = re.compile(r"\bnearest\s+(0?\.\d+|\d+th|[a-z]+(?:-[a-z]+)?)", re.IGNORECASE)
_PLACES = re.compile(
    r"\b(one|\d{1,2})[\s-](?:decimals?\b|digits? (?:after|behind) the decimal|d\.?p\b)"
    r"|\b(one|\d{1,2})\s(?:significant|s\.?f\b)",
    re.IGNORECASE,
)
_NAMED_PLACES = {
    "tenth": 1, "10th": 1, "hundredth": 2, "100th": 2, "cent": 2, "penny": 2, "thousandth": 3, "1000th": 3,
    "ten-thousandth": 4,
}  # fmt: skip
# The question leaves it to the answer whether to round.
_MAY_BE_EXACT = re.compile(r"\b(?:exact|in terms of)\b", re.IGNORECASE)
_DECIMAL = re.compile(
    r"(?<![\w.,])\d[\d,]*\.\d+(?![\w.,]*\d)(?!\s?[eE×]|\s?\\(?:times|cdot))"
)
_RANGE = re.compile(RANGE)


def as_rounded(gold: str, prompt: str) -> str:
    r"""Write a gold's decimals as exact fractions if the question asks for roundings with as many places.

    Without it, an answer that rounds to the gold would be equal.

    Examples:
        >>> as_rounded("46.9 kg", "How heavy is it, to the nearest tenth?"), as_rounded("46.9 kg", "How heavy is it?")
        ('\\frac{469}{10} kg', '46.9 kg')
        >>> as_rounded("3.14159", "What is pi to two decimal places?")
        '3.14159'
    """
    if "." not in gold or not prompt or _RANGE.search(gold):
        return gold
    asked = _asked_places(prompt)
    decimals = [
        Decimal(found[0].replace(",", "")).normalize() for found in _DECIMAL.finditer(gold)
    ]
    if not all(_has_places(one, *asked) for one in decimals):
        return gold
    # A dollar alone is money, and must not open a formula before a fraction.
    if gold.count("$") == 1 and r"\$" not in gold:
        gold = gold.replace("$", r"\$")
    return _DECIMAL.sub(_as_fraction, gold)


def _has_places(number: Decimal, places: int, digits: int) -> bool:
    """Check whether a gold is rounded to decimal places or significant digits that the question asks for."""
    told = -int(number.as_tuple().exponent)
    return told <= max(places, digits - 1 - number.adjusted() if digits else 0)


def _as_fraction(decimal: re.Match[str]) -> str:
    whole, _, places = decimal[0].replace(",", "").partition(".")
    return rf"\frac{{{int(whole + places)}}}{{{10 ** len(places)}}}"


@lru_cache(maxsize=256)
def _asked_places(prompt: str) -> tuple[int, int]:
    """Return the decimal places and the significant digits that a question asks for; 0 if it asks for none.

    The result is cached: each completion of the prompt looks it up.
    """
    asked = in_digits(prompt[-MAX_PROMPT:])
    if _MAY_BE_EXACT.search(asked):
        return 0, 0
    places, digits = [0], [0]
    for found in _NEAREST.finditer(prompt[-MAX_PROMPT:]):
        name = found[1].casefold()
        places.append(
            len(name.partition(".")[2]) if "." in name else _NAMED_PLACES.get(name, 0)
        )
    for after_point, significant in _PLACES.findall(asked):
        places.append(_count(after_point))
        digits.append(_count(significant))
    return max(places), max(digits)


def _count(said: str) -> int:
    """Return a count of places; 0 for an empty text."""
    return 1 if said.casefold() == "one" else int(said or 0)
