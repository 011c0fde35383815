"""Regular expressions, on hostile text too."""

from __future__ import annotations

from typing import Any

import pytest

from trl_grpo_ext import Status
from trl_grpo_ext.rewards import RegexVerifier


def test_search_finds_the_pattern_anywhere_over_lines() -> None:
    verifier = RegexVerifier(pattern="answer:.*[0-9]+")
    assert verifier(["The answer:\n42", "The answer: many"]) == [1.0, 0.0]


def test_fullmatch_needs_all_of_the_completion() -> None:
    verifier = RegexVerifier(pattern="[0-9]+", match="fullmatch")
    assert verifier(["42", "42 apples"]) == [1.0, 0.0]


def test_case_and_line_ends_are_settings() -> None:
    assert RegexVerifier(pattern="YES", ignore_case=True)(["yes"]) == [1.0]
    assert RegexVerifier(pattern="a.b", dotall=False)(["a\nb"]) == [0.0]


def test_what_matched_is_the_answer() -> None:
    assert RegexVerifier(pattern="[0-9]+").judge(["It is 42."])[0].answer == "42"


def test_text_on_which_the_expression_backtracks_for_ever_is_a_timeout_and_holds_up_no_other() -> None:
    verifier = RegexVerifier(pattern="(a+)+$", timeout=0.5)
    hostile, fine = verifier.judge(["a" * 40 + "b", "aaa"])
    assert (hostile.status, hostile.score) == (Status.TIMEOUT, 0.0)
    assert fine.score == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": "a", "timeout": 0}, "above 0"),
        ({"pattern": "a", "match": "start"}, "'search' or 'fullmatch'"),
    ],
)
def test_settings_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RegexVerifier(**arguments)
