r"""Values with several parts: vectors and matrices in all their notations, and statements about remainders.

`n \equiv 2 \pmod 5` and `n = 5k + 2` are equivalent statements about a remainder.
"""

from __future__ import annotations

from fractions import Fraction

from trl_grpo_ext.answers.read.numerals import negative
from trl_grpo_ext.answers.read.tree import Apply, Collection, Matrix, Node, Number, Relation, Symbol, symbols

# Letters that stand for any integer.
_COUNTING = frozenset("jklmt")


def items_of(node: Node) -> tuple[str, tuple[Node, ...]] | None:
    """Return a collection's or vector's kind and items; None for a matrix.

    A single value counts as a set with that value alone.
    """
    match node:
        case Collection(kind, items):
            return kind, items
        case Matrix(rows) if len(rows) == 1 or len(rows[0]) == 1:
            return "()", tuple(cell for row in rows for cell in row)
        case Matrix():
            return None
    return ("{}", (node,))


def matrix_of(node: Node) -> Node:
    """Convert a list of lists of equal length to a matrix: `[[1, 0], [0, 1]]`; other values stay unchanged."""
    match node:
        case Collection("[]" | "()", rows) if all(
            isinstance(row, Collection) and row.kind in ("[]", "()") for row in rows
        ):
            cells = tuple(row.items for row in rows if isinstance(row, Collection))
            return Matrix(cells) if len({len(row) for row in cells}) == 1 else node
    return node


def components(node: Node, size: int) -> Collection | None:
    r"""Convert a sum of multiples of `\mathbf{i}`, `\mathbf{j}`, `\mathbf{k}` to a vector; None for other values."""
    found: dict[str, Node] = {}
    for term in _terms(node):
        match term:
            case Apply("*", (amount, Symbol(name))) | Apply("*", (amount, Apply("hat", (Symbol(name),)))):
                pass
            case Symbol(name) | Apply("hat", (Symbol(name),)):
                amount = Number(Fraction(1))
            case _:
                return None
        if name not in "ijk"[:size] or name in found or symbols(amount):
            return None
        found[name] = amount
    return Collection("()", tuple(found.get(name, Number(Fraction(0))) for name in "ijk"[:size]))


def _terms(node: Node) -> list[Node]:
    match node:
        case Apply("+", (one, other)):
            return [*_terms(one), *_terms(other)]
        case Apply("-", (Apply("*", (amount, unit_vector)),)):
            return [Apply("*", (negative(amount), unit_vector))]
        case Apply("-", (inner,)):
            return [Apply("*", (Number(Fraction(-1)), inner))]
    return [node]


def congruent(node: Node) -> tuple[Node, ...]:
    r"""Split the congruence `n \equiv 2 \pmod 5` into `n`, 5 and `2 mod 5`; return an empty tuple for other nodes."""
    match node:
        case Relation(("==",), (value, Apply("mod", (_, modulus)) as rest)):
            return value, modulus, rest
        case Relation(("==",), (value, Apply("-", (Apply("mod", (rest, modulus)),)))):
            return value, modulus, Apply("mod", (negative(rest), modulus))
    return ()


def remainder(node: Node) -> Number | None:
    r"""Return the remainder of `4 \pmod 7`, or of a chain ending with it; None for others, such as `9 \pmod 7`."""
    match node:
        case Apply("mod", (Number(rest) as said, Number(modulus))) if 0 <= rest < modulus:
            return said
        case Relation(signs, (*_, last)) if "==" in signs:
            return remainder(last)
    return None


def as_congruence(node: Node) -> tuple[Node, ...]:
    """Read `n = 5k + 2` as a congruence: value `n`, modulus 5, remainder 2; an empty tuple for other statements."""
    match node:
        case Relation(("=",), (Symbol() as value, said)) if (found := _linear(said)) and found[1]:
            rest, modulus = Number(found[0]), Number(abs(found[1]))
            return value, modulus, Apply("mod", (rest, modulus))
    return ()


def _linear(node: Node) -> tuple[Fraction, Fraction] | None:
    """Split a linear term into constant and factor: `5k + 2` gives 2 and 5; None for other values."""
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
