"""Verdicts: the invariant, and conversion of results of verifier functions."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Blame, Status, Verdict
from trl_grpo_ext.verdict import as_verdict, check_score_range, skipped

NOT_POLICY = [Blame.GRADER, Blame.DATA]


@pytest.mark.parametrize("blame", NOT_POLICY)
def test_a_verdict_that_is_not_the_policys_fault_must_not_have_a_score(
    blame: Blame,
) -> None:
    assert Verdict(status=Status.ERROR, score=None, blame=blame).score is None
    with pytest.raises(ValueError, match="has no score"):
        Verdict(status=Status.ERROR, score=0.0, blame=blame)


def test_a_verdict_that_is_the_policys_fault_must_have_a_score() -> None:
    with pytest.raises(ValueError, match="needs a score"):
        Verdict(status=Status.INCORRECT, score=None)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_must_be_finite(score: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Verdict(status=Status.CORRECT, score=score)


def test_a_verdict_cannot_be_changed() -> None:
    verdict = Verdict(status=Status.CORRECT, score=1.0)
    with pytest.raises(AttributeError):
        verdict.score = 0.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("result", "status", "score"),
    [
        (True, Status.CORRECT, 1.0),
        (False, Status.INCORRECT, 0.0),
        (1, Status.SCORED, 1.0),
        (0.0, Status.SCORED, 0.0),
        (0.25, Status.SCORED, 0.25),
        (3.5, Status.SCORED, 3.5),
        (-0.5, Status.SCORED, -0.5),
    ],
)
def test_numbers_and_bools_are_read_as_documented(
    result: object, status: Status, score: float
) -> None:
    verdict = as_verdict(result)
    assert (verdict.status, verdict.score, verdict.blame) == (status, score, Blame.POLICY)


def test_none_blames_the_data() -> None:
    verdict = as_verdict(None)
    assert (verdict.status, verdict.score, verdict.blame) == (
        Status.SKIPPED,
        None,
        Blame.DATA,
    )


@pytest.mark.parametrize("result", [math.nan, math.inf, "0.5", object(), [1.0, 2.0], 1j])
def test_what_is_no_finite_number_blames_the_grader(result: object) -> None:
    verdict = as_verdict(result)
    assert (verdict.status, verdict.score, verdict.blame) == (
        Status.ERROR,
        None,
        Blame.GRADER,
    )


def test_scalars_of_numpy_and_torch_are_numbers() -> None:
    import numpy
    import torch

    for result in (
        numpy.float32(0.5),
        numpy.bool_(True),
        torch.tensor(1.0),
        numpy.array(0.5),
    ):
        assert as_verdict(result).blame is Blame.POLICY
    assert as_verdict(torch.tensor([1.0, 2.0])).blame is Blame.GRADER


@given(
    st.one_of(
        st.none(),
        st.booleans(),
        st.floats(),
        st.integers(),
        st.text(),
        st.binary(),
        st.complex_numbers(),
    )
)
def test_whatever_a_verifier_returns_becomes_a_verdict(result: object) -> None:
    verdict = as_verdict(result)
    assert (verdict.score is None) == (verdict.blame is not Blame.POLICY)


def test_a_verdict_survives_json() -> None:
    verdict = Verdict(
        status=Status.PARTIAL,
        score=0.5,
        answer="½",
        reason="test_3_failed",
        seconds=0.25,
        details={"rule": "boxed"},
    )
    assert Verdict(**json.loads(json.dumps(verdict.to_record()))) == verdict


def test_left_out_is_what_nobody_is_to_blame_for() -> None:
    assert Verdict(status=Status.SKIPPED, score=0.0, reason="gate_closed").left_out
    assert not skipped("gold_missing").left_out


def test_answers_and_reasons_are_text_whatever_a_verifier_put_there() -> None:
    assert Verdict(status=Status.CORRECT, score=1.0, answer=42).answer == "42"  # type: ignore[arg-type]


def test_a_number_too_large_for_a_float_blames_the_grader() -> None:
    assert as_verdict(10**400).blame is Blame.GRADER


@pytest.mark.parametrize(
    ("score", "score_range", "status"),
    [
        (50, (0.0, 50.0), Status.CORRECT),
        (0, (0.0, 50.0), Status.INCORRECT),
        (12.5, (0.0, 50.0), Status.PARTIAL),
        (0, (-1.0, 0.0), Status.CORRECT),
        (-1, (-1.0, 0.0), Status.INCORRECT),
        (51, (0.0, 50.0), Status.SCORED),
        (-0.5, None, Status.SCORED),
    ],
)
def test_only_a_range_says_which_number_is_right(
    score: float, score_range: tuple[float, float] | None, status: Status
) -> None:
    assert as_verdict(score, score_range) == Verdict(status=status, score=score)


def test_a_verifier_that_says_what_is_right_is_not_overruled_by_a_range() -> None:
    own = Verdict(status=Status.INCORRECT, score=50.0)
    assert as_verdict(own, (0.0, 50.0)) is own
    assert as_verdict(True, (0.0, 50.0)).status is Status.CORRECT


@pytest.mark.parametrize(
    "score_range",
    [(1, 0), (0, 0), (0,), (0, math.inf), "01", (False, True), 50, (math.nan, 1)],
)
def test_a_range_that_is_none_is_refused_with_an_example(score_range: object) -> None:
    with pytest.raises(ValueError, match=r"such as \[0, 50\]"):
        check_score_range(score_range)


@pytest.mark.parametrize(
    ("result", "told"), [("right", "'right', a str"), ([1.0], "[1.0], a list")]
)
def test_what_is_no_score_is_quoted(result: object, told: str) -> None:
    error = as_verdict(result).details["error"]
    assert (
        error == f"The value {told}, was returned, and a score is a number, True or False"
    )


def test_of_a_long_text_the_ends_are_quoted() -> None:
    assert len(as_verdict("x" * 10_000).details["error"]) < 120
