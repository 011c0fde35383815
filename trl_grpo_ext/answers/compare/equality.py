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


def same_regions(one: Value, other: Value) -> bool:
    """Check whether two sets consist of the same intervals and points, with equal ends."""
    if one == other:
        return True
    left, right = _parts(one), _parts(other)
    return len(left) == len(right) and all(any(_same_part(a, b) for b in right) for a in left)


def _parts(region: Value) -> list[Value]:
    """Split a set into its intervals and single points."""
    parts = list(region.args) if isinstance(region, sympy.Union) else [region]
    return [
        piece
        for part in parts
        for piece in ([sympy.FiniteSet(point) for point in part] if isinstance(part, sympy.FiniteSet) else [part])
    ]


def _same_part(one: Value, other: Value) -> bool:
    if isinstance(one, sympy.Interval) and isinstance(other, sympy.Interval):
        return bool(
            (one.left_open, one.right_open) == (other.left_open, other.right_open)
            and equal(one.start, other.start)
            and equal(one.end, other.end)
        )
    if isinstance(one, sympy.FiniteSet) and isinstance(other, sympy.FiniteSet):
        return equal(one.args[0], other.args[0])
    return bool(one == other)


def equal(one: Value, other: Value) -> bool:
    """Check whether two exact expressions are equal: constants to the last digit, others at sampled points.

    If too few sampled points have a value, sympy simplifies the difference.
    """
    if one == other:
        return True
    if not (isinstance(one, Expr) and isinstance(other, Expr)):
        return False
    if one.has(sympy.oo, -sympy.oo, sympy.zoo, sympy.nan) or other.has(sympy.oo, -sympy.oo, sympy.zoo, sympy.nan):
        return False
    if not one.free_symbols and not other.free_symbols:
        return _same_constants(one, other)
    sampled = _agree(one, other)
    return sampled if sampled is not None else bool(sympy.simplify(one - other) == 0)


def same_integrals(one: Value, other: Value) -> bool:
    """Check whether two values differ by a constant, where both contain an integration constant `C`."""
    constant = sympy.Symbol("C")
    if not (isinstance(one, Expr) and isinstance(other, Expr)):
        return False
    rests = [value - constant for value in (one, other)]
    if any(constant in rest.free_symbols for rest in rests) or len(rests[0].free_symbols) != 1:
        return False
    (variable,) = rests[0].free_symbols
    return rests[1].free_symbols == {variable} and equal(*(rest.diff(variable) for rest in rests))


def _same_constants(one: Expr, other: Expr) -> bool:
    """Check whether two exact constants are equal to the last digit: 2^2023 differs from 2^2023 - 1."""
    gap = one - other
    if gap.is_Rational:
        return bool(gap == 0)
    value = gap.evalf(15, maxn=500)
    # A digit that is not certain has a precision of one bit: the gap may be 0.
    if value.is_number and not value.has(sympy.nan) and all(part._prec != 1 for part in value.atoms(sympy.Float)):
        return bool(value == 0)
    digits = _at(gap, {}) if gap.has(sympy.I) else None
    if digits is not None:
        return bool(abs(digits) < CLOSE)
    # Hundreds of digits of two values of usual size were alike.
    return bool(sympy.simplify(gap) == 0) or (value.is_Float and bool(abs(one.evalf(15)) < LARGE))


def _agree(one: Expr, other: Expr) -> bool | None:
    """Check whether two expressions agree at random points.

    None means too few points with a value to tell; False also means no point with a value.
    """
    free = sorted(one.free_symbols | other.free_symbols, key=str)
    whole = _whole(one, other)
    generator = random.Random(0)
    real, unreal = 0, 0
    for within in RANGES:
        for _ in range(POINTS):
            point = _point(free, generator, within)
            point |= {symbol: round(point[symbol]) for symbol in whole}
            first, second = _at(one, point), _at(other, point)
            if first is None or second is None:
                continue
            both = first.imag == second.imag == 0
            if abs(first - second) > CLOSE * max(1e-30, abs(first), abs(second)):
                if both:
                    return False
                continue
            real, unreal = real + both, unreal + (not both)
    if real >= AGREEING or (real == 0 and unreal >= 0.6 * POINTS * len(RANGES)):
        return True
    return None if real or unreal else False


def _whole(*values: Expr) -> set[Any]:
    """Return variables that stand for integers: `n` beside a rounded value, or in a power of -1."""
    counts = any(
        value.has(sympy.floor, sympy.ceiling) or any(power.base == -1 for power in value.atoms(sympy.Pow))
        for value in values
    )
    return {symbol for value in values for symbol in value.free_symbols if counts and symbol.name in INTEGERS}


def _point(free: Sequence[Any], generator: random.Random, within: tuple[float, float]) -> dict[Any, Any]:
    return {symbol: sympy.Rational(round(generator.uniform(*within) * 4096), 4096) for symbol in free}


def _at(value: Expr, point: Mapping[Any, Any]) -> Any:
    """Evaluate an expression at a point as an mpmath complex number; None if the evaluation fails."""
    try:
        with mpmath.workdps(DIGITS):
            return mpmath.mpc(value.evalf(DIGITS, subs=point)._to_mpmath(PRECISION))
    # mpmath raises for numbers that are too large, for example.
    except Exception:
        return None


def verified(gold: Value, answer: Value) -> bool:
    """Compare two values, of which at least one is no expression, with math-verify."""
    both = isinstance(gold, Expr) and isinstance(answer, Expr)
    return not both and bool(verify(gold, answer, timeout_seconds=None, allow_set_relation_comp=True))


def same_equations(gold: tuple[Value, Value], answer: tuple[Value, Value]) -> bool:
    """Check whether one equation is a multiple of another equation and has solutions."""
    one, other = (sympy.numer(sympy.together(left - right)) for left, right in (gold, answer))
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
    scales = [_at(ratio, _point(free, generator, RANGES[2])) for _ in range(POINTS)]
    first = scales[0]
    return first not in (None, 0) and all(
        scale is not None and abs(scale - first) <= CLOSE * abs(first) for scale in scales
    )


def same_inequalities(gold: Relation, answer: Relation) -> bool:
    """Check whether two inequalities in several variables are positive multiples of each other."""
    differences = []
    for relation in (gold, answer):
        if len(relation.signs) != 1 or relation.signs[0] not in ("<", ">", "<=", ">="):
            return False
        left, right = map(value_of, relation.sides)
        turned = relation.signs[0].startswith(">")
        differences.append((left - right if turned else right - left, len(relation.signs[0])))
    (one, strict), (other, as_strict) = differences
    ratio = sympy.simplify(one / other)
    return strict == as_strict and ratio.is_number and bool(ratio > 0)


def approximate(value: Value) -> Fraction | None:
    """Round a real constant to thirty digits, as a fraction; None for other values."""
    if not isinstance(value, Expr) or value.free_symbols:
        return None
    found = value.evalf(DIGITS, maxn=400)
    return Fraction(str(found)) if found.is_Float or found.is_Rational else None
