"""The one reader of numbers and of their units, exact and without arithmetic: a sum or a root is no number here."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from trl_grpo_ext.rewards.answers.latex import standard, text_in

MAX_DIGITS = 4_000  # Python refuses longer integers, since reading them takes quadratic time
MAX_EXPONENT = 400  # beyond the range of floats; 10**10**10 must not be computed

_DIGITS = r"\d+(?:\.\d*)?|\.\d+"
_POWER = r"\^\s*[{(]?\s*([+-]?\s*\d+)\s*[})]?"
_NUMBER = re.compile(
    rf"([+-]?)\s*(?:(?P<digits>{_DIGITS})(?:[eE]([+-]?\d+)|\s*(?:\\times|\\cdot|x)\s*10\s*{_POWER})?"
    rf"|10\s*{_POWER})",
    re.ASCII,
)
_FRACTION = re.compile(
    rf"([+-]?)\s*(?:(?P<whole>\d+)(?:\s+|(?=\\)))?"
    rf"(?:\\frac\s*(?:\{{\s*([+-]?(?:{_DIGITS}))\s*\}}|(\d))\s*(?:\{{\s*([+-]?(?:{_DIGITS}))\s*\}}|(\d))"
    rf"|({_DIGITS})\s*/\s*({_DIGITS}))",
    re.ASCII,
)
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}([, '])\d{3}(?:\1\d{3})*(?![\d,])", re.ASCII)
_DECIMAL_COMMA = re.compile(r"-?(?:\d+,(?:\d{1,2}|\d{4,})|0,\d+|\d{4,},\d+)")
_BASE = re.compile(r"\(?([0-9A-F]+)\)?_\{?(\d+)\}?")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}")

# A line a unit: the name that stands for it, then its spellings.
_UNITS = """
m: m meter meters metre metres
cm: cm centimeter centimeters centimetre centimetres
mm: mm millimeter millimeters millimetre millimetres
km: km kilometer kilometers kilometre kilometres
in: inch inches
ft: ft foot feet
yd: yd yard yards
mi: mi mile miles
g: g gram grams
kg: kg kilogram kilograms
mg: mg milligram milligrams
lb: lb lbs pound pounds
oz: oz ounce ounces
s: s sec secs second seconds
min: min mins minute minutes
h: h hr hrs hour hours
day: day days
week: week weeks
month: month months
year: yr yrs year years
l: l liter liters litre litres
ml: ml milliliter milliliters millilitre millilitres
gal: gal gallon gallons
deg: deg degree degrees
rad: rad radian radians
usd: usd dollar dollars
cent: cent cents
eur: eur euro euros
mph: mph
kmh: kmh kph
n: newton newtons
j: joule joules
w: watt watts
v: volt volts
hz: hz hertz
k: kelvin
c: celsius
f: fahrenheit
"""
_UNIT = {
    word: unit
    for unit, _, spellings in (line.partition(":") for line in _UNITS.strip().splitlines())
    for word in spellings.split()
}
_UNIT_IN = re.compile(r"([A-Za-z]+)\s*(?:\^\s*\{?\s*(\d)\s*\}?)?")
_POWERS = {"square": "2", "squared": "2", "sq": "2", "cubic": "3", "cubed": "3"}


class Number(NamedTuple):
    """A rational number, and whether it is written without a decimal point."""

    value: Fraction
    exact: bool


def number(text: str) -> Number | None:
    r"""The number that a text is, as mathematics writes them; None if it is none.

    A fraction of decimals is none: it leaves the division to the reader.

    Example:
        >>> [found and str(found.value) for found in map(number, ("1,234", "-0.5", r"1\frac{1}{2}", "10^3", "2x"))]
        ['1234', '-1/2', '3/2', '1000', None]
    """
    plain = standard(text)
    found = read_number(plain)
    if isinstance(found, str) or not (found.exact or _NUMBER.fullmatch(ungrouped(plain))):
        return None
    return found


def read_number(text: str) -> Number | str:
    r"""The number that a text in standard notation is, or the reason code why it is none.

    Example:
        >>> read_number("0.5/2").value, read_number("1/0"), read_number("1e999")
        (Fraction(1, 4), 'not_a_number', 'out_of_range')
    """
    text = ungrouped(text)
    if len(text) > MAX_DIGITS:
        return "not_a_number"
    fraction = _FRACTION.fullmatch(text)
    if fraction:
        return _fraction(fraction)
    found = _NUMBER.fullmatch(text)
    if not found:
        return "not_a_number"
    exponent = next((group for group in (found[3], found[4], found[5]) if group), "0").replace(" ", "")
    if len(exponent) > 6 or abs(int(exponent)) > MAX_EXPONENT:
        return "out_of_range"
    value = Fraction(_decimal(found["digits"] or "1")) * Fraction(10) ** int(exponent)
    return Number(-value if found[1] == "-" else value, "." not in text)


def leading_number(text: str) -> tuple[str, str]:
    """The number that a text in standard notation begins with, as text, and what follows it.

    Example:
        >>> leading_number("1,200 km"), leading_number("many")
        (('1200', ' km'), ('', 'many'))
    """
    text = ungrouped(text)
    found = _FRACTION.match(text) or _NUMBER.match(text)
    end = found.end() if found else 0
    return text[:end], text[end:]


def ungrouped(text: str) -> str:
    """The text without the separators of thousands."""
    return _GROUPED.sub(lambda match: match[0].replace(match[1], ""), text)


def _fraction(match: re.Match[str]) -> Number | str:
    above, below = match[3] or match[4] or match[7], match[5] or match[6] or match[8]
    under = Fraction(_decimal(below))
    if under == 0:
        return "not_a_number"
    value = Fraction(_decimal(above)) / under
    value = value + int(match["whole"]) if match["whole"] else value
    return Number(-value if match[1] == "-" else value, "." not in match[0])


def _decimal(digits: str) -> str:
    return digits + "0" if digits.endswith(".") else digits


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


def base_number(text: str) -> tuple[str, str] | None:
    """The digits and the base of a number such as `1011_2`; None if it is none.

    Example:
        >>> base_number("1011_2"), base_number("52_{8}"), base_number("x_1")
        (('1011', '2'), ('52', '8'), None)
    """
    match = _BASE.fullmatch(standard(text).replace(" ", ""))
    return (match[1].lstrip("0"), match[2]) if match else None


def is_date(text: str) -> bool:
    """Whether a text is a date or the like, which must not be taken for a subtraction or a division.

    Example:
        >>> is_date("2024-01-05"), is_date("1/2/2024"), is_date("1-2")
        (True, True, False)
    """
    return _DATE.fullmatch(standard(text)) is not None


def unit(text: str) -> str | None:
    r"""The unit of an answer, with its power; None if there is none, or none that is known.

    Example:
        >>> [unit(text) for text in (r"5 \text{ meters}", "10 cm^2", r"\$5", r"3 \text{ square feet}", "5x", "7")]
        ['m', 'cm2', 'usd', 'ft2', None, None]
    """
    text = standard(text)
    if "\\$" in text:
        return "usd"
    if re.search(r"\^\s*\{?\s*\\circ", text):
        return "deg"
    spelled = " ".join(text_in(text)) or (re.search(r"\d\s*([A-Za-z]{2,}.*)$", text) or ["", ""])[1]
    power = re.search(r"\}\s*\^\s*\{?\s*(\d)", text)
    found, raised = "", ""
    for word, exponent in _UNIT_IN.findall(spelled):
        if word.casefold() in _POWERS:
            raised = _POWERS[word.casefold()]
        elif not found:
            found = _UNIT.get(word if word in _UNIT else word.casefold(), "")
            raised = exponent or raised
    if not found:
        return None
    raised = raised or (power[1] if power and text_in(text) else "")
    return found + (raised if raised != "1" else "")
