"""Math answers: golds of every form, verdicts with reasons, bounded time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from trl_grpo_ext import Blame, Status
from trl_grpo_ext.rewards import MathVerifier, math_reward


@pytest.mark.parametrize(
    ("gold", "right", "wrong"),
    [
        ("4", r"\boxed{4}", r"\boxed{5}"),
        (42, r"\boxed{42}", r"\boxed{24}"),
        (0.5, r"\boxed{\frac{1}{2}}", r"\boxed{0.25}"),
        (42.0, r"\boxed{42}", r"\boxed{42.5}"),
        (r"\frac12", r"\boxed{0.5}", r"\boxed{12}"),
        (r"2\sqrt{5}", r"\boxed{\sqrt{20}}", r"\boxed{2}"),
        (r"$\sqrt{2}$", r"\boxed{\sqrt 2}", r"\boxed{2}"),
        (r"So we get $x=\boxed{7}$.", r"\boxed{7}", r"\boxed{8}"),
        ("5 + 5 = 10\n#### 10", r"\boxed{10}", r"\boxed{5}"),
        ("#### 1,234", r"\boxed{1234}", r"\boxed{1}"),
        ("(1,2)", r"\boxed{(1, 2)}", r"\boxed{(2, 1)}"),
        (r"\text{Tuesday}", r"\boxed{tuesday}", r"\boxed{Monday}"),
        ("A", r"\boxed{\text{(A)}}", r"\boxed{B}"),
        ("yes", r"\boxed{\text{Yes}}", r"\boxed{No}"),
        ("x^2+1", r"\boxed{1+x^2}", r"\boxed{x^2}"),
        ("1/2", r"\boxed{\dfrac{2}{4}}", r"\boxed{1}"),
    ],
)
def test_golds_of_every_form_tell_right_from_wrong(gold: Any, right: str, wrong: str) -> None:
    assert math_reward([right, wrong], solution=[gold, gold]) == [1.0, 0.0]


def test_the_gold_stands_in_solution_else_answer_else_where_it_is_said() -> None:
    assert math_reward([r"\boxed{1}"], solution=["1"], answer=["2"]) == [1.0]
    assert math_reward([r"\boxed{1}"], answer=["1"]) == [1.0]
    assert math_reward([r"\boxed{1}"] * 2, solution=[None, "2"], answer=["1", "1"]) == [1.0, 0.0]
    assert MathVerifier(column="gold")([r"\boxed{1}"], solution=["2"], gold=["1"]) == [1.0]


def test_no_gold_column_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"needs the dataset column `solution` or `answer`.*`result`.*column="):
        math_reward([r"\boxed{1}"], result=["1"])


@pytest.mark.parametrize(
    ("gold", "reason"),
    [(None, "gold_missing"), ("", "gold_empty"), (float("nan"), "gold_empty"), (r"\frac{1}{", "gold_unparseable")],
)
def test_a_gold_that_is_no_answer_is_the_datas_fault(gold: Any, reason: str) -> None:
    verdicts = math_reward.judge([r"\boxed{1}", "nothing"], solution=[gold, "1"])
    assert (verdicts[0].status, verdicts[0].score, verdicts[0].blame) == (Status.SKIPPED, None, Blame.DATA)
    assert verdicts[0].reason == reason


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("", "no_answer"),
        ("I do not know.", "no_answer"),
        (r"<think>it is \boxed{2}, or", "unclosed_think"),
        (r"\boxed{}", "empty_box"),
        (r"\boxed{" + "9" * 5000 + "}", "answer_too_long"),
    ],
)
def test_a_completion_without_an_answer_is_unparseable_and_says_why(completion: str, reason: str) -> None:
    (verdict,) = math_reward.judge([completion], solution=["2"])
    assert (verdict.status, verdict.score, verdict.reason) == (Status.UNPARSEABLE, 0.0, reason)


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        (r"<think>first \boxed{3}</think>so \boxed{2}", 1.0),
        (r"<think>first \boxed{2}</think>so \boxed{3}", 0.0),
        (r"\boxed{3} no, \boxed{2}", 1.0),
        (r"<think>1+1=2</think>The answer is 2.", 1.0),
        ("The answer is $2$.", 1.0),
    ],
)
def test_the_last_answer_after_the_reasoning_counts(completion: str, score: float) -> None:
    assert math_reward([completion], solution=["2"]) == [score]


def test_a_prefilled_think_block_that_is_never_closed_holds_no_answer() -> None:
    verdicts = math_reward.judge([r"it is \boxed{2}"], prompts=["1+1? <think>"], solution=["2"])
    assert verdicts[0].reason == "unclosed_think"


def test_conversations_are_judged_as_strings_are() -> None:
    completions = [[{"role": "assistant", "content": text}] for text in (r"\boxed{2}", r"\boxed{3}")]
    assert math_reward(completions, solution=["2", "2"]) == [1.0, 0.0]


def test_what_was_compared_is_in_the_verdict() -> None:
    boxed, spoken = math_reward.judge([r"\boxed{\frac{4}{2}}", "It is 3."], solution=["2", "2"])
    assert (boxed.answer, boxed.reason) == (r"\frac{4}{2}", "")
    assert (spoken.answer, spoken.reason) == ("3", "not_equal")


def test_an_answer_that_computes_for_ever_costs_one_deadline_however_often_it_is_given() -> None:
    verifier = MathVerifier(timeout=1.0)
    hostile = r"\boxed{9^{9^{9^9}}+1}"
    verifier([r"\boxed{1+1}"], solution=["3"])  # the worker is warm
    started = time.monotonic()
    verdicts = verifier.judge([hostile] * 8 + [r"\boxed{10/2}"], solution=["5"] * 9)
    assert [verdict.status for verdict in verdicts] == [Status.TIMEOUT] * 8 + [Status.CORRECT]
    assert verdicts[0].answer == r"9^{9^{9^9}}+1"
    assert time.monotonic() - started < 8 * 1.0


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_must_be_above_0(timeout: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        MathVerifier(timeout=timeout)
