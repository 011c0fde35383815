r"""The boxed format: score table, and look-alikes of a box."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Sample
from trl_grpo_ext.rewards.formats.boxed import boxed_reward

TABLE = [
    (r"<think>\boxed{1}?</think>It is \boxed{\frac{1}{2}}.", 1, ""),
    (r"It is \boxed{\left\{1, 2\right\}}.", 1, ""),
    (r"$$\boxed {x = 4}$$", 1, ""),
    (r"\fbox{4}", 1, ""),
    (r"\boxed{\text{yes}}", 1, ""),
    (r"\boxed{-}", 1, ""),
    ("It is 4.", 0, "no_boxed"),
    (r"\boxedsize{4}", 0, "no_boxed"),
    (r"boxed{4}", 0, "no_boxed"),
    (r"\boxed{4} or \boxed{5}", 0, "several_boxed"),
    (r"\boxed{4}, so \boxed{4}", 0, "several_boxed"),
    (r"\boxed{\boxed{4}}", 0, "several_boxed"),
    (r"\boxed{4} \boxed", 0, "several_boxed"),
    (r"\boxed{4", 0, "unclosed_box"),
    (r"\boxed{\frac{1}{2}", 0, "unclosed_box"),
    (r"\boxed 4", 0, "box_without_braces"),
    (r"\boxed\{4\}", 0, "box_without_braces"),
    (r"\boxed{}", 0, "empty_box"),
    (r"\boxed{\text{ }}", 0, "empty_box"),
    (r"\boxed{$~\,\quad$}", 0, "empty_box"),
    (r"\boxed{\ }", 0, "empty_box"),
    (r"\boxed{\\}", 0, "empty_box"),
    (r"\boxed{\textrm{}}", 0, "empty_box"),
    (r"\boxed{\mbox{}}", 0, "empty_box"),
    (r"\boxed{\operatorname{\mathsf{ }}}", 0, "empty_box"),
    (r"\boxed{\phantom{4}}", 0, "empty_box"),
    (r"\boxed{\hphantom{\frac{1}{2}}\vphantom {\}4}\hspace{1cm}}", 0, "empty_box"),
    (r"\boxed{\textcolor{red}{}}", 0, "empty_box"),
    (r"\boxed{\colorbox{red}{\bf }}", 0, "empty_box"),
    (r"\boxed{\underline{\quad}}", 0, "empty_box"),
    (r"\boxed{\square}", 0, "empty_box"),
    ("\\boxed{\u200b}", 0, "empty_box"),
    (r"\boxed{\textcolor{red}{4}}", 1, ""),
    (r"\boxed{\phantom{-}4}", 1, ""),
    (r"\boxed{4\phantom{\frac{1}{2}}}", 1, ""),
    (r"\boxed{\mathrm{C}\hspace{1pt}}", 1, ""),
    (r"\boxed{\emptyset}", 1, ""),
    (r"\boxed{...}", 0, "empty_box"),
    (r"\boxed{\ldots}", 0, "empty_box"),
    (r"\boxed{\text{your answer}}", 0, "empty_box"),
    (r"\boxed{Final answer here}", 0, "empty_box"),
    (r"<think>\boxed{4}", 0, "unclosed_think"),
    (r"<think>\boxed{4}</think>", 0, "no_answer"),
    (r"<think>\boxed{4}</think> See above.", 0, "no_boxed"),
    ("", 0, "no_answer"),
]


@pytest.mark.parametrize(("text", "score", "reason"), TABLE)
def test_one_box_with_something_in_it_scores_1(
    text: str, score: float, reason: str
) -> None:
    (verdict,) = boxed_reward.judge([text])
    assert (verdict.score, verdict.reason) == (score, reason)


def test_what_the_box_holds_is_the_answer() -> None:
    assert boxed_reward.judge([r"So \boxed{ \frac{1}{2} }."])[0].answer == r"\frac{1}{2}"


def test_thinking_that_the_prompt_opened_does_not_count() -> None:
    assert (
        boxed_reward.verify(Sample(text=r"\boxed{4}", prefill="<think>\n")).reason
        == "unclosed_think"
    )
    assert (
        boxed_reward.verify(
            Sample(text=r"\boxed{4}</think>\boxed{5}", prefill="<think>\n")
        ).answer
        == "5"
    )


@given(
    st.text()
    | st.lists(st.sampled_from([r"\boxed", "{", "}", "\\", "4", " ", "\ud800"])).map(
        "".join
    )
)
def test_any_text_scores_0_or_1(text: str) -> None:
    (verdict,) = boxed_reward.judge([text])
    assert verdict.score in (0.0, 1.0)
    assert verdict.score == 0 or text.count(r"\boxed") + text.count(r"\fbox") >= 1


def test_text_of_any_length_is_read() -> None:
    texts = [
        r"\boxed{" * 50_000,
        r"\boxed{4}" * 50_000,
        r"\boxed{" + "{" * 250_000,
        r"\boxed{" + "\\text" * 50_000 + "}",
        r"\boxed{" + r"\phantom{" * 25_000 + "}" * 25_001,
        r"\boxed{" + r"\phantom{4}" * 25_000 + "}",
    ]
    assert boxed_reward(texts) == [0.0] * 6
