"""Amounts: readings of a number, units, and tolerances."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from zlib import crc32

from trl_grpo_ext.answers.read.tree import CONSTANTS, Apply, Node, Number, Quantity, Symbol
from trl_grpo_ext.answers.read.units import NONE, Unit, unit

DECIMALS = 6
# Largest relative error of a decimal, whatever its number of places.
CLOSE = Fraction(1, 1000)
# A gold with fewer digits is not taken for a rounded value.
MIN_ROUNDED = 3
# Relative difference that no rounding explains.
APART = 0.01
# A sum smaller than this share of its first part has lost too many digits to cancellation.
LOST = 1e-3
# Larger exponents are left to sympy.
MAX_POWER = 64


def same_number(gold: Number, answer: Number, decimals: int = DECIMALS) -> bool:
    """Check whether two numbers are equal; decimals within `decimals` places and a thousandth of their size.

    A gold with a decimal point and at least three digits may be rounded: an answer that rounds to it is equal.

    A gold of three digits or more with a decimal point may be a rounded value: what rounds to it is equal.

    Examples:
        >>> third, written = Number(Fraction(1, 3)), Number(Fraction("0.333333"), 6)
        >>> same_number(third, written), same_number(Number(Fraction("6.67"), 2), Number(Fraction(20, 3)))
        (True, True)
        >>> same_number(Number(Fraction("0.5"), 1), Number(Fraction("0.53"), 2))
        False
    """
    if gold.value == answer.value:
        return True
    if gold.places is None and answer.places is None:
        return False
    distance = abs(gold.value - answer.value)
    allowed = Fraction(1, 10**decimals)
    close = CLOSE * abs(gold.value) if decimals >= DECIMALS else distance
    return (distance <= allowed and distance <= close) or rounds_to(gold, answer.value, answer.places)


def rounds_to(gold: Number, value: Fraction, places: int | None) -> bool:
    """Check whether `value`, rounded to the gold's decimal places, is the gold."""
    if gold.places is None or gold.places < 1 or (places is not None and places <= gold.places):
        return False
    digits = str(abs(gold.value.numerator * 10**gold.places // gold.value.denominator)).lstrip("0")
    return len(digits) >= MIN_ROUNDED and abs(gold.value - value) * 2 <= Fraction(1, 10**gold.places)


def measured(node: Node) -> tuple[Node, Unit]:
    """Split a value into amount and unit: `5 km` gives `5` and `km`; a value without unit has the unit `NONE`."""
    match node:
        case Quantity(amount, of):
            return amount, of
        case Apply("deg", (amount,)):
            return amount, unit("deg")
    return node, NONE


def percentages(node: Node) -> list[Node]:
    """List a number's readings: `28%` is 0.28 or 28; any other value has a single reading."""
    match node:
        case Apply("%", (Number(value, places),)):
            return [Number(value / 100, None if places is None else places + 2), Number(value, places)]
        case Apply("%", (value,)):
            return [Apply("/", (value, Number(Fraction(100)))), value]
        case Apply("ratio", (Number(above), Number(below))) if below:
            return [Number(above / below)]
    return [node]


def is_plain_number(node: Node) -> bool:
    """Check whether a value, apart from its unit, is a plain number that needs no evaluation."""
    amount = measured(node)[0]
    return any(isinstance(one, Number) for one in percentages(amount))


def apart(gold: Node, answer: Node, decimals: int) -> bool:
    """Check whether two expressions clearly differ at a point; False if no quick evaluation shows it.

    Examples:
        >>> root, third = Apply("root", (Number(Fraction(5)), Number(Fraction(2)))), Number(Fraction(1, 3))
        >>> apart(root, third, 6), apart(root, Number(Fraction("2.236"), 3), 6), apart(root, Symbol("C"), 6)
        (True, False, False)
    """
    try:
        one, other = _at_a_point(gold), _at_a_point(answer)
        return abs(one - other) > APART * max(abs(one), abs(other)) + 2 * 10.0**-decimals
    except (ArithmeticError, LookupError, ValueError):
        return False


def _at_a_point(node: Node) -> complex:
    """Evaluate a node, with a fixed number in [1, 3) for each variable.

    Raises:
        LookupError: The node is more than arithmetic, or contains `C`: equal integrals may differ by a constant.
    """
    match node:
        case Number(value):
            return float(value)
        case Symbol(name):
            known = {"pi": math.pi, "e": math.e, "i": 1j}
            return known[name] if name in CONSTANTS | {"C"} else 1 + crc32(name.encode()) % 997 / 500
        case Apply("base", (Number(value), Number(base))):
            return float(int(str(value), int(base)))
        case Apply(name, arguments):
            return _ARITHMETIC[name](*map(_at_a_point, arguments))
    raise LookupError


def _sum(one: complex, other: complex) -> complex:
    total = one + other
    if abs(total) < LOST * abs(one):
        raise ArithmeticError
    return total


def _power(base: complex, exponent: complex) -> complex:
    if not (isinstance(base, float) and isinstance(exponent, float) and abs(exponent) <= MAX_POWER):
        raise ArithmeticError
    return math.pow(base, exponent)


_ARITHMETIC: Mapping[str, Callable[..., complex]] = {
    "+": _sum, "-": operator.neg, "*": operator.mul, "/": operator.truediv, "^": _power,
    "root": lambda value, degree: _power(value, 1 / degree),
}  # fmt: skip
