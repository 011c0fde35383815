"""Text answers: exact equality, or equality after normalization."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Status
from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.rewards.exact_text import ExactTextVerifier

SQUAD = {"ignore_case": True, "ignore_punctuation": True, "ignore_articles": True}


def judge(text: str, gold: Any = "The Beatles", **settings: Any) -> Any:
    return ExactTextVerifier(**settings).judge([text], answer=[gold])[0]


@pytest.mark.parametrize(
    "text",
    [
        "The Beatles",
        " The  Beatles\n",
        "<answer>The\nBeatles</answer>",
        "Answer: The Beatles.",
        "The answer is **The Beatles**.",
        r"\boxed{The Beatles}",
        r"$\boxed{\text{The Beatles}}$",
        'The answer is "The Beatles".',
        "<answer>“The Beatles.”</answer>",
        "<answer>**The Beatles**.</answer>",
        "<think>The Kinks?</think>The Beatles",
        "Ｔｈｅ Beatles",
        "The Beat\u200bles",
    ],
)
def test_the_gold_s_text_is_right_wherever_it_is_marked(text: str) -> None:
    assert judge(text).score == 1.0


@pytest.mark.parametrize("gold", ["The cat sat.", "Yahoo!", "U.S.", "Apple Inc."])
def test_a_gold_that_ends_in_a_stop_is_itself_wherever_it_stands(gold: str) -> None:
    for text in (
        gold,
        f"Answer: {gold}",
        f"<answer>{gold}</answer>",
        rf"\boxed{{\text{{{gold}}}}}",
    ):
        assert judge(text, gold).score == 1.0, text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The Kinks", "not_equal"),
        ("the beatles", "other_case"),
        ("Beatles", "not_equal"),
        ("The Beatles or The Kinks", "not_equal"),
        ("The Beatles, The Kinks", "not_equal"),
        ("<answer>'The Beatles' or 'The Kinks'</answer>", "not_equal"),
        ("<answer>The Kinks</answer><answer>The Beatles</answer>", "ambiguous"),
        ("<answer> </answer>", "empty_answer"),
        ("<answer>\u200b</answer>", "empty_answer"),
        ("", "no_answer"),
        ("<think>The Beatles", "unclosed_think"),
        ("The Beatles" * 1_000, "answer_too_long"),
    ],
)
def test_anything_else_scores_0_and_says_why(text: str, reason: str) -> None:
    verdict = judge(text)
    assert (verdict.score, verdict.reason) == (0.0, reason)


@pytest.mark.parametrize(
    ("settings", "same", "other"),
    [
        ({"ignore_case": True}, "THE BEATLES", "Beatles"),
        ({"ignore_punctuation": True}, "The Beatles!?", "the Beatles"),
        ({"ignore_articles": True}, "Beatles", "beatles"),
        (SQUAD, "'a beatles'", "beetles"),
        ({"collapse_spaces": False}, "The Beatles", "The  Beatles"),
        ({"nfkc": False}, "The Beatles", "Ｔｈｅ Beatles"),
        ({"answer_from": "answer_tag"}, "No. <answer>The Beatles</answer>", "The Beatles"),
    ],
)
def test_each_switch_changes_what_is_equal(
    settings: dict[str, Any], same: str, other: str
) -> None:
    assert [judge(text, **settings).score for text in (same, other)] == [1.0, 0.0]


@pytest.mark.parametrize("mark", ["", "Answer: ", "**Final answer:** "])
def test_a_sentence_counts_whole_and_math_reads_its_name(mark: str) -> None:
    text = f"{mark}The band from Liverpool is The Beatles."
    assert judge(text).reason == "not_equal"
    assert judge(text, "The band from Liverpool is The Beatles").score == 1.0
    assert MathVerifier()([text], answer=["The Beatles"]) == [1.0]


def test_a_gold_in_quotes_is_itself() -> None:
    assert judge('<answer>"Help!"</answer>', '"Help!"').score == 1.0


def test_articles_are_words_of_their_own() -> None:
    assert judge("theatre", "atre", ignore_articles=True).score == 0.0


@pytest.mark.parametrize(
    ("gold", "text"),
    [(42, "42"), (True, "True"), (["NYC", "New York"], "New York"), (["NYC", None], "NYC")],
)
def test_golds_of_every_form_and_any_of_several_will_do(gold: Any, text: str) -> None:
    assert [judge(said, gold).score for said in (text, "Boston")] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("gold", "settings", "reason"),
    [
        (None, {}, "gold_missing"),
        ([], {}, "gold_missing"),
        ("", {}, "gold_empty"),
        ([{"text": "!"}], {}, "gold_not_text"),
        ("?!", SQUAD, "gold_empty"),
        ("the", SQUAD, "gold_empty"),
    ],
)
def test_a_row_without_a_gold_is_skipped_and_listed(
    gold: Any, settings: dict[str, Any], reason: str
) -> None:
    verdict = judge("!", gold, **settings)
    assert (verdict.status, verdict.score, verdict.reason) == (Status.SKIPPED, None, reason)
    (problem,) = ExactTextVerifier(**settings).check_rows(
        [{"answer": "x"}, {"answer": gold}]
    )
    assert (problem.row, problem.reason) == (1, reason)
    assert ("ignore less" in problem.advice) == (reason == "gold_empty")


def test_an_answer_of_which_nothing_is_left_is_empty() -> None:
    assert judge("?!", **SQUAD).reason == "empty_answer"


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="true or false"):
        ExactTextVerifier(ignore_case="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Did you mean `last_line`"):
        ExactTextVerifier(answer_from="lastline")  # type: ignore[arg-type]


@given(
    st.text(alphabet=st.characters(codec=None)), st.text(alphabet=st.characters(codec=None))
)
def test_any_text_of_any_unicode_has_one_score_or_none(text: str, gold: str) -> None:
    for settings in ({}, SQUAD, {"nfkc": False, "collapse_spaces": False}):
        assert judge(text, gold, **settings).score in (0.0, 1.0, None)


@pytest.mark.parametrize("piece", ["a\u0301\u0323", "ﷺ", " ", "the ", "\ud800"])
def test_a_megabyte_is_judged(piece: str) -> None:
    assert judge(piece * (1_000_000 // len(piece)), **SQUAD).score == 0.0
