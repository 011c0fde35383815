"""Extraction of a completion's answer, bare or fenced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Sample, Verdict
from trl_grpo_ext.rewards.formats.answer_part import (
    Fence,
    answer_part,
    closed_blocks,
    fenced_answer,
)

FENCED = "```json\n{}\n```"


@pytest.mark.parametrize(
    ("text", "prefill", "found"),
    [
        (" 4 ", None, "4"),
        ("<think>2</think>\n4", "", "4"),
        ("2</think>4", "<think>", "4"),
        ("2</think>4", None, "4"),
        ("2</think>4", "", "2</think>4"),
        ("2", "<think>", "unclosed_think"),
        ("<think>2", None, "unclosed_think"),
        ("<think>2</think> \n", None, "no_answer"),
        ("<think>2</think>\u200b", None, "no_answer"),
        ("", None, "no_answer"),
    ],
)
def test_the_answer_follows_the_thinking(
    text: str, prefill: str | None, found: str
) -> None:
    part = answer_part(Sample(text=text, prefill=prefill))
    assert (part.reason if isinstance(part, Verdict) else part) == found


@pytest.mark.parametrize(
    ("answer", "fence", "text_around", "found"),
    [
        ("{}", "optional", False, "{}"),
        (FENCED, "optional", False, "{}"),
        ("~~~json\n{}\n~~~", "optional", False, "{}"),
        ("~~~JSON title\n{}\n~~~", "optional", False, "{}"),
        ("{}", "required", False, "no_fence"),
        (FENCED, "required", False, "{}"),
        (FENCED, "forbidden", False, FENCED),
        ("```\n{}\n```", "optional", False, "wrong_fence"),
        ("```python\n{}\n```", "required", False, "wrong_fence"),
        ("```json\n{}", "optional", False, "unclosed_fence"),
        ("```json\n```", "optional", False, "no_answer"),
        (f"{FENCED}\n{FENCED}", "optional", True, "several_fences"),
        (f"{FENCED}\nHope this helps", "optional", False, "text_outside"),
        (f"{FENCED}\nHope ```", "required", False, "text_outside"),
        (f"{FENCED}\n```\n1\n```", "required", False, "text_outside"),
        (f"Here:\n{FENCED}\nHope this helps", "required", True, "{}"),
        (f"Here:\n{FENCED}", "required", False, "text_outside"),
        (f"Here:\n{FENCED}", "optional", False, f"Here:\n{FENCED}"),
        (f"Here:\n{FENCED}", "optional", True, "{}"),
    ],
)
def test_a_fence_is_as_asked(
    answer: str, fence: Fence, text_around: bool, found: str
) -> None:
    inner = fenced_answer(Sample(text=answer), "json", fence=fence, text_around=text_around)
    assert (inner.reason if isinstance(inner, Verdict) else inner) == found


@given(st.text("`~ \njson{}\x00\r", max_size=40).map(str.strip).filter(bool))
def test_any_text_has_blocks_or_says_why_not(text: str) -> None:
    blocks = closed_blocks(text)
    assert isinstance(blocks, list) or blocks.reason == "unclosed_fence"
    for fence in ("optional", "required", "forbidden"):
        for around in (False, True):
            assert (
                fenced_answer(Sample(text=text), "json", fence=fence, text_around=around)
                != ""
            )  # type: ignore[arg-type]
