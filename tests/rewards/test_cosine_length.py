"""The cosine-scaled reward: the paper's formula, our correctness."""

from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import trl.rewards
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Blame, Sample, Status, Verdict, Verifier, verifier
from trl_grpo_ext.rewards import MathVerifier, RegexVerifier
from trl_grpo_ext.rewards.length_limits import CosineLengthVerifier
from trl_grpo_ext.verdict import grader_error, skipped

VERDICTS = {
    "right": Verdict(status=Status.CORRECT, score=1.0, answer="4"),
    "half": Verdict(status=Status.PARTIAL, score=0.5, reason="test_3_failed"),
    "wrong": Verdict(status=Status.INCORRECT, score=0.0, answer="5", reason="not_equal"),
    "mute": Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_answer"),
    "slow": Verdict(status=Status.TIMEOUT, score=0.0, reason="timeout"),
    "bad_gold": skipped("gold_missing"),
    "broken": grader_error("worker_died"),
}


@verifier
def says(sample: Sample) -> Verdict:
    """Return the verdict named by the completion."""
    return VERDICTS[sample.text]


@pytest.mark.parametrize(
    ("tokens", "right", "wrong"),
    [(0, 1.0, -1.0), (50, 0.75, -0.75), (100, 0.5, -0.5), (999, 0.5, -0.5)],
)
def test_right_answers_score_more_if_they_are_short_and_wrong_ones_less(
    tokens: int, right: float, wrong: float
) -> None:
    scaled = CosineLengthVerifier(max_len=100)
    texts, ids = [r"\boxed{4}", r"\boxed{5}"], [[1] * tokens] * 2
    assert scaled(texts, solution=["4", "4"], completion_ids=ids) == pytest.approx(
        [right, wrong]
    )


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("right", Status.CORRECT, ""),
        ("half", Status.INCORRECT, "test_3_failed"),
        ("wrong", Status.INCORRECT, "not_equal"),
        ("mute", Status.UNPARSEABLE, "no_answer"),
        ("slow", Status.TIMEOUT, "timeout"),
    ],
)
def test_what_is_less_than_correct_is_scaled_as_wrong_and_keeps_its_reason(
    text: str, status: Status, reason: str
) -> None:
    (verdict,) = CosineLengthVerifier(max_len=100, correctness=says).judge(
        [text], completion_ids=[[1] * 50]
    )
    assert (verdict.status, verdict.reason) == (status, reason)
    assert verdict.score == pytest.approx(0.75 if text == "right" else -0.75)
    assert verdict.answer == VERDICTS[text].answer


@pytest.mark.parametrize(
    ("text", "blame"), [("bad_gold", Blame.DATA), ("broken", Blame.GRADER)]
)
def test_what_the_verifier_could_not_score_stays_unscored_with_its_blame(
    text: str, blame: Blame
) -> None:
    (verdict,) = CosineLengthVerifier(max_len=100, correctness=says).judge(
        [text], completion_ids=[[1] * 50]
    )
    assert (verdict.score, verdict.blame, verdict.reason) == (
        None,
        blame,
        VERDICTS[text].reason,
    )


class Broken(Verifier):
    """A verifier that breaks the contract: `judge_samples` raises."""

    def verify(self, sample: Sample) -> Verdict:
        raise AssertionError

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        raise OSError


def test_a_verifier_that_breaks_is_the_graders_fault() -> None:
    verdicts = CosineLengthVerifier(max_len=100, correctness=Broken()).judge(
        ["a", "b"], completion_ids=[[1], [1]]
    )
    assert [(verdict.score, verdict.reason) for verdict in verdicts] == [
        (None, "raised_OSError")
    ] * 2


def test_a_length_that_nobody_knows_is_the_graders_fault() -> None:
    (verdict,) = CosineLengthVerifier(max_len=100, correctness=says).judge(["right"])
    assert (verdict.score, verdict.blame, verdict.reason) == (
        None,
        Blame.GRADER,
        "tokens_unknown",
    )


@pytest.mark.slow
@pytest.mark.usefixtures("any_cpu_counts")
def test_an_answer_that_would_hang_trl_comes_to_an_end() -> None:
    scaled = CosineLengthVerifier(max_len=100, correctness=MathVerifier(timeout=1.0))
    (verdict,) = scaled.judge(
        [r"\boxed{9^{9^{9^9}}}"], solution=["5"], completion_ids=[[1] * 50]
    )
    assert (verdict.status, verdict.score) == (Status.TIMEOUT, -0.75)


