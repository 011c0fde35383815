"""AnyOf: Kleene's maximum. What it shares with AllOf is tested there."""

from __future__ import annotations

from typing import Any

import pytest

from trl_grpo_ext import Blame, Sample, Status, Verdict, verifier
from trl_grpo_ext.rewards.compositions import AnyOf
from trl_grpo_ext.rewards.function import FunctionVerifier
from trl_grpo_ext.verdict import grader_error, skipped

BAD_DATA, BROKEN = skipped("gold_missing"), grader_error("lost")


def says(name: str, result: object, seen: list[str] | None = None) -> FunctionVerifier:
    def function(sample: Sample) -> object:
        if seen is not None:
            seen.append(sample.text)
        return result(sample) if callable(result) else result

    return verifier(name=name)(function)


def judged(*results: object) -> Verdict:
    parts = [says(name, result) for name, result in zip("abc", results, strict=False)]
    return AnyOf(verifiers=parts).verify(Sample(text="x"))


@pytest.mark.parametrize(
    ("results", "score", "reason"),
    [
        ((1,), 1.0, "a"),
        ((0, 1), 1.0, "b"),
        ((0.5, 0.7, 0.7), 0.7, "b"),
        ((Verdict(status=Status.INCORRECT, score=0.0, reason="not_equal"), 0), 0.0, "a: not_equal"),
        ((BAD_DATA, 1), 1.0, "b"),
        ((BROKEN, 1), 1.0, "b"),
        ((BAD_DATA, 0), None, "a: gold_missing"),
        ((0.9, BAD_DATA), None, "b: gold_missing"),
        ((BAD_DATA, BROKEN), None, "b: lost"),
    ],
)
def test_the_greatest_score_is_the_score_and_names_its_verifier(results: Any, score: float, reason: str) -> None:
    verdict = judged(*results)
    assert (verdict.score, verdict.reason) == (score, reason)


def test_the_fault_is_the_graders_before_it_is_the_datas() -> None:
    assert judged(BAD_DATA, BROKEN).blame is Blame.GRADER
    assert judged(0, BAD_DATA).blame is Blame.DATA


def test_of_two_zeros_the_one_that_could_read_the_answer_is_told() -> None:
    unreadable = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_answer")
    wrong = Verdict(status=Status.INCORRECT, score=0.0, reason="no_match", answer="5")
    verdict = judged(unreadable, wrong)
    assert (verdict.status, verdict.reason, verdict.answer) == (Status.INCORRECT, "b: no_match", "5")


def test_only_what_none_before_has_found_right_is_passed_on() -> None:
    seen: list[str] = []
    whole = AnyOf(verifiers=[says("a", lambda sample: sample.text == "right"), says("b", 0.5, seen)])
    assert whole(["right", "wrong"]) == [1.0, 0.5]
    assert seen == ["wrong"]
