"""FirstScored: who is fallen back on, and for what. What it shares with AllOf is tested there."""

from __future__ import annotations

from typing import Any

import pytest

from trl_grpo_ext import Blame, Sample, Status, Verdict, verifier
from trl_grpo_ext.rewards.compositions import FirstScored
from trl_grpo_ext.rewards.formats.regex import RegexVerifier
from trl_grpo_ext.rewards.function import FunctionVerifier
from trl_grpo_ext.rewards.math import MathVerifier
from trl_grpo_ext.verdict import grader_error, skipped

BAD_DATA, BROKEN = skipped("gold_missing"), grader_error("lost")


def says(name: str, result: object) -> FunctionVerifier:
    return verifier(name=name)(lambda sample: result)


def judged(*results: object, **arguments: Any) -> Verdict:
    parts = [says(name, result) for name, result in zip("abc", results, strict=False)]
    return FirstScored(verifiers=parts, **arguments).verify(Sample(text="x"))


UNREADABLE = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_answer")


@pytest.mark.parametrize(
    ("results", "score", "reason"),
    [
        ((0, 1), 0.0, "a"),
        ((UNREADABLE, 1), 0.0, "a: no_answer"),
        ((BAD_DATA, 1), 1.0, "b"),
        ((BAD_DATA, BAD_DATA, 0.5), 0.5, "c"),
        ((BROKEN, 1), None, "a: lost"),
        ((-2.5, 1), -2.5, "a"),
        ((BAD_DATA, BAD_DATA), None, "a: gold_missing"),
        ((BAD_DATA, BROKEN), None, "b: lost"),
    ],
)
def test_the_first_verdict_with_a_score_counts(results: Any, score: float | None, reason: str) -> None:
    verdict = judged(*results)
    assert (verdict.score, verdict.reason) == (score, reason)


def test_who_makes_a_verifier_fail_gets_no_milder_one_unless_that_is_asked_for() -> None:
    kept = judged(BROKEN, 1)
    assert (kept.score, kept.blame, kept.reason) == (None, Blame.GRADER, "a: lost")
    passed_on = judged(BROKEN, BAD_DATA, 0.5, pass_on="unscored")
    assert (passed_on.score, passed_on.reason) == (0.5, "c")
    with pytest.raises(ValueError, match="Did you mean `bad_data`"):
        judged(1, pass_on="bad_dat")


def test_one_column_that_can_be_judged_by_is_enough() -> None:
    whole = FirstScored(verifiers=[MathVerifier(), MathVerifier(column="gold", name="other")])
    whole.check_columns(["gold"])
    assert whole(["4", "4"], gold=["4", "5"]) == [1.0, 0.0]
    with pytest.raises(ValueError, match=r"None of the verifiers of first_scored.*`solution`.*`gold`"):
        whole.check_columns(["text"])


def test_only_rows_that_no_verifier_can_judge_are_listed() -> None:
    rows = [{"solution": "4", "gold": None}, {"solution": None, "gold": None}, {"solution": None, "gold": "5"}]
    math, other = MathVerifier(), MathVerifier(column="gold", name="other")
    found = FirstScored(verifiers=[math, other]).check_rows(rows)
    assert [(problem.row, problem.reason) for problem in found] == [(1, "math: gold_missing")]
    assert FirstScored(verifiers=[math, RegexVerifier(pattern="4")]).check_rows(rows) == []


def test_a_verifier_whose_column_the_dataset_lacks_has_no_say_in_which_rows_are_good() -> None:
    lacking = FirstScored(verifiers=[RegexlessColumn(column="nowhere"), MathVerifier()])
    found = lacking.check_rows([{"solution": None}, {"solution": "4"}])
    assert [(problem.row, problem.reason) for problem in found] == [(0, "math: gold_missing")]


class RegexlessColumn(MathVerifier):
    """Lists no row, although it can judge none."""

    def check_rows(self, rows: Any, *, thorough: bool = False) -> list[Any]:
        return []
