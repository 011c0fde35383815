"""Amounts: what a number may mean, in which unit, and how near two of them must be."""

from __future__ import annotations

from fractions import Fraction

from trl_grpo_ext.rewards.answers.tree import Apply, Node, Number, Quantity
from trl_grpo_ext.rewards.answers.units import NONE, Unit, unit

DECIMALS = 6
CLOSE = Fraction(1, 1000)  # of its size: how far a decimal may be off, however few places it has
MIN_ROUNDED = 3  # digits of a gold that may be a rounded value


def same_number(gold: Number, answer: Number, decimals: int = DECIMALS) -> bool:
    """Whether two numbers are equal, decimals to within `decimals` places and a thousandth of their size.

    A gold of three digits or more with a decimal point may be a rounded value: what rounds to it is equal.

    Examples:
        >>> third, written = Number(Fraction(1, 3)), Number(Fraction("0.333333"), 6)
        >>> same_number(third, written), same_number(Number(Fraction("6.67"), 2), Number(Fraction(20, 3)))
        (True, True)
        >>> same_number(Number(Fraction("0.5"), 1), Number(Fraction("0.53"), 2))
        False
    """
    if gold.value == answer.value:
        return True
    if gold.places is None and answer.places is None:
        return False
    distance = abs(gold.value - answer.value)
    allowed = Fraction(1, 10**decimals)
    close = CLOSE * abs(gold.value) if decimals >= DECIMALS else distance
    return (distance <= allowed and distance <= close) or rounds_to(gold, answer.value, answer.places)


def rounds_to(gold: Number, value: Fraction, places: int | None) -> bool:
    """Whether a gold that is written as a decimal is this value, rounded to the gold's places."""
    if gold.places is None or gold.places < 1 or (places is not None and places <= gold.places):
        return False
    digits = str(abs(gold.value.numerator * 10**gold.places // gold.value.denominator)).lstrip("0")
    return len(digits) >= MIN_ROUNDED and abs(gold.value - value) * 2 <= Fraction(1, 10**gold.places)


def measured(node: Node) -> tuple[Node, Unit]:
    """The amount and the unit of a value."""
    match node:
        case Quantity(amount, of):
            return amount, of
        case Apply("deg", (amount,)):
            return amount, unit("deg")
    return node, NONE


def percentages(node: Node) -> list[Node]:
    """What a number may mean: `28%` is 0.28 or 28, all else what it is."""
    match node:
        case Apply("%", (Number(value, places),)):
            return [Number(value / 100, None if places is None else places + 2), Number(value, places)]
        case Apply("%", (value,)):
            return [Apply("/", (value, Number(Fraction(100)))), value]
        case Apply("ratio", (Number(above), Number(below))) if below:
            return [Number(above / below)]
    return [node]


def is_plain_number(node: Node) -> bool:
    """Whether a value is a plain number, in any unit, so that nothing is left to be worked out."""
    amount = measured(node)[0]
    return any(isinstance(one, Number) for one in percentages(amount))
