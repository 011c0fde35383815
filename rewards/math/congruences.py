r"""Statements of which rest a number leaves: `n \equiv 2 \pmod 5`, and the same as `n = 5k + 2`."""

from __future__ import annotations

from fractions import Fraction

from trl_grpo_ext.rewards.answers.numerals import negative
from trl_grpo_ext.rewards.answers.tree import Apply, Node, Number, Relation, Symbol

_COUNTING = frozenset("jklmt")  # letters that stand for any integer


def congruent(node: Node) -> tuple[Node, ...]:
    r"""What a congruence is of, its modulus and its rest: `n`, 5 and 2 of `n \equiv 2 \pmod 5`; else nothing."""
    match node:
        case Relation(("==",), (value, Apply("mod", (_, modulus)) as rest)):
            return value, modulus, rest
        case Relation(("==",), (value, Apply("-", (Apply("mod", (rest, modulus)),)))):
            return value, modulus, Apply("mod", (negative(rest), modulus))
    return ()


def as_congruence(node: Node) -> tuple[Node, ...]:
    """The same of `n = 5k + 2`, for any integer k; else nothing."""
    match node:
        case Relation(("=",), (Symbol() as value, said)) if (found := _linear(said)) and found[1]:
            rest, modulus = Number(found[0]), Number(abs(found[1]))
            return value, modulus, Apply("mod", (rest, modulus))
    return ()


def _linear(node: Node) -> tuple[Fraction, Fraction] | None:
    """The number and the factor of `5k + 2`; None for what is no such sum."""
    match node:
        case Number(value):
            return value, Fraction(0)
        case Symbol(name) if name in _COUNTING:
            return Fraction(0), Fraction(1)
        case Apply("-", (inner,)):
            found = _linear(inner)
            return found and (-found[0], -found[1])
        case Apply("*", (Number(factor), inner)):
            found = _linear(inner)
            return found and (factor * found[0], factor * found[1])
        case Apply("+", (one, other)):
            left, right = _linear(one), _linear(other)
            return left and right and (left[0] + right[0], left[1] + right[1])
    return None
