"""The finder of final answers, for verifiers that compare text."""

from __future__ import annotations

from functools import partial
from typing import get_args

import pytest
from growth import grows_linearly
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trl_grpo_ext import Sample, Verifier
from trl_grpo_ext.answers.find import final_answer as finder_module
from trl_grpo_ext.answers.find.final_answer import (
    ANSWER_FROM,
    AnswerFrom,
    check_answer_from,
    final_answer,
)
from trl_grpo_ext.answers.find.math_answer import Mode, math_answer
from trl_grpo_ext.answers.golds import alternatives
from trl_grpo_ext.rewards import (
    ExactTextVerifier,
    MathVerifier,
    NumericVerifier,
    OverlapVerifier,
)

MARKED = {
    r"So it is $\boxed{Paris}$.": ("Paris",),
    r"\boxed{\text{a}}, \boxed{b}": (r"\text{a}, b",),
    "<answer> Paris </answer>": ("Paris",),
    "<ANSWER>Paris</ANSWER>": ("Paris",),
    "<answer>1 2\n3 4</answer>": ("1 2\n3 4",),
    "<answer>The answer is Paris.</answer>": ("Paris",),
    r"<answer>\boxed{Paris}</answer>": ("Paris",),
    "Put it in <answer>...</answer>. <answer>Paris</answer>": ("Paris",),
    "Answer: Paris": ("Paris",),
    "**Answer:** Paris": ("Paris",),
    "**Answer: Paris**": ("Paris",),
    "### Final Answer\n\nParis": ("Paris",),
    "**Final Answer**\nParis.": ("Paris",),
    "It is so.\nFinal answer: the answer is Paris.": ("Paris",),
    "2 + 2 = 4\n#### 4": ("4",),
    r"Final Answer: The final answer is $\boxed{4}$. I hope it is correct.": ("4",),
    "Final Answer: The final answer is Paris. I hope it is correct.": ("Paris",),
    "Answer: Paris. I hope that helps! Have a great day!": ("Paris",),
    "**Answer:** My final answer is **Paris**.": ("Paris",),
    "The answer is Paris, which is large.": ("Paris",),
    "**Final Answer:**\n\n\\[\n\\boxed{4}\n\\]": ("4",),
    "The final answer is\n$$\n4\n$$": ("4",),
    "Answer：Paris": ("Paris",),
    "The answer is Paris since it is large.": ("Paris",),
    "The answer is Paris... or Rome.": ("Paris... or Rome",),
    "The answer is Paris. It is large.": ("Paris",),
    "The correct answer is **Paris**. It is large.": ("Paris",),
    "Answer: **A**, **B**, **C**": ("A, B, C",),
    "Final answer: **A** and maybe **B**": ("A and maybe B",),
    "Answer: **4** (or 5)": ("4 (or 5)",),
    "The answer is **1.5** million.": ("1.5 million",),
    "The answer is **28**%.": ("28%",),
    "The answer is **4**,500 + 1": ("4,500 + 1",),
    "The answer is **no**: there is none.": ("no",),
    "The answer is **Paris** and this completes what was to be shown here.": ("Paris",),
    "正确答案是：**B**": ("B",),
    "The answer is：42": ("42",),
    "The answer to the question is therefore Paris.": ("Paris",),
    "The answer is St. Petersburg. It is large.": ("St. Petersburg",),
    "The answer is the U.S. Navy. It is large.": ("the U.S. Navy",),
    "The answer is 3.14.": ("3.14",),
    "The answer is not Rome. The answer is Paris.": ("Paris",),
    "The answer is Paris. The answer is not Rome.": ("Paris",),
    "The answer is Rome. No: the answer is Paris.": ("Paris",),
    "Answer:\n- Paris\n- Rome\n\nBoth are large.": ("- Paris\n- Rome",),
    "Answer:\n\n1. Paris\n\n2. Rome.\nBoth are large.": ("1. Paris\n\n2. Rome",),
    "The answer is:\n* Paris\n* Rome\nFinal answer: Paris": ("Paris",),
    "Paris": ("Paris",),
    "**Paris**": ("Paris",),
    "I would say\nParis": ("I would say\nParis",),
    "<answer>Paris</answer>\nAnswer: Paris": ("Paris",),
    "<answer>Paris": ("<answer>Paris",),
}
CONFLICTS = [
    "<answer>A</answer><answer>B</answer>",
    "<answer>A</answer> Final answer: B",
    r"\boxed{A}" + "\nAnswer: B",
    "Answer: A\nAnswer: B",
    "Answer: A. Answer: B",
    "Answer: A\nFinal answer: B",
    "The final answer is A. The final answer is B.",
    "<answer>A</answer> or <answer>B</answer>",
    "The final answer is A.\n" + r"\boxed{B}",
]
# The last valid mark gives the conclusion; earlier marks are working.
CONCLUDED = [
    r"\boxed{A}. No, wait: \boxed{B}",
    "The answer is A, no wait, B.",
    "Answer: A. Actually, B.",
    "The answer is B. Does that make sense?",
    "<answer>A</answer> Hmm, no. <answer>B</answer>",
    "<answer>A</answer> Hmm, no. <ANSWER>B</ANSWER> Put it in <answer>...</answer>.",
    "Final answer: A\nIn short, the final answer is B",
    "Answer: A, I think.\nBut no.\nAnswer: B",
    "Answer: let us see.\n\nIt is <answer>B</answer>",
    r"Answer: let us see. So it is \boxed{B}.",
    r"The final answer is A, or rather \boxed{B}.",
    "#### Step 1\nWe look.\n#### Step 2\n" + r"It is \boxed{B}.",
    r"<think>\boxed{A}</think> \boxed{B}",
    r"maybe \boxed{A}</think> \boxed{B}",
    "<answer>A</answer></think><answer>B</answer>",
]


