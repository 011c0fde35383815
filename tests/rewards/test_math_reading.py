"""Answers found by `MathVerifier`: each mode, contradictions, broken text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trl_grpo_ext.answers.find.marks import boxes
from trl_grpo_ext.answers.find.math_answer import MODES, Mode, math_answer
from trl_grpo_ext.answers.question import Question, ask
from trl_grpo_ext.verdict import Verdict


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (r"\boxed{1}", ["1"]),
        (r"\boxed {1}", ["1"]),
        (r"\boxed 5", ["5"]),
        (r"\boxed \pi", [r"\pi"]),
        (r"\fbox{1}", ["1"]),
        (r"\boxed{1} \boxed{2}", ["1", "2"]),
        (r"\boxed{\frac{1}{2}}", [r"\frac{1}{2}"]),
        (r"\boxed{\boxed{1}}", ["1"]),
        (r"\boxed{\{1, 2\}}", [r"\{1, 2\}"]),
        (r"\boxed{1", []),
        (r"\boxed{1} and \boxed{2", ["1"]),
        (r"\boxed{1 and \boxed{2}", ["2"]),
        (r"} \boxed{1}", ["1"]),
        ("no box", []),
        (r"\\boxed", []),
    ],
)
def test_outermost_boxes_are_found(text: str, contents: list[str]) -> None:
    assert [box.content for box in boxes(text)] == contents


@pytest.mark.parametrize(
    ("mode", "text", "answers"),
    [
        ("boxed", r"\boxed{3}. No! \boxed{2}", ("2",)),
        ("boxed", r"\boxed{2}, \boxed{3} and \boxed{5}", ("2, 3, 5",)),
        ("boxed", r"$\boxed{1}$ papers and $\boxed{2}$ bins", ("1, 2",)),
        ("boxed", r"Put it into \boxed{answer}. \boxed{5}", ("5",)),
        ("boxed", r"I put \boxed{} around it: \boxed{5}", ("5",)),
        ("boxed_only", r"so \boxed{2}", ("2",)),
        ("answer_tag", "<answer>4</answer> No, <answer> 5 </answer>", ("5",)),
        ("answer_tag", r"<answer>It is \boxed{5}.</answer>", ("5",)),
        ("final_answer_phrase", "The answer is 5. I hope it is correct.", ("5",)),
        ("final_answer_phrase", "**Final answer:** $x^2$.", ("x^2",)),
        (
            "final_answer_phrase",
            "Final Answer: The final answer is $7$. I hope it is correct.",
            ("7",),
        ),
        ("final_answer_phrase", "Final Answer: The largest $n$ is 34.", ("34",)),
        ("last_number", "From 3 and 4 we get 1,234.5 in all.", ("1,234.5",)),
        ("last_number", "It fell by -7", ("-7",)),
        ("auto", r"The answer is 5. So \boxed{6}.", ("6",)),
        ("auto", r"\boxed{6} and then. Later: \boxed{6}", ("6",)),
        ("auto", "<answer>8</answer> The final answer is 7.", ("7", "8")),
        ("auto", r"First \boxed{40}, then \boxed{42}", ("42",)),
        ("auto", r"\boxed{4}. Wait, I was wrong. It is \boxed{5}.", ("5",)),
        ("auto", r"<think>\boxed{4}</think> The answer is $5$.", ("5",)),
        ("auto", r"$\frac{1}{2}$", (r"$\frac{1}{2}$",)),
        ("auto", "I would say that it must be 5", ("5",)),
    ],
)
def test_each_rule_takes_what_it_says(
    mode: Mode, text: str, answers: tuple[str, ...]
) -> None:
    assert math_answer(text, mode=mode).answers == answers


@pytest.mark.parametrize(
    ("mode", "text", "problem"),
    [
        ("boxed", "5", "no_boxed"),
        ("boxed_only", r"\boxed{1} \boxed{1}", "several_boxed"),
        ("answer_tag", "5", "no_answer_tag"),
        ("final_answer_phrase", "5", "no_answer_phrase"),
        ("last_number", "five", "no_number"),
        ("auto", "", "no_answer"),
        ("auto", r"\boxed{ }", "empty_answer"),
        ("auto", r"\boxed{" + "9" * 5000 + "}", "answer_too_long"),
        ("auto", "".join(f"<answer>{n}</answer>" for n in range(1000)), "too_many_answers"),
        ("auto", "The answer is 5 or 6.", "hedged"),
        ("auto", "So would it be 5?", "taken_back"),
        ("auto", "So I can't find 5.", "hedged"),
        ("auto", r"It is \boxed{5}, or perhaps 6.", "taken_back"),
        ("auto", r"<think>it is \boxed{2}, or", "unclosed_think"),
        ("auto", r"</think>a<think>it is \boxed{2}", "unclosed_think"),
    ],
)
def test_what_is_no_answer_has_a_reason(mode: Mode, text: str, problem: str) -> None:
    found = math_answer(text, mode=mode)
    assert (found.answers, found.problem) == ((), problem)


def test_a_prefilled_block_that_is_never_closed_holds_no_answer() -> None:
    assert math_answer(r"\boxed{2}", prefill="<think>\n").problem == "unclosed_think"
    assert math_answer(r"2</think>\boxed{2}", prefill="<think>\n").answers == ("2",)


ATOMS = st.sampled_from(
    [
        r"\boxed{",
        "{",
        "}",
        r"\{",
        "\\",
        "1",
        " ",
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "$",
        "answer is",
        "\n",
    ]
)


@given(st.lists(ATOMS).map("".join), st.sampled_from(MODES))
def test_no_text_is_too_broken_to_be_looked_at(text: str, mode: Mode) -> None:
    found = math_answer(text, mode=mode)
    assert bool(found.answers) != bool(found.problem)
    assert all(found.answers)


# A rule for each kind of gold looks at the whole completion.
GOLDS = ["odd", "Plan B", "5, 4", "$18.50", "25", "B", "yes", "2 h 15 min", "x = 1, y = 2"]


@given(
    st.lists(ATOMS | st.sampled_from(["____", "```", "Tom ", "($5)", ": ", "per day"])).map(
        "".join
    ),
    st.sampled_from(GOLDS),
)
@example("____", "odd")
def test_no_text_is_too_broken_to_be_asked_for_any_kind_of_gold(
    text: str, gold: str
) -> None:
    asked = ask(text, (gold,), "Tom or Ann: how many dozen eggs does he sell per day?")
    assert isinstance(asked, Question | Verdict)


@given(st.lists(ATOMS).map("".join), st.sampled_from(["1", r"\frac{1}{2}", r"\{1,2\}"]))
def test_a_box_after_a_closed_block_is_found_whatever_stood_in_the_block(
    noise: str, answer: str
) -> None:
    assert math_answer(f"<think>{noise}</think>" + rf"so \boxed{{{answer}}}").answers == (
        answer,
    )


def test_letters_that_lower_case_makes_longer_do_not_move_an_answer_tag() -> None:
    assert math_answer(
        "İİİİİİİİİ <ANSWER>42</answer>", prefill="", mode="answer_tag"
    ).answers == ("42",)
