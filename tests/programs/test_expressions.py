"""Expressions written by a program are evaluated as values; nothing in them is run."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.programs.sandbox.inside.guard.expressions import (
    MAX_BITS,
    NotPlainError,
    evaluate,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
KEYS = st.integers() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner)
        | st.sets(KEYS)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_the_repr_of_plain_data_gives_the_data_again(value: Any) -> None:
    assert evaluate(repr(value), {}, {}) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(1 + 2) * 3 - 4 / 2", 7.0),
        ("  2 ** 10 % 7", 2),
        ("-5 // 2 << 3", -24),
        ("'ab' * 2 + 'c'", "ababc"),
        ("not 0", True),
        ("~1 & 6 | 1 ^ 3", 6),
        ("float('inf')", float("inf")),
        ("Decimal('1.5')", Decimal("1.5")),
        ("dict(a=[1])", {"a": [1]}),
        (b"[1, 2]", [1, 2]),
        ("1 < 2 <= 2 and 3 != 4 or 1 / 0", True),
        ("0 or 'x'", "x"),
        ("1 if 2 > 3 else 4", 4),
        ("max(1, abs(-2)) + len([3]) + math.sqrt(4) + math.floor(math.pi)", 8.0),
    ],
)
def test_arithmetic_and_classes_of_plain_values_mean_what_they_mean_in_python(
    text: str, value: Any
) -> None:
    assert evaluate(text, {"Decimal": Decimal, "math": math}, {}) == value


def test_names_that_are_given_are_read_and_those_of_the_test_are_not() -> None:
    assert evaluate("x + 1", {"x": 24}, {}, {"x": 2}) == 3
    with pytest.raises(NotPlainError):
        evaluate("x + 1", {"x": 24}, {}, {"y": 2})


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9",
        "-1 << 1000000",
        "2 ** -1000000",
        f"(2 ** {MAX_BITS - 1}) * (2 ** {MAX_BITS - 1})",
        "'x' * 10**9",
        "10**9 * [0]",
        "'%1000000000d' % 1",
        "2.0 ** Decimal(10**9)",
        "secret",
        "secret + 1",
        "open('x')",
        "helper(1)",
        "module.secret",
        "().__class__",
        "[x for x in (1, 2)]",
        "lambda: 1",
        "(y := 1)",
        "f'{1}'",
        "1 is 2",
        "1 in [1]",
        "abs",
        "math",
        "math.sqrt",
        "math.secret",
        "print(1)",
        "number",
        "[1, 2][0]",
        "{**{}}",
        "[*[1]]",
        "dict(**{})",
        "print",
        "type",
    ],
)
def test_whatever_is_more_than_a_value_is_refused(text: str) -> None:
    module = type(pytest)("module")
    module.__dict__["secret"] = 3
    names = {
        "secret": 24,
        "helper": lambda x: x,
        "module": module,
        "Decimal": Decimal,
        "math": math,
        "number": 3,
    }
    with pytest.raises(NotPlainError):
        evaluate(text, names, {})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1 +", SyntaxError),
        ("nothing", NameError),
        ("1 / 0", ZeroDivisionError),
        ("int('x')", ValueError),
        (3, TypeError),
    ],
)
def test_a_wrong_expression_raises_what_eval_raises(
    text: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        evaluate(text, {}, {})
