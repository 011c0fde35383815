"""Finding answers in text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.rewards.answer_text import final_answer, gold_text, is_prose, last_box, same_text


@pytest.mark.parametrize(
    ("text", "box"),
    [
        (r"\boxed{1}", "1"),
        (r"\boxed {1}", "1"),
        (r"\fbox{1}", "1"),
        (r"\boxed{1} \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\boxed{1}}", r"\boxed{1}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{1", None),
        (r"\boxed{1} and \boxed{2", "1"),
        (r"\boxed{1 and \boxed{2}", "2"),
        (r"} \boxed{1}", "1"),
        ("no box", None),
        (r"\\boxed", None),
    ],
)
def test_the_last_outermost_box_is_found(text: str, box: str | None) -> None:
    assert last_box(text) == box


@pytest.mark.parametrize("text", [r"\boxed{" * 200_000, "}" * 200_000, r"\boxed{1} " * 50_000, "{" * 200_000])
def test_a_hostile_text_takes_linear_time(text: str) -> None:
    last_box(text)  # quadratic work would take hours


ATOMS = st.sampled_from([r"\boxed{", "{", "}", r"\{", r"\}", "\\", "1", " ", "<think>", "</think>", "####", "$"])


@given(st.lists(ATOMS).map("".join))
def test_no_text_is_too_broken_to_be_looked_at(text: str) -> None:
    found = final_answer(text)
    assert bool(found.text) != bool(found.problem)
    assert isinstance(gold_text(text), str)


@given(st.lists(ATOMS).map("".join), st.sampled_from(["1", r"\frac{1}{2}", r"\{1,2\}"]))
def test_a_box_at_the_end_after_a_closed_block_is_found_whatever_came_before(noise: str, answer: str) -> None:
    completion = f"<think>{noise}</think>" + rf"so \boxed{{{answer}}}"
    assert final_answer(completion).text == answer


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("1", " 1 ", True),
        (r"\frac{1}{2}", r"\dfrac{1}{2}", True),
        (r"\left(1,2\right)", "(1,2)", True),
        ("12", "1 2", False),
        ("x", "X", True),
        (r"\text{yes}", "Yes", True),
        ("A", r"\text{(A)}", True),
        ("pi", "PI", False),
    ],
)
def test_answers_are_the_same_text_but_for_space_sizes_and_the_case_of_words(
    gold: str, answer: str, same: bool
) -> None:
    assert same_text(gold, answer) is same


@pytest.mark.parametrize(
    ("text", "prose"),
    [("The answer is 5", True), (r"\frac{a}{b}", False), (r"5 \text{ square metres}", False), ("x y", False)],
)
def test_sentences_are_told_from_mathematics(text: str, prose: bool) -> None:
    assert is_prose(text) is prose
