"""Split sums and products into terms and factors, and expand polynomials, without sympy.

A polynomial maps monomials to coefficients. Roots, functions and other values that are no sums, products or powers
count as letters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import reduce

from trl_grpo_ext.answers.read.tree import Apply, Node, Number, Symbol

# A monomial's letters with their powers; no letters for a constant.
Monomial = frozenset[tuple[Node, int]]
Polynomial = Mapping[Monomial, Fraction]
CONSTANT: Monomial = frozenset()
# Larger powers and products stay unexpanded.
MAX_POWER = 12
MAX_PRODUCTS = 400


def terms(node: Node) -> Iterator[Node]:
    """Yield a sum's terms without signs: `3x` and `2` of `3x - 2`; a denominator of the whole sum is dropped."""
    pending = [node]
    while pending:
        match pending.pop():
            case Apply("+", parts) | Apply("-", (_,) as parts):
                pending += reversed(parts)
            case Apply("/", (numerator, Number())):
                pending.append(numerator)
            case term:
                yield term


def factors(node: Node) -> Iterator[tuple[Node, int]]:
    """Yield a product's factors with their powers: `x` and 2, `y` and 1 of `x^2 y`; signs are dropped."""
    pending = [(node, 1)]
    while pending:
        one, power = pending.pop()
        match one:
            case Apply("*", parts) | Apply("-", (_,) as parts):
                pending += [(part, power) for part in reversed(parts)]
            case Apply("/", (numerator, Number())):
                pending.append((numerator, power))
            case Apply("^", (base, Number(value))) if value == int(value) > 0:
                pending.append((base, power * int(value)))
            case _:
                yield one, power


def polynomial(node: Node) -> Polynomial | None:
    """Expand a value to a polynomial; None if it is too large, or of two signs.

    Examples:
        >>> from trl_grpo_ext.answers.read.answer import read
        >>> [len(polynomial(read(text).node)) for text in ("(x+1)^2", "(x+1)(x-1)", "3x + 6 - 2x + 2")]
        [3, 2, 2]
    """
    match node:
        case Number(value):
            return {CONSTANT: value}
        case Apply("+", _):
            parts = [_signed(part, sign) for part, sign in _summands(node)]
            return None if None in parts else _sum(part for part in parts if part)
        case Apply("-", (inner,)):
            return _signed(inner, -1)
        case Apply("*", (one, other)):
            return _product(polynomial(one), polynomial(other))
        case Apply("/", (numerator, Number(value))) if value:
            return _product(polynomial(numerator), {CONSTANT: 1 / value})
        case Apply("^", (base, Number(value))) if value == int(value) and (
            0 < value <= MAX_POWER
        ):
            return reduce(_product, [polynomial(base)] * int(value))
        case Apply("+-" | "-+"):
            return None
    return {frozenset({(node, 1)}): Fraction(1)}


def _summands(node: Node) -> Iterator[tuple[Node, int]]:
    """Yield a sum's terms with their signs."""
    pending = [(node, 1)]
    while pending:
        one, sign = pending.pop()
        match one:
            case Apply("+", parts):
                pending += [(part, sign) for part in parts]
            case Apply("-", (inner,)):
                pending.append((inner, -sign))
            case _:
                yield one, sign


def _signed(node: Node, sign: int) -> Polynomial | None:
    return _product(polynomial(node), {CONSTANT: Fraction(sign)})


def _sum(parts: Iterator[Polynomial]) -> Polynomial:
    total: dict[Monomial, Fraction] = {}
    for part in parts:
        for monomial, factor in part.items():
            total[monomial] = total.get(monomial, Fraction(0)) + factor
    return {monomial: factor for monomial, factor in total.items() if factor}


def _product(one: Polynomial | None, other: Polynomial | None) -> Polynomial | None:
    if one is None or other is None or len(one) * len(other) > MAX_PRODUCTS:
        return None
    products = (
        {_joined(left, right): factor * by}
        for left, factor in one.items()
        for right, by in other.items()
    )
    return _sum(products)


def _joined(one: Monomial, other: Monomial) -> Monomial:
    powers: Counter[Node] = Counter(dict(one))
    powers.update(dict(other))
    return frozenset(powers.items())


def content(node: Node) -> int:
    """Return the greatest common factor of a sum's integer coefficients: 2 of `2x - 4`; 1 if a coefficient is none."""
    found = polynomial(node)
    if not found or any(factor.denominator > 1 for factor in found.values()):
        return 1
    return math.gcd(*(int(factor) for factor in found.values()))


def is_expanded(node: Node) -> bool:
    """Check whether a polynomial is written as a sum of different monomials; True for a value that is no polynomial."""
    whole = polynomial(node)
    if whole is None:
        return True
    written = [polynomial(term) for term in terms(node)]
    return len(written) == len(whole) and all(
        part is not None and len(part) == 1 for part in written
    )


def combines(node: Node) -> bool:
    """Check whether terms of a sum combine once its products are expanded: `3x` and `-2x`, `2(x + 1)` and `3`."""
    whole = polynomial(node)
    written = [polynomial(term) for term in terms(node)]
    if whole is None or None in written:
        return False
    return sum(len(part) for part in written if part) > len(whole)


def is_rational(node: Node) -> bool:
    """Check whether a value consists of numbers, letters, sums, products, quotients and integer powers."""
    match node:
        case Number() | Symbol():
            return True
        case Apply("+" | "-" | "*" | "/", parts):
            return all(map(is_rational, parts))
        case Apply("^", (base, Number(value))):
            return value == int(value) and is_rational(base)
    return False


def degree(node: Node) -> int:
    """Return a polynomial's degree; 0 for other values."""
    return total_degree(polynomial(node) or {})


def total_degree(expanded: Polynomial) -> int:
    """Return an expanded polynomial's degree; 0 for a constant."""
    return max((sum(dict(monomial).values()) for monomial in expanded), default=0)
