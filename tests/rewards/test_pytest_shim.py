"""The stand-in for `pytest.approx` says what pytest's says."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from trl_grpo_ext.rewards.unit_tests import pytest_shim

THIRD = Fraction(1, 3)
PAIRS: list[tuple[Any, Any, dict[str, Any]]] = [
    (1 / 3, THIRD, {}),
    (THIRD, 1 / 3, {}),
    (THIRD, THIRD + Fraction(1, 10**8), {}),
    (THIRD, THIRD + Fraction(1, 100), {}),
    (THIRD, 0.34, {"abs": 0.01}),
    (Decimal("0.1"), Decimal("0.10000000001"), {}),
    (Decimal("0.1"), Decimal("0.11"), {}),
    (Decimal("0.1"), Decimal("0.11"), {"rel": Decimal("0.2")}),
    (Decimal("0.1"), 0.1, {}),
    (0.1, Decimal("0.1"), {}),
    (Decimal("1"), 1, {}),
    (1, Decimal("1"), {}),
    ([THIRD, Decimal("2")], [1 / 3, Decimal("2.0000000001")], {}),
    ({"a": Decimal("2")}, {"a": Decimal("3")}, {}),
    (Decimal("NaN"), Decimal("NaN"), {"nan_ok": True}),
    (math.inf, Decimal("Infinity"), {}),
    (1.0, "1.0", {}),
    (1.0, None, {}),
]


def equal(approx: Any, actual: Any) -> bool:
    """Compare two values like a test would; an exception counts as unequal."""
    try:
        return bool(actual == approx)
    except TypeError:
        return False


@pytest.mark.parametrize(("expected", "actual", "settings"), PAIRS)
def test_approx_compares_fractions_and_decimals_on_both_sides_as_pytest_does(
    expected: Any, actual: Any, settings: dict[str, Any]
) -> None:
    ours = equal(pytest_shim.approx(expected, **settings), actual)
    assert ours is equal(pytest.approx(expected, **settings), actual)
