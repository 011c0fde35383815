"""Convert nodes to sympy values. A conversion may never end, so it runs in workers only.

math-verify reads LaTeX that our reader leaves to it, such as integrals; its own timeouts and its unit rules are off.
No model text reaches `eval` or `parse_expr` here; math-verify passes only digits and operators to `parse_expr`.
"""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse
from sympy import Expr

from trl_grpo_ext.answers.read.tree import (
    Apply,
    Builder,
    Collection,
    Logic,
    Matrix,
    Node,
    Number,
    Opaque,
    Quantity,
    Relation,
    Symbol,
    is_exact,
)

# math-verify warns once that its timeouts are off; the workers' deadline replaces them.
logging.getLogger("math_verify").setLevel(logging.ERROR)

# A sympy Basic or MatrixBase; sympy ships no types that mypy could read.
Value = Any

_CONSTANTS = {
    "pi": sympy.pi, "e": sympy.E, "i": sympy.I, "oo": sympy.oo, "Reals": sympy.S.Reals, "EmptySet": sympy.S.EmptySet,
    "Integers": sympy.S.Integers, "Naturals": sympy.S.Naturals, "Rationals": sympy.S.Rationals,
    "Complexes": sympy.S.Complexes,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **{name: getattr(sympy, name) for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")},
    "coth": sympy.coth, "sech": sympy.sech, "csch": sympy.csch,
    "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan,
    "arccot": sympy.acot, "arcsec": sympy.asec, "arccsc": sympy.acsc, "arsinh": sympy.asinh, "arcosh": sympy.acosh,
    "artanh": sympy.atanh, "arcsinh": sympy.asinh, "arccosh": sympy.acosh, "arctanh": sympy.atanh,
    "asin": sympy.asin, "acos": sympy.acos, "atan": sympy.atan, "sgn": sympy.sign, "ln": sympy.log,
    "abs": sympy.Abs, "floor": sympy.floor, "ceil": sympy.ceiling, "max": sympy.Max, "min": sympy.Min,
    "gcd": sympy.gcd, "lcm": sympy.lcm, "binom": sympy.binomial, "!": sympy.factorial, "!!": sympy.factorial2,
    "Re": sympy.re, "Im": sympy.im,
    "arg": sympy.arg, "mod": sympy.Mod, "log": lambda value, base=None: sympy.log(value) / sympy.log(base or sympy.E),
    "%": lambda value: value / 100, "deg": lambda value: value * sympy.pi / 180, "-": operator.neg,
    "+": operator.add, "*": operator.mul, "/": operator.truediv, "cbrt": sympy.cbrt,
    "ratio": operator.truediv, "between": operator.pos, "Gamma": sympy.gamma,
}  # fmt: skip
_OF_SETS = {"cup": sympy.Union, "cap": sympy.Intersection, "setminus": sympy.Complement}
_SIGNS = {
    "<": sympy.Lt,
    ">": sympy.Gt,
    "<=": sympy.Le,
    ">=": sympy.Ge,
    "=": sympy.Eq,
    "!=": sympy.Ne,
}
# Signs of inequalities with their sides exchanged.
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_BARE_LIMIT = re.compile(r"([_^])\s*([A-Za-z])")
_BARE_FUNCTION = re.compile(
    r"(?<![\\A-Za-z])(?<!name\{)(?<!rm\{)(?<!xt\{)(sin|cos|tan|ln|log|exp)(?![A-Za-z])"
)
_LEFT_TO_MATH_VERIFY = LatexExtractionConfig(
    boxed_match_priority=0,
    normalization_config=NormalizationConfig(
        basic_latex=True,
        units=False,
        malformed_operators=True,
        nits=True,
        boxed="all",
        equations=False,
    ),
)


class NotComparableError(Exception):
    """A value has no sympy form and cannot be compared."""


def value_of(node: Node) -> Value:
    """Convert a node to a sympy value.

    Raises:
        NotComparableError: sympy has no form for the node.
    """
    match node:
        case Number(value):
            return sympy.Rational(value.numerator, value.denominator)
        case Symbol(name):
            constant = _CONSTANTS.get(name)
            return sympy.Symbol(name) if constant is None else constant
        case Apply(name, arguments):
            return _applied(name, list(map(value_of, arguments)))
        case Quantity(amount):
            return value_of(amount)
        case Matrix(rows):
            return sympy.Matrix([list(map(value_of, row)) for row in rows])
        case Opaque(source):
            return _by_math_verify(source)
        case _:
            return region(node)


def _applied(name: str, arguments: list[Value]) -> Value:
    if name == "^":
        return _power(*arguments)
    if name == "root":
        value, degree = arguments
        return _power(value, 1 / degree)
    if name == "base":
        return sympy.Integer(int(str(arguments[0]), int(arguments[1])))
    if name in _OF_SETS:
        return _OF_SETS[name](*arguments)
    # sympy takes variables for polynomials: the gcd of x and 2 would be 1.
    is_of_polynomials = name in ("gcd", "lcm") and any(
        one.free_symbols for one in arguments
    )
    if name in _FUNCTIONS and not is_of_polynomials:
        return _FUNCTIONS[name](*arguments)
    # Expanded, so that `f(2(x + 1))` and `f(2x + 2)` become one symbol.
    inside = ", ".join(str(argument.expand()) for argument in arguments)
    return sympy.Symbol(f"{name}({inside})")


def _power(base: Value, exponent: Value) -> Value:
    """Raise a base to an exponent; for an odd root of a negative number, return the real root."""
    is_negative = base.is_number and base.is_negative
    if is_negative and exponent.is_Rational and exponent.q % 2 == 1 and exponent.q > 1:
        return (-1) ** exponent.p * (-base) ** exponent
    return base**exponent


def _by_math_verify(source: str) -> Value:
    # math-verify knows no bare limit, ^e, and reads "sin x" without a backslash as a product.
    source = _BARE_FUNCTION.sub(r"\\\1 ", _BARE_LIMIT.sub(r"\1{\2}", source))
    found = parse(rf"\boxed{{{source}}}", [_LEFT_TO_MATH_VERIFY], parsing_timeout=None)
    value = next((one for one in found if not isinstance(one, str)), None)
    if value is None:
        raise NotComparableError
    # math-verify's symbols are real by assumption; sympy treats them as different from ours, which have no assumption.
    plain = value.xreplace(
        {symbol: sympy.Symbol(symbol.name) for symbol in value.free_symbols}
    )
    if isinstance(plain, Expr):
        return plain.doit()
    return plain


def region(node: Node) -> Value:
    """Convert a statement or a collection to the set of real numbers it names.

    Raises:
        NotComparableError: The node names no set.
    """
    match node:
        case Collection("{}", items):
            return sympy.FiniteSet(*map(value_of, items))
        case Collection("()" | "[)" | "(]" | "[]" as kind, (low, high)):
            return sympy.Interval(
                value_of(low),
                value_of(high),
                left_open=kind[0] == "(",
                right_open=kind[1] == ")",
            )
        case Collection("list", items):
            return sympy.Union(*map(region_of, items))
        case Builder(_, Collection(_, conditions)):
            return region(Logic("and", conditions))
        case Builder(_, condition):
            return region(condition)
        case Logic("or", parts):
            return sympy.Union(*map(region_of, parts))
        case Logic("and", parts):
            return sympy.Intersection(*map(region_of, parts))
        case Relation(("in",), (_, domain)):
            return value_of(domain)
        case Relation(signs, sides):
            return _solutions(signs, sides)
    raise NotComparableError


def region_of(node: Node) -> Value:
    """Convert a node to a set; a plain value becomes the set with that value alone."""
    value = region(node) if isinstance(node, Collection) else value_of(node)
    if isinstance(value, sympy.Set):
        return value
    return sympy.FiniteSet(value)


def _solutions(signs: tuple[str, ...], sides: tuple[Node, ...]) -> Value:
    """Solve a relation in a single variable for its real solutions."""
    values = [value_of(side) for side in sides]
    found: Value = sympy.S.Reals
    variable = _variable(values)
    for sign, left, right in zip(signs, values, values[1:], strict=False):
        if sign not in _SIGNS:
            raise NotComparableError
        found = sympy.Intersection(found, _solved(sign, left, right, variable))
    return found


def _variable(values: list[Value]) -> Value:
    """Return a relation's variable: the symbol alone on a side, else the only free symbol."""
    bare = [value for value in values if isinstance(value, sympy.Symbol)]
    if bare:
        return bare[0]
    free = set().union(*(value.free_symbols for value in values))
    if len(free) != 1:
        raise NotComparableError
    return free.pop()


def _solved(sign: str, left: Value, right: Value, variable: Value) -> Value:
    if right == variable or isinstance(right, sympy.Abs):
        left, right, sign = right, left, _TURNED.get(sign, sign)
    if variable not in right.free_symbols:
        if left == variable:
            return _ray(sign, right)
        if isinstance(left, sympy.Abs) and sign in _TURNED:
            return _within(sign, left.args[0], right, variable)
    slope = sympy.diff(left - right, variable)
    # sympy's own solver takes a hundred times as long for a line.
    if slope.is_Rational and slope != 0:
        bound = sympy.expand(variable - (left - right) / slope)
        return _ray(sign if slope > 0 else _TURNED.get(sign, sign), bound)
    # sympy solves relations in a real variable only.
    real = sympy.Dummy(real=True)
    left = left.subs(variable, real)
    right = right.subs(variable, real)
    relation = _SIGNS[sign](left, right)
    if relation == sympy.true:
        return sympy.S.Reals
    if relation == sympy.false:
        return sympy.S.EmptySet
    if sign == "=":
        return sympy.solveset(left - right, real, sympy.S.Reals)
    return relation.as_set()


def _ray(sign: str, bound: Value) -> Value:
    """Return the numbers beside a bound for which `x sign bound` holds."""
    match sign:
        case "<":
            return sympy.Interval.open(-sympy.oo, bound)
        case "<=":
            return sympy.Interval(-sympy.oo, bound)
        case ">":
            return sympy.Interval.open(bound, sympy.oo)
        case ">=":
            return sympy.Interval(bound, sympy.oo)
        case "=":
            return sympy.FiniteSet(bound)
        case _:
            return sympy.Complement(sympy.S.Reals, sympy.FiniteSet(bound))


def _within(sign: str, value: Value, bound: Value, variable: Value) -> Value:
    """Solve an inequality of an absolute value, `|value| sign bound`, as two without bars."""
    above = _solved(sign, value, bound, variable)
    below = _solved(_TURNED[sign], value, -bound, variable)
    if sign in ("<", "<="):
        return sympy.Intersection(above, below)
    return sympy.Union(above, below)


def exact(node: Node) -> bool:
    """Check that a node contains no decimal point."""
    return is_exact(node) and not (isinstance(node, Opaque) and "." in node.source)
