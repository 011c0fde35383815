"""Numeric answers: all spellings of numbers, exact tolerances, and rejected texts."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Status
from trl_grpo_ext.rewards.numeric import NumericVerifier
from trl_grpo_ext.sample import Sample


def judge(text: str, gold: Any = 1500, **settings: Any) -> Any:
    return NumericVerifier(**settings).judge([text], answer=[gold])[0]


@pytest.mark.parametrize(
    "text",
    [
        "1500",
        "+1500",
        "1500.",
        "1,500.00",
        "1 500",
        "1\u202f500",
        r"1{,}500",
        r"1\,500",
        "１５００",
        "$1,500",
        r"\$1500",
        "1500 €",
        "1.5e3",
        "15E+2",
        r"\boxed{1.5 \times 10^3}",
        r"1.5 \cdot 10^{3}",
        "1.5×10³",
        "1.5*10**3",
        "3000/2",
        r"\frac{3000}{2}",
        "1.5 x 10^3",
        "١٥٠٠",
        "150000%",
        "x = 1500",
        r"\approx 1500",
        "The answer is approximately 1500.",
        "**1500**",
        "The answer is $1,500.00.",
        "<answer>1500</answer>",
        "#### 1500",
        "<think>1600?</think>1500",
        "(1500)",
    ],
)
def test_a_number_is_read_however_it_is_written(text: str) -> None:
    assert (judge(text).score, judge(text, 1501).score) == (1.0, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        "1500 or 1600",
        "1500, 1600",
        "1000 + 500",
        "1500 - 0",
        "1500**1",
        "15²",
        "1499 1/1",
        "5$6",
        "1,50,0",
        "15,00",
        "1_500",
        "0x5dc",
        "nan",
        "inf",
        "-infinity",
        "1/0",
        r"\frac{1}{0}",
        "10^10^10",
        "1500\n1500",
        "1" * 500,
    ],
)
def test_what_is_no_number_by_itself_is_not_read(text: str) -> None:
    verdict = judge(text)
    assert (verdict.status, verdict.score, verdict.reason) == (
        Status.UNPARSEABLE,
        0.0,
        "not_a_number",
    )


@pytest.mark.parametrize(
    "text", ["1e999999999", "1e-999999999", "10^999999999999999999999", "1.5*10**100000"]
)
def test_an_exponent_that_nobody_can_compute_is_not_computed(text: str) -> None:
    assert judge(text).reason == "out_of_range"


@pytest.mark.parametrize(
    ("settings", "gold", "right", "wrong"),
    [
        ({}, 0.3, ["0.3", "3/10", "30%"], ["0.30000000000000004", "0.3000001"]),
        ({"absolute": 0.1}, 1.0, ["0.9", "1.1"], ["0.89", "1.10000001"]),
        ({"relative": 0.01}, 100, ["99", "101"], ["98.999", "101.001", "0", "-100"]),
        ({"relative": 0.01}, -100, ["-99", "-101"], ["-98.999", "100"]),
        ({"relative": 0.01}, 0, ["0", "-0"], ["0.0001"]),
        ({"relative": 0.01, "absolute": 0.5}, 0, ["0.5"], ["0.51"]),
        ({"percent": "fraction"}, "28%", ["28%", "0.28"], ["28", "0.28%"]),
        ({"percent": "number"}, 28, ["28%", r"28\%", "28 percent"], ["0.28"]),
        ({"percent": "either"}, 0.28, ["28%", "0.28"], ["28"]),
    ],
)
def test_tolerances_and_percents_are_exact(
    settings: Any, gold: Any, right: list[str], wrong: list[str]
) -> None:
    assert [judge(text, gold, **settings).score for text in right] == [1.0] * len(right)
    assert [judge(text, gold, **settings).score for text in wrong] == [0.0] * len(wrong)


@pytest.mark.parametrize(
    ("question", "gold", "right", "wrong"),
    [
        (
            "What percentage passed?",
            70,
            ["70%", "70", "70 percent", "So 70% of the pupils passed."],
            ["0.7", "7000%"],
        ),
        ("What percentage passed?", "70%", ["70%", "70", "0.7"], ["0.7%", "7000", "30%"]),
        (
            "What do 4 tickets at £7.50 cost?",
            "£30",
            ["30 pounds", "£30", "3000 pence"],
            ["30 pence", "$30"],
        ),
        (
            "At $15 per hour, 8 hours a day, how much is it per day?",
            "$120",
            ["$120 per day", "$120/day", r"\boxed{\$120/\text{day}}", "$120 a day", "$120"],
            ["$120 per hour", "$15 per day", "$5 a day and $115 a night"],
        ),
        ("What is the price per kilogram?", "$2 per kg", ["$2 per kg"], ["$2 per g"]),
        (
            "How many chairs stand in the hall?",
            17,
            ["17 chairs stand in the hall.", "17 chairs"],
            [
                "17 thousand chairs stand in the hall.",
                "17 minus 2 chairs stand in the hall.",
            ],
        ),
        ("What is the probability?", "3/10", ["3 out of 10", "3 in 10"], ["3 out of 5"]),
        ("How long is it?", "6 weeks, 3 days", ["45 days", "6 weeks, 3 days"], ["6 weeks"]),
        (
            "Pens cost $0.75 each. What do 12 pens cost?",
            9,
            ["12 pens cost $9, which is $0.75 each.", "$9 (that is $0.75 each)"],
            ["12 pens cost $8, which is $0.75 each."],
        ),
        (
            "Which bus is faster, Bus 1 or Bus 2?",
            2,
            [r"\boxed{\text{Bus 2}}", "**Bus 2**", "Bus 2 is faster by 5 minutes."],
            [r"\boxed{\text{Bus 1}}", "**Bus 1**", "Bus 1 is faster by 2 minutes."],
        ),
        (
            "By what percent did the price change?",
            "-15%",
            ["It **fell by 15%**.", "-15% (a decrease of 15%)", "It decreased by 15%."],
            ["It **rose by 15%**.", "15% (an increase of 15%)", "It increased by 15%."],
        ),
        (
            "By what percent did the price decrease?",
            "15%",
            ["It **fell by 15%**.", r"\boxed{15\%\text{ decrease}}", "It fell by 15%."],
            ["It **rose by 15%**.", r"\boxed{15\%\text{ increase}}", "It rose by 15%."],
        ),
        ("What percentage passed?", 0.7, ["70%", "0.7"], ["0.7%", "70"]),
        (
            "What percentage passed?",
            70,
            [],
            ["70% or 30%", "70% failed, so 30% passed.", "<think>70%</think>30%"],
        ),
        ("Write 0.35 as a percentage.", 35, ["35%", "35"], ["0.35", "0.35%"]),
        ("Write 35% as a decimal.", 0.35, ["0.35", "35% = 0.35"], ["35", "35%"]),
        ("How many inches are in 3 feet?", 36, ["3 feet (36 inches)"], ["3 feet", "3 ft"]),
        ("How many eggs are in 3 dozen?", 36, ["3 dozen = 36"], ["3 dozen eggs"]),
        ("What does it cost after a discount of 30 percent?", 70, ["70"], ["70%", "0.7"]),
        (
            "If the percentage of boys is 30, how many boys are among 50 pupils?",
            15,
            ["15"],
            ["15%"],
        ),
    ],
)
def test_the_prompt_tells_how_percentages_pounds_rates_counts_changes_and_sides_are_read(
    question: str, gold: Any, right: list[str], wrong: list[str]
) -> None:
    texts = [*right, *wrong]
    rewards = NumericVerifier()(
        texts, prompts=[question] * len(texts), answer=[gold] * len(texts)
    )
    assert rewards == [1.0] * len(right) + [0.0] * len(wrong)


@pytest.mark.parametrize(
    ("units", "gold", "text", "reason"),
    [
        ("any", "5 km", "5 kilometers", ""),
        ("any", "5 km", "5", ""),
        ("any", "5", "5 apples", ""),
        ("any", "5 cm²", r"5 \text{ cm}^2", ""),
        ("any", "5 m/s", "5 m/s", ""),
        ("any", "90°", r"\boxed{90^\circ}", ""),
        ("any", "5 km", r"\boxed{5 \, \text{km}}", ""),
        ("any", "5 km", r"\boxed{5~\mathrm{km}}", ""),
        ("any", "5 km", "5 (km)", ""),
        ("any", "1200 km", "1,200 km", ""),
        ("any", "0.5", "1/2 cup", ""),
        ("any", "5 km", "5 m", "other_unit"),
        ("any", "5 cm", "5 cm3", "other_unit"),
        ("any", "5 cm", "5 cm^3", "other_unit"),
        ("any", "5 km", "5000 m", ""),
        ("any", "2 h", "120 minutes", ""),
        ("any", "5 km", "5 apples", "other_unit"),
        ("any", "5 m", "5 km", "other_unit"),
        ("any", "5 km", "6 m", "not_equal"),
        ("any", "$5", "5 dollars", ""),
        ("any", "$15", "15 pounds", "other_unit"),
        ("any", "$31", "31 cents", "other_unit"),
        ("any", r"\$5", "5 €", "other_unit"),
        ((), r"\$5", "5 €", "other_unit"),
        ((), "5", "5 cents", "not_a_number"),
        ((), "-5%", r"-5\%", ""),
        ((), "-0.25", "-0.5/2", ""),
        ("any", "5 apples", "5 oranges", "other_unit"),
        ("any", "5 km", "6 km", "not_equal"),
        ("any", "5", "5 or 6", "not_a_number"),
        ("any", "5", "5 minus 3", "not_a_number"),
        ("any", "5", "5 million", "not_equal"),
        ((), "5000000", "5 million", ""),
        ("any", "5", "5 -3", "not_a_number"),
        ("any", "5", "5 kg 6", "not_a_number"),
        ("any", "5", "5 is what I would say", ""),
        (["km"], "5", "5 KM", "not_a_number"),
        (["km"], "5", "5 Kilometers", ""),
        (["widget wheels"], "5", "5 Widget Wheels", ""),
        (["°C"], "5", r"5^\circ\text{C}", ""),
        (["°C"], "5", "5°", "not_a_number"),
        (["μm", "m²"], "5", "5 μm", ""),
        (["μm", "m²"], "5", r"5 \text{ m}^2", ""),
        (["°C"], "5", "5 °C", ""),
        ("any", "5 μm", "5 µm", ""),
        (["km"], "5", "5 m", "not_a_number"),
    ],
)
def test_units_are_allowed_by_name_and_converted_to_the_gold_s(
    units: Any, gold: str, text: str, reason: str
) -> None:
    verdict = judge(text, gold, units=units)
    assert (verdict.score, verdict.reason) == (float(not reason), reason)


@pytest.mark.parametrize(
    "after",
    [
        *(
            "million",
            "millions",
            "Millions",
            "thousands",
            "lakh",
            "lakhs",
            "crore",
            "crores",
            "dozens",
            "bn",
            "Mio.",
        ),
        *(
            "hundredths",
            "tenths",
            "thirds",
            "halves",
            "quarters",
            "ten-thousandths",
            "millionths of one",
            "½",
            "万",
        ),
        *(
            "pi",
            "π",
            "𝜋",
            "\\pi",
            "(pi)",
            "factorial",
            "e",
            "squared",
            "twice",
            "percentage points",
            "point five",
        ),
        *("million dollars", "M dollars", "per cent", "ten", "x", "over nine"),
    ],
)
def test_a_word_that_scales_a_number_is_no_unit_whatever_units_may_stand(
    after: str,
) -> None:
    assert [
        gap
        for gap in (" ", "-", "")
        if judge(f"5{gap}{after}", 5, units="any").score != 0.0
    ] == []


def test_a_sign_that_may_be_a_scale_is_a_unit_where_it_is_known_and_the_gold_has_it() -> (
    None
):
    for unit in ("M", "B", "T", "k"):
        assert judge(f"5 {unit}", "5", units="any").reason == "not_a_number"
        assert judge(f"5 {unit}", "5", units=[unit]).score == 1.0
    assert judge("5 K", "5", units="any").reason == "other_unit"
    assert judge("5 K", "5 K", units="any").score == 1.0
    assert judge("5", "5 K", units="any").score == 1.0


@pytest.mark.parametrize(
    "after",
    [
        "points",
        "seconds",
        "cups",
        "meters squared",
        "km per hour",
        "tons",
        "J/kg/K",
        "red apples",
    ],
)
def test_units_that_are_known_and_plurals_may_stand(after: str) -> None:
    assert judge(f"5 {after}", 5, units="any").score == 1.0


@pytest.mark.parametrize(
    "after", ["flour", "wrong", "roots", "maybe", "cups of flour", "km or so"]
)
def test_other_words_are_no_units_unless_they_are_listed(after: str) -> None:
    assert judge(f"5 {after}", 5, units="any").reason == "not_a_number"
    assert judge(f"5 {after}", 5, units=[after]).score == float(after != "km or so")


def test_a_scale_that_is_listed_as_a_unit_is_one() -> None:
    assert judge("5 quarters", 5, units=["quarters"]).score == 1.0


def test_per_cent_may_be_two_words() -> None:
    assert judge("28 per cent", 0.28).score == 1.0


@pytest.mark.parametrize(
    "gold",
    [
        1500,
        1500.0,
        "1,500",
        "3000/2",
        Decimal("1500"),
        Fraction(1500),
        "so 5 * 300\n#### 1500",
        r"\boxed{1500}",
        [3, 1500],
    ],
)
def test_golds_of_every_form_and_any_of_several_will_do(gold: Any) -> None:
    assert [judge(text, gold).score for text in ("1500", "1499")] == [1.0, 0.0]


def test_a_float_is_the_decimal_that_it_is_written_as() -> None:
    assert judge("0.1", 0.1).score == 1.0
    assert judge("0.1000000000000000055511151231257827", 0.1).score == 0.0


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        (None, "gold_missing"),
        (float("nan"), "gold_missing"),
        ([], "gold_missing"),
        (float("inf"), "gold_not_a_number"),
        ("many", "gold_not_a_number"),
        ("5 or 6", "gold_not_a_number"),
        (True, "gold_not_a_number"),
        ({"answer": 1}, "gold_not_text"),
        ("1e99999", "gold_not_a_number"),
    ],
)
def test_a_row_without_a_number_is_skipped_and_listed(gold: Any, reason: str) -> None:
    verdict = judge("1", gold)
    assert (verdict.status, verdict.score, verdict.reason) == (Status.SKIPPED, None, reason)
    assert [
        problem.reason
        for problem in NumericVerifier().check_rows([{"answer": gold}, {"answer": 1}])
    ] == [reason]


@pytest.mark.parametrize(
    "text",
    [
        "There are 1,500 apples.",
        "Therefore, Tom kept 1,500 apples.",
        "Sure! It's 1,500.",
        "1,500 apples are left.",
        "A box holds 1,500 apples.",
        "6000 × 0.25 = 1500. So she has $1,500.",
        "25% of 6,000 is 1,500.",
        "Answer: She has **1,500** apples left.",
        "<answer>She has 1,500 apples now.</answer>",
        "6000 × 0.25 = 1500\n\n**So she earns $1,500 in interest.**",
        "6000 × 0.25 = 1500",
        "Of the 6,000 apples, 1,500 are left.",
        "1,500 apples remain.",
        "1,500 m (1.5 km)",
        "1,500 (25% of 6,000)",
        "1,500 out of 6,000 apples",
        "1,500 of the 6,000 apples",
        "**$1,500**\n\nTom buys 300 pens at $5 each.",
        "It takes 1500 minutes to fill the 120 L tank.",
        "Is it 1400? No. It is 1500.",
        "Answer: interest = $6,000 × 25% = $1,500",
        "P(all) = 3000/2 = 1500",
        "1.5 km = 1500 m",
        "4499/3 = 1500",
        "He needs 1500 weeks, because 1500 × 15 = 22500.",
        "**1500 weeks** are needed, since $15 × 1500 = $22500.",
        "**1500 g** of flour.",
        "1500\n\nExplanation: multiply the 60 rows by the 25 plants in each row.",
        "1500 grams of that fine flour belong in the dough.",
    ],
)
def test_the_last_side_of_an_equation_and_the_value_of_the_last_sentence_count(
    text: str,
) -> None:
    assert (judge(text).score, judge(text, 1600).score) == (1.0, 0.0)


def test_a_question_that_asks_for_dozens_is_answered_in_dozens() -> None:
    said = ["25 dozen", "So that is **25** dozen.", "24 dozen", "300", "25 hundred"]
    verdicts = NumericVerifier().judge(
        said, prompts=["How many dozens of eggs is that?"] * 5, answer=[25] * 5
    )
    assert [verdict.score for verdict in verdicts] == [1.0, 1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "text",
    [
        "2 = 1500",
        "1500 = 2",
        "x <= 1500",
        "x != 1500",
        "1500 = ",
        "1 km = 1500 m",
        "It is not 1500.",
        "It may be 1500.",
        "It's not 1500.",
        "It's 1500 + 100.",
        "Well, 1500 or 1600.",
        "I do not know.",
        "Answer: She has 1500 millions left.",
        "There were 1500, and 20 are left.",
        "Answer: She has 1500 apples left.\n\nActually, she has 1600 apples left.",
        "Answer: 1500\n\nWait, she ate 100, so 1600 are left.",
        "It's 1500? No.",
        "1500 m (1.7 km)",
        "1500 guests (let me recount: 1600)",
        "1500 (not sure about 20 of them)",
        "1500 (maybe)",
        "1500 (my guess)",
        "6000 out of 1500 apples",
        "**1500**\n\nTom buys 300 pens at $5 each. I made a mistake.",
        "Answer: 1500\n\nNo.",
        "The answer is 1500. Hmm, wrong.",
        "So there are 1500 apples? Hardly.",
        "He needs 1400 weeks, because 1400 + 100 = 1500.",
        "1500 grams of flour or 1600 grams of flour belong in.",
    ],
)
def test_false_equations_bounds_and_doubted_values_are_not_paid(text: str) -> None:
    assert judge(text).score == 0.0


def test_a_marked_sentence_behind_the_thinking_counts_also_where_the_prompt_began_it() -> (
    None
):
    row = {"answer": 5}
    said = Sample(
        text="8 - 3 = 5</think>Answer: She has 5 apples left.", prefill="<think>", row=row
    )
    assert NumericVerifier().verify(said).score == 1.0
    draft = Sample(
        text="Answer: She has 5 apples left.\n\nNo.</think>The answer is 7.",
        prefill="<think>",
        row=row,
    )
    assert NumericVerifier().verify(draft).score == 0.0


def test_a_gold_without_a_unit_takes_no_other_unit_than_the_prompt_asks_for() -> None:
    prompts = ["How many seconds does it take?"] * 4
    said = ["It takes 400 seconds.", "400 s", "400 minutes", "400"]
    assert NumericVerifier()(said, prompts=prompts, answer=[400] * 4) == [
        1.0,
        1.0,
        0.0,
        1.0,
    ]


def test_answers_that_contradict_each_other_are_ambiguous_and_those_that_agree_are_not() -> (
    None
):
    assert judge("<answer>1500</answer> or <answer>1600</answer>").reason == "ambiguous"
    assert judge("\\boxed{1500}\nFinal answer: 1,500.0").score == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"absolute": -1}, "absolute is a tolerance"),
        ({"absolute": float("nan")}, "absolute is a tolerance"),
        ({"relative": float("inf")}, "relative is a tolerance"),
        ({"relative": True}, "relative is a tolerance"),
        ({"relative": "1%"}, "relative is a tolerance"),
        ({"relative": 1.0}, "below 1"),
        ({"percent": "fractions"}, "Did you mean `fraction`"),
        ({"units": "km"}, "list of units"),
        ({"units": [1]}, "list of units"),
        ({"answer_from": "last"}, "last_line"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        NumericVerifier(**settings)


@given(st.fractions())
def test_every_fraction_and_its_decimals_equal_themselves(value: Fraction) -> None:
    assert judge(f"{value.numerator}/{value.denominator}", value).score == 1.0
    assert judge(f"{value.numerator:,}", value.numerator).score == 1.0


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_every_float_equals_itself(value: float) -> None:
    assert judge(repr(value), value).score == 1.0


PIECES = [
    "1",
    ",",
    ".",
    "e",
    "^",
    "{",
    "}",
    "/",
    "\\frac",
    " ",
    "-",
    "%",
    "$",
    "*",
    "10",
    "km",
    "\\boxed{",
    "²",
]


@given(
    st.lists(
        st.one_of(st.sampled_from(PIECES), st.text(alphabet=st.characters(codec=None)))
    )
)
def test_any_text_of_any_unicode_scores_0_or_1(pieces: list[str]) -> None:
    for units in ((), "any"):
        assert judge("".join(pieces), 1, units=units).score in (0.0, 1.0)


@pytest.mark.parametrize("piece", PIECES)
def test_a_megabyte_and_the_longest_text_that_is_read_are_judged(piece: str) -> None:
    for length in (395, 1_000_000):
        assert (
            judge("5" + piece * (length // len(piece)) + "!", 1, units="any").score == 0.0
        )
