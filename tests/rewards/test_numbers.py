"""The one reader of numbers: what mathematics and `NumericVerifier` take for the same number, and what for none."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.rewards.answers.numbers import Number, leading_number, number, read_number
from trl_grpo_ext.rewards.math import math_reward
from trl_grpo_ext.rewards.numeric import numeric_reward

SAME = [
    ("1,234", "1234", True),
    ("1 234", "1234", True),
    ("1'234", "1234", True),
    ("-.5", "-1/2", False),
    ("5.", "5", True),
    (r"\dfrac{-3}{4}", "-3/4", True),
    (r"\frac12", "1/2", True),
    (r"\\frac{1}{2}", "1/2", True),
    ("-1 1/2", "-3/2", True),
    (r"1\frac{1}{2}", "3/2", True),
    ("10^{-3}", "1/1000", True),
    (r"1.5\times 10^3", "1500", False),
    ("1.5e3", "1500", False),
    ("5 x 10^2", "500", True),
    ("１２３", "123", True),
    ("½", "1/2", True),
]


@pytest.mark.parametrize(("text", "value", "exact"), SAME)
def test_a_number_is_the_same_for_all_verifiers(text: str, value: str, exact: bool) -> None:
    assert number(text) == Number(Fraction(value), exact)
    for reward in (math_reward, numeric_reward):
        assert reward([rf"\boxed{{{text}}}", rf"\boxed{{{text}}}"], answer=[value, "77"]) == [1.0, 0.0]


@pytest.mark.parametrize(
    "text", ["", "-", "1/0", r"\frac{1}{0}", "1,23", "12,34,567", "1.2.3", "2^{10}", "1_2", "--1/2"]
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert number(text) is None
    assert read_number(text) == "not_a_number"


@pytest.mark.parametrize("text", ["10^{401}", "1e-999999999", "10^99999999999999999999"])
def test_what_nobody_could_compute_is_not_computed(text: str) -> None:
    assert number(text) is None


def test_a_fraction_of_decimals_is_a_number_where_nothing_has_to_be_evaluated() -> None:
    assert number(r"\frac{1.5}{2}") is None
    assert read_number(r"\frac{1.5}{2}") == Number(Fraction(3, 4), False)
    assert math_reward([r"\boxed{\frac{1.5}{2}}"], answer=["0.75"]) == [0.0]
    assert numeric_reward([r"\boxed{\frac{1.5}{2}}"], answer=["0.75"]) == [1.0]


@given(st.fractions(min_value=-(10**9), max_value=10**9))
def test_every_fraction_reads_as_itself(value: Fraction) -> None:
    assert number(str(value)) == Number(value, True)
    assert number(rf"\frac{{{value.numerator}}}{{{value.denominator}}}") == Number(value, True)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6), st.sampled_from(["", " km", " apples", "%"]))
def test_every_decimal_reads_as_itself_with_anything_behind_it(value: object, behind: str) -> None:
    plain, rest = leading_number(f"{value:f}{behind}")
    assert (read_number(plain), rest) == (Number(Fraction(str(value)), False), behind)
