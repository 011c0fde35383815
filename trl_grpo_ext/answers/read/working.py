"""Read units in working before a result: `4 m * 5.5 m = 22 m^2` contains the unit `m`, no variable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from trl_grpo_ext.answers.read.quantities import known_words
from trl_grpo_ext.answers.read.statements import TEMPERATURES
from trl_grpo_ext.answers.read.tokens import Token
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Node,
    Number,
    Quantity,
    Relation,
    Symbol,
    symbols,
)
from trl_grpo_ext.answers.read.units import NONE, Unit, is_unit, raised_by, unit

_OPERATORS = frozenset(("+", "-", "*", "/", "frac"))
# The largest exponent that is computed.
_MAX_POWER = 12
# Largest relative error of a conversion between units: 5 miles are 8 km, and a month has 4 weeks.
ROUGH = Fraction(1, 10)


def with_unit_letters(row: Sequence[Token]) -> Sequence[Token]:
    r"""Have units of working before a `=` or `≠` read as letters, which products and quotients may hold.

    So `\text{km}` of `\frac{120\text{ km}}{1.5\text{ h}} = 80\text{ km/h}` is read; `with_units` gives it a value.
    Counted things are dropped, since they change no value: `2 boys + 3 girls = 5 children`, `2 (boys) + 3 (girls) = 5`.
    A formula of words is a name as the first side, and left out as another: `length * width = 6 * 4 = 24`. Sides
    without an operation are left as they are, and so are amounts of several units, such as `2 h 15 min`.
    """
    letters: list[Token] = []
    start = 0
    for end, token in enumerate(row):
        if token.kind != "sign" or token.text not in ("=", "!="):
            continue
        side = row[start:end]
        is_of_words = token.text == "=" and _is_formula_of_words(side)
        if not is_of_words:
            letters += [*_calculation(side), token]
        elif not letters:
            name = " ".join(part.text for part in side)
            letters += [side[0]._replace(kind="word", text=name), token]
        start = end + 1
    return [*letters, *row[start:]]


def _calculation(side: Sequence[Token]) -> Sequence[Token]:
    """Return a side with its units as letters, without labels and counted things."""
    # Without words, a side has neither of them.
    if not any(token.kind == "word" for token in side):
        return side
    return _side_with_unit_letters(_side_without_things(_side_without_labels(side)))


def _is_formula_of_words(side: Sequence[Token]) -> bool:
    """Check whether a side calculates with words alone: `length * width`."""
    words = [token.text.casefold() for token in side if token.kind == "word"]
    others = [
        token for token in side if token.kind not in ("word", "open", "close", "group")
    ]
    if not words or all(map(is_unit, words)) or _changing_words().intersection(words):
        return False
    return bool(others) and all(token.text in _OPERATORS for token in others)


def _side_without_labels(side: Sequence[Token]) -> Sequence[Token]:
    """Drop the bracketed words behind a calculation's numbers: `12 (girls) + 15 (boys)` is `12 + 15`.

    Brackets with a unit, a number or a word that changes a number are left.
    """
    if not any(token.text in _OPERATORS for token in side):
        return side
    kept: list[Token] = []
    # The place in `kept` of a bracket that has had only words so far; 0 outside such brackets.
    opened = 0
    for token in side:
        if token.kind == "open":
            is_behind = kept and kept[-1].kind in ("number", "word")
            opened = len(kept) if is_behind else 0
        if token.kind == "close" and opened and opened + 1 < len(kept):
            del kept[opened:]
            opened = 0
            continue
        if token.kind != "open" and not _is_label_word(token):
            opened = 0
        kept.append(token)
    return kept


def _is_label_word(token: Token) -> bool:
    """Check for a word that may name a number: no unit, and no word that changes a number."""
    said = token.text.casefold()
    is_word = token.kind == "word" and not is_unit(token.text)
    return is_word and said not in _changing_words() and raised_by(said) == 1


def _side_without_things(side: Sequence[Token]) -> Sequence[Token]:
    """Drop the counted things of a calculation: `10 apples - 4 apples` has the value of `10 - 4`.

    A side is left as it is if it has units or letters, if a word changes a number, or if a number follows the things.
    """
    operates = any(token.text in _OPERATORS for token in side)
    if not operates or any(token.kind in ("symbol", "function") for token in side):
        return side
    kept: list[Token] = []
    for place, token in enumerate(side):
        has_number = any(before.kind == "number" for before in kept)
        if token.kind != "word" or token.text == "usd" or not has_number:
            kept.append(token)
            continue
        is_counted = kept[-1].kind == "number" and not is_unit(token.text)
        follows_number = place + 1 < len(side) and side[place + 1].kind in (
            "number",
            "open",
        )
        if not is_counted or follows_number or token.text.casefold() in _changing_words():
            return side
    return kept


def _side_with_unit_letters(side: Sequence[Token]) -> Sequence[Token]:
    units = [place for place in range(1, len(side)) if _is_unit_of_number(side, place)]
    followed = {side[place + 1].kind for place in units if place + 1 < len(side)}
    operates = any(token.text in _OPERATORS for token in side)
    if not operates or followed & {"number", "word"}:
        return side
    return [
        token._replace(kind="symbol") if place in units else token
        for place, token in enumerate(side)
    ]


@cache
def _changing_words() -> frozenset[str]:
    return known_words("changing") | known_words("scaling") | known_words("negating")


def _is_unit_of_number(side: Sequence[Token], place: int) -> bool:
    return (
        side[place].kind == "word"
        and is_unit(side[place].text)
        and side[place - 1].kind == "number"
    )


def with_units(node: Node) -> Node:
    """Rewrite sides of an equation chain as quantities if a quantity ends the chain; unknown sides stay unchanged.

    Other values are returned unchanged, as is working of other measures than the result.

    Examples:
        >>> from trl_grpo_ext.answers.read.answer import read
        >>> read("4 m * 5.5 m = 22 m^2").node.sides[0] == read("22 m^2").node
        True
        >>> read("45 + 90 = 135 minutes = 2 h 15 min").node.sides[0] == read("135 minutes").node
        True
    """
    if not isinstance(node, Relation) or set(node.signs) != {"="}:
        return node
    result = node.sides[-1]
    if not isinstance(result, Quantity):
        return node
    sides: list[Node] = []
    following = result.unit
    for side in reversed(node.sides):
        if _converted(side, following) is None:
            following = _only_unit(side) or following
        sides.append(_as_quantity(side, following))
    return Relation(node.signs, tuple(reversed(sides)))


def _only_unit(side: Node) -> Unit | None:
    """Return the unit of a chain's side; None for several units, or one in a power."""
    if isinstance(side, Quantity) and not symbols(side):
        return side.unit
    size = size_of(side)
    units = {unit(name) for name in symbols(side) if is_unit(name)}
    if size is None or len(units) != 1:
        return None
    only = units.pop()
    return only if only.measures == size.measures else None


