"""Compare amounts with units, without sympy: tolerances, percentages, angles; all else is undecided here."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from zlib import crc32

from trl_grpo_ext.answers.compare.expanded import same_polynomial, same_relation
from trl_grpo_ext.answers.read.tree import (
    CONSTANTS,
    Apply,
    Node,
    Number,
    Quantity,
    Relation,
    Symbol,
    walk,
)
from trl_grpo_ext.answers.read.units import NONE, Unit, as_one_currency, unit

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
_NUMBERS_BY_NAME = (Symbol("pi"), Symbol("e"), Symbol("i"))
_ANGLE = (("angle", 1),)


class UndecidedError(Exception):
    """An algebra without sympy cannot compare these two values."""


class Algebra:
    """An algebra without sympy: it decides identical expressions, distant values and polynomials, and nothing else."""

    def same_values(self, gold: Node, answer: Node, decimals: int) -> bool:
        """Check whether two expressions or matrices are equal.

        Raises:
            UndecidedError: The expressions are neither identical nor clearly different.
        """
        if gold == answer:
            return True
        if apart(gold, answer, decimals):
            return False
        return _decided(same_polynomial(gold, answer))

    def same_equations(self, gold: Relation, answer: Relation) -> bool:
        """Check whether two equations, or two inequalities in several variables, are equivalent."""
        return gold == answer or _decided(same_relation(gold, answer))

    def same_regions(self, gold: Node, answer: Node) -> bool:
        """Check whether two nodes name the same set of numbers."""
        return gold == answer or _decided(same_relation(gold, answer))

    def solves(self, gold: Relation, answer: Node) -> bool:
        """Check whether an expression solves an equation for the variable that the expression lacks."""
        return self.same_values(gold, answer, DECIMALS)


def _decided(same: bool | None) -> bool:
    if same is None:
        raise UndecidedError
    return same


def same_number(gold: Number, answer: Number, decimals: int = DECIMALS) -> bool:
    """Check whether two numbers are equal; decimals within `decimals` places and a thousandth of their size.

    A gold with a decimal point and at least three digits may be rounded: an answer that rounds to it is equal.

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
    is_near = distance <= Fraction(1, 10**decimals)
    # With many places, a small number also needs to be close relative to its size.
    if is_near and decimals >= DECIMALS:
        is_near = distance <= CLOSE * abs(gold.value)
    return is_near or rounds_to(gold, answer.value, answer.places)


