"""The think format: score table, and opening tags in prompt or completion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Sample, Status
from trl_grpo_ext.rewards.formats.tags import ThinkFormatVerifier, think_format_reward

WELL_FORMED = [
    "<think>2+2=4</think>4",
    "<think>\n2+2\n=4\n</think>\n\n4",
    "\n<think>2+2=4</think>4",
    "<think>a <b>tag</b> inside</think>4",
]
MALFORMED = {
    "<think></think>4": "short_think",
    "<think>\n\n</think>\n\n4": "short_think",
    "<think>\u200b</think>4": "short_think",
    "<think>2+2=4</think>\u200b": "no_answer",
    "4": "no_think",
    "": "no_think",
    "<think>2+2=4": "unclosed_think",
    "So: <think>2+2=4</think>4": "text_before_think",
    "<think>2<think>+2</think></think>4": "several_thinks",
    "<think>2</think>then<think>2</think>4": "several_thinks",
    "<think>2</think>4</think>": "several_thinks",
    "<think>2+2=4</think>": "no_answer",
    "<think>2+2=4</think> \n": "no_answer",
}


@pytest.mark.parametrize("text", WELL_FORMED)
def test_one_closed_block_at_the_start_scores_1(text: str) -> None:
    assert think_format_reward([text]) == [1.0]


@pytest.mark.parametrize(("text", "reason"), MALFORMED.items())
def test_anything_else_scores_0_and_says_why(text: str, reason: str) -> None:
    (verdict,) = think_format_reward.judge([text])
    assert (verdict.score, verdict.reason) == (0.0, reason)


def test_a_prompt_that_opens_the_block_frees_the_completion_from_it() -> None:
    verifier = ThinkFormatVerifier()
    text = "2+2=4</think>4"
    assert verifier.verify(Sample(text=text, prefill="<think>\n")).reason == ""
    assert verifier.verify(Sample(text=text, prefill="<think>\n")).score == 1.0
    assert (
        verifier.verify(Sample(text="<think>" + text, prefill="<think>\n")).reason
        == "several_thinks"
    )
    assert verifier.verify(Sample(text="4", prefill="<think>\n")).reason == "unclosed_think"


def test_a_prompt_that_does_not_open_the_block_leaves_it_to_the_completion() -> None:
    assert (
        ThinkFormatVerifier().verify(Sample(text="2+2=4</think>4", prefill="")).reason
        == "no_think"
    )


def test_where_nobody_knows_the_opening_tag_may_be_missing() -> None:
    (verdict,) = think_format_reward.judge(["2+2=4</think>4"])
    assert (verdict.score, verdict.reason) == (1.0, "prefill_assumed")


def test_a_string_prompt_shows_whether_it_opens_the_block() -> None:
    texts = ["2+2=4</think>4"] * 2
    assert think_format_reward(texts, prompts=["2+2? <think>", "2+2?"]) == [1.0, 0.0]


def test_it_may_be_told() -> None:
    text = "2+2=4</think>4"
    assert ThinkFormatVerifier(prefilled=True)([text]) == [1.0]
    assert ThinkFormatVerifier(prefilled=False)([text]) == [0.0]


def test_a_least_length_of_the_thinking_may_be_asked() -> None:
    verifier = ThinkFormatVerifier(min_chars=3)
    assert verifier(["<think>  a </think>4", "<think>abc</think>4"]) == [0.0, 1.0]
    with pytest.raises(ValueError, match="min_chars"):
        ThinkFormatVerifier(min_chars=-1)


def test_the_empty_block_of_a_mode_without_thinking_may_be_allowed() -> None:
    assert ThinkFormatVerifier(min_chars=0)(["<think>\n\n</think>\n\n4"]) == [1.0]


@pytest.mark.parametrize(
    ("text", "score", "reason"),
    [
        ("<think>2+2=4</think>4", 1, ""),
        ("2+2=4</think>4", 1, "prefill_assumed"),
        ("So: <think>2+2=4</think>4", 2 / 3, "text_before_think"),
        ("<think>2+2=4</think>", 2 / 3, "no_answer"),
        ("<think>2+2=4", 1 / 3, "unclosed_think"),
        ("<think>2+2=4</think>4</think>", 1 / 3, "several_thinks"),
        ("So: <think>2+2=4", 0, "text_before_think"),
        ("4", 0, "no_think"),
        ("", 0, "no_think"),
        ("<think>" * 50, 0, "several_thinks"),
        ("<think>2</think>4" * 50, 0, "several_thinks"),
        ("</think>" * 50, 0, "several_thinks"),
        ("</think><think>4", 0, "text_before_think"),
    ],
)
def test_if_graded_the_share_of_right_parts_is_the_score(
    text: str, score: float, reason: str
) -> None:
    (verdict,) = ThinkFormatVerifier(graded=True).judge([text])
    assert (verdict.score, verdict.reason) == (pytest.approx(score), reason)
    assert verdict.status == (
        Status.CORRECT if score == 1 else Status.PARTIAL if score else Status.INCORRECT
    )


def test_what_the_prompt_has_done_earns_nothing() -> None:
    verifier = ThinkFormatVerifier(graded=True)
    scores = [
        verifier.verify(Sample(text=text, prefill="<think>\n")).score
        for text in ("2+2=4", "2+2=4</think>", "2+2=4</think>4", "<think>2+2=4</think>4")
    ]
    assert scores == [0.0, 0.5, 1.0, 0.0]


def test_a_block_that_is_too_short_earns_its_opening_only() -> None:
    assert ThinkFormatVerifier(graded=True, min_chars=2)(["<think>a</think>4"]) == [
        pytest.approx(1 / 3)
    ]


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "x", " "]), max_size=8).map("".join),
    st.sampled_from([None, "", "<think>"]),
)
def test_any_text_scores_between_0_and_1_and_1_only_if_strict_does_too(
    text: str, prefill: str | None
) -> None:
    sample = Sample(text=text, prefill=prefill)
    strict, graded = (
        ThinkFormatVerifier(graded=graded).verify(sample) for graded in (False, True)
    )
    assert graded.score is not None and 0 <= graded.score <= 1
    assert strict.score == float(graded.score == 1)
    assert strict.reason == graded.reason
