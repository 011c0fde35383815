r"""Read numbers in everyday notation as single values: `1,234`, `1.5e3`, `0.\overline{3}`, `1.5 \times 10^3`."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TypeGuard

from trl_grpo_ext.answers.read.tokens import UnreadableError
from trl_grpo_ext.answers.read.tree import Apply, Node, Number

# Python refuses longer integers, because parsing them takes quadratic time.
MAX_DIGITS = 4_000
# Beyond the range of floats; `10**10**10` must not be computed.
MAX_EXPONENT = 400
_SCIENTIFIC = re.compile(r"(.*)[eE]([+-]?\d+)")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\[a-z]+\s*\{?(\d+)\}?")


def number(text: str) -> Number:
    r"""Convert a token's text to a number.

    Raises:
        UnreadableError: The number has too many digits, or a too large exponent.

    Examples:
        >>> number("1.50"), number("2e3").value, number(r"0.\overline{3}").value
        (Number(value=Fraction(3, 2), places=2), Fraction(2000, 1), Fraction(1, 3))
    """
    if len(text) > MAX_DIGITS:
        raise UnreadableError
    repeating = _REPEATING.fullmatch(text)
    if repeating:
        whole, fixed, period = repeating.groups()
        high = int(whole + fixed + period) - int(whole + fixed or 0)
        return Number(Fraction(high, 10 ** len(fixed) * (10 ** len(period) - 1)))
    scientific = _SCIENTIFIC.fullmatch(text)
    digits, exponent = (scientific[1], int(scientific[2][:8])) if scientific else (text, 0)
    if abs(exponent) > MAX_EXPONENT:
        raise UnreadableError
    places = len(digits.partition(".")[2]) - exponent if "." in digits else None
    return Number(Fraction(digits) * Fraction(10) ** exponent, places)


def negative(value: Node) -> Node:
    """Negate a value."""
    return Number(-value.value, value.places) if isinstance(value, Number) else Apply("-", (value,))


def raised(value: Node, exponent: Node) -> Node:
    """Build a power; an integer power of ten becomes a number."""
    if value != Number(Fraction(10)) or not isinstance(exponent, Number) or exponent.places is not None:
        return Apply("^", (value, exponent))
    if exponent.value.denominator != 1 or abs(exponent.value) > MAX_EXPONENT:
        return Apply("^", (value, exponent))
    return Number(Fraction(10) ** int(exponent.value))


def times(one: Node, other: Node, *, scaled: bool = False) -> Node:
    r"""Build a product; with `scaled`, a number times a power of ten becomes a number: `1.5 \times 10^3`."""
    if scaled and isinstance(one, Number) and isinstance(other, Number):
        zeros = len(str(other.value.numerator)) - len(str(other.value.denominator))
        places = None if one.places is None else one.places - zeros
        return Number(one.value * other.value, places)
    return Apply("*", (one, other))


def quotient(above: Node, below: Node) -> Node:
    """Build a fraction; a fraction of two integers becomes a number."""
    if is_whole(above) and is_whole(below) and below != Number(Fraction(0)):
        return Number(above.value / below.value)
    return Apply("/", (above, below))


def is_whole(node: Node) -> TypeGuard[Number]:
    """Check for an integer without decimal point."""
    return isinstance(node, Number) and node.places is None and node.value.denominator == 1
