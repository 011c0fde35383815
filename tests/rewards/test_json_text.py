"""Strict JSON parsing: texts that only Python's parser accepts, and texts made to hang a parser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.rewards.formats.answer_part import FormatFaultError
from trl_grpo_ext.rewards.formats.json_schema import read_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_what_json_writes_is_read_back(
    value: Any, indent: int | None, ascii_only: bool
) -> None:
    assert (
        read_json(json.dumps(value, indent=indent, ensure_ascii=ascii_only), max_depth=50)
        == value
    )


@given(st.text('[]{}",:\\ 1eE-.tnNaI\ud800\x00', max_size=30))
def test_any_text_is_a_value_or_a_fault(text: str) -> None:
    try:
        value = read_json(text, max_depth=5)
    except FormatFaultError as fault:
        assert fault.reason
    else:
        assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not_json"),
        ("{'a': 1}", "not_json"),
        ('{"a": 1,}', "not_json"),
        ('{"a": 1} // so', "text_after_json"),
        ('{"a": 1}{"a": 1}', "text_after_json"),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "duplicate_key"),
        ('{"a": 1, "\\u0061": 1}', "duplicate_key"),
        ("[NaN]", "not_finite"),
        ("[-Infinity]", "not_finite"),
        ("[1e999]", "not_finite"),
        ("[" + "1" * 301 + "]", "number_too_long"),
        ("[0." + "1" * 500 + "]", "number_too_long"),
        ("[" * 6 + "]" * 6, "too_deep"),
        ('{"a":' * 6 + "1" + "}" * 6, "too_deep"),
        ("\ufeff{}", "not_json"),
        ('["\n"]', "not_json"),
    ],
)
def test_what_is_no_strict_json_is_a_fault(text: str, reason: str) -> None:
    with pytest.raises(FormatFaultError) as caught:
        read_json(text, max_depth=5)
    assert caught.value.reason == reason


def test_brackets_in_texts_are_no_depth() -> None:
    assert read_json(json.dumps(["[" * 50 + '\\"[["']), max_depth=1) == [
        "[" * 50 + '\\"[["'
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        '"' + '\\"' * 500_000 + "\\",
        '"' * 1_000_001,
        "{" + '"' * 1_000_000,
        "1" * 1_000_000,
        "\\" * 10**6,
    ],
    ids=["lists", "escapes", "quotes", "keys", "digits", "backslashes"],
)
def test_text_of_any_length_is_read(text: str) -> None:
    with pytest.raises(FormatFaultError):
        read_json(text, max_depth=64)
