"""Typed values of answers, as a tree: answers are judged and compared by these types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from trl_grpo_ext.answers.read.units import NONE, Unit


@dataclass(frozen=True, slots=True)
class Number:
    """A rational number as written.

    Attributes:
        value: The exact value.
        places: Number of digits after the decimal point; None without a point.
    """

    value: Fraction
    places: int | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, or a constant such as `pi`, `oo` (infinity), `Reals` and `EmptySet`."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator or function with its arguments: `+`, `*`, `^`, `sin`, `f`."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Collection:
    """Several values: a `list` without brackets, or a collection in `()`, `(]`, `[)`, `[]` or `{}`."""

    kind: str
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """A chain of sides with the signs between them: `1 < x <= 2` has three sides and two signs."""

    signs: tuple[str, ...]
    sides: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Logic:
    """Statements joined by `or`, `and`, or `same` (for equivalent values)."""

    word: str
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Builder:
    """A set defined by a condition: `{x | x > 3}`."""

    element: Node
    condition: Node


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of values, all of equal length."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount with a known unit."""

    amount: Node
    unit: Unit = NONE


@dataclass(frozen=True, slots=True)
class Words:
    """Words in lower case, with single spaces between them.

    Text with two numbers side by side, and text that resembles a date, keep their case and spacing.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """LaTeX that only sympy can evaluate.

    Attributes:
        source: The LaTeX.
        operator: The name of the operator to evaluate, such as `integral`; empty if unknown.
    """

    source: str
    operator: str = ""


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day.

    Attributes:
        hour: 0 to 23.
        minute: 0 to 59.
        second: 0 to 59.
        is_open: True if am or pm is unknown: for `2:30`, not for `14:30`.
        weekday: Its first three letters, `mon`; empty if the text names no weekday.
    """

    hour: int
    minute: int
    second: int = 0
    is_open: bool = False
    weekday: str = ""


@dataclass(frozen=True, slots=True)
class Date:
    """A calendar date.

    Attributes:
        month: 1 to 12.
        day: 1 to 31.
        year: None if the text names no year.
        is_open: True if day and month may be swapped: for `03/04/2020`.
        weekday: Its first three letters, `mon`; empty if the text names no weekday.
    """

    month: int
    day: int
    year: int | None = None
    is_open: bool = False
    weekday: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """All amounts between two amounts with units: `20 to 25 minutes`."""

    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class Remainder:
    """A division's quotient and remainder: `7 remainder 2`."""

    quotient: Number
    rest: Number


# Types whose values equal only values of the same type.
OF_OWN_TYPE = (Time, Date, Range, Remainder)
Node = (
    Number
    | Symbol
    | Apply
    | Collection
    | Relation
    | Logic
    | Builder
    | Matrix
    | Quantity
    | Words
    | Opaque
    | Time
    | Date
    | Range
    | Remainder
)


def children(node: Node) -> tuple[Node, ...]:
    """Return a value's child values; an empty tuple for a leaf."""
    match node:
        case Apply(_, arguments):
            return arguments
        case Collection(_, items) | Logic(_, items):
            return items
        case Relation(_, sides):
            return sides
        case Builder(element, condition):
            return (element, condition)
        case Matrix(rows):
            return tuple(cell for row in rows for cell in row)
        case Quantity(amount):
            return (amount,)
        case Range(low, high):
            return (low, high)
        case _:
            return ()


def rebuilt(node: Node, below: tuple[Node, ...]) -> Node:
    """Build a copy of the node with `below` as its child nodes."""
    match node:
        case Apply(name, _):
            return Apply(name, below)
        case Collection(kind, _):
            return Collection(kind, below)
        case Relation(signs, _):
            return Relation(signs, below)
        case Logic(word, _):
            return Logic(word, below)
        case Builder():
            return Builder(*below)
        case Matrix(rows):
            width = len(rows[0])
            return Matrix(
                tuple(below[at : at + width] for at in range(0, len(below), width))
            )
        case Quantity(_, unit):
            return Quantity(below[0], unit)
        case Range():
            return Range(*below)
        case _:
            return node


def rename(node: Node, old: str, new: str) -> Node:
    """Rename a symbol in a value."""
    if isinstance(node, Symbol):
        return Symbol(new) if node.name == old else node
    return rebuilt(node, tuple(rename(one, old, new) for one in children(node)))


def with_values(node: Node, values: Mapping[str, Node]) -> Node:
    """Replace the letters of an expression by their values."""
    if isinstance(node, Symbol):
        return values.get(node.name, node)
    if not children(node):
        return node
    return rebuilt(node, tuple(with_values(one, values) for one in children(node)))


def walk(node: Node) -> Iterator[Node]:
    """Yield a node with all descendants."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending += children(one)


CONSTANTS = frozenset(
    (
        "pi",
        "e",
        "i",
        "oo",
        "Reals",
        "Integers",
        "Naturals",
        "Rationals",
        "Complexes",
        "EmptySet",
    )
)


def symbols(node: Node) -> frozenset[str]:
    """Return the names of a value's variables, without constants.

    Examples:
        >>> sorted(symbols(Apply("*", (Symbol("x"), Apply("^", (Symbol("pi"), Symbol("y")))))))
        ['x', 'y']
    """
    return frozenset(one.name for one in walk(node) if isinstance(one, Symbol)) - CONSTANTS


def is_exact(node: Node) -> bool:
    """Check that no number in a value contains a decimal point."""
    return not any(isinstance(one, Number) and one.places is not None for one in walk(node))
