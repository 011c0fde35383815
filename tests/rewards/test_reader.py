"""The reader of answers: numbers, units, adjacent words, and the cost of hostile text."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from growth import grows_linearly
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_grpo_ext.answers.read.answer import Answer, read
from trl_grpo_ext.answers.read.quantities import known_words
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Collection,
    Date,
    Node,
    Number,
    Quantity,
    Range,
    Remainder,
    Time,
    Words,
)
from trl_grpo_ext.answers.read.units import NONE, Unit, unit
from trl_grpo_ext.rewards.math import math_reward
from trl_grpo_ext.rewards.numeric import numeric_reward

SAME = [
    ("1,234", "1234"),
    ("1 234", "1234"),
    ("1'234", "1234"),
    (r"1\,234", "1234"),
    ("1{,}234", "1234"),
    ("1,234,567.5", "1234567.5"),
    ("-.5", "-1/2"),
    ("5.", "5"),
    ("--5", "5"),
    (r"\dfrac{-3}{4}", "-3/4"),
    (r"\frac12", "1/2"),
    (r"\\frac{1}{2}", "1/2"),
    ("-1 1/2", "-3/2"),
    (r"1\frac{1}{2}", "3/2"),
    ("10^{-3}", "1/1000"),
    (r"1.5\times 10^3", "1500"),
    ("1.5e3", "1500"),
    ("１２３", "123"),
    ("½", "1/2"),
    (r"0.\overline{3}", "1/3"),
    (r"\mathbf{7}", "7"),
    (r"\text{7}", "7"),
    ("7 x 10^2", "700"),
    ("7th", "7"),
]


@pytest.mark.parametrize(("text", "value"), SAME)
def test_a_number_is_the_same_for_all_verifiers(text: str, value: str) -> None:
    node = read(text).node
    assert isinstance(node, Number)
    assert node.value == Fraction(value)
    for reward in (math_reward, numeric_reward):
        assert reward(
            [rf"\boxed{{{text}}}", rf"\boxed{{{text}}}"], answer=[value, "77"]
        ) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("text", "places"), [("5", None), ("5.", None), ("5.0", 1), ("5.25", 2), ("1.5e3", -2)]
)
def test_the_places_of_a_decimal_are_those_that_are_written(
    text: str, places: int | None
) -> None:
    node = read(text).node
    assert isinstance(node, Number)
    assert node.places == places


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "1/0",
        r"\frac{1}{0}",
        "1,23",
        "12,34,567",
        "1.2.3",
        "2^{10}",
        "1_2",
        "3,14",
        "1 2",
        "17 * 23",
        "5!",
    ],
)
def test_what_has_to_be_worked_out_or_is_no_number_is_none(text: str) -> None:
    assert not isinstance(read(text).node, Number)


@pytest.mark.parametrize(
    "text", ["10^{401}", "1e-999999999", "10^99999999999999999999", "9" * 5000]
)
def test_what_nobody_could_compute_is_not_computed(text: str) -> None:
    node = read(text).node
    assert not isinstance(node, Number) or len(str(node.value)) <= 2_000


def test_a_fraction_of_decimals_is_a_number_only_where_nothing_has_to_be_worked_out() -> (
    None
):
    assert isinstance(read(r"\frac{1.5}{2}").node, Apply)
    assert numeric_reward([r"\boxed{\frac{1.5}{2}}"], answer=["0.75"]) == [1.0]


@pytest.mark.parametrize("text", ["3,14", "1,234,56", "1,2345"])
def test_a_comma_that_groups_no_thousands_makes_a_list(text: str) -> None:
    assert read(text).node == Collection(
        "list", tuple(Number(Fraction(part)) for part in text.split(","))
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2024-01-05", Date),
        ("1/2/2024", Date),
        ("13/13/2024", Words),
        ("5:30 pm", Time),
        ("12:05", Time),
        ("May 3", Date),
    ],
)
def test_dates_and_times_have_types_of_their_own_and_are_no_sums(
    text: str, kind: type
) -> None:
    assert isinstance(read(text).node, kind)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("20-25", Range(Number(Fraction(20)), Number(Fraction(25)))),
        ("7 R 2", Remainder(Number(Fraction(7)), Number(Fraction(2)))),
        ("25-20", Apply("+", (Number(Fraction(25)), Number(Fraction(-20))))),
        ("3 to 2", Apply("ratio", (Number(Fraction(3)), Number(Fraction(2))))),
    ],
)
def test_a_range_goes_up_and_is_no_difference(text: str, node: Node) -> None:
    assert read(text).node == node


UNITS = [
    ("5 km", "km"),
    ("5 kilometres", "km"),
    (r"5\,\mathrm{km}", "km"),
    (r"5 \text{ km}", "km"),
    ("5 km/h", "kmh"),
    ("5 km per hour", "kph"),
    ("$5$ dollars", "usd"),
    (r"\$5", "usd"),
    ("€5", "eur"),
    ("5 €", "eur"),
    (r"5^\circ", "deg"),
    ("5°", "deg"),
    ("5 degrees", "deg"),
    ("5 lbs", "pound"),
    ("5 degrees Celsius", "celsius"),
    (r"5^\circ\text{C}", "celsius"),
    ("5 °F", "fahrenheit"),
    ("5 μm", "micrometer"),
    (r"5 \text{ kg}\cdot\text{m}^2/\text{s}^2", "J"),
    (r"5000 \text{ J/s}", "kW"),
]


@pytest.mark.parametrize(("text", "name"), UNITS)
def test_a_unit_is_read_however_it_is_written(text: str, name: str) -> None:
    node = read(text).node
    assert isinstance(node, Quantity)
    assert isinstance(node.amount, Number)
    assert (node.amount.value * node.unit.factor, node.unit.measures) == (
        5 * unit(name).factor,
        unit(name).measures,
    )


@pytest.mark.parametrize(
    "text",
    [
        "5 square metres",
        "5 m^2",
        r"5 \text{ m}^2",
        "5 sq m",
        "5 meter2",
        "5 meters squared",
        r"5 \text{ m}\cdot\text{m}",
    ],
)
def test_a_power_of_a_unit_is_read_however_it_is_written(text: str) -> None:
    answer = read(rf"\text{{{text}}}")  # where no letter is a variable
    assert answer == Answer(Quantity(Number(Fraction(5)), Unit((("length", 2),))))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5 kN", "5 N"),
        ("5 ms", "5 s"),
        ("5 nm", "5 mm"),
        ("5 usd", "5 eur"),
        ("5 mg", "5 Mg"),
    ],
)
def test_units_of_another_size_or_measure_are_others(one: str, other: str) -> None:
    assert read(one) != read(other)


def test_what_a_number_counts_is_a_unit_of_its_own() -> None:
    bananas = Quantity(Number(Fraction(5)), Unit((("banana", 1),)))
    assert read("5 bananas") == Answer(bananas, counted=frozenset({"bananas"}))


@pytest.mark.parametrize("text", ["3 4", "3 4x"])
def test_numbers_side_by_side_are_no_product(text: str) -> None:
    assert read(text).node == Words(text)


def test_letters_beside_a_number_are_variables() -> None:
    assert read("5 x").node == read("5x").node
    assert not isinstance(read("5x").node, Number | Quantity)


@pytest.mark.parametrize(
    "text", ["12 apples", "12 red apples", "There are 12 apples", "12 apples left."]
)
def test_what_a_number_counts_is_not_stray(text: str) -> None:
    answer = read(text)
    assert (answer.node, answer.stray) == (
        Quantity(Number(Fraction(12)), Unit((("apple", 1),))),
        frozenset(),
    )
    assert "apples" in answer.counted


@pytest.mark.parametrize(
    "text",
    [
        *(
            "5 is wrong",
            "not 5",
            "maybe 5",
            "square root of 5",
            "5 perhaps",
            "5 factorial",
            "5 twice",
        ),
        *(r"5 \text{ M}", "5𝜋", "5 lakh", "5 halves", "5 or so", "5 squared", "5?"),
    ],
)
def test_words_that_change_a_number_are_stray_or_make_it_another_value(text: str) -> None:
    answer = read(text)
    assert answer.stray or not isinstance(answer.node, Number | Quantity)


def test_words_that_scale_a_number_are_never_what_it_counts() -> None:
    for word in known_words("scaling"):
        for text in (f"5 {word}", f"5 {word} apples", f"5 {word} dollars"):
            answer = read(rf"\text{{{text}}}")
            amount = (
                answer.node.amount if isinstance(answer.node, Quantity) else answer.node
            )
            assert answer.stray or amount != Number(Fraction(5)), text


def test_words_may_be_a_number_s_sign_or_its_scale() -> None:
    assert read("minus 5").node == read("negative 5").node == Number(Fraction(-5))
    assert read("5 thousand").node == Number(Fraction(5000))
    assert read("5 million dollars").node == Quantity(
        Number(Fraction(5 * 10**6)), unit("usd")
    )


@given(st.fractions(min_value=-(10**9), max_value=10**9))
def test_every_fraction_reads_as_itself(value: Fraction) -> None:
    assert read(str(value)).node == Number(value)
    assert read(rf"\frac{{{value.numerator}}}{{{value.denominator}}}").node == Number(value)


@given(
    st.decimals(
        allow_nan=False,
        allow_infinity=False,
        places=6,
        min_value=-(10**30),
        max_value=10**30,
    ),
    st.sampled_from(
        [
            ("", NONE),
            (" km", unit("km")),
            (" dollars", unit("usd")),
            (" apples", Unit((("apple", 1),))),
        ]
    ),
)
def test_every_decimal_reads_as_itself_with_what_it_measures(
    value: Decimal, behind: tuple[str, Unit]
) -> None:
    number = Number(Fraction(value), 6)
    text, measure = behind
    assert read(f"{value:f}{text}").node == (
        number if measure == NONE else Quantity(number, measure)
    )


@given(
    st.integers(min_value=0, max_value=10**30),
    st.sampled_from([",", " ", "{,}", r"\,", r"\ ", "'"]),
)
def test_every_integer_reads_as_itself_in_groups(value: int, separator: str) -> None:
    assert read(f"{value:,}".replace(",", separator)).node == Number(Fraction(value))


@given(st.from_regex("[0-9]{1,40}", fullmatch=True))
def test_an_integer_reads_the_same_with_a_full_stop_behind_it(digits: str) -> None:
    assert read(digits) == read(f"{digits}.") == Answer(Number(Fraction(digits)))


PIECES = st.sampled_from(
    r"""\frac \sqrt \boxed \text \begin{pmatrix} \end{pmatrix} \left \right \pm \cup \in \sum \log _ ^ { } ( ) [ ] \{ \}
    | , ; : . = < > != + - * / ! % ' " $ \$ & \\ \, 1 2.5 1,234 x pi sin km cm or and is not for all \circ 10 e5 ½ ²
    é 三 \mathbb{R} \infty i.e. <sup> </sup> \overline{3} th d""".split()  # noqa: SIM905
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES | st.just(" ") | st.text(max_size=3), max_size=30).map("".join))
def test_reading_never_raises_whatever_the_text(text: str) -> None:
    said = read(text)
    assert said.node is not None
    assert read(text) == said


@settings(deadline=None)
@given(PIECES, PIECES, PIECES)
def test_reading_takes_linear_time_whatever_is_repeated(
    before: str, piece: str, after: str
) -> None:
    assert grows_linearly(lambda repeats: read(before + (piece + after) * repeats), 25_000)
