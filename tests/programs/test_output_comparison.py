"""Comparing printed output: what does not count, numbers, hostile output."""

from __future__ import annotations

import pytest
from growth import grows_linearly
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.programs.sandbox.output_comparison import first_difference


def same_output(printed: bytes, expected: str) -> bool:
    return first_difference(printed, expected) == ""


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1 2", "1 2\n"),
        ("1 2  \r\n\n\n", "1 2"),
        ("", "\n\n"),
        ("a\n\nb\n", "a\n\nb"),
        ("0.3333333333", "0.33333333"),
        ("2", "2.0"),
        ("-1000000.5", "-1e6"),
        ("1e3 x", "1000. x"),
        ("1.0000005", "1.0"),
        ("100000.05", "100000.0"),
        (".5", "0.50"),
        ("é", "é"),
        ("9" * 5000, "9" * 5000),
        ("nan inf", "nan inf"),
        ("1e999", "1e999"),
    ],
)
def test_what_does_not_count_makes_no_difference(printed: str, expected: str) -> None:
    assert same_output(printed.encode(), expected)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("2.0", "2"),
        ("1.0000001", "1"),
        ("yes", "YES"),
        (" 1", "1"),
        ("1  2", "1 2"),
        ("1\t2", "1 2"),
        ("1 2", "1\n2"),
        ("\n1", "1"),
        ("1\n2", "1"),
        ("1", "1\n2"),
        ("nan", "1.5"),
        ("inf", "1.5"),
        ("inf", "1e999"),
        ("1e999", "2e999"),
        ("1_0.0", "10.0"),
        ("٣.0", "3.0"),
        ("0x1p0", "1.0"),
        ("0.51", "0.5"),
        ("1.00001", "1.0"),
        ("100001.0", "100000.0"),
        ("9" * 4999 + "8", "9" * 5000),
        ("9" * 4999 + ".8", "9" * 5000 + ".9"),
        ("[0.50]", "[0.5]"),
        ("1\r2", "1\n2"),
        ("", "0"),
    ],
)
def test_what_counts_makes_a_difference(printed: str, expected: str) -> None:
    assert not same_output(printed.encode(), expected)


def test_bytes_that_are_no_text_equal_no_text() -> None:
    assert not same_output(b"\xff", "\ufffd")
    assert not same_output(b"1\n\xff", "1")
    assert first_difference(b"1\n\xff", "1") == "byte 2 of the output is no UTF-8"
    assert not same_output(b"\xed\xa0\x80", "\ud800")


def test_the_first_difference_is_one_short_line() -> None:
    assert first_difference(b"1\n3\n", "1\n2\n") == "line 2: got '3', expected '2'"
    assert first_difference(b"1\n", "1\n2\n") == "line 2: got the end, expected '2'"
    long = first_difference(b"x" * 10_000 + b"y", "x" * 10_000 + "z")
    assert "xy'" in long and "xz'" in long


@given(st.binary(max_size=300), st.text(max_size=300))
def test_any_output_is_compared(printed: bytes, expected: str) -> None:
    difference = first_difference(printed, expected)
    assert len(difference) < 200 and "\n" not in difference


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_all_text_equals_itself(text: str) -> None:
    assert same_output(text.encode(), text)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(1e-12, 1e-8))
def test_numbers_that_are_close_are_equal_where_a_decimal_is_expected(
    number: float, away: float
) -> None:
    if "." in repr(number) or "e" in repr(number):
        assert (
            same_output(repr(number + abs(number) * away).encode(), repr(number))
            or abs(number) > 1e307
        )


@pytest.mark.parametrize(
    "piece", [" ", "\n", "1 ", "9", "1.", "e", "-", ".5e", "\t\n", "0.1 "]
)
def test_megabytes_of_output_take_linear_time(piece: str) -> None:
    def compare(repeats: int) -> None:
        printed = (piece * repeats + "x").encode()
        same_output(printed, piece * repeats + "y")
        assert len(first_difference(printed, "0.5 " * repeats)) < 200

    assert grows_linearly(compare, 400_000 // len(piece))


def test_a_number_that_is_printed_as_an_integer_is_compared_as_one() -> None:
    assert not same_output(b"12345678", "12345679.0") and not same_output(
        b"100000001", "100000000.0"
    )
    assert same_output(b"12345679", "12345679.0") and same_output(
        b"12345678.9999", "12345679.0"
    )
    assert not same_output(b"1" * 400, "1e400")


@pytest.mark.parametrize(
    ("printed", "expected"), [("1.1", "1.10"), ("1.10", "1.1"), ("1.10\n2.50", "1.1\n2.5")]
)
def test_zeros_at_the_end_of_a_decimal_do_not_count(printed: str, expected: str) -> None:
    """LiveCodeBench compares decimals by value; APPS accepts close numbers."""
    assert same_output(printed.encode(), expected)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("1.1", "1.01"), ("110", "1.10"), ("1", "1.10"), ("v1.1", "v1.10")],
)
def test_other_digits_and_words_that_are_no_numbers_count(
    printed: str, expected: str
) -> None:
    assert not same_output(printed.encode(), expected)
