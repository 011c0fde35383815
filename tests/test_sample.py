"""Samples: all forms of completions and columns from TRL."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.sample import completion_text, sample_of, samples_from_columns


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ([], ""),
        ([{"role": "assistant", "content": "said"}], "said"),
        ([{"content": "said"}], "said"),
        ([{"role": "assistant", "content": None}], ""),
        (
            [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "a"},
                        {"type": "text", "text": "b"},
                    ],
                }
            ],
            "ab",
        ),
        ([{"role": "assistant", "content": [{"type": "image"}]}], ""),
        ([{"role": "tool", "content": "3"}], ""),
    ],
)
def test_a_completion_of_any_form_has_a_text(completion: Any, text: str) -> None:
    assert completion_text(completion) == text


def test_of_a_conversation_with_tools_the_last_assistant_message_counts() -> None:
    messages = [
        {"role": "assistant", "content": "let me compute"},
        {"role": "tool", "content": "4"},
        {"role": "assistant", "content": "It is 4."},
        {"role": "tool", "content": "ignored"},
    ]
    assert completion_text(messages) == "It is 4."


@pytest.mark.parametrize("key", ["reasoning_content", "thinking"])
def test_thinking_that_trl_parsed_out_is_put_back_into_tags(key: str) -> None:
    assert (
        completion_text([{"role": "assistant", key: "2+2", "content": "4"}])
        == "<think>2+2</think>4"
    )


def test_columns_become_rows_and_trls_extras_do_not() -> None:
    samples = samples_from_columns(
        ["a", "b"],
        {
            "prompts": ["p", "q"],
            "completion_ids": [[1], [2, 3]],
            "solution": ["1", "2"],
            "trainer_state": object(),
            "log_extra": print,
            "environments": [object(), object()],
        },
    )
    assert [sample.row for sample in samples] == [{"solution": "1"}, {"solution": "2"}]
    assert [sample.prompt for sample in samples] == ["p", "q"]
    assert samples[1].completion_ids == [2, 3]
    assert samples[0].group is samples[0].step is samples[0].truncated is None


def test_unknown_keywords_are_accepted_whatever_they_are() -> None:
    samples = samples_from_columns(
        ["a", "b"], {"shift": 3, "unit": "cm", "short": [1], "hook": len}
    )
    assert samples[0].row == {"shift": 3, "unit": "cm"}


def test_columns_may_be_arrays() -> None:
    import numpy

    samples = samples_from_columns(["a", "b"], {"solution": numpy.array([1.5, 2.5])})
    assert [sample.row["solution"] for sample in samples] == [1.5, 2.5]


@pytest.mark.parametrize(
    ("prompt", "prefill"),
    [
        ("2+2?", ""),
        ("2+2? <think>\n", "<think>\n"),
        ("<think>old</think> 2+2?", ""),
        ("Reason inside <think> tags. Question: 2+2?", ""),
        ([{"role": "user", "content": "2+2? <think>"}], None),
        (
            [
                {"role": "user", "content": "2+2?"},
                {"role": "assistant", "content": "<think>Well"},
            ],
            None,
        ),
        ([], None),
        (None, None),
    ],
)
def test_a_prompt_tells_whether_it_opens_the_thinking_or_the_chat_template_does(
    prompt: Any, prefill: str | None
) -> None:
    assert sample_of("4", prompt, completion_ids=None, row={}).prefill == prefill
    sample = sample_of(
        "4", prompt, completion_ids=None, row={}, template_prefill="of the template"
    )
    assert sample.prefill == ("of the template" if prefill is None else prefill)


@pytest.mark.parametrize(
    ("prompt", "completion", "prefill"),
    [
        ("Add.\n```python\n", "x = 1\n```\nDone.", "```python\n"),
        ("Add.\n```python", "x = 1\n```", "```python\n"),
        ("Add.\n```py", "thon\nx = 1\n```", "```py"),
        ("Like\n```\n1\n```\nSolution: ~~~\n", "x = 1\n~~~", "~~~\n"),
        ([{"role": "assistant", "content": "So:\n```json\n"}], "{}\n```", "```json\n"),
        ("Add.\n[PYTHON]\n", "x = 1\n[/PYTHON]", "[PYTHON]\n"),
        ("Add.\n```py\n", 'x = """\n```py\n1\n```\n"""\n```', "```py\n"),
        ("Like\n```\n1\n```\n", "x = 1\n```", ""),
        ("Write ```python blocks.", "x = 1\n```", ""),
        ("Add.\n```python\n", "Sure:\n```python\nx = 1\n```", ""),
        ("Add.\n```python\n", "```\nx = 1\n```", ""),
        ("Add.\n```\n<think>\n", "x = 1\n```", "<think>\n"),
    ],
)
def test_a_prompt_that_ends_with_an_open_fence_opens_the_code_of_a_completion_without_its_own(
    prompt: Any, completion: str, prefill: str
) -> None:
    sample = sample_of(completion, prompt, completion_ids=None, row={})
    assert sample.prefill == prefill


def test_an_unknown_prefill_stays_unknown_where_the_completion_ends_a_thinking() -> None:
    asked = [{"role": "user", "content": "Add.\n```python\n"}]
    sample = sample_of("So.</think>x = 1\n```", asked, completion_ids=None, row={})
    assert sample.prefill is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from(["role", "content", "thinking"]), JSON)))
def test_no_message_is_so_odd_that_it_has_no_text(messages: list[dict[str, Any]]) -> None:
    assert isinstance(completion_text(messages), str)


def test_thinking_put_back_needs_no_prefill_before_it_and_is_open_where_no_answer_followed() -> (
    None
):
    parsed = [{"role": "assistant", "reasoning_content": "2+2", "content": "4"}]
    cut = [{"role": "assistant", "reasoning_content": "2+2", "content": ""}]
    samples = samples_from_columns([parsed, cut, "4"], {"prompts": ["2+2? <think>"] * 3})
    assert [sample.text for sample in samples] == ["<think>2+2</think>4", "<think>2+2", "4"]
    assert [sample.prefill for sample in samples] == ["", "", "<think>"]