@pytest.mark.parametrize(("text", "answers"), MARKED.items())
def test_by_default_marks_count_and_without_any_the_whole_text(
    text: str, answers: tuple[str, ...]
) -> None:
    assert final_answer(text).answers == answers


@pytest.mark.parametrize("text", CONFLICTS)
def test_marks_that_differ_are_several_answers(text: str) -> None:
    assert set(final_answer(text).answers) == {"A", "B"}


@pytest.mark.parametrize("text", CONCLUDED)
@pytest.mark.parametrize("prefill", [None, ""])
def test_what_a_completion_concludes_with_is_its_answer(
    text: str, prefill: str | None
) -> None:
    assert final_answer(text, prefill=prefill).answers == ("B",)


@pytest.mark.parametrize(
    ("answer_from", "text", "answers"),
    [
        ("boxed", r"\boxed{A}. No! \boxed{B}", ("B",)),
        ("answer_tag", "<answer>A</answer> Hmm, no. <answer>B</answer>", ("B",)),
        ("answer_tag", "<answer>A</answer> or <answer>B</answer>", ("B", "A")),
        ("answer_tag", r"<answer>\boxed{A}. No, it is \boxed{B}.</answer>", ("B",)),
        ("phrase", "Answer: A\nHmm, no.\nAnswer: B", ("B",)),
        ("phrase", "Answer: A\nAnswer: B", ("B", "A")),
        ("phrase", "The answer is A. Hmm, no: the answer is B.", ("B",)),
        ("last_line", "A\n\n**B**\n", ("B",)),
        ("last_number", "From 3 and 4 we get 1,234.5 in all.", ("1,234.5",)),
        ("last_number", "It fell by -7", ("-7",)),
        ("last_number", "We get 4.5 × 10^3", ("4.5 × 10^3",)),
    ],
)
def test_a_rule_by_name_takes_its_last_mark_and_those_beside_it(
    answer_from: AnswerFrom, text: str, answers: tuple[str, ...]
) -> None:
    assert final_answer(text, answer_from=answer_from).answers == answers