def _as_quantity(side: Node, following: Unit) -> Node:
    """Convert a chain's side to a quantity in the following side's unit; unknown values stay unchanged.

    Working without units has the unit of its result: `45 + 90 = 135 minutes`. A letter alone is a variable: `m = 3 m`.
    """
    if isinstance(side, Symbol) or (isinstance(side, Quantity) and not symbols(side)):
        return side
    converted = _converted(side, following)
    if converted is not None:
        return Quantity(Number(converted), following)
    found = size_of(side)
    if found is None:
        return side
    if not symbols(side) and not found.measures:
        return Quantity(Number(found.factor), following)
    if found.measures != following.measures:
        return side
    return Quantity(Number(found.factor / following.factor), following)


def _converted(side: Node, following: Unit) -> Fraction | None:
    """Return the amount of a side that converts by a bare factor: `5.2 m * 100` before cm is 520; None for other sides.

    The factor may be rough, as in `5 miles * 1.6 = 8 km`.
    """
    factors = _factors(side)
    units = [place for place, one in enumerate(factors) if isinstance(one, Symbol)]
    numbers = [one.value for one in factors if isinstance(one, Number)]
    # The number before the unit is the amount; a conversion needs one more.
    if len(units) != 1 or units == [0] or len(numbers) != len(factors) - 1:
        return None
    of = size_of(factors[units[0]])
    if of is None or of == following or of.measures != following.measures:
        return None
    exact = of.factor / following.factor
    bare = numbers[: units[0] - 1] + numbers[units[0] :]
    converts = any(abs(factor - exact) <= ROUGH * exact for factor in bare)
    return math.prod(numbers, start=Fraction(1)) if converts else None


def _factors(node: Node) -> list[Node]:
    """Return the factors of a product, in order; a number that divides it counts as its reciprocal."""
    match node:
        case Apply("*", factors):
            return [part for factor in factors for part in _factors(factor)]
        case Apply("/", (value, Number(divisor))) if divisor:
            return [*_factors(value), Number(1 / divisor)]
    return [node]


def size_of(node: Node) -> Unit | None:
    """Compute the measures and the size of working; None for anything except sums, products, quotients and powers.

    Examples:
        >>> from trl_grpo_ext.answers.read.answer import read
        >>> size_of(read("3 * 4 + 2").node).factor, size_of(read("x + 1").node)
        (Fraction(14, 1), None)
    """
    match node:
        case Number(value):
            return Unit(factor=value)
        case Symbol(name) if is_unit(name):
            return unit(name)
        case Quantity(amount, of):
            return _combined("*", [size_of(amount), of])
        case Apply("^", (base, Number(exponent))) if (
            exponent.denominator == 1 and abs(exponent) <= _MAX_POWER
        ):
            found = size_of(base)
            return (
                None
                if found is None or not found.factor
                else NONE.times(found, int(exponent))
            )
        case Apply("%", (amount,)):
            return _combined("*", [size_of(amount), Unit(factor=Fraction(1, 100))])
        case Apply("deg", (amount,)):
            return _combined("*", [size_of(amount), unit("deg")])
        case Apply("*", (Apply("deg", (amount,)), Symbol(letter))) if (
            letter in TEMPERATURES
        ):
            return _combined("*", [size_of(amount), TEMPERATURES[letter]])
        case Apply("-", (amount,)):
            return _combined("*", [size_of(amount), Unit(factor=Fraction(-1))])
        case Apply(name, arguments) if name in ("+", "*", "/"):
            return _combined(name, [size_of(argument) for argument in arguments])
    return None


def _combined(operation: str, parts: list[Unit | None]) -> Unit | None:
    """Apply an operation to measured values; None if one is unknown, or if a sum mixes measures."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    total = known[0]
    for part in known[1:]:
        if operation == "*":
            total = total.times(part)
        elif operation == "/" and part.factor:
            total = total.times(part, -1)
        elif operation == "+" and part.measures == total.measures:
            total = Unit(total.measures, total.factor + part.factor)
        else:
            return None
    return total
