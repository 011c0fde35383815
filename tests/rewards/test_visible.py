"""Visible text: format verifiers must not accept invisible characters as an answer."""

from __future__ import annotations

import pytest
from growth import grows_linearly
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Verifier
from trl_grpo_ext.answers.read.choices import Options, read_choice
from trl_grpo_ext.answers.read.spelling import visible
from trl_grpo_ext.rewards.exact_text import ExactTextVerifier
from trl_grpo_ext.rewards.formats.boxed import BoxedVerifier
from trl_grpo_ext.rewards.formats.code_format import CodeFormatVerifier
from trl_grpo_ext.rewards.formats.json_format import JsonVerifier
from trl_grpo_ext.rewards.formats.tags import TagsVerifier, ThinkFormatVerifier

NOTHING = {
    "nothing": "",
    "white space": " \n\u3000",
    "zero width": "\u200b\u2060\ufeff",
    "soft hyphen": "\u00ad",
    "directions": "\u202a\u202c\u2066\u2069",
    "Hangul fillers": "\u115f\u3164\uffa0",
    "variation selectors": "\ufe0f\U000e0100",
    "tags": "\U000e0041\U000e0042",
    "blank Braille": "\u2800",
    "controls": "\x01\x7f\x9f",
}


@pytest.mark.parametrize("text", NOTHING.values(), ids=NOTHING)
def test_nothing_is_seen_of_characters_that_show_nothing(text: str) -> None:
    assert visible(text) == ""
    assert visible(f"{text}four eggs{text}") == "four eggs"


@pytest.mark.parametrize(
    "text", ["4", "é", "汉", "مي\u200cخواهم", "👩\u200d🔬", "\ufffd", "-", "e\u0301"]
)
def test_letters_of_any_script_are_seen(text: str) -> None:
    assert visible(text)


@pytest.mark.parametrize(
    "text",
    [text for text in NOTHING.values() if text.strip()],
    ids=lambda text: ascii(text),
)
def test_what_nobody_sees_makes_no_text_another_one_and_no_choice_another_one(
    text: str,
) -> None:
    assert ExactTextVerifier()([f"Answer: Pa{text}ris"], answer=["Paris"]) == [1.0]
    assert ExactTextVerifier(nfkc=False)([f"Answer: Pa{text}ris"], answer=["Paris"]) == [
        0.0
    ]
    assert read_choice(f"**{text}B{text}**", Options()).labels == {"B"}


FORMATS: list[tuple[Verifier, str, str]] = [
    (ThinkFormatVerifier(), "<think>{}</think>4", "short_think"),
    (ThinkFormatVerifier(), "<think>2+2</think>{}", "no_answer"),
    (TagsVerifier(tags=["answer"]), "<answer>{}</answer>", "empty_answer"),
    (BoxedVerifier(), r"So \boxed{{{}}}", "empty_box"),
    (BoxedVerifier(), "<think>2+2</think>{}", "no_answer"),
    (CodeFormatVerifier(language="java"), "```java\n{}\n```", "empty_code"),
    (JsonVerifier(), "```json\n{}\n```", "no_answer"),
]


@pytest.mark.parametrize(("verifier", "text", "reason"), FORMATS)
def test_what_nobody_sees_fills_no_format(
    verifier: Verifier, text: str, reason: str
) -> None:
    verdicts = verifier.judge([text.format(nothing) for nothing in NOTHING.values()])
    found = {
        kind: (verdict.score, verdict.reason)
        for kind, verdict in zip(NOTHING, verdicts, strict=True)
    }
    assert found == dict.fromkeys(NOTHING, (0.0, reason))


@given(st.text())
def test_what_is_seen_is_seen_again(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert set(visible(text)) <= set(text)


def test_text_of_any_length_is_read_in_a_time_that_grows_with_it() -> None:
    for piece in ("\u200b", "a\u200b", " \u200b", "a"):
        assert grows_linearly(
            lambda repeats, piece=piece: visible(piece * repeats), 500_000
        )
