"""Token budgets: score tables of both modes, budgets from a column, and unusable columns."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Blame, Sample, Status
from trl_grpo_ext.rewards.lengths import TokenBudgetVerifier


def judged(
    verifier: TokenBudgetVerifier, tokens: int, **row: Any
) -> tuple[float | None, Status, str]:
    verdict = verifier.verify(Sample(text="", completion_ids=[1] * tokens, row=row))
    return verdict.score, verdict.status, verdict.reason


@pytest.mark.parametrize(
    ("tokens", "score", "status", "reason"),
    [
        (0, 1.0, Status.CORRECT, ""),
        (50, 1.0, Status.CORRECT, ""),
        (80, 0.7, Status.CORRECT, ""),
        (100, 0.5, Status.CORRECT, ""),
        (120, 0.3, Status.PARTIAL, "over_budget"),
        (150, 0.0, Status.INCORRECT, "over_budget"),
        (9999, 0.0, Status.INCORRECT, "over_budget"),
    ],
)
def test_max_asks_for_no_more_tokens_than_the_budget(
    tokens: int, score: float, status: Status, reason: str
) -> None:
    found = judged(TokenBudgetVerifier(budget=100, slope=0.01), tokens)
    assert found == (pytest.approx(score), status, reason)


@pytest.mark.parametrize(
    ("tokens", "score", "status", "reason"),
    [
        (0, 0.0, Status.INCORRECT, "under_budget"),
        (80, 0.8, Status.PARTIAL, "under_budget"),
        (100, 1.0, Status.CORRECT, ""),
        (120, 0.8, Status.PARTIAL, "over_budget"),
        (200, 0.0, Status.INCORRECT, "over_budget"),
        (9999, 0.0, Status.INCORRECT, "over_budget"),
    ],
)
def test_exact_asks_for_as_many_tokens_as_the_budget(
    tokens: int, score: float, status: Status, reason: str
) -> None:
    found = judged(TokenBudgetVerifier(budget=100, mode="exact", slope=0.01), tokens)
    assert found == (pytest.approx(score), status, reason)


def test_at_budget_1_makes_all_within_the_budget_equal() -> None:
    verifier = TokenBudgetVerifier(budget=100, slope=0.01, at_budget=1.0)
    assert [judged(verifier, tokens)[0] for tokens in (0, 100, 150)] == [1.0, 1.0, 0.5]


def test_the_defaults_are_those_of_l1() -> None:
    assert judged(TokenBudgetVerifier(budget=2000), 1000)[0] == pytest.approx(
        0.0003 * 1000 + 0.5
    )


@given(tokens=st.integers(0, 5000), more=st.integers(1, 50), budget=st.integers(1, 5000))
def test_max_never_prefers_the_longer_one_and_exact_never_the_one_farther_off(
    tokens: int, more: int, budget: int
) -> None:
    most, exact = (
        TokenBudgetVerifier(budget=budget),
        TokenBudgetVerifier(budget=budget, mode="exact"),
    )
    scores = {
        v: [judged(v, n)[0] or 0.0 for n in (tokens, tokens + more)] for v in (most, exact)
    }
    assert scores[most][0] >= scores[most][1]
    nearer = abs(tokens - budget) <= abs(tokens + more - budget)
    assert (
        (scores[exact][0] >= scores[exact][1])
        if nearer
        else (scores[exact][0] <= scores[exact][1])
    )


@pytest.mark.parametrize("value", [100, 100.0])
def test_a_column_has_a_budget_a_row(value: object) -> None:
    assert (
        judged(TokenBudgetVerifier(column="budget", slope=0.01), 100, budget=value)[0]
        == 0.5
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "budget_missing"),
        *(
            (value, "budget_unreadable")
            for value in (0, -5, 1.5, math.nan, math.inf, True, "100", [100], 10**10, 1e300)
        ),
    ],
)
def test_a_row_without_a_budget_is_the_datas_fault(value: object, reason: str) -> None:
    verifier = TokenBudgetVerifier(column="budget")
    verdict = verifier.verify(Sample(text="", completion_ids=[1], row={"budget": value}))
    assert (verdict.score, verdict.blame, verdict.reason) == (None, Blame.DATA, reason)
    (problem,) = verifier.check_rows([{"budget": 5}, {"budget": value}])
    assert (problem.row, problem.reason, problem.value) == (1, reason, str(value))


def test_a_missing_column_is_refused() -> None:
    with pytest.raises(ValueError, match="`budget`"):
        TokenBudgetVerifier(column="budget")(["x"], completion_ids=[[1]])


def test_a_length_that_nobody_knows_is_the_graders_fault() -> None:
    (verdict,) = TokenBudgetVerifier(budget=5).judge(["text"])
    assert (verdict.score, verdict.blame, verdict.reason) == (
        None,
        Blame.GRADER,
        "tokens_unknown",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "got neither"),
        ({"budget": 5, "column": "budget"}, "got both"),
        ({"budget": 0}, "whole number of tokens, 1 or more; got 0"),
        ({"budget": "5"}, "whole number of tokens, 1 or more; got '5'"),
        ({"column": 5}, "name of a dataset column, got 5"),
        ({"budget": 5, "mode": "exakt"}, "Did you mean `exact`"),
        ({"budget": 5, "slope": 0}, "worth of a token, above 0; got 0"),
        ({"budget": 5, "slope": math.inf}, "worth of a token, above 0; got inf"),
        ({"budget": 5, "at_budget": 0}, "above 0 and up to 1; got 0"),
        ({"budget": 5, "at_budget": 1.5}, "above 0 and up to 1; got 1.5"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TokenBudgetVerifier(**arguments)
