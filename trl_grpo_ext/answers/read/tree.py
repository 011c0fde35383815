"""What an answer says, as a tree of plain values: the types by which answers are judged and compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from trl_grpo_ext.answers.read.units import NONE, Unit


@dataclass(frozen=True, slots=True)
class Number:
    """A rational number as it is written; `places` are the digits after its point, None without one."""

    value: Fraction
    places: int | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, or a constant such as `pi`, `oo` (infinity), `Reals` and `EmptySet`."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator or a function with its arguments: `+`, `*`, `^`, `sin`, `f`."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Collection:
    """Several values: a `list` without brackets, or what stands in `()`, `(]`, `[)`, `[]` or `{}`."""

    kind: str
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """Sides with the signs between them: `1 < x <= 2` has three sides and two signs."""

    signs: tuple[str, ...]
    sides: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Logic:
    """Statements joined by `or`, or by `and`."""

    word: str
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Builder:
    """A set by its condition: `{x | x > 3}`."""

    element: Node
    condition: Node


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of values, all of one length."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount of a unit that is known."""

    amount: Node
    unit: Unit = NONE


@dataclass(frozen=True, slots=True)
class Words:
    """Words, in small letters, with one space between them."""

    text: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """LaTeX that only a computer algebra system reads; `operator` names what that works out, such as `integral`."""

    source: str
    operator: str = ""


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day. It `is_open` if it may be in the morning or in the afternoon: `2:30`, not `14:30`."""

    hour: int
    minute: int
    second: int = 0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Date:
    """A day of a month; the year is None where the text has none. It `is_open` if the day may be the month."""

    month: int
    day: int
    year: int | None = None
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """All amounts between two, each with its unit: `20 to 25 minutes`."""

    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class Remainder:
    """A quotient and the rest of a division: `7 remainder 2`."""

    quotient: Number
    rest: Number


OF_OWN_TYPE = (Time, Date, Range, Remainder)  # values that are equal only to values of their type
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
    """The values that a value is made of."""
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
            return Matrix(tuple(below[at : at + width] for at in range(0, len(below), width)))
        case Quantity(_, unit):
            return Quantity(below[0], unit)
        case Range():
            return Range(*below)
        case _:
            return node


def rename(node: Node, old: str, new: str) -> Node:
    """The value with one letter under another name."""
    if isinstance(node, Symbol):
        return Symbol(new) if node.name == old else node
    return rebuilt(node, tuple(rename(one, old, new) for one in children(node)))


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending += children(one)


CONSTANTS = frozenset(("pi", "e", "i", "oo", "Reals", "Integers", "Naturals", "Rationals", "Complexes", "EmptySet"))


def symbols(node: Node) -> frozenset[str]:
    """The names of the variables in a value.

    Examples:
        >>> sorted(symbols(Apply("*", (Symbol("x"), Apply("^", (Symbol("pi"), Symbol("y")))))))
        ['x', 'y']
    """
    return frozenset(one.name for one in walk(node) if isinstance(one, Symbol)) - CONSTANTS


def is_exact(node: Node) -> bool:
    """Whether no number in a value is written with a decimal point."""
    return not any(isinstance(one, Number) and one.places is not None for one in walk(node))
