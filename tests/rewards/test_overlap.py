"""List answers: overlap scores by measure and order; naming everything does not pay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Status
from trl_grpo_ext.rewards.overlap import OverlapVerifier, common_subsequence

COLOURS = ["red", "green", "blue"]


def judge(answer: str, gold: Any = COLOURS, **settings: Any) -> Any:
    return OverlapVerifier(**settings).judge([f"<answer>{answer}</answer>"], answer=[gold])[
        0
    ]


def test_the_score_table() -> None:
    scores = {
        "blue, green, red": 1.0,
        "red, green": 0.8,
        "red, red, red": 0.5,
        "red, green, blue, pink, grey, black, white": 0.6,
        "pink": 0.0,
    }
    assert {answer: judge(answer).score for answer in scores} == scores
    assert [judge(answer).status for answer in scores] == [
        Status.CORRECT,
        *[Status.PARTIAL] * 3,
        Status.INCORRECT,
    ]


@pytest.mark.parametrize(
    ("measure", "score"),
    [
        ("f1", 0.5),
        ("jaccard", 1 / 3),
        ("recall", 1 / 3),
        ("precision", 1.0),
        ("exact", 0.0),
    ],
)
def test_each_measure_sees_one_item_of_three(measure: Any, score: float) -> None:
    assert judge("red", measure=measure, max_items=9).score == pytest.approx(score)


@pytest.mark.parametrize(
    ("order", "answer", "hits"),
    [
        ("ignored", "blue, green, red", 3),
        ("subsequence", "blue, green, red", 1),
        ("subsequence", "red, pink, blue", 2),
        ("position", "blue, green, red", 1),
        ("position", "green, blue, red", 0),
    ],
)
def test_order_counts_as_it_is_asked_for(order: Any, answer: str, hits: int) -> None:
    assert judge(answer, order=order).score == pytest.approx(hits / 3)


def test_an_item_counts_once_as_a_set_and_each_time_in_an_order() -> None:
    assert judge("a, a, b", ["a", "b"]).score == 1.0
    assert judge("a, a, b", ["a", "b"], order="subsequence").score == pytest.approx(0.8)
    assert judge("a, b", ["a", "b", "b"], order="subsequence", measure="exact").score == 0.0


@pytest.mark.parametrize("measure", ["f1", "jaccard", "exact"])
@pytest.mark.parametrize("order", ["ignored", "subsequence", "position"])
def test_naming_everything_pays_less_than_one_right_item(measure: Any, order: Any) -> None:
    everything = ", ".join([*COLOURS, *map(str, range(100))])
    one_of_three = judge("red", measure=measure, order=order).score
    assert judge(everything, measure=measure, order=order).score < max(one_of_three, 0.1)


@pytest.mark.parametrize(
    ("answer", "settings"),
    [
        ("[red, green, blue]", {}),
        ('["red", "green", "blue"]', {}),
        ("{red,green,blue}", {}),
        ("red, green, and blue", {}),
        ("red, green and blue", {}),
        ("red, green And  blue", {}),
        ("red and green and blue", {}),
        ("- red\n- green\n- blue", {}),
        ("* red\n\n* green\n\n* and blue", {}),
        ("1. red\n2. green\n3. blue", {"separator": ";"}),
        (r"\{red, green, blue\}", {}),
        (r"\boxed{\{red, green, blue\}}", {}),
        (r"\boxed{\text{red}, \text{green}, \text{blue}}", {}),
        (r"\boxed{\left\{\text{red},\ \text{green},\ \text{blue}\right\}}", {}),
        (r"$\text{red, green, blue}$", {}),
        (" red ,, green , **blue** ,", {}),
        ("- red\n- green\n\n- blue", {"separator": "\n"}),
        ("1. red\n2) green\n(3) blue", {"separator": "\n"}),
        ("red; green; blue", {"separator": ";"}),
        ("RED, Green, blue", {"ignore_case": True}),
    ],
)
def test_lists_of_every_form_are_read(answer: str, settings: dict[str, Any]) -> None:
    assert judge(answer, measure="exact", **settings).score == 1.0


@pytest.mark.parametrize("separator", [",", "\n"])
@pytest.mark.parametrize(
    "text",
    [
        "Answer:\n- red\n- green\n- blue",
        "**Answer:**\n\n1. red\n2. green\n3. blue.\n\nThese are all of them.",
        "The colours of light are mixed. The answer is:\n* red\n\n* **green**\n\n* blue\nThat is all.",
    ],
)
def test_a_list_below_a_phrase_is_read_to_its_end(text: str, separator: str) -> None:
    (verdict,) = OverlapVerifier(separator=separator, measure="exact").judge(
        [text], answer=[COLOURS]
    )
    assert verdict.score == 1.0


INTRODUCED = [
    "The colours are red, green and blue.",
    "They were mixed long ago. Therefore, based on the text, the colours are: red, green, and blue.",
    "The colours are as follows: red, green, blue",
    "Red light is warm.\n\nThe colours are **red**, **green**, and **blue**. I hope that helps!",
    "The colours are:\n- red\n- green\n- blue",
    "**Colours of light:**\n\n1. **red**\n2. **green**\n3. **blue**\n\nThese can be mixed to make all others.",
    "1. **red**\n2. **green**\n3. **blue**",
    "Here is the list:\nred, green and blue",
    "The light consists of red, green and blue.",
    "red, green and blue are the colours.",
    "Final answer: The colours are red, green and **blue**.",
    "<answer>The colours are:\n* red\n* green\n* blue</answer>",
]


@pytest.mark.parametrize("text", INTRODUCED)
def test_a_list_counts_without_its_introduction(text: str) -> None:
    gold = ", ".join(COLOURS)
    wrong = text.replace("green", "pink")
    padded = text.replace("red", "pink, red") if ", green" in text else text
    scores = OverlapVerifier()([text, wrong, padded], answer=[gold] * 3)
    assert scores[0] == 1.0
    assert scores[1] == pytest.approx(2 / 3)
    assert padded == text or scores[2] == pytest.approx(6 / 7)


@pytest.mark.parametrize(
    "text",
    [
        "The colours are not red, green and blue.",
        "red, green and blue are not the colours.",
        "I don't think the colours are red, green and blue.",
        "Maybe the colours are red, green and blue.",
        "The colours are red, green and blue, but I'm not sure.",
        "The colours are red, green and blue. Or they are pink and grey.",
        "The colours are red, green and blue. No, wait, that is wrong.",
        "The excluded ones are:\n- red\n- green\n- blue",
        "The colours are:\n- red\n- green\n- blue\n\nWait, that's wrong.",
        "The colours are:\n- red\n- green\n- blue\n\nThese are all wrong except the first.",
        "The colours are:\n- red\n- green\n- blue\n\nSo the colours are pink and grey.",
        "The colours are:\n- red\n- green\n- blue\n- pink",
        "red, green and blue are pink, grey.",
        "<think>The colours are red, green and blue.</think>The colours are pink and grey.",
    ],
)
def test_a_list_that_is_denied_doubted_or_replaced_does_not_score_full(text: str) -> None:
    (score,) = OverlapVerifier()([text], answer=[", ".join(COLOURS)])
    assert score is not None
    assert score < 0.9


def test_of_two_lists_around_a_verb_only_the_one_behind_counts() -> None:
    text = "red, green, blue are pink, grey."
    golds = ["red, green, blue", "pink, grey"]
    assert OverlapVerifier()([text] * 2, answer=golds) == [0.0, 1.0]


@pytest.mark.parametrize(
    "form",
    [
        "- **{}**: a colour",
        "* **{}:** warm, or so they say",
        "1. {} – seen in nature",
        "- {} (a colour)",
        "1. **{}**\n   - a colour\n   - a mood",
    ],
)
def test_bullets_with_descriptions_count_as_their_items(form: str) -> None:
    lines = [form.format(colour) for colour in COLOURS]
    assert judge("\n".join(lines)).score == 1.0
    assert judge("\n".join(lines[:2])).score == pytest.approx(0.8)
    pink = form.format("pink")
    assert judge("\n".join([*lines, pink])).score == pytest.approx(6 / 7)


def test_bullets_stay_whole_without_descriptions_or_with_denied_items() -> None:
    assert judge("- red: warm\n- green: cool\n- blue").score == pytest.approx(1 / 3)
    assert judge("- red: yes\n- green: no\n- blue: maybe").score == 0.0
    gold = ["red (warm)", "blue (cool)"]
    assert judge("- red (warm)\n- blue (cool)", gold).score == 1.0
    assert judge("- red (cool)\n- blue (warm)", gold).score == 0.0


def test_a_gold_with_a_verb_of_its_own_is_no_introduction() -> None:
    gold = "Jaws, Life Is Beautiful"
    assert judge(gold, gold).score == 1.0
    assert judge("Life Is Beautiful, Jaws", gold).score == 1.0


def test_an_item_with_and_in_it_is_one_item_where_the_gold_has_it_so() -> None:
    assert judge("jazz, rock and roll", ["jazz", "rock and roll"]).score == 1.0
    assert judge("rock and roll, jazz", "jazz, rock and roll").score == 1.0
    assert judge("green, blue, red", "red, green and blue").score == 1.0


def test_and_hides_no_item_from_the_limit() -> None:
    everything = "pink, " + " and ".join([*COLOURS, *map(str, range(9))])
    assert judge(everything, measure="recall", max_items=3).score == 0.0
    assert judge(everything).score < 0.4


def test_a_dash_within_an_item_is_no_bullet() -> None:
    assert judge("Spider - Man, Thor", ["Spider - Man", "Thor"]).score == 1.0


@pytest.mark.parametrize(
    "gold",
    [COLOURS, "red, green, blue", '["red", "green", "blue"]', ("red", "green", "blue")],
)
def test_the_gold_is_a_list_or_a_text_that_is_split_as_the_answer_is(gold: Any) -> None:
    assert judge("green, red, blue", gold).score == 1.0


def test_an_item_of_a_list_is_not_split() -> None:
    assert (
        judge("Paris, France; Oslo", ["Paris, France", "Oslo"], separator=";").score == 1.0
    )
    assert judge("Paris, France", ["Paris, France"], separator=";").score == 1.0
    assert judge("Paris, France", ["Paris, France"]).score == 0.0


def test_numbers_are_items_as_they_are_written() -> None:
    assert judge("1, 2", [1, 2]).score == 1.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<answer>pink</answer>", "no_overlap"),
        ("<answer>Red</answer>", "no_overlap"),
        ("<answer>, ,</answer>", "no_items"),
        ("<answer>red</answer><answer>red, green</answer>", "ambiguous"),
        ("<answer>a, b, c, d, e</answer>", "too_many_items"),
        ("<answer>" + "red," * 5_000 + "</answer>", "answer_too_long"),
        ("<think>red", "unclosed_think"),
        ("", "no_answer"),
    ],
)
def test_what_scores_0_says_why(text: str, reason: str) -> None:
    verdict = OverlapVerifier(max_items=4).judge([text], answer=[COLOURS])[0]
    assert (verdict.score, verdict.reason) == (0.0, reason)


def test_an_exact_measure_says_that_the_lists_differ() -> None:
    assert judge("red", measure="exact").reason == "not_equal"


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        (None, "gold_missing"),
        ([], "gold_missing"),
        ([""], "gold_empty"),
        (" , ", "gold_empty"),
    ],
)
def test_an_empty_gold_is_skipped_and_listed(gold: Any, reason: str) -> None:
    verdict = judge("red", gold)
    assert (verdict.status, verdict.score, verdict.reason) == (Status.SKIPPED, None, reason)
    (problem,) = OverlapVerifier().check_rows([{"answer": gold}])
    assert (problem.reason, "no answer overlaps" in problem.advice) == (
        reason,
        reason == "gold_empty",
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "jacard"}, "Did you mean `jaccard`"),
        ({"order": "ordered"}, "`subsequence`"),
        ({"separator": ""}, "between two items"),
        ({"max_items": 0}, "1 or more"),
        ({"measure": "recall"}, "max_items"),
        ({"answer_from": "tag"}, "answer_from cannot be"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        OverlapVerifier(**settings)


def plain_common_subsequence(one: str, other: str) -> int:
    best = [0] * (len(other) + 1)
    for item in one:
        diagonal = 0
        for place, wanted in enumerate(other, 1):
            diagonal, best[place] = (
                best[place],
                diagonal + 1 if item == wanted else max(best[place], best[place - 1]),
            )
    return best[-1]


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_the_longest_common_subsequence_is_that_of_the_textbook(
    one: str, other: str
) -> None:
    assert common_subsequence(one, other) == plain_common_subsequence(one, other)


@given(st.text(alphabet=st.characters(codec=None)), st.lists(st.text(), max_size=4))
def test_any_text_has_a_score_from_0_to_1_or_none(text: str, gold: list[str]) -> None:
    for order in ("ignored", "subsequence", "position"):
        verdict = OverlapVerifier(order=order).judge([text], answer=[gold])[0]  # type: ignore[arg-type]
        assert verdict.score is None or 0 <= verdict.score <= 1


@pytest.mark.parametrize(
    "piece",
    [
        "a,",
        ",",
        "red, ",
        "[",
        "and ",
        " and a",
        "1. ",
        "- a\n",
        " ",
        "\\text{",
        "is ",
        ":\n",
        "a. ",
    ],
)
def test_a_megabyte_is_judged(piece: str) -> None:
    for length in (9_990, 1_000_000):
        text = piece * (length // len(piece))
        assert (
            OverlapVerifier(order="subsequence")
            .judge([text + "!"], answer=[["x"]])[0]
            .score
            == 0.0
        )
