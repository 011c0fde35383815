"""Regular expressions, including hostile text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext import Sample, Status
from trl_grpo_ext.rewards.formats.regex import RegexVerifier

anything = st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))


def test_search_finds_the_pattern_anywhere_over_lines() -> None:
    verifier = RegexVerifier(pattern="answer:.*[0-9]+")
    assert verifier(["The answer:\n42", "The answer: many"]) == [1.0, 0.0]


def test_fullmatch_needs_all_of_the_completion() -> None:
    verifier = RegexVerifier(pattern="[0-9]+", match="fullmatch")
    assert verifier(["42", "42 apples", "42\n"]) == [1.0, 0.0, 0.0]


def test_case_and_line_ends_are_settings() -> None:
    assert RegexVerifier(pattern="YES", ignore_case=True)(["yes"]) == [1.0]
    assert RegexVerifier(pattern="a.b", dotall=False)(["a\nb"]) == [0.0]


def test_what_matched_is_the_answer() -> None:
    assert RegexVerifier(pattern="[0-9]+").judge(["It is 42."])[0].answer == "42"


@pytest.mark.parametrize("pattern", ["a", "(?=a)a"])
@pytest.mark.parametrize(
    ("at_least", "at_most", "text", "reason"),
    [
        (1, None, "a a a", ""),
        (2, None, "a", "too_few_matches"),
        (1, None, "b", "no_match"),
        (1, 2, "aaa", "too_many_matches"),
        (0, 0, "b", ""),
        (0, 0, "a", "too_many_matches"),
        (2, 2, "a" * 100_000, "too_many_matches"),
    ],
)
def test_matches_are_counted(
    pattern: str, at_least: int, at_most: int | None, text: str, reason: str
) -> None:
    verifier = RegexVerifier(
        pattern=pattern, match="count", at_least=at_least, at_most=at_most
    )
    (verdict,) = verifier.judge([text])
    assert (verdict.score, verdict.reason) == (float(not reason), reason)


def test_empty_matches_do_not_count() -> None:
    assert RegexVerifier(pattern="a*", match="count", at_least=2)(["bbb", "aba"]) == [
        0.0,
        1.0,
    ]


def test_only_the_answer_may_be_looked_at() -> None:
    verifier = RegexVerifier(pattern="[0-9]+", match="fullmatch", part="answer")
    verdicts = verifier.judge(
        ["<think>so</think>\n42\n", "<think>42", "<think>42</think>", "42"]
    )
    assert [(verdict.score, verdict.reason) for verdict in verdicts] == [
        (1.0, ""),
        (0.0, "unclosed_think"),
        (0.0, "no_answer"),
        (1.0, ""),
    ]
    assert (
        verifier.verify(Sample(text="42", prefill="<think>\n")).reason == "unclosed_think"
    )


@pytest.mark.usefixtures("any_cpu_counts")
def test_text_on_which_the_expression_backtracks_for_ever_is_a_timeout_and_holds_up_no_other() -> (
    None
):
    verifier = RegexVerifier(pattern="(a+)+$", timeout=0.5)
    hostile, fine = verifier.judge(["a" * 40 + "b", "aaa"])
    assert (hostile.status, hostile.score) == (Status.TIMEOUT, 0.0)
    assert fine.score == 1.0


@settings(max_examples=30)
@given(st.lists(anything, max_size=3))
def test_any_texts_get_a_score_each(texts: list[str]) -> None:
    for verifier in (
        RegexVerifier(pattern=r"\w+\s*$", match="count", at_least=2),
        RegexVerifier(pattern=r"(a)\1", part="answer"),
    ):
        assert [score in (0.0, 1.0) for score in verifier(texts)] == [True] * len(texts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": 4}, "in quotes"),
        (
            {"pattern": "\boxed"},
            r"in place of \\b, since double quotes .* single quotes, '\\b\.\.\.'",
        ),
        ({"pattern": "\frac"}, r"in place of \\f"),
        ({"pattern": "a\v"}, r"in place of \\v"),
        ({"pattern": "a\a"}, r"in place of \\a"),
        ({"pattern": "a", "timeout": 0}, "above 0"),
        ({"pattern": "a", "match": "serch"}, "Did you mean `search`"),
        ({"pattern": "a", "part": "answers"}, "Did you mean `answer`"),
        ({"pattern": "a", "at_least": 2}, "for match='count'"),
        ({"pattern": "a", "match": "count", "at_least": -1}, "0 or more"),
        ({"pattern": "a", "match": "count", "at_most": True}, "0 or more"),
        (
            {"pattern": "a", "match": "count", "at_least": 3, "at_most": 2},
            "No completion can match",
        ),
        ({"pattern": "a", "match": "count", "at_least": 0}, "set at_most"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RegexVerifier(**arguments)
