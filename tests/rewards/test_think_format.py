"""The think format: its score table, and who opens the block."""

from __future__ import annotations

import pytest

from trl_grpo_ext import Sample
from trl_grpo_ext.rewards import ThinkFormatVerifier, think_format_reward

WELL_FORMED = [
    "<think>2+2=4</think>4",
    "<think>\n2+2\n=4\n</think>\n\n4",
    "\n<think>2+2=4</think>4",
    "<think>a <b>tag</b> inside</think>4",
    "<think></think>4",
]
MALFORMED = {
    "4": "no_think",
    "": "no_think",
    "<think>2+2=4": "unclosed_think",
    "So: <think>2+2=4</think>4": "text_before_think",
    "<think>2<think>+2</think></think>4": "several_thinks",
    "<think>2</think>then<think>2</think>4": "several_thinks",
    "<think>2</think>4</think>": "several_thinks",
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
    assert verifier.verify(Sample(text="<think>" + text, prefill="<think>\n")).reason == "several_thinks"
    assert verifier.verify(Sample(text="4", prefill="<think>\n")).reason == "unclosed_think"


def test_a_prompt_that_does_not_open_the_block_leaves_it_to_the_completion() -> None:
    assert ThinkFormatVerifier().verify(Sample(text="2+2=4</think>4", prefill="")).reason == "no_think"


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
