r"""Read numbers in everyday notation as single values: `1,234`, `1.5e3`, `0.\overline{3}`, `1.5 \times 10^3`."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import TypeGuard

from trl_grpo_ext.answers.read.tokens import UnreadableError
from trl_grpo_ext.answers.read.tree import Apply, Node, Number

# Python refuses longer integers, because parsing them takes quadratic time.
MAX_DIGITS = 4_000
# Beyond the range of floats; `10**10**10` must not be computed.
MAX_EXPONENT = 400
# Text behind a number that belongs to it: `^3`, ` \times 10^3`
POWER = r"(?:[^\S\n]*(?:[×x*·⋅]|\\(?:times|cdot))[^\S\n]*10)?(?:(?: ?\^|\*\*)[{(]?[-−+]?\d+[)}]?|[⁻⁺]?[⁰¹²³⁴-⁹]+)"
_TEN = Number(Fraction(10))
_SCIENTIFIC = re.compile(r"(.*)[eE]([+-]?\d+)")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\[a-z]+\s*\{?(\d+)\}?")


@lru_cache(maxsize=8192)
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
    # Most numbers are whole.
    if text.isdecimal():
        return Number(Fraction(int(text)))
    repeating = _REPEATING.fullmatch(text)
    if repeating:
        whole, fixed, period = repeating.groups()
        # 0.1(6) is (16 - 1) / 90.
        above = int(whole + fixed + period) - int(whole + fixed or 0)
        below = 10 ** len(fixed) * (10 ** len(period) - 1)
        return Number(Fraction(above, below))
    digits = text
    exponent = 0
    scientific = _SCIENTIFIC.fullmatch(text)
    if scientific:
        digits = scientific[1]
        # Eight characters are enough to exceed `MAX_EXPONENT`.
        exponent = int(scientific[2][:8])
    if abs(exponent) > MAX_EXPONENT:
        raise UnreadableError
    places = len(digits.partition(".")[2]) - exponent if "." in digits else None
    value = Fraction(digits)
    return Number(value * Fraction(10) ** exponent if exponent else value, places)


def negative(value: Node) -> Node:
    """Negate a value."""
    if isinstance(value, Number):
        return Number(-value.value, value.places)
    return Apply("-", (value,))


def raised(value: Node, exponent: Node) -> Node:
    """Build a power; an integer power of ten becomes a number."""
    if value == _TEN and is_whole(exponent) and abs(exponent.value) <= MAX_EXPONENT:
        return Number(Fraction(10) ** int(exponent.value))
    return Apply("^", (value, exponent))


def times(one: Node, other: Node, *, scaled: bool = False) -> Node:
    r"""Build a product; with `scaled`, a number times a power of ten becomes a number: `1.5 \times 10^3`."""
    if scaled and isinstance(one, Number) and isinstance(other, Number):
        product = one.value * other.value
        if one.places is None:
            return Number(product)
        zeros = len(str(other.value.numerator)) - len(str(other.value.denominator))
        return Number(product, one.places - zeros)
    return Apply("*", (one, other))


def quotient(above: Node, below: Node) -> Node:
    """Build a fraction; a fraction of two integers becomes a number."""
    if is_whole(above) and is_whole(below) and below.value:
        return Number(above.value / below.value)
    return Apply("/", (above, below))


def is_whole(node: Node) -> TypeGuard[Number]:
    """Check for an integer without decimal point."""
    return isinstance(node, Number) and node.places is None and node.value.denominator == 1
