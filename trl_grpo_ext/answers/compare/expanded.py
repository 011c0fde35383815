"""Compare exact polynomials, and equations and inequalities of polynomials, by their coefficients: without sympy."""

from __future__ import annotations

import itertools
from fractions import Fraction

from trl_grpo_ext.answers.compare.polynomials import (
    Polynomial,
    polynomial,
    total_degree,
)
from trl_grpo_ext.answers.read.tree import (
    CONSTANTS,
    Apply,
    Node,
    Relation,
    Symbol,
    is_exact,
    walk,
)

# Equal integrals may differ by a constant `C`.
_NO_VARIABLES = CONSTANTS | {"C"}
# Numbers, letters and operations of an expression that is expanded here.
MAX_NODES = 60
_SIGNS = ("=", "<", "<=", ">", ">=")


def same_polynomial(one: Node, other: Node) -> bool | None:
    """Check whether two expressions expand to equal polynomials; None for an inexact or other expression.

    Examples:
        >>> from trl_grpo_ext.answers.read.answer import read
        >>> [same_polynomial(read("(x+1)^2").node, read(text).node) for text in ("x^2+2x+1", "x^2+1", "2^x")]
        [True, False, None]
    """
    left = _in_variables(one)
    if left is None:
        return None
    right = _in_variables(other)
    return None if right is None else left == right


def same_relation(one: Node, other: Node) -> bool | None:
    """Check whether two equations or inequalities of polynomials are equivalent; None if their multiples leave it open.

    Multiples are equivalent. Other equations in the same variables differ, and other inequalities if they have several
    variables or are linear: `x^3 > 8` and `x > 2` are no multiples.

    Examples:
        >>> from trl_grpo_ext.answers.read.answer import read
        >>> [same_relation(read("2x < 4").node, read(text).node) for text in ("-x > -2", "x > 2", "x = 2")]
        [True, False, None]
    """
    if not (isinstance(one, Relation) and isinstance(other, Relation)):
        return None
    are_equations = one.signs == other.signs == ("=",)
    if not are_equations and "=" in (*one.signs, *other.signs):
        return None
    gap, other_gap = _gap(one), _gap(other)
    if not gap or not other_gap or _variables(gap) != _variables(other_gap):
        return None
    scale = _scale(gap, other_gap)
    if are_equations:
        return scale != 0
    are_as_strict = len(one.signs[0]) == len(other.signs[0])
    if scale > 0 and are_as_strict:
        return True
    are_linear = total_degree(gap) == total_degree(other_gap) == 1
    is_decided = are_linear or len(_variables(gap)) > 1
    return False if is_decided else None


def _in_variables(node: Node) -> Polynomial | None:
    """Expand an exact polynomial in variables; None for another value."""
    # Larger expressions are left to a worker, whose deadline bounds them.
    is_small = len(list(itertools.islice(walk(node), MAX_NODES + 1))) <= MAX_NODES
    if not (is_small and is_exact(node)):
        return None
    expanded = polynomial(node)
    if expanded is None:
        return None
    for monomial in expanded:
        for factor, _ in monomial:
            if not isinstance(factor, Symbol) or factor.name in _NO_VARIABLES:
                return None
    # The number 0 is expanded to a term of its own.
    return {monomial: factor for monomial, factor in expanded.items() if factor}


def _gap(relation: Relation) -> Polynomial | None:
    """Expand the difference of a relation's sides, which is positive where an inequality holds."""
    if len(relation.signs) != 1 or relation.signs[0] not in _SIGNS:
        return None
    larger, smaller = relation.sides
    if relation.signs[0].startswith("<"):
        larger, smaller = smaller, larger
    return _in_variables(Apply("+", (larger, Apply("-", (smaller,)))))


def _variables(expanded: Polynomial) -> set[Node]:
    return {factor for monomial in expanded for factor, _ in monomial}


def _scale(one: Polynomial, other: Polynomial) -> Fraction:
    """Return the factor between two proportional polynomials; 0 for other polynomials."""
    if one.keys() != other.keys():
        return Fraction(0)
    scales = {other[monomial] / factor for monomial, factor in one.items()}
    return scales.pop() if len(scales) == 1 else Fraction(0)
