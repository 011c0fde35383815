"""Whether two values that math-verify has read are equal. It may take for ever, and so runs in a worker only."""

from __future__ import annotations

import random
from typing import Any

import sympy
from math_verify import verify
from sympy import Expr, MatrixBase, Tuple

Parsed = Any  # a sympy Basic or MatrixBase; sympy ships no types that mypy reads here

POINTS = 40  # tried, of which AGREEING must be usable, when two expressions are compared by their values
AGREEING = 6
DECIMALS = 6  # that math-verify rounds to
CLOSE = 1e-3  # relative; math-verify rounds to six decimals, where all tiny numbers are alike

_PERCENT = (sympy.Rational(1, 100), 100)  # math-verify takes 28 % for 0.28 and for 28
# What evalf could work on for ever, or has no value at a real point.
_SYMBOLIC = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Derivative, sympy.core.function.AppliedUndef)


def equal(gold: Parsed, answer: Parsed, decimals: int = DECIMALS) -> bool:
    """Whether two values are equal, numbers that are written as decimals to within this many places."""
    if isinstance(gold, Expr) and isinstance(answer, Expr):
        same = same_values(gold, answer)
        if same is not None:
            return same
    if verify(gold, answer, float_rounding=decimals, timeout_seconds=None, allow_set_relation_comp=True):
        return True
    if isinstance(gold, MatrixBase) != isinstance(answer, MatrixBase):
        gold, answer = _as_tuple(gold), _as_tuple(answer)
    if isinstance(gold, Tuple) and isinstance(answer, Tuple):
        return len(gold) == len(answer) and all(equal(a, b, decimals) for a, b in zip(gold, answer, strict=True))
    return False


def _as_tuple(value: Parsed) -> Parsed:
    """A vector, or what may be a point, as the tuple of its entries; anything else as it is."""
    if isinstance(value, MatrixBase) and 1 in value.shape and len(value) > 1:
        return Tuple(*value)
    if isinstance(value, sympy.Interval) and value.left_open and value.right_open:
        return Tuple(value.start, value.end)  # (1, 2) is an interval or a point, and only the other answer tells which
    return value


def same_values(gold: Expr, answer: Expr) -> bool | None:
    """Whether two expressions have the same values wherever both are real; None if that is not clear.

    Sampled at fixed points of both signs. It finds identities that simplification misses, such as rules of
    logarithms, without assuming that variables are positive: |x| and x differ at a negative point. And it is faster
    than simplification. Values that are close are left to math-verify, which has its own idea of rounding.
    """
    symbols = sorted(gold.free_symbols, key=str)
    if gold.free_symbols != answer.free_symbols or gold.atoms(*_SYMBOLIC) or answer.atoms(*_SYMBOLIC):
        return None
    if not symbols and not gold.has(sympy.Float) and not answer.has(sympy.Float):
        return _same_constants(gold, answer)
    generator = random.Random(0)
    agreeing = 0
    for _ in range(POINTS if symbols else 1):
        point = {symbol: sympy.Float(generator.uniform(-3, 3), 30) for symbol in symbols}
        try:
            one, other = gold.evalf(30, subs=point), answer.evalf(30, subs=point)
        except Exception:  # such as a number too large for its exponent
            return None
        if not all(value.is_Float or value.is_Rational for value in (one, other)):
            continue
        distance, size = abs(one - other), max(abs(one), abs(other))
        if distance > 0.05 * size and distance > 1e-4:
            # A constant may still be a percentage, which is a hundred times its value.
            return False if symbols or not _is_percentage(one, other) else None
        if distance > 1e-12 * size:
            return None
        agreeing += 1
        if agreeing == (AGREEING if symbols else 1):
            return True
    return None


def _same_constants(gold: Expr, answer: Expr) -> bool | None:
    """Whether two exact constants are equal, to the last digit: 2^2023 is not 2^2023 - 1. None if that is not clear."""
    try:
        gap = gold - answer
        if gap.is_Rational:
            same = bool(gap == 0)
        else:
            value = gap.evalf(15, maxn=500)
            if not value.is_Float or value._prec == 1:  # no digit of it is certain: perhaps 0
                return None
            same = False
        return None if not same and _is_percentage(gold.evalf(15), answer.evalf(15)) else same
    except Exception:  # such as a number too large for its exponent
        return None


def _is_percentage(one: Any, other: Any) -> bool:
    return any(abs(one - scale * other) <= 0.05 * abs(one) for scale in _PERCENT)


def difference(gold: Parsed, answer: Parsed, decimals: int) -> str:
    """The reason code of a difference that math-verify passes over; empty if there is none."""
    if _are_far_apart(gold, answer, decimals):
        return "not_equal"
    if isinstance(gold, sympy.Eq) and isinstance(answer, sympy.Eq) and not _same_equation(gold, answer):
        return "not_equal"
    if _symbol_names(answer) - _symbol_names(gold) and _symbol_names(gold):
        return "other_symbols"
    return ""


def _are_far_apart(gold: Parsed, answer: Parsed, decimals: int) -> bool:
    if not (isinstance(gold, Expr) and isinstance(answer, Expr)) or gold.free_symbols or answer.free_symbols:
        return False
    one, other = sympy.N(gold, 20), sympy.N(answer, 20)
    if not (one.is_real and other.is_real and one.is_finite and other.is_finite):
        return False
    # Who asks for fewer decimals wants their error; at six, all tiny numbers would be alike.
    rounding = 10.0**-decimals if decimals < DECIMALS else 0.0
    return not any(abs(one - scale * other) <= max(CLOSE * abs(one), rounding) for scale in (1, *_PERCENT))


def _same_equation(gold: sympy.Eq, answer: sympy.Eq) -> bool:
    """Whether one is a multiple of the other, or both have the same solutions and there are some."""
    if not all(isinstance(side, Expr) for side in (*gold.args, *answer.args)):
        return True  # such as n = {1, 2, 3}, which has no difference of its sides
    one, other = gold.lhs - gold.rhs, answer.lhs - answer.rhs
    if one.free_symbols != other.free_symbols:  # y = 2x and f = 2x are the same function under two names
        both = _is_assignment(gold) and _is_assignment(answer)
        return both and bool(gold.rhs.free_symbols == answer.rhs.free_symbols)
    if sympy.simplify(one / other).is_number:
        return True
    return len(one.free_symbols) > 1 or bool(sympy.solve(one, dict=True))


def _is_assignment(equation: sympy.Eq) -> bool:
    return isinstance(equation.lhs, sympy.Symbol) and equation.lhs not in equation.rhs.free_symbols


def _symbol_names(value: Parsed) -> set[str]:
    if isinstance(value, sympy.Eq) and _is_assignment(value):
        value = value.rhs
    return {str(symbol) for symbol in getattr(value, "free_symbols", ())}
