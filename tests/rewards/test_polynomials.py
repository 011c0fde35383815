"""Polynomials and their equations and inequalities are compared in this process, and as sympy compares them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.answers import pairs as judging
from trl_grpo_ext.answers import same_answer
from trl_grpo_ext.answers.compare.expanded import same_polynomial
from trl_grpo_ext.answers.pairs import Pair
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.verdict import Verdict

_ATOMS = st.sampled_from(("x", "y", "2", "3", "1/2"))
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(
            lambda parts: f"({parts[0]}{parts[1]}{parts[2]})"
        ),
        inner.map(lambda base: f"({base})^2"),
    ),
    max_leaves=5,
)


def _value(expression: str) -> sympy.Expr:
    return sympy.sympify(expression.replace("^", "**"))


@given(_EXPRESSIONS, _EXPRESSIONS)
def test_two_polynomials_are_the_same_if_sympy_expands_their_difference_to_0(
    one: str, other: str
) -> None:
    is_zero = sympy.expand(_value(one) - _value(other)) == 0
    assert same_polynomial(read(one).node, read(other).node) in (is_zero, None)
    expanded = str(sympy.expand(_value(one))).replace("**", "^")
    assert same_polynomial(read(one).node, read(expanded).node) in (True, None)


@pytest.mark.parametrize(
    ("gold", "answer", "score"),
    [
        ("x^2 + 2x + 1", r"\boxed{(x+1)^2}", 1.0),
        ("x^2 + 2x + 1", r"\boxed{(x+1)^2 + 1/1000}", 0.0),
        (r"\frac{x+2}{7}", r"\boxed{\frac{x}{7} + \frac{2}{7}}", 1.0),
        ("3x - 4y = 12", r"\boxed{6x - 8y - 24 = 0}", 1.0),
        ("3x - 4y = 12", r"\boxed{6x - 8y - 25 = 0}", 0.0),
        ("x < 1", r"\boxed{-x > -1}", 1.0),
        ("x < 1", r"\boxed{-x \ge -1}", 0.0),
        ("x < 1", r"\boxed{-x < -1}", 0.0),
        ("x + 2y < 4", r"\boxed{-2x - 4y > -8}", 1.0),
        ("x + 2y < 4", r"\boxed{2x + 4y > 8}", 0.0),
    ],
)
def test_polynomials_are_compared_without_a_worker(
    gold: str, answer: str, score: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_worker(pairs: Sequence[Pair], timeout: float) -> list[Verdict]:
        assert not pairs
        return []

    judging.forget()
    monkeypatch.setattr(judging, "in_workers", no_worker)
    assert same_answer(answer, gold).score == score


def test_a_large_expression_is_left_to_a_worker_and_its_deadline() -> None:
    large = read("+".join(["(a+b+c)^{12}"] * 40)).node
    assert same_polynomial(large, large) is None


@pytest.mark.parametrize(
    ("gold", "answer", "score"),
    [
        # An inequality of higher degree has the solutions of others that are no multiples of it.
        ("x > 2", r"\boxed{x^3 > 8}", 1.0),
        # Equal integrals may differ by a constant.
        ("x^2 + C", r"\boxed{x^2 + 1 + C}", 1.0),
        # Constants are no variables: i^2 is -1.
        ("x + 1", r"\boxed{x - i^2}", 1.0),
    ],
)
def test_what_coefficients_leave_open_is_decided_by_sympy(
    gold: str, answer: str, score: float
) -> None:
    assert same_answer(answer, gold).score == score


@pytest.mark.parametrize(
    ("gold", "answer", "score"),
    [
        (r"(2, \infty)", r"\boxed{2x + 3 > 7}", 1.0),
        (r"(-\infty, 2)", r"\boxed{7 > 2x + 3}", 1.0),
        (r"(-\infty, 2)", r"\boxed{2x + 3 > 7}", 0.0),
        (r"[-1, 5]", r"\boxed{|x - 2| \le 3}", 1.0),
        (r"(-1, 5)", r"\boxed{|x - 2| \le 3}", 0.0),
        (r"(-\infty, -1) \cup (5, \infty)", r"\boxed{3 < |x - 2|}", 1.0),
        (r"(-\infty, -1) \cup (5, \infty)", r"\boxed{4 < |x - 2|}", 0.0),
        (r"\emptyset", r"\boxed{|x| < -1}", 1.0),
        (r"(-\infty, \infty)", r"\boxed{|x| > -1}", 1.0),
        (
            r"[-\frac{3}{2}, -1] \cup [1, \frac{3}{2}]",
            r"\boxed{1 \le |x| \le \frac{3}{2}}",
            1.0,
        ),
    ],
)
def test_an_inequality_equals_the_interval_of_its_solutions(
    gold: str, answer: str, score: float
) -> None:
    assert same_answer(answer, gold).score == score
