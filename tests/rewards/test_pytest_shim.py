"""The stand-in for `pytest.approx` says what pytest's says."""

from __future__ import annotations

import math
from collections import deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy
import pytest

from trl_grpo_ext.programs.suites.in_judge import pytest_shim

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
    (True, 1, {}),
    (1, True, {}),
    (True, True, {}),
    (numpy.array([0.3, 1]), [0.3, 1], {}),
    (numpy.array([0.3, 1]), numpy.array([0.3, 1 + 1e-9]), {}),
    (numpy.array([0.3, 1]), numpy.array([[0.3, 1]]), {}),
    (numpy.array([0.3, 0.3]), 0.3, {}),
    (numpy.array([[0.3], [1]]), [[0.3], [1]], {}),
    (numpy.array([[0.3], [1]]), [[0.3], [2]], {}),
    (numpy.array([0.3, math.nan]), [0.3, math.nan], {"nan_ok": True}),
    (numpy.array(0.3), 0.3, {}),
    (numpy.array([]), numpy.array([]), {}),
    (numpy.array([]), numpy.empty((0, 2)), {}),
    ([0.3, 1], numpy.array([0.3, 1]), {}),
    ([0.3, 1], numpy.array([[0.3], [1]]), {}),
    ([0.3, 1], numpy.array([0.3, 2]), {}),
    ((0.3,), numpy.array(0.3), {}),
    (0.3, numpy.array([[0.3, 0.3]]), {}),
    (0.3, numpy.array([0.3, 0.4]), {}),
    (0.3, numpy.float64(0.3 + 1e-9), {}),
    (numpy.float32(0.5), numpy.float32(0.5), {}),
    ([0.3, 1], deque([0.3, 1]), {}),
]


def equal(approx: Any, actual: Any) -> bool:
    """Compare two values like a test would, from both sides; an exception counts as unequal."""
    try:
        found = bool(actual == approx)
        assert bool(approx == actual) is found
        return found
    except TypeError:
        return False


@pytest.mark.parametrize(("expected", "actual", "settings"), PAIRS)
def test_approx_compares_numbers_and_arrays_on_both_sides_as_pytest_does(
    expected: Any, actual: Any, settings: dict[str, Any]
) -> None:
    ours = equal(pytest_shim.approx(expected, **settings), actual)
    assert ours is equal(pytest.approx(expected, **settings), actual)


def test_an_array_without_items_is_close_to_no_number() -> None:
    empty = numpy.empty((0, 1))
    assert not equal(pytest_shim.approx(0.3), empty)
    assert not equal(pytest_shim.approx([0.3, 0.3]), [empty, empty])
    assert not equal(pytest_shim.approx(numpy.array([0.3])), empty)
