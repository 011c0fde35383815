"""Amounts: what a number may mean, in which unit, and how near two of them must be."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from zlib import crc32

from trl_grpo_ext.answers.read.tree import CONSTANTS, Apply, Node, Number, Quantity, Symbol
from trl_grpo_ext.answers.read.units import NONE, Unit, unit

DECIMALS = 6
CLOSE = Fraction(1, 1000)  # of its size: how far a decimal may be off, however few places it has
MIN_ROUNDED = 3  # digits of a gold that may be a rounded value
APART = 0.01  # of the larger of two constants: no rounding is as coarse
LOST = 1e-3  # of a part of a sum: where less is left of it, digits are lost
MAX_POWER = 64  # which takes an exact algebra no time either


def same_number(gold: Number, answer: Number, decimals: int = DECIMALS) -> bool:
    """Whether two numbers are equal, decimals to within `decimals` places and a thousandth of their size.

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
    """Whether a gold that is written as a decimal is this value, rounded to the gold's places."""
    if gold.places is None or gold.places < 1 or (places is not None and places <= gold.places):
        return False
    digits = str(abs(gold.value.numerator * 10**gold.places // gold.value.denominator)).lstrip("0")
    return len(digits) >= MIN_ROUNDED and abs(gold.value - value) * 2 <= Fraction(1, 10**gold.places)


def measured(node: Node) -> tuple[Node, Unit]:
    """The amount and the unit of a value."""
    match node:
        case Quantity(amount, of):
            return amount, of
        case Apply("deg", (amount,)):
            return amount, unit("deg")
    return node, NONE


def percentages(node: Node) -> list[Node]:
    """What a number may mean: `28%` is 0.28 or 28, all else what it is."""
    match node:
        case Apply("%", (Number(value, places),)):
            return [Number(value / 100, None if places is None else places + 2), Number(value, places)]
        case Apply("%", (value,)):
            return [Apply("/", (value, Number(Fraction(100)))), value]
        case Apply("ratio", (Number(above), Number(below))) if below:
            return [Number(above / below)]
    return [node]


def is_plain_number(node: Node) -> bool:
    """Whether a value is a plain number, in any unit, so that nothing is left to be worked out."""
    amount = measured(node)[0]
    return any(isinstance(one, Number) for one in percentages(amount))


def apart(gold: Node, answer: Node, decimals: int) -> bool:
    """Whether two expressions differ at some point by more than any rounding; False too where that is not seen at once.

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
    """What a node comes to where each variable has a value of its own, in [1, 3); an error for more than arithmetic.

    And for `C`: expressions that differ by a number are the same integral.
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
