"""Multiple choice: exactly one option in any wording; hedges and prose choose none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Status
from trl_grpo_ext.rewards.multiple_choice import (
    MultipleChoiceVerifier,
    multiple_choice_reward,
)

CITIES = ["Rome", "Paris"]


def judge(text: str, gold: Any = "B", choices: Any = CITIES, **settings: Any) -> Any:
    columns = {"answer": [gold]} | ({} if choices is None else {"choices": [choices]})
    return MultipleChoiceVerifier(**settings).judge([text], **columns)[0]


SAY_B = [
    "B",
    "b",
    "(B)",
    "[B]",
    "B.",
    "b)",
    "**B**",
    r"\boxed{B}",
    r"$\boxed{\text{(B)}}$",
    r"\boxed{\textbf{B}}",
    "Answer: B",
    "**Answer**: (B) Paris",
    "<answer>B</answer>",
    "<answer>B) Paris</answer>",
    "<think>A or B?</think>\n\nB",
    "Option B",
    "B) Paris",
    "B. Paris",
    "B: Paris",
    "B - Paris",
    "B (Paris)",
    "B) Paris, the capital of France",
    "The correct option is B.",
    "The answer is B because Rome is in Italy.",
    "The answer is B. Rome is in Italy.",
    "So the correct answer is **B) Paris**.",
    "Therefore, the best choice is B.",
    "The answer is not A. So the answer is B.",
    "**B) Paris**\n\nRome is in Italy.",
    "Ｂ",
    "Ⓑ",
]


@pytest.mark.parametrize("text", SAY_B)
@pytest.mark.parametrize(
    "choices", [CITIES, None], ids=["options known", "options unknown"]
)
def test_a_choice_is_read_however_it_is_said(text: str, choices: Any) -> None:
    assert (judge(text, "B", choices).score, judge(text, "A", choices).score) == (1.0, 0.0)


SAY_B_AS_CHAT_MODELS_DO = [
    "**B**\n\nParis is the capital of France.",
    "B\n\nExplanation: Paris is the capital of France.",
    "(B) Paris\n\n**Explanation:** Rome (A) is in Italy.",
    "B\nRome is in Italy, so A is wrong.",
    "B\n\n" + "Paris is the capital of France. " * 100,
    "The answer is B!",
    "The answer is B! Rome is in Italy.",
    "B!",
    "**B!**",
    "The correct answer is B, Paris.",
    "My answer is B, not A.",
    "B rather than A",
    "B because it can't be A",
    "B, since A is not the capital",
    "B) Paris, not A) Rome",
    "B is the correct answer. It is the capital.",
    "Therefore, option B is correct.",
    "So B.",
    "I choose B.",
    "综上所述，正确答案是：B",
    "2 + 2 = 4, so B",
    "2 + 2 = 4. So B.",
    "Paris, option B",
    "The answer is Paris, option B.",
    "The letter is B",
    "My choice is B.",
    "It's B!",
    "Ans: B",
    "Answer: <B>",
    '{"answer": "B"}',
    '{"reasoning": "Rome is in Italy.", "answer": "(B)"}',
    '```json\n{"answer": "B"}\n```',
]


@pytest.mark.parametrize("text", SAY_B_AS_CHAT_MODELS_DO)
@pytest.mark.parametrize(
    "choices", [CITIES, None], ids=["options known", "options unknown"]
)
def test_a_choice_is_read_as_chat_models_write_it(text: str, choices: Any) -> None:
    assert (judge(text, "B", choices).score, judge(text, "A", choices).score) == (1.0, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        "Paris is the correct answer.",
        "Paris is correct.",
        "Paris is the answer, since France has it.",
        "Paris is the best choice. It is the capital of France.",
        "Paris, not Rome.",
        "Paris\n\nIt is the capital of France.",
        '{"answer": "Paris"}',
    ],
)
def test_an_option_s_text_is_read_as_chat_models_write_it(text: str) -> None:
    assert (judge(text).score, judge(text, "A").score) == (1.0, 0.0)


@pytest.mark.parametrize(
    "text",
    ["Paris", "paris.", "The answer is Paris.", "Paris (B)", r"\boxed{\text{Paris}}"],
)
def test_an_option_may_be_said_by_its_text_where_the_options_are_known(text: str) -> None:
    assert judge(text).score == 1.0
    assert judge(text, choices=None).reason == "no_choice"


@pytest.mark.parametrize(
    "text",
    [
        "It's Paris.",
        "Paris is in France, which is option B.",
        "B it is.",
        "The capital of France is Paris.",
        "The capital of France is Paris, not Rome.",
        "It is not Rome but Paris.",
        "It isn't Rome, but rather Paris.",
        "The capital of France is **Paris** (B).",
        "Paris is the capital of France.",
        "Rome is in Italy. The capital of France is Paris.",
        "France lies in Europe.\nSo it's Paris.",
    ],
)
def test_a_last_sentence_chooses_the_only_option_that_it_names(text: str) -> None:
    assert (judge(text).score, judge(text, "A").score) == (1.0, 0.0)
    assert judge(text, choices=None).score == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "The answer is not B.",
        "The letter is not B",
        "My choice is not B.",
        "It's not Paris.",
        "It isn't Paris.",
        "I don't think it's Paris.",
        "I doubt it's Paris.",
        "It's untrue that it's Paris.",
        "It could be Paris.",
        "It would be Paris.",
        "It's Paris, if not Rome.",
        "It's Paris, unlike Rome.",
        "It's Paris, not Paris.",
        "It's not Paris, not Rome.",
        "It's not Rome but maybe Paris.",
        "It's not only Rome but Paris.",
        "It's not Rome but not Paris.",
        "It's Paris, A.",
        "It's Paris (A).",
        "Everything but Paris.",
        "Is it Paris?",
        "The answer is B?",
        "B) Paris?",
        "Paris is wrong.",
        "It's far from Paris.",
        "It's Paris's neighbour.",
        "It's Paris. No.",
        "It's Paris.\n\nMaybe.",
        "Rome. So it's Paris.",
        "A. So B.",
        "A, so B",
        "Rome, so B",
        "Maybe 4, so B",
        "2 + 2 = 4, so not B",
        "Rome, option B",
        "Paris, option A",
        "<A> <B>",
    ],
)
def test_a_sentence_that_denies_doubts_or_names_another_option_chooses_none(
    text: str,
) -> None:
    assert [judge(text, gold).score for gold in ("A", "B")] == [0.0, 0.0]


def test_the_longer_of_two_options_is_named_where_one_holds_the_other() -> None:
    towns = ["Paris", "Paris, Texas"]
    assert [judge("It's Paris, Texas.", gold, towns).score for gold in "AB"] == [0.0, 1.0]
    assert [judge("It's Paris.", gold, towns).score for gold in "AB"] == [1.0, 0.0]


def test_spaces_beside_signs_and_units_tell_no_options_apart_unless_only_they_do() -> None:
    assert judge("100°C", "B", ["0 °C", "100 °C"]).score == 1.0
    assert [judge("5km", gold, ["5 km", "5  km."]).score for gold in "AB"] == [0.0, 0.0]


ASKED = "What is the capital of France?\nA) Rome\nB) Paris\n\nAnswer with the letter."


def test_options_may_stand_in_the_prompt_alone() -> None:
    verdicts = MultipleChoiceVerifier().judge(
        ["Paris", "The capital is Paris.", "B. Paris", "B", "A", "B. Rome", "It's Rome."],
        answer=["B"] * 7,
        prompts=[ASKED] * 7,
    )
    assert [verdict.score for verdict in verdicts] == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert MultipleChoiceVerifier().check_rows([{"prompt": ASKED, "answer": "Paris"}]) == []


@pytest.mark.parametrize(
    "text",
    [
        "A or B",
        "A and B",
        "A, B",
        "A B",
        "A/B",
        "(A) or (B)",
        "A) B)",
        "A. B.",
        "AB",
        "A) Rome B) Paris",
        "A) Rome or B) Paris",
        "Answer: either A or B",
        "Answer: A\nAnswer: B",
        r"\boxed{A} \boxed{B}",
        r"\boxed{A}, or else \boxed{B}",
        "<answer>A</answer><answer>B</answer>",
        "Both",
        "A good answer needs care.",
        "I think A is what B is not.",
        "",
        "<think>B</think>",
        "<think>B",
        "<answer></answer>",
        "not B, not A",
        "A is wrong. B is wrong.",
        "A\nB",
        "A\n\nB",
        "A\n\nB) Paris",
        "A\n\nor B",
        "A\n\nOr maybe the other one.",
        "A\n\nB is also correct.",
        "A\n\nWell, B is just as correct.",
        "A\n\nI mean B.",
        "A) Rome\nB) Paris",
        "A) Rome\n\nWait, no.",
        "A\n, B",
        "A\nis wrong",
        "A\nis\nnot what B\nis",
        "A, Paris, B",
        "A, maybe B",
        "A, not A",
        "A, not B, or B, not A",
        "B, not B",
        "not A, not B",
        "A! B!",
        "The answer is A! B too!",
        "Answer: **A**, **B**",
        "The answer is **A** or **B**.",
        "Final answer: **A** / B",
        "The answer is A. But B is also right.",
        "The answer is A! Or B!",
        "A is the correct answer. B is the correct answer.",
        "Rome is the correct answer. Paris is the correct answer.",
        "Rome is correct, or Paris.",
        '{"answer": "A", "answer": "B"}',
        '{"answer": "A", "choice": "B"}',
        '{"answer": "A or B"}',
        '{"answer": ["A", "B"]}',
        '{"A": "Rome", "B": "Paris"}',
    ],
)
def test_hedges_prose_and_nothing_score_0_whatever_the_gold_is(text: str) -> None:
    cases = [(gold, choices) for gold in ("A", "B") for choices in (CITIES, None)]
    assert [case for case in cases if judge(text, *case).score != 0.0] == []


@pytest.mark.parametrize("gold", ["A", "B", "C", "D"])
def test_a_list_of_all_letters_scores_0_whatever_the_gold_is(gold: str) -> None:
    for text in (
        "A, B, C, D",
        "ABCD",
        "A B C D",
        "A) B) C) D)",
        "(A)(B)(C)(D)",
        "A or B or C or D",
    ):
        assert judge(text, gold, None).score == 0.0


REASONS = {
    "A": "not_equal",
    "A or B": "several_choices",
    "B) Paris or A) Rome": "several_choices",
    "B) Rome": "letter_and_text_differ",
    "Rome (B)": "letter_and_text_differ",
    "Answer: A\nFinal answer: B": "ambiguous",
    "C": "no_such_choice",
    "B is wrong": "taken_back",
    "B) is not it": "taken_back",
    "B\n\nOr maybe not.": "taken_back",
    "B (I could be wrong)": "taken_back",
    "The answer is B. Oops, I made a mistake.": "taken_back",
    "B\n\nA": "several_choices",
    "B, Rome": "letter_and_text_differ",
    "B\n" + "x\n" * 2_000: "answer_too_long",
    "A good answer needs care.": "no_choice",
    "": "no_answer",
    "<think>B": "unclosed_think",
    "B) " + "x" * 3_000: "answer_too_long",
}


@pytest.mark.parametrize(("text", "reason"), REASONS.items())
def test_what_scores_0_says_why(text: str, reason: str) -> None:
    verdict = judge(text)
    assert (verdict.score, verdict.reason) == (0.0, reason)


def test_an_option_in_dollars_is_chosen_by_its_own_amount_alone() -> None:
    prices = ["$3.00", "$3.50", "$36"]
    right = ["C) $36", "C. \\$36", "$36.00", "36 dollars", "C, $36."]
    wrong = ["C) $3.50", "C. \\$3.50", "C: $3.00.", "C) $3", "C) 3 dollars", "$3.50"]
    assert [judge(text, "C", prices).score for text in right] == [1.0] * len(right)
    assert [judge(text, "C", prices).score for text in wrong] == [0.0] * len(wrong)


@pytest.mark.parametrize(
    ("gold", "choices"),
    [
        ("B", None),
        ("(B)", None),
        ("b", CITIES),
        ("B) Paris", CITIES),
        (1, CITIES),
        (1, None),
        (1.0, CITIES),
        ("1", CITIES),
        ("Paris", CITIES),
        (["B"], CITIES),
        (["C", "B"], ["x", "y", "z"]),
        ("B", ["A) Rome", "B) Paris"]),
        ("B", {"text": CITIES, "label": ["A", "B"]}),
        ("B", {"A": "Rome", "B": "Paris", "C": None}),
        ("B", '["Rome", "Paris"]'),
        ("Paris", '{"A": "Rome", "B": "Paris"}'),
        (True, ["False", "True"]),
    ],
)
def test_golds_and_options_of_every_form_mean_b(gold: Any, choices: Any) -> None:
    assert [judge(text, gold, choices).score for text in ("B", "A")] == [1.0, 0.0]


def test_numbered_options_are_chosen_by_their_number() -> None:
    options = {"text": ["Rome", "Paris"], "label": ["1", "2"]}
    assert [
        judge(text, "2", options).score for text in ("2", "(2)", "Paris", "1", "B")
    ] == [1.0, 1.0, 1.0, 0.0, 0.0]


def test_an_option_s_text_may_have_several_lines() -> None:
    programs = ["x = 1\nor y", "x = 1\nand y"]
    for text in (programs[1], f"B) {programs[1]}", f"<answer>B. {programs[1]}</answer>"):
        assert [judge(text, gold, programs).score for gold in "AB"] == [0.0, 1.0]


def test_the_first_index_may_be_1() -> None:
    assert judge("B", 2, index_base=1).score == 1.0


def test_a_gold_that_can_be_read_in_two_ways_is_skipped_until_it_is_said_how() -> None:
    numbers = ["2", "1", "0"]
    assert judge("B", "1", ["0", "2", "1"]).reason == "gold_ambiguous"
    assert judge("B", "1", numbers).score == 1.0  # index and text agree
    assert judge("C", "1", ["0", "2", "1"], gold_as="text").score == 1.0
    assert judge("B", "1", ["0", "2", "1"], gold_as="index").score == 1.0


def test_options_that_say_the_same_are_equally_right() -> None:
    assert judge("Paris", "A", ["Paris", "Rome", "Paris"]).score == 1.0


@pytest.mark.parametrize(
    ("gold", "choices", "reason"),
    [
        (None, CITIES, "gold_missing"),
        ([], CITIES, "gold_missing"),
        (float("nan"), CITIES, "gold_missing"),
        ("Oslo", CITIES, "gold_not_among_choices"),
        ("C", CITIES, "gold_not_among_choices"),
        (7, CITIES, "gold_not_among_choices"),
        ("B, C", None, "gold_not_among_choices"),
        ({"label": "B"}, None, "gold_not_text"),
        ("B", "Rome, Paris", "choices_unreadable"),
        ("B", '"Rome"', "choices_unreadable"),
        ("B", [], "choices_unreadable"),
        ("B", {"text": CITIES, "label": ["A", "A"]}, "choices_unreadable"),
    ],
)
def test_a_row_that_cannot_be_judged_is_skipped_and_listed(
    gold: Any, choices: Any, reason: str
) -> None:
    verdict = judge("B", gold, choices)
    assert (verdict.status, verdict.score, verdict.reason) == (Status.SKIPPED, None, reason)
    (problem,) = MultipleChoiceVerifier().check_rows(
        [{"answer": gold, "choices": choices}, {"answer": "B"}]
    )
    assert (problem.row, problem.reason) == (0, reason)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"answer_from": "box"}, "Did you mean `boxed`"),
        ({"gold_as": "letters"}, "Did you mean `letter`"),
        ({"index_base": 2}, "0 or 1"),
        ({"index_base": True}, "0 or 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        MultipleChoiceVerifier(**settings)


def test_a_dataset_without_the_gold_is_refused() -> None:
    with pytest.raises(ValueError, match="`solution` or `answer`"):
        multiple_choice_reward(["B"], choices=[CITIES])


PIECES = [
    *(
        "A",
        "B",
        "(",
        ")",
        ". ",
        " or ",
        ", ",
        "Paris",
        "Rome",
        "Answer: ",
        "\\boxed{",
        "}",
        "is not ",
        "<answer>",
    ),
    *("So ", ", so ", ", option ", "It's ", "<", ">", "The capital is "),
    *(
        "\n",
        "\n\n",
        "!",
        ", not ",
        " is the correct answer",
        " too",
        '{"answer": "',
        '"',
        " because ",
    ),
]


@given(
    st.lists(
        st.one_of(st.sampled_from(PIECES), st.text(alphabet=st.characters(codec=None)))
    )
)
def test_no_text_is_right_for_two_golds(pieces: list[str]) -> None:
    text = "".join(pieces)
    for choices in (CITIES, None):
        verdicts = [judge(text, gold, choices) for gold in ("A", "B")]
        assert all(verdict.score in (0.0, 1.0) for verdict in verdicts)
        assert sum(verdict.score for verdict in verdicts) <= 1


@pytest.mark.parametrize(
    "piece", ["A", "A ", "(A", "A) ", "A or ", "ﷺ", "a\u0301\u0323", "\x00", "answer "]
)
def test_a_megabyte_is_judged(piece: str) -> None:
    assert judge(piece * (1_000_000 // len(piece))).score == 0.0


@pytest.mark.parametrize(
    "form",
    [
        *(
            "(a) {}",
            "a) {}",
            "a. {}",
            "[a] {}",
            "**a)** {}",
            "- a) {}",
            "A) {}",
            "A: {}",
            "[A] {}",
        ),
        *(
            "A - {}",
            "A – {}",
            "A {}",
            "- A. {}",
            "* **A)** {}",
            "**A.** {}",
            "**A**. {}",
            "**(A)** {}",
        ),
    ],
)
@pytest.mark.parametrize("below", ["", "\nAnswer:", "\nAnswer with (a), (b) or (c)."])
def test_options_that_a_prompt_lists_are_read_in_each_usual_form(
    form: str, below: str
) -> None:
    letters = ("abc", "ABC")["A" in form]
    lines = [form.replace(letters[0], letter) for letter in letters]
    options = [
        line.format(text)
        for line, text in zip(lines, ("Rome", "Paris", "Oslo"), strict=True)
    ]
    asked = "Which is the capital of France?\n" + "\n".join(options) + below
    right = ["Paris", "It's Paris.", "B", "(b)", "B) Paris", "Answer: Paris"]
    wrong = [
        "Rome",
        "It's Rome.",
        "(b) Rome",
        "B) Rome",
        "A",
        "Paris or Rome",
        "B. Paris or C. Oslo",
    ]
    said = [*right, *wrong]
    verdicts = MultipleChoiceVerifier().judge(
        said, prompts=[asked] * len(said), solution=["B"] * len(said)
    )
    assert [verdict.score for verdict in verdicts] == [1] * len(right) + [0] * len(wrong)


@pytest.mark.parametrize(
    ("options", "text", "other"),
    [
        ((r"$\frac{1}{4}$", r"$\frac{1}{3}$"), r"\boxed{\dfrac13}", r"$-\frac{1}{3}$"),
        ((r"$2\sqrt{3}$", r"$3\sqrt{2}$"), r"$3\sqrt2$", r"$2\sqrt3$"),
        (("20%", "25%"), r"\boxed{25\%}", "-25%"),
        (("48 cm", "48 cm²"), r"\boxed{48 \text{ cm}^2}", r"\boxed{48 \text{ cm}}"),
        (("45°", "90°"), "90 degrees", r"\boxed{45^\circ}"),
        (("$x^2 - 1$", "$x^2 + 1$"), r"\boxed{x^{2}+1}", r"\boxed{x^{2}-1}"),
    ],
)
def test_an_option_of_a_column_or_prompt_is_chosen_by_its_value(
    options: tuple[str, str], text: str, other: str
) -> None:
    listed = "Which?\n" + "\n".join(map("{}) {}".format, "AB", options))
    for columns in ({"choices": [options] * 2}, {"prompts": [listed] * 2}):
        verdicts = MultipleChoiceVerifier().judge(
            [text, other], answer=["B"] * 2, **columns
        )
        assert [verdict.score for verdict in verdicts] == [1.0, 0.0]


def test_options_that_a_prompt_numbers_are_chosen_by_number_or_text() -> None:
    asked = "Which is red?\n1. Sky\n2. Blood\n3. Grass"
    right = [
        "2",
        "(2)",
        "It is Blood.",
        "**2) Blood**",
        "2. Blood\n\nIt is red.",
        "Blood (2)",
    ]
    wrong = ["1", "2) Grass", "2. Grass\n\nIt is red.", "Blood (3)"]
    said = [*right, *wrong]
    verdicts = MultipleChoiceVerifier().judge(
        said, prompts=[asked] * len(said), solution=["2"] * len(said)
    )
    assert [verdict.score for verdict in verdicts] == [1] * len(right) + [0] * len(wrong)


def test_lines_that_begin_with_letters_are_options_only_in_a_run_of_three() -> None:
    asked = "A train is fast.\nB train is slow.\nWhich is faster?"
    verdicts = MultipleChoiceVerifier().judge(
        ["A", "train is fast"], prompts=[asked] * 2, solution=["A"] * 2
    )
    assert [verdict.score for verdict in verdicts] == [1, 0]


def test_numbered_instructions_are_no_options_for_a_letter() -> None:
    asked = "1. Think first.\n2. Say one letter."
    assert (
        MultipleChoiceVerifier().judge(["B"], prompts=[asked], solution=["B"])[0].score == 1
    )
