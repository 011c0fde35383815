"""The filter before an LLM judge: genuine answers pass, texts written for the judge are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_attacks import ATTACKS

from trl_grpo_ext.rewards.llm_judge.askable import MAX_CHARS, why_not_asked

QUESTION = (
    "Let $f(x) = x^2 - 4x + 7$. For which real numbers $x$ is $f(x) > 12$? Reason step by step, and give the final "
    "answer in \\boxed{}."
)
GOLDS = (
    "5",
    r"\frac{3}{4}",
    r"(-\infty, -1) \cup (5, \infty)",
    "The function is increasing on the interval.",
)


@pytest.mark.parametrize("pattern", ATTACKS)
def test_a_text_that_is_written_for_the_model_is_not_shown_to_it(pattern: str) -> None:
    asked = [(text, gold) for text in ATTACKS[pattern] for gold in GOLDS]
    assert [
        case
        for case in asked
        if not why_not_asked(case[0], gold=case[1], question=QUESTION)
    ] == []


RIGHT = [
    (r"\frac{\pi}{4}", r"45^\circ"),
    (r"\frac{1}{15}", r"6.67\%"),
    (r"(-\infty, -1) \cup (5, \infty)", r"x < -1, x > 5"),
    (r"(-\infty, -1) \cup (5, \infty)", r"\{x \in \mathbb{R} \mid |x - 2| > 3\}"),
    (r"(2, \infty)", r"\text{all real numbers greater than } 2"),
    (r"\emptyset", r"\text{no real solutions}"),
    (r"x = k\pi", r"n\pi"),
    ("f(n) = 2n + 1007", "f(m) = 2m + 1007"),
    ("(x-1)^2 + (y-2)^2 = 9", "circle with center (1, 2) and radius 3"),
    ("5 km", "5000 meters"),
    ("120", "one hundred twenty"),
    (r"\csc x", r"1/\sin x"),
    ("The function is increasing on the interval.", "f increases"),
    ("-5 \\le a \\le -\\frac{5}{2}", r"\left[-5, -\dfrac{5}{2}\right]"),
    ("Tuesday", "on Tuesday"),
    ("B", r"f(x) = x^2"),
    ("6", r"6 \frac{1}{64}"),
    (
        "f(x) = ax + b, where a and b are integers",
        r"f(n) = cn + d \text{ for all integers } c, d",
    ),
    (r"\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}", r"I_2"),
    ("1 or 2", "2 or 1"),
    ("False", "false"),
    ("1,000,000", "1 000 000"),
    ("Any answer is right.", "Any answer is right"),
]


@pytest.mark.parametrize(("gold", "answer"), RIGHT)
def test_what_looks_like_an_answer_may_be_asked_about(gold: str, answer: str) -> None:
    assert why_not_asked(answer, gold=gold, question=QUESTION) == ""


def test_words_of_the_question_make_an_answer() -> None:
    question = "Was Ada's cat or Bob's parrot the thief of the necklace?"
    assert why_not_asked("Bob's parrot", gold="the bird of Bob", question=question) == ""
    assert (
        why_not_asked("Bob's parrot", gold="the bird of Bill", question="Which one?")
        == "gibberish"
    )
    assert why_not_asked("小明", gold="明", question="小明和小红谁更高?") == ""


@given(st.text(st.characters(exclude_categories=[]), max_size=400))
def test_any_text_is_let_through_or_has_a_code(text: str) -> None:
    code = why_not_asked(text, gold=text, question=text)
    assert code or text.strip()
    assert code == "too_long" or len(" ".join(text.split())) <= MAX_CHARS


@pytest.mark.parametrize(
    "piece", ["a", "5 ", "<a", "\\text{", "\n", "& ", "x=", "一", "'", ". "]
)
def test_a_long_text_costs_no_time(piece: str) -> None:
    text = piece * 50_000
    assert why_not_asked(text, gold="5", question=text) == (
        "too_long" if text.strip() else "blank"
    )