def rounds_to(gold: Number, value: Fraction, places: int | None) -> bool:
    """Check whether `value`, rounded to the gold's decimal places, is the gold."""
    if gold.places is None or gold.places < 1:
        return False
    if places is not None and places <= gold.places:
        return False
    scale = 10**gold.places
    digits = str(abs(gold.value.numerator * scale // gold.value.denominator)).lstrip("0")
    return len(digits) >= MIN_ROUNDED and abs(gold.value - value) * 2 <= Fraction(1, scale)


def measured(node: Node) -> tuple[Node, Unit]:
    """Split a value into amount and unit: `5 km` gives `5` and `km`; a value without unit has the unit `NONE`."""
    match node:
        case Quantity(amount, of):
            return amount, of
    return node, NONE


def percentages(node: Node) -> list[Node]:
    """List a number's readings: `28%` is 0.28 or 28; any other value has a single reading."""
    match node:
        case Apply("%", (Number(value, places),)):
            share_places = None if places is None else places + 2
            return [Number(value / 100, share_places), Number(value, places)]
        case Apply("-", (Apply("%", (Number(value, places),)),)):
            return percentages(Apply("%", (Number(-value, places),)))
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
        one, other = at_a_point(gold), at_a_point(answer)
        return abs(one - other) > APART * max(abs(one), abs(other)) + 2 * 10.0**-decimals
    except (ArithmeticError, LookupError, ValueError):
        return False


def at_a_point(node: Node) -> complex:
    """Evaluate a node at a fixed point: each variable's name gives its value in [1, 3).

    Raises:
        LookupError: The node is more than arithmetic, or contains `C`: equal integrals may differ by a constant.
    """
    match node:
        case Number(value):
            return float(value)
        case Symbol(name):
            known = {"pi": math.pi, "e": math.e, "i": 1j}
            return (
                known[name]
                if name in CONSTANTS | {"C"}
                else 1 + crc32(name.encode()) % 997 / 500
            )
        case Apply("base", (Number(value), Number(base))):
            return float(int(str(value), int(base)))
        case Apply(name, arguments):
            return _ARITHMETIC[name](*map(at_a_point, arguments))
    raise LookupError


def _sum(one: complex, other: complex) -> complex:
    total = one + other
    if abs(total) < LOST * abs(one):
        raise ArithmeticError
    return total


def _power(base: complex, exponent: complex) -> complex:
    if not (
        isinstance(base, float)
        and isinstance(exponent, float)
        and abs(exponent) <= MAX_POWER
    ):
        raise ArithmeticError
    return math.pow(base, exponent)


_ARITHMETIC: Mapping[str, Callable[..., complex]] = {
    "+": _sum, "-": operator.neg, "*": operator.mul, "/": operator.truediv, "^": _power,
    "root": lambda value, degree: _power(value, 1 / degree),
}  # fmt: skip


def _is_percentage(node: Node) -> bool:
    return isinstance(node, Apply) and node.name == "%"


def _is_degrees_of_pi(amount: Node, of: Unit) -> bool:
    return of == unit("deg") and Symbol("pi") in walk(amount)


def _scaled(amount: Node, scale: Fraction) -> Node:
    """Multiply an amount by a factor between units."""
    if isinstance(amount, Number):
        return Number(amount.value * scale, 0)
    return Apply("*", (amount, Number(scale)))


@dataclass(frozen=True, slots=True)
class AmountComparison:
    """A comparison of amounts.

    Attributes:
        algebra: Compares values whose types do not decide.
        decimals: Decimal places to which numbers must agree.
    """

    algebra: Algebra
    decimals: int = DECIMALS

    def same_amounts(self, gold: Node, answer: Node) -> bool:
        """Check whether two amounts with units are equal; a percentage also equals its number without the sign."""
        asked, of = measured(gold)
        given, by = measured(answer)
        of, by = as_one_currency(of, by)
        # A percentage equals a bare number, but no amount with a unit.
        if _is_percentage(asked) != _is_percentage(given):
            other_unit = by if _is_percentage(asked) else of
            if other_unit != NONE:
                return False
        if of != by and NONE not in (of, by):
            if of.measures != by.measures:
                return False
            if of.measures == _ANGLE:
                return self._same_angle((asked, of), (given, by))
            return self.same_number_of(asked, _scaled(given, by.factor / of.factor))
        if not (
            _is_degrees_of_pi(asked, of) or _is_degrees_of_pi(given, by)
        ) and self.same_number_of(asked, given):
            return True
        if _ANGLE in (of.measures, by.measures) and NONE in (of, by):
            return self._same_angle((asked, of), (given, by))
        return False

    def _same_angle(self, gold: tuple[Node, Unit], answer: tuple[Node, Unit]) -> bool:
        """Check whether an angle in degrees equals an angle in multiples of pi."""
        sides = []
        for amount, of in (gold, answer):
            if of == NONE and Symbol("pi") not in walk(amount):
                return False
            if of not in (NONE, unit("rad")):
                half_turns = Apply("*", (amount, Number(of.factor / 180)))
                amount = Apply("*", (half_turns, Symbol("pi")))  # noqa: PLW2901
            sides.append(amount)
        return self.algebra.same_values(sides[0], sides[1], self.decimals)

    def same_number_of(self, gold: Node, answer: Node) -> bool:
        asked = percentages(gold)
        given = percentages(answer)
        # 28% and 0.28% have one reading in common, 0.28, but differ.
        if len(asked) > 1 and len(given) > 1:
            asked = asked[:1]
            given = given[:1]
        pairs = itertools.product(asked, given)
        return any(self._same_one(one, other) for one, other in pairs)

    def _same_one(self, gold: Node, answer: Node) -> bool:
        if isinstance(gold, Number) and isinstance(answer, Number):
            return same_number(gold, answer, self.decimals)
        if gold == answer:
            return True
        may_be_equal = any(
            isinstance(one, Apply) or one in _NUMBERS_BY_NAME for one in (gold, answer)
        )
        return may_be_equal and self.algebra.same_values(gold, answer, self.decimals)
