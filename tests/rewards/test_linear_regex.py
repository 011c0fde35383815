"""RE2 in the place of Python's `re`: it finds the same, or is not used."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from trl_grpo_ext.rewards.formats.linear_regex import MAX_WORK, linear_regex
from trl_grpo_ext.rewards.regex import matched

pytest.importorskip("re2")

FLAGS = [0, re.DOTALL, re.IGNORECASE, re.MULTILINE, re.ASCII, re.IGNORECASE | re.MULTILINE, re.ASCII | re.DOTALL]
ALPHABET = "aAbkK1_ \n\t\x0b\x1c\x00.-]é\u0130\u017f\u212a\u0661\u2028\U0001f600\ud800"
ATOMS = [
    *"abkK1_ -é\u212a\u017f", r"\n", r"\.", ".", "^", "$", r"\A", r"\Z", r"\b", r"\B", r"\d", r"\D", r"\w", r"\W",
    r"\s", r"\S", "[ab]", "[^a]", "[A-z]", r"[\s\S]", r"[^\s\S]", r"[\w-]", r"[^\d\n]", "[k-m]", "[^k]", "[\x00-é]",
    r"\x00", "(?=a)", "(?!a)", "(?<=a)", r"(a)\1", "(?i:k)", "()", "(?P<n>a)", "a++", "(?>a*)",
]  # fmt: skip
REPEATS = ["*", "+", "?", "{2}", "{0}", "{1,2}", "{0,}", "{,1}", "*?", "+?", "??", "{1,2}?", "*+"]

patterns = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(REPEATS)).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.tuples(inner, st.sampled_from(REPEATS)).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda one: f"({one})"),
    ),
    max_leaves=6,
)


def compiled(pattern: str, flags: int) -> Any:
    try:
        return re.compile(pattern, flags)
    except re.error:
        return None


@settings(max_examples=1500)
@given(patterns, st.sampled_from(FLAGS), st.text(ALPHABET, max_size=8), st.integers(0, 3))
@example(r"a$", 0, "a\n", 1)
@example(r"(?:a|b*)*", 0, "ab", 1)
@example("|a", 0, "aa", 3)
@example("K", re.IGNORECASE, "\u212a", 1)
@example(r"\s", 0, "\x1c", 1)
@example(r"\B", 0, "", 1)
@example("a|ab", 0, "ab", 1)
@example(r"\W", re.IGNORECASE, "K", 1)  # the Kelvin sign is no ASCII letter, and its lower case is one
def test_what_it_finds_python_finds_too(pattern: str, flags: int, text: str, at_least: int) -> None:
    python = compiled(pattern, flags)
    linear = linear_regex(pattern, flags) if python is not None else None
    assume(linear is not None and linear.fits(text, searches=1))
    assert linear is not None
    for match in ("search", "fullmatch"):
        assert matched(linear.compiled, match, 1, None, text) == matched(python, match, 1, None, text)
    if not linear.may_be_empty:
        assert matched(linear.compiled, "count", 0, at_least, text) == matched(python, "count", 0, at_least, text)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1",
        "(?=a)",
        "(?<!a)b",
        "(?>a)",
        "a*+",
        "(?i:a)b",
        "(?:a*)*",
        r"\B",
        "a{2000}",
        "\ud800",
        "((a{99}){99}){99}",
    ],
)
def test_what_the_engines_do_not_share_is_left_to_python(pattern: str) -> None:
    re.compile(pattern)
    assert linear_regex(pattern, 0) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "<think>.*?</think>",
        r"^<a>[\s\S]*</a>\s*$",
        r"(?P<x>\d+)(?:,\d{3})*",
        "a|b|cd",
        r"\\boxed\{[^{}]+\}",
        r"(?s)a.b",
    ],
)
def test_patterns_of_formats_are_shared(pattern: str) -> None:
    assert linear_regex(pattern, re.DOTALL) is not None


def test_it_fits_only_texts_that_mean_the_same_to_it() -> None:
    digits, end, any_text = linear_regex(r"\d", 0), linear_regex("a$", 0), linear_regex(r"[\s\S]b", 0)
    assert digits is not None and end is not None and any_text is not None
    assert [digits.fits(text, searches=1) for text in ("1", "\u0661")] == [True, False]
    assert [end.fits(text, searches=1) for text in ("a", "a\n", "\u0661")] == [True, False, True]
    assert [any_text.fits(text, searches=1) for text in ("\u0661", "\ud800")] == [True, False]


def test_a_text_too_long_for_its_program_is_left_to_a_worker() -> None:
    linear = linear_regex("[ab]*a[ab]{500}", 0)
    assert linear is not None
    longest = MAX_WORK // linear.size
    assert linear.fits("a" * longest, searches=1)
    assert not linear.fits("a" * (longest + 1), searches=1)
    assert not linear.fits("a" * longest, searches=2)