def test_a_gold_that_trl_would_misread_is_read_by_our_verifier() -> None:
    ids = [[1] * 100]
    assert CosineLengthVerifier(max_len=100)(
        [r"\boxed{B}"], solution=["B"], completion_ids=ids
    ) == [0.5]


@given(
    tokens=st.integers(0, 300),
    max_len=st.integers(1, 300),
    right=st.booleans(),
    bounds=st.lists(st.floats(-10, 10), min_size=4, max_size=4).map(sorted),
)
def test_the_score_is_the_papers_cosine_between_the_bounds(
    tokens: int, max_len: int, right: bool, bounds: list[float]
) -> None:
    wrong_short, wrong_long, right_long, right_short = bounds
    scaled = CosineLengthVerifier(
        max_len=max_len,
        min_value_wrong=wrong_short,
        max_value_wrong=wrong_long,
        min_value_correct=right_long,
        max_value_correct=right_short,
        correctness=says,
    )
    (score,) = scaled(["right" if right else "wrong"], completion_ids=[[1] * tokens])
    short, long = (right_short, right_long) if right else (wrong_short, wrong_long)
    cosine = math.cos(math.pi * min(tokens / max_len, 1))
    assert score == pytest.approx(long + (short - long) * (1 + cosine) / 2)


@pytest.mark.skipif(
    "get_cosine_scaled_reward" not in dir(trl.rewards), reason="TRL has it from 1.7 on"
)
@pytest.mark.parametrize("tokens", [0, 1, 49, 100, 101])
def test_the_score_is_that_of_trl(tokens: int) -> None:
    answers = [
        [{"role": "assistant", "content": text}] for text in (r"\boxed{4}", r"\boxed{5}")
    ]
    ids, golds = [[1] * tokens] * 2, ["$4$", "$4$"]
    theirs = trl.rewards.get_cosine_scaled_reward(max_len=100)(
        completions=answers, solution=golds, completion_ids=ids
    )
    ours = CosineLengthVerifier(max_len=100, correctness=says)(
        ["right", "wrong"], completion_ids=ids
    )
    assert ours == pytest.approx(theirs)


def test_the_limit_is_the_trainers_unless_the_verifier_has_one() -> None:
    ids = [[1] * 50]
    assert CosineLengthVerifier(correctness=says).for_limit(100)(
        ["right"], completion_ids=ids
    ) == [0.75]
    assert CosineLengthVerifier(correctness=says, max_len=50).for_limit(100)(
        ["right"], completion_ids=ids
    ) == [0.5]
    with pytest.raises(ValueError, match="set max_len to the max_completion_length"):
        CosineLengthVerifier(correctness=says)(["right"], completion_ids=ids)


def test_it_asks_for_the_columns_of_its_verifier() -> None:
    with pytest.raises(ValueError, match="`answer`"):
        CosineLengthVerifier(max_len=10)(["4"], completion_ids=[[1]])
    problems = CosineLengthVerifier(max_len=10).check_rows(
        [{"solution": "4"}, {"solution": ""}]
    )
    assert [(problem.row, problem.reason) for problem in problems] == [(1, "gold_empty")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_len": 0}, "max_len is a number of tokens"),
        (
            {"max_len": 10, "min_value_correct": -0.7},
            "rising order, or a wrong answer could beat a right one",
        ),
        ({"max_len": 10, "max_value_correct": math.nan}, "rising order"),
        ({"max_len": 10, "max_value_correct": "1"}, "rising order"),
        ({"max_len": 10, "correctness": len}, "must be a Verifier such as MathVerifier"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        CosineLengthVerifier(**arguments)


def test_it_pickles_with_its_verifier_and_works_off_the_main_thread() -> None:
    scaled: Verifier = pickle.loads(
        pickle.dumps(
            CosineLengthVerifier(max_len=100, correctness=RegexVerifier(pattern="4"))
        )
    )
    scores: list[float | None] = []
    thread = threading.Thread(
        target=lambda: scores.extend(scaled(["4", "5"], completion_ids=[[1] * 50] * 2))
    )
    thread.start()
    thread.join()
    assert scores == pytest.approx([0.75, -0.75])