@pytest.mark.parametrize(
    "verifier", [MathVerifier(), NumericVerifier(), ExactTextVerifier(), OverlapVerifier()]
)
def test_all_verifiers_that_compare_answers_find_the_same_one(verifier: Verifier) -> None:
    texts = [
        r"maybe \boxed{3}</think> \boxed{4}",
        "<answer>3</answer> hmm <answer>4</answer>",
        "Answer: 3\nNo.\nAnswer: 4",
        "<answer>3</answer> or <answer>4</answer>",
        r"\boxed{3}. No: \boxed{4}",
    ]
    verdicts = [
        verifier.verify(Sample(text=text, prefill="", row={"answer": "4"}))
        for text in texts
    ]
    assert [(verdict.score, verdict.reason) for verdict in verdicts] == [(1.0, "")] * 3 + [
        (0.0, "ambiguous"),
        (1.0, ""),
    ]


def test_marks_that_say_the_same_are_one_answer() -> None:
    assert final_answer("<answer>a  b</answer> <answer>a b</answer>").answers == ("a  b",)


@pytest.mark.parametrize(
    ("answer_from", "answer"),
    [
        ("boxed", "1"),
        ("boxed_only", "1"),
        ("answer_tag", "2"),
        ("phrase", "3"),
        ("last_line", "4"),
        ("last_number", "4"),
        ("text", None),
    ],
)
def test_each_rule_takes_its_own_mark_alone(
    answer_from: AnswerFrom, answer: str | None
) -> None:
    text = "\\boxed{1}\n<answer>2</answer>\nAnswer: 3\n**4**\n"
    assert final_answer(text, answer_from=answer_from).answers == (answer or text.strip(),)


@pytest.mark.parametrize(
    ("answer_from", "problem"),
    [
        ("marked", "no_answer"),
        ("boxed", "no_boxed"),
        ("boxed_only", "no_boxed"),
        ("last_number", "no_number"),
        ("answer_tag", "no_answer_tag"),
        ("phrase", "no_answer_phrase"),
        ("last_line", "no_answer"),
        ("text", "no_answer"),
    ],
)
def test_an_empty_text_has_no_answer_and_says_why(
    answer_from: AnswerFrom, problem: str
) -> None:
    found = final_answer(" \n", answer_from=answer_from)
    assert (found.answers, found.problem) == ((), problem)


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{}",
        "<answer> </answer>",
        "Answer:\n\n",
        r"<answer>\boxed{}</answer> or <answer>5</answer>",
    ],
)
def test_a_mark_around_nothing_is_an_empty_answer(text: str) -> None:
    assert final_answer(text).problem == "empty_answer"


def test_only_what_follows_the_thinking_counts() -> None:
    assert final_answer("<think><answer>A</answer></think><answer>B</answer>").answers == (
        "B",
    )
    assert final_answer("<answer>A</answer></think>B", prefill="<think>").answers == ("B",)


def test_an_unclosed_think_block_holds_no_answer() -> None:
    assert final_answer("<think><answer>A</answer>").problem == "unclosed_think"
    assert (
        final_answer("<answer>A</answer>", prefill="<think>\n").problem == "unclosed_think"
    )


def test_a_flood_of_answers_is_none() -> None:
    text = "".join(f"<answer>{number}</answer>" for number in range(100))
    assert final_answer(text).problem == "too_many_answers"


def test_a_tag_is_found_behind_letters_whose_small_form_is_longer() -> None:
    assert final_answer("İİİİ <answer>A</answer>").answers == ("A",)


def test_a_rule_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean `boxed`"):
        check_answer_from("boxd")


def test_alternatives_are_flat_and_hold_nothing_that_is_missing() -> None:
    numpy = pytest.importorskip("numpy")
    assert alternatives(numpy.array(["a", "b"])) == ["a", "b"]
    assert alternatives(["a", None, ("b", float("nan"))]) == ["a", "b"]
    assert alternatives(None) == []


