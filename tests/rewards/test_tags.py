"""Tag structures: score table, prefills, and attempts that must not pay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Sample, Status
from trl_grpo_ext.rewards.formats.tags import TagsVerifier

RIGHT = "<reasoning>2+2</reasoning><answer>4</answer>"
TABLE = [
    (RIGHT, 1, ""),
    ("<reasoning>\n2 < 3 <b>x</b>\n</reasoning>\n<answer>\n4\n</answer>\n", 1, ""),
    ("So: " + RIGHT, 0.75, "text_outside"),
    (RIGHT + " I hope this helps.", 0.75, "text_outside"),
    ("<reasoning>2+2</reasoning> so <answer>4</answer>", 0.75, "text_outside"),
    ("<answer>4</answer><reasoning>2+2</reasoning>", 0.75, "wrong_order"),
    ("<answer>4</answer> then <reasoning>2+2</reasoning>", 0.5, "wrong_order"),
    ("<answer>4</answer>", 0.25, "missing_reasoning"),
    ("<reasoning>2+2</reasoning><answer>4", 0.25, "unclosed_answer"),
    ("2+2</reasoning><answer>4</answer>", 0.25, "unopened_reasoning"),
    ("<reasoning>2+2</reasoning><answer> \n</answer>", 0.25, "empty_answer"),
    ("<reasoning>2+2</reasoning>" + "<answer>4</answer>" * 50, 0.25, "too_many_answer"),
    ("<reasoning>2+2<answer>4</answer></reasoning>", 0.25, "misplaced_answer"),
    (
        "<reasoning>2+2<answer>3</answer></reasoning><answer>4</answer>",
        0.25,
        "misplaced_answer",
    ),
    ("<reasoning>2+2<answer>4</reasoning></answer>", 0.25, "misplaced_answer"),
    ("4", 0, "missing_reasoning"),
    ("", 0, "no_answer"),
    ("<think>2+2", 0, "unclosed_think"),
    (RIGHT * 50, 0, "too_many_reasoning"),
    ("<Reasoning>2+2</Reasoning><answer >4</answer>", 0, "unopened_answer"),
    ("<reasoning><reasoning><answer><answer>" * 50, 0, "misplaced_reasoning"),
]


@pytest.mark.parametrize(("text", "share", "reason"), TABLE)
def test_all_of_the_structure_scores_1_and_if_graded_a_part_of_it_its_share(
    text: str, share: float, reason: str
) -> None:
    strict, graded = (
        TagsVerifier(tags=["reasoning", "answer"], graded=graded).judge([text])[0]
        for graded in (0, 1)
    )
    assert (strict.score, strict.reason) == (float(share == 1), reason)
    assert (graded.score, graded.reason) == (share, reason)
    assert graded.status == (
        Status.CORRECT if share == 1 else Status.PARTIAL if share else strict.status
    )


@pytest.mark.parametrize(
    ("tags", "text", "reason"),
    [
        (["note?", "answer"], "<answer>4</answer>", ""),
        (["note?", "answer"], "<note>x</note><answer>4</answer>", ""),
        (
            ["note?", "answer"],
            "<note>x</note><note>x</note><answer>4</answer>",
            "too_many_note",
        ),
        (["step+"], "<step>1</step><step>2</step>", ""),
        (["step+"], "1", "missing_step"),
        (["step{2}"], "<step>1</step>", "too_few_step"),
        (["step{2,3}"], "<step>1</step>" * 3, ""),
        (["step{2,3}"], "<step>1</step>" * 4, "too_many_step"),
        (["step{2,}"], "<step>1</step>" * 9, ""),
        (["plan", "plan/step+"], "<plan><step>1</step> and <step>2</step></plan>", ""),
        (["plan", "plan/step+"], "<plan>1</plan>", "missing_step"),
        (["plan", "plan/step+"], "<step>1</step>", "misplaced_step"),
        (
            ["plan+", "plan/step"],
            "<plan><step>1</step></plan><plan>2</plan>",
            "missing_step",
        ),
        (["plan", "plan/a", "plan/b"], "<plan><b>1</b><a>1</a></plan>", "wrong_order"),
        (["plan?", "plan/step+", "answer"], "<answer>4</answer>", ""),
        (["think", "answer"], "<think>2</think>\n<answer>4</answer>", ""),
        (["answer"], "<think>I write <answer>x</answer>.</think><answer>4</answer>", ""),
    ],
)
def test_how_often_and_where_is_written_in_the_list(
    tags: list[str], text: str, reason: str
) -> None:
    (verdict,) = TagsVerifier(tags=tags).judge([text])
    assert (verdict.score, verdict.reason) == (float(not reason), reason)


def test_a_tag_in_a_part_that_is_missing_earns_nothing() -> None:
    verifier = TagsVerifier(tags=["plan", "plan/step", "answer"], graded=True)
    assert verifier(["<answer>4</answer>", "<plan><step>1</step></plan>", "4"]) == [
        0.2,
        0.4,
        0.0,
    ]


def test_a_tag_that_may_be_missing_earns_nothing_and_costs_something_if_it_is_wrong() -> (
    None
):
    verifier = TagsVerifier(tags=["note?", "answer"], graded=True)
    assert verifier(["", "<note>x</note>", "<note>x<answer>4</answer>"]) == [0.0, 0.0, 0.0]
    assert verifier(["<answer>4</answer><note>"])[0] == 1 / 3


def test_text_outside_may_be_allowed_and_is_then_no_part() -> None:
    verifier = TagsVerifier(tags=["reasoning", "answer"], text_outside=True, graded=True)
    assert verifier(["So: " + RIGHT, "<answer>4</answer><reasoning>2+2</reasoning>"]) == [
        1.0,
        2 / 3,
    ]


def test_mentions_of_other_tags_may_be_allowed() -> None:
    text = "<reasoning>I end with <answer>.</reasoning><answer>4 </reasoning></answer>"
    assert TagsVerifier(tags=["reasoning", "answer"], mentions=True)(
        [text, "<reasoning>x<answer>4"]
    ) == [1.0, 0.0]
    assert TagsVerifier(tags=["reasoning", "answer"])([text]) == [0.0]


def test_a_prompt_that_opens_the_first_tag_frees_the_completion_from_it() -> None:
    verifier = TagsVerifier(tags=["reasoning", "answer"])
    rest = "2+2</reasoning><answer>4</answer>"
    prompts: list[Any] = [
        "2+2? <reasoning>\n",
        [{"role": "assistant", "content": "<reasoning>Well,"}],
        "2+2?",
    ]
    assert verifier([rest] * 3, prompts=prompts) == [1.0, 1.0, 0.0]
    assert verifier([RIGHT] * 3, prompts=prompts) == [0.0, 0.0, 1.0]
    assert TagsVerifier(tags=["reasoning", "answer"], prefilled=True)([rest]) == [1.0]


def test_a_template_that_opens_the_think_block_frees_the_completion_from_it() -> None:
    verifier = TagsVerifier(tags=["think", "answer"])
    rest = "2+2</think><answer>4</answer>"
    assert verifier.verify(Sample(text=rest, prefill="<think>\n")).reason == ""
    assert verifier.verify(Sample(text=rest, prefill="")).score == 0.0
    assert verifier.verify(Sample(text="<think>" + rest, prefill="<think>\n")).score == 0.0
    unknown = verifier.verify(Sample(text=rest))
    assert (unknown.score, unknown.reason) == (1.0, "prefill_assumed")


def test_the_last_tag_is_the_answer() -> None:
    assert TagsVerifier(tags=["reasoning", "answer"]).judge([RIGHT])[0].answer == "4"


def test_a_least_length_may_be_asked() -> None:
    verifier = TagsVerifier(tags=["answer"], min_chars=2)
    assert [
        verdict.reason
        for verdict in verifier.judge(["<answer> 4 </answer>", "<answer>44</answer>"])
    ] == [
        "short_answer",
        "",
    ]


pieces = st.sampled_from(
    [
        "<a>",
        "</a>",
        "<b>",
        "</b>",
        "<c>",
        "</c>",
        "<think>",
        "</think>",
        "x",
        " ",
        "\ud800\x00",
    ]
)


@given(st.lists(pieces, max_size=12).map("".join) | st.text(), st.booleans(), st.booleans())
def test_any_text_scores_between_0_and_1_and_1_only_if_strict_does_too(
    text: str, outside: bool, mentions: bool
) -> None:
    settings: dict[str, Any] = {
        "tags": ["a", "a/b?", "c{1,2}"],
        "text_outside": outside,
        "mentions": mentions,
    }
    (graded,) = TagsVerifier(graded=True, **settings)([text])
    (strict,) = TagsVerifier(**settings)([text])
    assert graded is not None and 0 <= graded <= 1
    assert strict == float(graded == 1)


@given(st.lists(pieces, max_size=12).map("".join))
def test_repeating_a_text_never_pays(text: str) -> None:
    once, often = TagsVerifier(tags=["a", "b"], graded=True)([text, text * 3])
    assert once is not None and often is not None
    assert often <= max(once, 0.25)


def test_text_of_any_length_and_depth_is_read() -> None:
    verifier = TagsVerifier(tags=["a", "a/b", "c"], graded=True)
    texts = [
        "<a>" * 50_000,
        "</a>" * 50_000,
        "<a></b>" * 25_000,
        "<a><b>" * 25_000 + "</a>" * 25_000,
        "<" * 250_000,
    ]
    assert verifier(texts) == [0.0] * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tags": "answer"}, "list of tags"),
        ({"tags": []}, "list of tags"),
        ({"tags": ["<answer>"]}, "without brackets"),
        ({"tags": ["a", 4]}, "no tag"),
        ({"tags": ["plan/step"]}, "not listed before it"),
        ({"tags": ["a", "b", "a"]}, "listed twice"),
        ({"tags": ["a?", "b*"]}, "may be missing"),
        ({"tags": ["a{3,2}"]}, "smaller number first"),
        ({"tags": ["a", "b{0}"]}, "never"),
        ({"tags": ["a"], "min_chars": -1}, "0 or more"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TagsVerifier(**arguments)
