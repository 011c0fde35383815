"""Compare two sympy values. A comparison may never end, so it runs in workers only."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import sympy
from math_verify import verify
from sympy import Expr

from trl_grpo_ext.answers.compare.algebra import Value, value_of
from trl_grpo_ext.answers.read.tree import Relation

DIGITS = 30
# In bits; 100 bits are thirty decimal digits.
PRECISION = 100
# Relative difference below which two values, computed to thirty digits, are equal.
CLOSE = mpmath.mpf("1e-18")
# Points at which two expressions must agree.
AGREEING = 8
# Intervals from which points are drawn: small and large numbers, and positive numbers alone.
RANGES = ((-3, 3), (-60, 60), (0.1, 4), (-3000, 3000), (0.05, 0.95), (-1e6, 1e6))
# Points drawn from each range.
POINTS = 10
LARGE = 10**30
INTEGERS = ("n", "k", "m", "j")
NOT_FINITE = (sympy.oo, -sympy.oo, sympy.zoo, sympy.nan)


def same_regions(one: Value, other: Value) -> bool:
    """Check whether two sets consist of the same intervals and points, with equal ends."""
    if one == other:
        return True
    left = _parts(one)
    right = _parts(other)

    def is_in_other(part: Value) -> bool:
        return any(_same_part(part, candidate) for candidate in right)

    return len(left) == len(right) and all(map(is_in_other, left))


def _parts(region: Value) -> list[Value]:
    """Split a set into its intervals and single points."""
    parts = list(region.args) if isinstance(region, sympy.Union) else [region]
    pieces: list[Value] = []
    for part in parts:
        if isinstance(part, sympy.FiniteSet):
            pieces += map(sympy.FiniteSet, part)
        else:
            pieces.append(part)
    return pieces


def _same_part(one: Value, other: Value) -> bool:
    if isinstance(one, sympy.Interval) and isinstance(other, sympy.Interval):
        return bool(
            (one.left_open, one.right_open) == (other.left_open, other.right_open)
            and equal(one.start, other.start)
            and equal(one.end, other.end)
        )
    return bool(one == other)


def equal(one: Value, other: Value) -> bool:
    """Check whether two exact expressions are equal: constants to the last digit, others at sampled points.

    If too few sampled points have a value, sympy simplifies the difference.
    """
    if one == other:
        return True
    if not (isinstance(one, Expr) and isinstance(other, Expr)):
        return False
    # The difference of two infinities is no number to compare with 0.
    if one.has(*NOT_FINITE) or other.has(*NOT_FINITE):
        return False
    if not one.free_symbols and not other.free_symbols:
        return _same_constants(one, other)
    sampled = _agree(one, other)
    if sampled is not None:
        return sampled
    return bool(sympy.simplify(one - other) == 0)


def same_integrals(one: Value, other: Value) -> bool:
    """Check whether two values differ by a constant, where both contain an integration constant `C`."""
    constant = sympy.Symbol("C")
    if not (isinstance(one, Expr) and isinstance(other, Expr)):
        return False
    rest = one - constant
    other_rest = other - constant
    free = rest.free_symbols
    if len(free) != 1 or constant in free or other_rest.free_symbols != free:
        return False
    (variable,) = free
    return equal(rest.diff(variable), other_rest.diff(variable))


def _same_constants(one: Expr, other: Expr) -> bool:
    """Check whether two exact constants are equal to the last digit: 2^2023 differs from 2^2023 - 1."""
    gap = one - other
    if gap.is_Rational:
        return bool(gap == 0)
    value = gap.evalf(15, maxn=500)
    # A digit that is not certain has a precision of one bit: the gap may be 0.
    is_certain = all(part._prec != 1 for part in value.atoms(sympy.Float))
    if value.is_number and not value.has(sympy.nan) and is_certain:
        return bool(value == 0)
    if gap.has(sympy.I):
        digits = _at(gap, {})
        if digits is not None:
            return bool(abs(digits) < CLOSE)
    # Hundreds of digits of two values of usual size were alike.
    return bool(sympy.simplify(gap) == 0) or (
        value.is_Float and bool(abs(one.evalf(15)) < LARGE)
    )


def _agree(one: Expr, other: Expr) -> bool | None:
    """Check whether two expressions agree at random points.

    None means too few points with a value to tell; False also means no point with a value.
    """
    free = sorted(one.free_symbols | other.free_symbols, key=str)
    whole = _whole(one, other)
    # A fixed seed: the same answer gets the same verdict each time.
    generator = random.Random(0)
    real = unreal = 0
    for within in RANGES:
        for _ in range(POINTS):
            point = _point(free, generator, within)
            point |= {symbol: round(point[symbol]) for symbol in whole}
            first = _at(one, point)
            second = _at(other, point)
            if first is None or second is None:
                continue
            are_real = first.imag == second.imag == 0
            # A least size, so that two values that are 0 up to rounding agree.
            size = max(1e-30, abs(first), abs(second))
            is_close = abs(first - second) <= CLOSE * size
            # Only real values refute: below 0, `2 \ln x` is complex and `\ln x^2` is real, and both say the same.
            if are_real and not is_close:
                return False
            real += are_real and is_close
            unreal += not are_real and is_close
    if real >= AGREEING or (real == 0 and unreal >= 0.6 * POINTS * len(RANGES)):
        return True
    return None if real or unreal else False


def _whole(*values: Expr) -> set[Any]:
    """Return variables that stand for integers: `n` beside a rounded value, or in a power of -1."""
    if not any(map(_counts, values)):
        return set()
    free = set().union(*(value.free_symbols for value in values))
    return {symbol for symbol in free if symbol.name in INTEGERS}


def _counts(value: Expr) -> bool:
    """Check whether an expression rounds, or contains a power of -1: signs of integer variables."""
    if value.has(sympy.floor, sympy.ceiling):
        return True
    return any(power.base == -1 for power in value.atoms(sympy.Pow))


def _point(
    free: Sequence[Any], generator: random.Random, within: tuple[float, float]
) -> dict[Any, Any]:
    """Draw a random point: a binary fraction for each variable."""
    low, high = within
    point = {}
    for symbol in free:
        drawn = generator.uniform(low, high)
        point[symbol] = sympy.Rational(round(drawn * 4096), 4096)
    return point


def _at(value: Expr, point: Mapping[Any, Any]) -> Any:
    """Evaluate an expression at a point as an mpmath complex number; None if the evaluation fails."""
    try:
        with mpmath.workdps(DIGITS):
            return mpmath.mpc(value.evalf(DIGITS, subs=point)._to_mpmath(PRECISION))
    # mpmath raises for numbers that are too large, for example.
    except Exception:
        return None


def verified(gold: Value, answer: Value) -> bool:
    """Compare two values with math-verify; False for a pair of plain expressions."""
    both = isinstance(gold, Expr) and isinstance(answer, Expr)
    return not both and bool(
        verify(gold, answer, timeout_seconds=None, allow_set_relation_comp=True)
    )


def same_equations(gold: tuple[Value, Value], answer: tuple[Value, Value]) -> bool:
    """Check whether two equations are proportional and solvable."""
    one = sympy.numer(sympy.together(gold[0] - gold[1]))
    other = sympy.numer(sympy.together(answer[0] - answer[1]))
    if not one.free_symbols or one.free_symbols != other.free_symbols:
        return False
    if not _proportional(one, other):
        return False
    return len(one.free_symbols) > 1 or bool(sympy.solve(one, dict=True))


def _proportional(one: Expr, other: Expr) -> bool:
    ratio = sympy.cancel(one / other)
    if ratio.is_number:
        return bool(ratio != 0)
    generator = random.Random(1)
    free = sorted(one.free_symbols, key=str)
    points = [_point(free, generator, RANGES[2]) for _ in range(POINTS)]
    first, *others = [_at(ratio, point) for point in points]
    if first in (None, 0) or None in others:
        return False
    return all(abs(scale - first) <= CLOSE * abs(first) for scale in others)


def same_inequalities(gold: Relation, answer: Relation) -> bool:
    """Check whether two inequalities in several variables are positive multiples of each other."""
    differences = []
    for relation in (gold, answer):
        if len(relation.signs) != 1 or relation.signs[0] not in ("<", ">", "<=", ">="):
            return False
        left, right = map(value_of, relation.sides)
        is_greater = relation.signs[0].startswith(">")
        differences.append(left - right if is_greater else right - left)
    are_as_strict = len(gold.signs[0]) == len(answer.signs[0])
    ratio = sympy.simplify(differences[0] / differences[1])
    return are_as_strict and ratio.is_number and bool(ratio > 0)


def approximate(value: Value) -> Fraction | None:
    """Round a real constant to thirty digits, as a fraction; None for other values."""
    if not isinstance(value, Expr) or value.free_symbols:
        return None
    found = value.evalf(DIGITS, maxn=400)
    if not (found.is_Float or found.is_Rational):
        return None
    return Fraction(str(found))
