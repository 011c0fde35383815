"""Math answers: golds of every form, refusals, verdicts with reasons, bounded time."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from trl_grpo_ext import Blame, Status
from trl_grpo_ext.answers import pairs as judging
from trl_grpo_ext.answers.golds import gold_texts
from trl_grpo_ext.answers.pairs import Pair
from trl_grpo_ext.rewards import MathVerifier, math_reward
from trl_grpo_ext.verdict import Verdict, grader_error


def boxed(answer: str) -> str:
    return rf"Therefore the answer is $\boxed{{{answer}}}$."


GOLDS = [
    ("4", "4", "5"),
    (42, "42", "24"),
    (0.5, r"\frac{1}{2}", "0.25"),
    (42.0, "42", "42.5"),
    (True, r"\text{Yes}", "no"),
    (r"\frac12", "0.5", "12"),
    (r"2\sqrt{5}", r"\sqrt{20}", "2"),
    (r"$\sqrt{2}$", r"\sqrt 2", "2"),
    (r"So we get $x=\boxed{7}$.", "7", "8"),
    (r"\(\boxed{1}\) and \(\boxed{-2}\)", "-2, 1", "1"),
    ("5 + 5 = 10\n#### 10", "10", "5"),
    ("#### 1,234", "1234", "1"),
    ("1000", r"1\times 10^{3}", "100"),
    ("1000", "1 000", "1"),
    ("12000023", r"12,\!000,\!023", "12"),
    (r"\frac{3}{2}", r"1\frac{1}{2}", r"\frac{1}{2}"),
    (r"\frac{1}{3}", r"0.\overline{3}", "0.3"),
    ("-5", "−5", "5"),
    (r"$\pi$", "π", "3"),
    (r"-2\pi", "-2*pi", r"2\pi"),
    (r"\sqrt{2}", "sqrt(2)", "sqrt(3)"),
    ("(1,2)", "(1, 2)", "(2, 1)"),
    ("(1,2)", r"\left(1,2\right)", r"\{2,1\}"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", "(1,2)", "(2,1)"),
    (r"x>3", r"(3, \infty)", r"(-\infty, 3)"),
    (r"(3, \infty)", "x>3", "x<3"),
    ("1,2", "x_1=1, x_2=2", "1,3"),
    ("x^2+1", "1+x^2", "x^2"),
    (r"\ln(a^2 b)", r"2\ln a + \ln b", r"\ln a + \ln b"),
    (r"\frac{1}{\sqrt{n}}", r"\sqrt{1/n}", r"\sqrt{n}"),
    (r"|x|", r"\sqrt{x^2}", "x"),
    ("1/2", r"\dfrac{2}{4}", "1"),
    (r"\text{Tuesday}", "tuesday", "Monday"),
    ("A", r"\text{(A)}", "B"),
    ("B", "B) 12 apples", "A or B"),
    ("B", r"\text{B because it is larger}", "b"),
    ("B", "B, not A", "not B"),
    (r"5 \text{ km}", r"5\,km", r"5\,m"),
    ("42", "４２", "４"),
    ("yes", r"\text{Yes}", "No"),
    (r"10 \text{ cm}^2", "10", "12"),
    (r"90^\circ", "90", "45"),
    (r"28\%", "0.28", "0.28%"),
    (["1/2", "50\\%"], "0.5", "5"),
    (r"\$18.90", "18.9", "1890"),
    ("0.5", r"\frac{2}{4}", "0.53"),
    (r"\arcsin x", r"\sin^{-1} x", r"\frac{1}{\sin x}"),
    ("0.33", r"\frac{1}{3} \approx 0.33", r"\frac{1}{3} \approx 0.34"),
    ("2, 2, 3", "3, 2, 2", "2, 3, 3"),
    ("y<2x+1", "2x+1>y", r"y \le 2x+1"),
    ("B) 12 apples", "12 apples", "13 apples"),
    (r"\sinh^{-1}(2)", r"\operatorname{arcsinh}(2)", r"\operatorname{arccosh}(2)"),
]


@pytest.mark.parametrize(("gold", "right", "wrong"), GOLDS)
def test_golds_of_every_form_tell_right_from_wrong(
    gold: Any, right: str, wrong: str
) -> None:
    assert math_reward([boxed(right), boxed(wrong)], solution=[gold, gold]) == [1.0, 0.0]


def test_a_gold_equals_itself() -> None:
    golds = sorted({str(gold) for gold, _, _ in GOLDS if not isinstance(gold, list)})
    scores = math_reward([boxed(gold_texts(gold)[0]) for gold in golds], solution=golds)
    assert dict(zip(golds, scores, strict=True)) == dict.fromkeys(golds, 1.0)


def test_the_gold_stands_in_solution_else_answer_else_where_it_is_said() -> None:
    assert math_reward([boxed("1")], solution=["1"], answer=["2"]) == [1.0]
    assert math_reward([boxed("1")], answer=["1"]) == [1.0]
    assert math_reward([boxed("1")] * 2, solution=[None, "2"], answer=["1", "1"]) == [
        1.0,
        0.0,
    ]
    assert MathVerifier(column="gold")([boxed("1")], solution=["2"], gold=["1"]) == [1.0]
    worked_out = ["It was worked out by hand in the end"] * 2
    assert math_reward([boxed("1")] * 2, solution=worked_out, answer=["1", "2"]) == [
        1.0,
        0.0,
    ]


def test_no_gold_column_is_an_error_that_says_what_to_do() -> None:
    wanted = r"needs the dataset column `solution` or `answer`.*`result`\. Name .*MathVerifier\(column=\"NAME\"\)"
    with pytest.raises(ValueError, match=wanted):
        math_reward([boxed("1")], question=["?"], result=["1"])
    with pytest.raises(ValueError, match="Did you mean `solution`"):
        MathVerifier(column="soltion")([boxed("1")], solution=["1"])


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        (None, "gold_missing"),
        ("", "gold_empty"),
        ([], "gold_empty"),
        (float("nan"), "gold_empty"),
        ({"answer": "1"}, "gold_not_text"),
        (b"1", "gold_not_text"),
        ([{"role": "assistant", "content": "1"}], "gold_not_text"),
        (r"\frac{1}{", "gold_unparseable"),
    ],
)
def test_a_gold_that_is_no_answer_is_the_datas_fault(gold: Any, reason: str) -> None:
    verdict, other = math_reward.judge([boxed("1"), boxed("1")], solution=[gold, "1"])
    assert (verdict.status, verdict.score, verdict.blame) == (
        Status.SKIPPED,
        None,
        Blame.DATA,
    )
    assert verdict.reason == reason
    assert other.score == 1.0


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("", "no_answer"),
        ("I do not know what it could be.", "no_answer"),
        (r"<think>it is \boxed{2}, or", "unclosed_think"),
        (r"<think>So maybe \boxed{2}</think> I am not sure about it.", "no_answer"),
        (r"\boxed{}", "empty_answer"),
    ],
)
def test_a_completion_without_an_answer_is_unparseable_and_says_why(
    completion: str, reason: str
) -> None:
    (verdict,) = math_reward.judge([completion], solution=["2"])
    assert (verdict.status, verdict.score, verdict.reason) == (
        Status.UNPARSEABLE,
        0.0,
        reason,
    )


def test_the_conclusion_counts_and_one_that_offers_several_answers_is_ambiguous() -> None:
    completions = [
        r"\boxed{2}. Or no: \boxed{3}.",
        r"\boxed{2}. Again: \boxed{\frac{4}{2}}.",
        r"<answer>2</answer> or <answer>3</answer>",
        r"<answer>2</answer> or <answer>4/2</answer>",
    ]
    verdicts = math_reward.judge(completions, solution=["2"] * 4)
    assert [(verdict.score, verdict.reason) for verdict in verdicts] == [
        (0.0, "not_equal"),
        (1.0, ""),
        (0.0, "ambiguous"),
        (1.0, ""),
    ]


REFUSALS = [
    ("accept_unevaluated", "391", r"17 \times 23", "unevaluated"),
    ("accept_unevaluated", "5050", r"\sum_{k=1}^{100} k", "unevaluated"),
    ("accept_unevaluated", "6", r"\gcd(12,18)", "unevaluated"),
    ("accept_unevaluated", "2x", r"\frac{d}{dx} x^2", "unevaluated"),
    ("accept_stray_text", "5", r"5 \text{ is wrong}", "stray_text"),
    ("accept_stray_text", "5", r"\neq 5", "negated"),
    ("accept_other_units", r"5 \text{ km}", r"5 \text{ m}", "other_unit"),
    ("accept_other_units", r"3 \text{ hours}", r"3 \text{ minutes}", "other_unit"),
    ("accept_other_case", "x", "X", "other_symbols"),
    ("accept_false_equations", "5", "4 = 5", "false_equation"),
    ("accept_false_equations", "5", "1=2=3=4=5", "false_equation"),
]


@pytest.mark.parametrize(("switch", "gold", "answer", "reason"), REFUSALS)
def test_each_refusal_turns_down_its_kind_of_answer_unless_switched_off(
    switch: str, gold: str, answer: str, reason: str
) -> None:
    (verdict,) = math_reward.judge([boxed(answer)], solution=[gold])
    assert (verdict.status, verdict.score, verdict.reason) == (
        Status.INCORRECT,
        0.0,
        reason,
    )
    accepting = MathVerifier(**{switch: True, "accept_unevaluated": True})
    assert accepting([boxed(answer)], solution=[gold]) == [1.0]


def test_a_closed_form_is_an_answer_unless_it_repeats_the_question() -> None:
    prompts = [
        "What is $2^{10}$?",
        "How many subsets has a set of ten?",
        [{"role": "user", "content": "2^{10} = ?"}],
    ]
    assert math_reward([boxed("2^{10}")] * 3, prompts=prompts, solution=["1024"] * 3) == [
        0.0,
        1.0,
        0.0,
    ]
    assert (
        math_reward([boxed("1024")] * 3, prompts=prompts, solution=["1024"] * 3)
        == [1.0] * 3
    )


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\frac{1}{2^{99}}", r"\frac{1}{3^{99}}"),
        (r"1.6 \times 10^{-19}", r"9.1 \times 10^{-31}"),
        ("10000000", "10000500"),
        ("x^2+x+1=0", "y=y+5"),
        ("x^2+1=0", "x=x+1"),
        ("3", r"3 \text{ or } 4"),
        ("B", "A, B, C, D"),
        ("B", r"\text{A or B}"),
        ("5", r"\text{answer}"),
        ("x=2", "2x+3=7"),
        (r"x=\sqrt{2}", r"3x+1=3\sqrt{2}+1"),
        ("y^2=x+1", r"-\sqrt{x+1}"),
        (r"1 - \frac{1}{\mathrm{e}}", r"1 + \frac{1}{\mathrm{e}}"),
    ],
)
def test_what_only_looks_equal_to_a_grader_is_not(gold: str, answer: str) -> None:
    assert math_reward([boxed(answer)], solution=[gold]) == [0.0]


def test_decimals_are_rounded_to_the_places_that_are_asked_for() -> None:
    assert MathVerifier(decimals=2)(
        [boxed("0.33"), boxed("0.32")], solution=[r"\frac{1}{3}"] * 2
    ) == [1.0, 0.0]
    assert math_reward([boxed("0.33")], solution=[r"\frac{1}{3}"]) == [0.0]


def test_a_gold_may_be_sentences_that_say_their_answer() -> None:
    assert math_reward(
        [boxed("5"), boxed("6")], solution=["We add them up. The answer is 5."] * 2
    ) == [1.0, 0.0]


def test_conversations_are_judged_as_strings_are() -> None:
    completions = [
        [{"role": "assistant", "content": boxed(answer)}] for answer in ("2", "3")
    ]
    assert math_reward(completions, solution=["2", "2"]) == [1.0, 0.0]


def test_what_was_compared_is_in_the_verdict() -> None:
    first, spoken = math_reward.judge(
        [boxed(r"\frac{4}{2}"), "I think that it must be 3."], solution=["2", "2"]
    )
    assert (first.answer, first.reason) == (r"\frac{4}{2}", "")
    assert (spoken.answer, spoken.reason) == ("3", "not_equal")
    assert first.details == {"rule": "boxed", "gold": "2", "compared": "as number"}
    assert spoken.details["rule"] == "last_expression"
    (parsed,) = math_reward.judge([boxed(r"\sqrt{8}+x")], solution=[r"2\sqrt{2}+x"])
    assert parsed.details["compared"] == "as mathematics"


HOSTILE = r"\boxed{9^{9^{9^9}}+1}"


@pytest.mark.slow
@pytest.mark.usefixtures("any_cpu_counts")
def test_an_answer_that_computes_for_ever_costs_one_deadline_however_often_it_is_given(
    monkeypatch: Any,
) -> None:
    verifier = MathVerifier(timeout=1.5)
    verifier([boxed(r"\sqrt{8}")], solution=[r"2\sqrt{2}"])  # the worker is warm
    asked: list[Pair] = []
    in_workers = judging.in_workers
    monkeypatch.setattr(
        judging,
        "in_workers",
        lambda pairs, timeout: [asked.extend(pairs), in_workers(pairs, timeout)][1],
    )
    for _ in range(2):
        verdicts = verifier.judge(
            [HOSTILE] * 8 + [boxed(r"\sqrt{12}")], solution=["5"] * 8 + [r"2\sqrt{3}"]
        )
        assert [verdict.status for verdict in verdicts] == [Status.TIMEOUT] * 8 + [
            Status.CORRECT
        ]
        assert verdicts[0].answer == r"9^{9^{9^9}}+1"
    hostile = [pair for pair in asked if "9^{9" in pair.answer]
    assert [pair.gold for pair in hostile] == ["5"]


@pytest.mark.slow
@pytest.mark.usefixtures("any_cpu_counts")
def test_a_verdict_says_what_it_took_this_time_and_not_what_it_took_when_it_was_reached() -> (
    None
):
    verifier = MathVerifier(timeout=0.5)
    verifier([boxed(r"\sqrt{8}")], solution=[r"2\sqrt{2}"])  # the worker is warm
    first, again = (
        verifier.judge([boxed("9^{9^{9^9}}+3")], solution=["5"])[0] for _ in range(2)
    )
    assert first.status is again.status is Status.TIMEOUT
    assert first.seconds >= 0.5 > again.seconds > 0
    at_once, unread, missing = verifier.judge(
        [boxed("4"), "I do not know.", "4"], solution=["4", "4", None]
    )
    assert min(at_once.seconds, unread.seconds, missing.seconds) > 0


@pytest.mark.slow
@pytest.mark.usefixtures("any_cpu_counts")
def test_an_answer_on_which_sympy_fails_is_not_the_graders_fault() -> None:
    (verdict,) = MathVerifier(timeout=1.0).judge([boxed("((20!)!)!")], solution=["12345"])
    assert (verdict.score, verdict.blame) == (0.0, Blame.POLICY)


@pytest.mark.slow
@pytest.mark.usefixtures("any_cpu_counts")
def test_a_gold_that_computes_for_ever_is_the_datas_fault() -> None:
    (verdict,) = MathVerifier(timeout=1.0).judge(
        [boxed("x+1")], solution=[r"9^{9^{9^9}}+x"]
    )
    assert (verdict.status, verdict.blame, verdict.reason) == (
        Status.SKIPPED,
        Blame.DATA,
        "gold_timeout",
    )


def test_it_works_off_the_main_thread() -> None:
    scores: list[list[float | None]] = []
    thread = threading.Thread(
        target=lambda: scores.append(
            math_reward([boxed(r"\sqrt{20}")], solution=[r"2\sqrt{5}"])
        )
    )
    thread.start()
    thread.join()
    assert scores == [[1.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decimals": -1}, "decimal places"),
        ({"timeout": 0}, "above 0"),
        ({"timeout": float("nan")}, "above 0"),
        ({"mode": "box"}, "Did you mean `boxed`"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        MathVerifier(**arguments)


def test_a_fault_of_the_grader_is_not_remembered(monkeypatch: Any) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(
            judging,
            "in_workers",
            lambda pairs, timeout: [grader_error("worker_lost")] * len(pairs),
        )
        assert math_reward([boxed(r"\sqrt{18}")], solution=[r"3\sqrt{2}"]) == [None]
    assert math_reward([boxed(r"\sqrt{18}")], solution=[r"3\sqrt{2}"]) == [1.0]


def test_a_worker_that_fails_on_one_of_several_golds_or_answers_is_no_wrong_answer(
    monkeypatch: Any,
) -> None:
    failed = grader_error("worker_lost")
    wrong = Verdict(status=Status.INCORRECT, score=0.0)

    def in_workers(pairs: list[Pair], timeout: float) -> list[Verdict]:
        return [failed if "y" in pair.gold + pair.answer else wrong for pair in pairs]

    monkeypatch.setattr(judging, "in_workers", in_workers)
    one_gold_failed, one_answer_failed = math_reward.judge(
        [boxed("|p|"), r"\boxed{|p|}. Or no: \boxed{|y|}."],
        solution=[["2|p|", "2|y|"], "|p|"],
    )
    assert (one_gold_failed.score, one_gold_failed.reason) == (None, "worker_lost")
    assert (one_answer_failed.score, one_answer_failed.reason) == (None, "worker_lost")


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        (r"2\sqrt{5}", "12", "not_equal"),
        ("16", "8n^2+1", "not_equal"),
        ("x+y", r"\frac{x}{y}", "not_equal"),
        ("6-5i", "6+5i", "not_equal"),
        ("52_8", "50", "not_equal"),
        # Floating point cannot decide these pairs.
        (r"\sqrt{25}", "10^{20}+5-10^{20}", "asked"),
        (r"\sqrt{2}", "1.415", "asked"),
        (r"\sqrt{2}", "2.3", "asked"),
        ("x^2+C", "x^2+7+C", "asked"),
        ("7", "2^{65}", "asked"),
        ("7", "(-2)^{0.5}", "asked"),
        ("7", "x!", "asked"),
    ],
)
def test_only_expressions_that_are_not_far_apart_are_left_to_a_worker(
    gold: str, answer: str, reason: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(
        judging, "in_workers", lambda pairs, timeout: [grader_error("asked")] * len(pairs)
    )
    (verdict,) = MathVerifier(decimals=0).judge([boxed(answer)], solution=[gold])
    assert verdict.reason == reason


SPOKEN = [
    ("42", "So 40 + 2 = 42."),
    ("42", "1/2 of 84 is 42"),
    ("42", "A: 42"),
    ("42", "```\n42\n```"),
    ("-42", "It is -42."),
    ("42", "So, the answer is 42, as required."),
    ("42", "The answer is 42 because 84/2=42."),
    ("42", "Answer: 42 (not 7)"),
    ("18", r"He pays \$18 per day."),
    ("72", "She sold 48+24 = 72 clips.\n#### 72"),
    ("Paris", "The answer is Paris."),
    ("C", "The correct answer is C."),
    ("odd", "$odd$"),
]


@pytest.mark.parametrize(("gold", "completion"), SPOKEN)
def test_an_answer_without_a_box_is_understood(gold: str, completion: str) -> None:
    assert math_reward([completion], solution=[gold]) == [1.0]


@pytest.mark.parametrize(
    ("gold", "completion"),
    [
        ("42", "The answer is 7, not 42."),
        ("42", "42 is wrong"),
        ("42", "The answer is not 42."),
        ("42", "I am not sure whether it is 42 or 43."),
        ("-5", "The final answer to the given problem is 1 - 6 = -2."),
        ("-5", "1 - 6"),
        ("12", "We compute 12 apples, then 30 more. I cannot determine the answer."),
        ("2024-01-05", r"\boxed{2023-01-04}"),
    ],
)
def test_what_is_said_without_a_box_is_not_believed_where_it_is_taken_back_or_left_undone(
    gold: str, completion: str
) -> None:
    assert math_reward([completion], solution=[gold]) == [0.0]


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("2^{2023}-1", "2^{2023}"),
        ("1-\\frac{1}{2^{50}}", "1"),
        ("5", r"5 \text{, 6}"),
        ("5", r"\text{negative } 5"),
        ("5", r"5 \text{ million}"),
        ("5", r"5 \text{ (rejected)}"),
        ("1011_2", "1011_3"),
        ("5", "6 = x = 5"),
        ("7", "x+1 = x+2 = 7"),
        ("x^2", "x^3=x^2"),
        (r"10\text{ cm}", r"10\text{ cm/s}"),
        (r"3 \text{ red}", r"3 \text{ blue}"),
        ("B", r"\text{B. is wrong}"),
    ],
)
def test_what_was_found_to_fool_it_does_not(gold: str, answer: str) -> None:
    assert math_reward([boxed(answer)], solution=[gold]) == [0.0]


@pytest.mark.parametrize(
    "answer",
    [
        "m+n=18",
        "AB=18",
        "|A|=18",
        r"\text{Area} = 18",
        r"\angle ABC = 18^\circ",
        "f(3)=18",
        "9+9=18",
        r"\text{18}",
    ],
)
def test_a_number_may_be_said_to_be_something(answer: str) -> None:
    assert math_reward([boxed(answer)], solution=["18"]) == [1.0]
