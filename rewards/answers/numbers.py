"""Answers that can be compared without a computer algebra system: numbers, words and choices."""

from __future__ import annotations

import re
from fractions import Fraction

from trl_grpo_ext.rewards.answers.latex import standard, without_text_commands

_INTEGER = r"\d+|\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+"
_NUMBER = re.compile(rf"(?P<sign>[+-]?)\s*(?P<whole>{_INTEGER})?(?:\.(?P<decimals>\d*))?")
_DECIMAL_COMMA = re.compile(r"-?(?:\d+,(?:\d{1,2}|\d{4,})|0,\d+|\d{4,},\d+)")
_FRACTION = re.compile(r"(?P<sign>[+-]?)\s*(?:\\frac\s*\{\s*(-?\d+)\s*\}\s*\{\s*(-?\d+)\s*\}|(-?\d+)\s*/\s*(\d+))")
_WORDS = re.compile(r"[A-Za-z][A-Za-z .,'&-]*")
_MATH_NAMES = frozenset({"e", "i", "pi", "inf", "infty", "infinity", "dne", "x", "y", "z"})
_BASE = re.compile(r"\(?([0-9A-F]+)\)?_\{?(\d+)\}?")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}")
_CHOICE = re.compile(r"\(?([A-J])\)?[.:]?")
_CHOICE_WITH_TEXT = re.compile(r"\(?([A-J])[).:]\s*(.+)")
_OPTION = re.compile(r"^(?:option|choice|answer)\s+", re.IGNORECASE)
_TAKEN_BACK = re.compile(r"(?:is\s+)?(?:not|wrong|incorrect|false|maybe|or|no)\b", re.IGNORECASE)
_OTHER_CHOICE = re.compile(r"(?:^|[\s(,])[A-J](?:[).:,]|\s|$)")

MAX_DIGITS = 4_000  # Python refuses longer integers, since reading them takes quadratic time


def number(text: str) -> tuple[Fraction, bool] | None:
    r"""The rational number that a text is, and whether it is written without a decimal point; None if it is none.

    Example:
        >>> [number(text) for text in ("1,234", "-0.5", r"\frac{1}{2}", "3/6", "2x")]
        [(Fraction(1234, 1), True), (Fraction(-1, 2), False), (Fraction(1, 2), True), (Fraction(1, 2), True), None]
    """
    text = standard(text)
    if len(text) > MAX_DIGITS:
        return None
    match = _NUMBER.fullmatch(text)
    if match and (match["whole"] or match["decimals"]):
        digits = f"{match['sign']}{re.sub('[, ]', '', match['whole'] or '0')}.{match['decimals'] or '0'}"
        return Fraction(digits), match["decimals"] is None
    match = _FRACTION.fullmatch(text)
    if not match:
        return None
    above, below = (match[2], match[3]) if match[2] is not None else (match[4], match[5])
    if int(below) == 0:
        return None
    value = Fraction(int(above), int(below))
    return (-value if match["sign"] == "-" else value), True


def has_decimal_comma(one: str, other: str) -> bool:
    """Whether two texts are the same number, one of them with a decimal comma: `1,22` and `1.22`.

    Alone, `1,22` is a list; beside the same number with a point it is not.

    Example:
        >>> has_decimal_comma("1,22", "1.22"), has_decimal_comma("1,22", "1"), has_decimal_comma("1,000", "1.000")
        (True, False, False)
    """
    with_comma, with_point = sorted((standard(one), standard(other)), key=lambda text: "," not in text)
    return (
        _DECIMAL_COMMA.fullmatch(with_comma) is not None
        and "." in with_point
        and number(with_comma.replace(",", ".")) == number(with_point)
    )


def words(text: str) -> str | None:
    r"""The words that an answer is, in one form; None if it is mathematics.

    Example:
        >>> [words(text) for text in ("Yes", r"\text{Tuesday}", "pi", "x+1", "forty  two.")]
        ['yes', 'tuesday', None, None, 'forty two']
    """
    plain = " ".join(without_text_commands(standard(text)).split()).rstrip(".")
    if not _WORDS.fullmatch(plain) or plain.casefold() in _MATH_NAMES or (len(plain) == 1 and plain.islower()):
        return None
    return plain.casefold()


def is_date(text: str) -> bool:
    """Whether a text is a date or the like, which must not be taken for a subtraction or a division.

    Example:
        >>> is_date("2024-01-05"), is_date("1/2/2024"), is_date("1-2")
        (True, True, False)
    """
    return _DATE.fullmatch(standard(text)) is not None


def base_number(text: str) -> tuple[str, str] | None:
    """The digits and the base of a number such as `1011_2`; None if it is none.

    Example:
        >>> base_number("1011_2"), base_number("52_{8}"), base_number("x_1")
        (('1011', '2'), ('52', '8'), None)
    """
    match = _BASE.fullmatch(standard(text).replace(" ", ""))
    return (match[1].lstrip("0"), match[2]) if match else None


def choice(text: str) -> str | None:
    """The letter that a multiple choice gold is, A to J; None if it is none.

    Example:
        >>> [choice(text) for text in ("B", "(B)", "B.", "AB", "x")]
        ['B', 'B', 'B', None, None]
    """
    match = _CHOICE.fullmatch(without_text_commands(standard(text)).strip())
    return match[1] if match else None


def chosen(text: str) -> str | None:
    """The one letter that an answer chooses, with or without the choice's text; None if there is none, or several.

    Example:
        >>> [chosen(text) for text in ("(B)", "B) 12 apples", "A or B", "A, B, C", "C is wrong, so D")]
        ['B', 'B', None, None, None]
    """
    plain = without_text_commands(standard(text)).strip().strip("*").strip()
    plain = _OPTION.sub("", plain)
    alone = _CHOICE.fullmatch(plain)
    if alone:
        return alone[1]
    match = _CHOICE_WITH_TEXT.fullmatch(plain)
    if not match or _OTHER_CHOICE.search(match[2]) or _TAKEN_BACK.match(match[2]):
        return None
    return match[1]
