"""Check whether one value is a rounding of another, as `≈` claims: `46.67 ≈ 47`, `48 * 21 ≈ 50 * 20`."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from trl_grpo_ext.answers.compare.amounts import at_a_point, measured
from trl_grpo_ext.answers.read.tree import Node, Number, children, rebuilt, symbols

# An estimate rounds each number to one or two digits.
ESTIMATED = (1, 2)
# Digits to which a value that is worked out is exact.
_EXACT = 12


def is_rounding(value: Node, rounded: Node) -> bool:
    """Check whether a value is another, rounded at some place, or worked out from rounded numbers.

    Examples:
        >>> def number(text):
        ...     return Number(Fraction(text))
        >>> [is_rounding(number("46.67"), number(text)) for text in ("47", "50", "46", "60")]
        [True, True, False, False]
    """
    value, rounded = measured(value)[0], measured(rounded)[0]
    if symbols(value) or symbols(rounded):
        return False
    try:
        size = _size_of(rounded)
        if abs(_size_of(value) - size) * 2 <= _place_of(size):
            return True
        estimates = [_size_of(_estimate(value, digits)) for digits in ESTIMATED]
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False
    return children(value) != () and size in estimates


def _size_of(node: Node) -> Decimal:
    """Return a real value as a decimal.

    Raises:
        LookupError: The node is more than arithmetic.
        TypeError: The value is not real.
    """
    if isinstance(node, Number):
        return Decimal(node.value.numerator) / Decimal(node.value.denominator)
    value = at_a_point(node)
    return Decimal(format(float(value), f".{_EXACT}g"))  # type: ignore[arg-type]


def _place_of(rounded: Decimal) -> Decimal:
    """Return the place of a decimal's last nonzero digit: 100 for 900, 0.1 for 13.7; 0 for 0."""
    if not rounded:
        return rounded
    return Decimal(1).scaleb(int(rounded.normalize().as_tuple().exponent))


def _estimate(node: Node, digits: int) -> Node:
    """Round each number of a calculation to a number of digits: `48 * 21` becomes `50 * 20`."""
    if isinstance(node, Number):
        return Number(Fraction(format(float(node.value), f".{digits}g")))
    return rebuilt(node, tuple(_estimate(one, digits) for one in children(node)))
