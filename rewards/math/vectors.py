"""Vectors and matrices in the forms in which they are written."""

from __future__ import annotations

from fractions import Fraction

from trl_grpo_ext.rewards.answers.numerals import negative
from trl_grpo_ext.rewards.answers.tree import Apply, Collection, Matrix, Node, Number, Symbol, symbols


def items_of(node: Node) -> tuple[str, tuple[Node, ...]] | None:
    """What a collection or a vector holds, and how; None for a value that is none."""
    match node:
        case Collection(kind, items):
            return kind, items
        case Matrix(rows) if len(rows) == 1 or len(rows[0]) == 1:
            return "()", tuple(cell for row in rows for cell in row)
        case Matrix():
            return None
    return ("{}", (node,))


def matrix_of(node: Node) -> Node:
    """The matrix that a list of lists of one length is: `[[1, 0], [0, 1]]`; any other value as it is."""
    match node:
        case Collection("[]" | "()", rows) if all(
            isinstance(row, Collection) and row.kind in ("[]", "()") for row in rows
        ):
            cells = tuple(row.items for row in rows if isinstance(row, Collection))
            return Matrix(cells) if len({len(row) for row in cells}) == 1 else node
    return node


def components(node: Node, size: int) -> Collection | None:
    r"""The vector that a sum of multiples of `\mathbf{i}`, `\mathbf{j}` and `\mathbf{k}` is; None for others."""
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