PIECES = [
    "\\boxed{",
    "}",
    "<answer>",
    "</answer>",
    "Answer:",
    "the answer is ",
    "final answer",
    "\n",
    "**",
    "####",
    ". ",
]


@given(
    st.lists(
        st.one_of(st.sampled_from(PIECES), st.text(alphabet=st.characters(codec=None)))
    )
)
def test_any_text_has_answers_or_a_problem_never_both(pieces: list[str]) -> None:
    for answer_from in ANSWER_FROM:
        found = final_answer("".join(pieces), answer_from=answer_from)  # type: ignore[arg-type]
        assert bool(found.answers) != bool(found.problem)
        assert all(answer == answer.strip() != "" for answer in found.answers)


SIGNS = " |\n|\t| \n|- |-  \n |*|**|#|_|`|:|$|1|1,|a |. |St. |and |the |answer is |Answer:\n|\\boxed{|<answer></|}|\\"
MARKS = [
    *PIECES,
    "",
    "\\boxed",
    "answer to",
    "The final answer is",
    "the",
    "so, my",
    "- a\n- b\n",
    "<think>",
    "1",
]
MARKS += [
    "**5**",
    "**",
    "故选",
    "Ответ: ",
    "(a)",
    "\n(b) \\boxed{1}",
    "\nQuestion:",
    "\\begin{cases}",
    "D(4,",
]
FILLERS = st.sampled_from(SIGNS.split("|")) | st.text(
    "\n\t *_#$.,:;-<>/\\{}()ab1", min_size=1, max_size=4
)
REPEATS = 50_000


# All finders that run in the trainer's process.
FINDERS = {
    **{
        f"answer_from={rule}": partial(final_answer, answer_from=rule)
        for rule in get_args(AnswerFrom)
    },
    **{f"mode={mode}": partial(math_answer, mode=mode) for mode in get_args(Mode)},
}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@example(finder="answer_from=phrase", marks=["The final answer is", ""], filler="\n")
@example(finder="answer_from=marked", marks=["Answer:", "5"], filler="\n")
@example(finder="answer_from=marked", marks=["", "", "answer is", ""], filler="answer is ")
@example(finder="mode=auto", marks=["Answer: ", "5"], filler="$")
@example(finder="mode=auto", marks=["", "5"], filler="\\[")
@example(finder="mode=auto", marks=["The answer is 5.", ""], filler="\\[")
@example(finder="mode=auto", marks=["The answer is 5.", ""], filler="x")
@example(finder="mode=auto", marks=["Answer: 5", "Answer: 5"], filler=" ")
@example(finder="mode=auto", marks=["Answer: 5", ""], filler="1 ")
@example(finder="answer_from=marked", marks=["Answer:", "**5**", "}"], filler=" ")
@given(
    finder=st.sampled_from(sorted(FINDERS)),
    marks=st.lists(st.sampled_from(MARKS), min_size=2, max_size=4),
    filler=FILLERS,
)
def test_every_rule_is_linear_in_what_stands_before_after_and_between_the_marks(
    finder: str, marks: list[str], filler: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            finder_module, "MAX_CHARS", 10**9
        )  # which would hide what a rule does on longer texts
        assert grows_linearly(
            lambda repeats: FINDERS[finder]((filler * repeats).join(marks)), REPEATS
        )


def test_boxed_only_takes_one_box_and_no_more() -> None:
    assert final_answer(r"\boxed{3}", answer_from="boxed_only").answers == ("3",)
    assert (
        final_answer(r"\boxed{3} \boxed{4}", answer_from="boxed_only").problem
        == "several_boxed"
    )


def test_of_a_very_long_completion_the_end_counts() -> None:
    assert final_answer("word " * 20_000 + r"\boxed{3}", answer_from="boxed").answers == (
        "3",
    )
