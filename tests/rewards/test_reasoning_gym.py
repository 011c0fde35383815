"""Reasoning-gym problems: their own scorers, guarded by checks for loopholes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from trl_grpo_ext import Blame, Status
from trl_grpo_ext.workers.pool import close_workers

pytest.importorskip("reasoning_gym")

from reasoning_gym import create_dataset
from reasoning_gym.factory import DATASETS

from trl_grpo_ext.rewards.reasoning_gym.checks import CHECKS, problem_with
from trl_grpo_ext.rewards.reasoning_gym.verifier import ReasoningGymVerifier

SUM = {"question": "2 + 3?", "answer": "5", "metadata": {"source_dataset": "chain_sum"}}


@pytest.fixture(autouse=True, scope="module")
def workers() -> Iterator[None]:
    yield
    close_workers()


def entry(task: str, **options: Any) -> dict[str, Any]:
    return dict(create_dataset(task, size=1, seed=3, **options)[0])


def judge(answer: str, problem: Any = SUM, **settings: Any) -> Any:
    verifier = ReasoningGymVerifier(timeout=settings.pop("timeout", 30.0), **settings)
    return verifier.judge(
        [f"<think>...</think><answer>{answer}</answer>"], entry=[problem]
    )[0]


# Tasks with slow entries, composites of other tasks, and tasks (such as `rearc`) whose data files stay open.
SLOW = {
    "composite",
    "arc_agi",
    "knight_swap",
    "sokoban",
    "futoshiki",
    "zebra_puzzles",
    "puzzle24",
    "intermediate_integration",
}


@pytest.mark.parametrize("task", sorted(set(DATASETS) - SLOW))
def test_a_problem_s_own_answer_scores_1_also_after_json(task: str) -> None:
    problem = entry(task)
    if problem["answer"] is None:
        pytest.skip("this task has many right answers and names none")
    assert judge(problem["answer"], json.dumps(problem)).score == 1.0


def test_a_row_may_hold_the_problem_in_columns_of_its_own() -> None:
    columns = {
        "question": ["2 + 3?"],
        "answer": ["5"],
        "metadata": [json.dumps({"source_dataset": "chain_sum"})],
    }
    assert ReasoningGymVerifier()(["<answer>5</answer>"], **columns) == [1.0]
    assert ReasoningGymVerifier(task="chain_sum")(["<answer>5</answer>"], answer=["5"]) == [
        1.0
    ]


def test_only_a_full_score_counts_unless_less_is_asked_for() -> None:
    consoled = judge("15")
    assert (consoled.score, consoled.reason, consoled.details["scorer"]) == (
        0.0,
        "below_least",
        "0.5",
    )
    assert (judge("15", least=0).score, judge("15", least=0).status) == (
        0.5,
        Status.PARTIAL,
    )
    assert judge("15", least=0.6).score == 0.0
    assert judge("7", least=0).reason == "wrong"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("5", "no_answer_tag"),
        ("<think><answer>5</answer>", "unclosed_think"),
        ("<answer>5</answer><answer>6</answer>", "ambiguous"),
        ("<answer></answer>", "empty_answer"),
        ("<answer>" + "5" * 30_000 + "</answer>", "answer_too_long"),
    ],
)
def test_what_is_no_answer_scores_0_and_says_why(text: str, reason: str) -> None:
    (verdict,) = ReasoningGymVerifier().judge([text], entry=[SUM])
    assert (verdict.score, verdict.reason) == (0.0, reason)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (None, "entry_missing"),
        ("5", "entry_unreadable"),
        ("{", "entry_unreadable"),
        ({"question": "?", "answer": "5", "metadata": "no"}, "entry_unreadable"),
        ({"question": "?", "answer": "5"}, "task_unknown"),
        (SUM | {"metadata": {"source_dataset": "chain_sun"}}, "task_unknown"),
        (SUM | {"answer": None}, "entry_unscorable"),
        (SUM | {"metadata": {"source_dataset": "number_sorting"}}, "entry_unscorable"),
        (SUM | {"metadata": {"source_dataset": "composite"}}, "entry_unscorable"),
    ],
)
def test_a_row_that_cannot_be_judged_is_skipped(problem: Any, reason: str) -> None:
    verdict = judge("5", problem)
    assert (verdict.status, verdict.score, verdict.blame, verdict.reason) == (
        Status.SKIPPED,
        None,
        Blame.DATA,
        reason,
    )


def test_a_scorer_that_raises_on_an_answer_blames_the_answer() -> None:
    verdict = judge("x", entry("prime_factorization"))
    assert (verdict.status, verdict.score, verdict.reason) == (
        Status.UNPARSEABLE,
        0.0,
        "scorer_raised",
    )


@pytest.mark.usefixtures("any_cpu_counts")
def test_a_scorer_that_never_ends_is_a_timeout() -> None:
    problem = entry("simple_integration")
    verdict = judge("9**9**9**9**9", problem, timeout=1.0)
    assert verdict.status is Status.TIMEOUT
    assert judge(problem["answer"], problem).score == 1.0


def in_latex(problem: Any) -> str:
    metadata = problem["metadata"]
    return rf"\frac{{{metadata['simplified_numerator']}}}{{{metadata['simplified_denominator']}}}"


HOLES: list[tuple[str, Any, str]] = [
    ("binary_matrix", lambda e: "print(1)", "not_a_literal"),
    (
        "spiral_matrix",
        lambda e: f"({e['answer'].replace(' ', ',')}, print())",
        "not_a_literal",
    ),
    ("string_insertion", lambda e: "exit()", "not_a_literal"),
    ("n_queens", lambda e: "__import__('os').getpid()", "not_a_literal"),
    ("countdown", lambda e: "__import__('os').getpid()", "not_a_formula"),
    (
        "countdown",
        lambda e: f"{e['metadata']['target']} + 0*{e['metadata']['numbers'][0]}",
        "other_numbers",
    ),
    (
        "countdown",
        lambda e: "+".join(map(str, e["metadata"]["numbers"])) + "-" * 900,
        "not_a_formula",
    ),
    ("countdown", lambda e: "+".join(map(str, e["metadata"]["numbers"])), "other_value"),
    ("puzzle24", lambda e: "4*6*1*1", "other_numbers"),
    ("polynomial_multiplication", lambda e: f"expand({e['answer']})", "not_a_formula"),
    (
        "simple_integration",
        lambda e: f"Integral({e['metadata']['integrand']}, X)",
        "not_a_formula",
    ),
    ("simple_integration", lambda e: f"X.__class__({e['answer']})", "not_a_formula"),
    ("simple_integration", lambda e: "S(1)" + "1" * 30 + "!", "not_a_formula"),
    ("intermediate_integration", lambda e: "integrate(x, x)", "not_a_formula"),
    ("complex_arithmetic", lambda e: "nan", "not_a_number"),
    ("complex_arithmetic", lambda e: "nan + nani", "not_a_number"),
    ("game_of_life_halting", lambda e: "banana", "not_equal"),
    ("game_of_life_halting", lambda e: str(e["answer"] != "True"), "not_equal"),
    (
        "number_sorting",
        lambda e: str([float(n) + 0.9 for n in e["metadata"]["sorted_numbers"]]),
        "other_numbers",
    ),
    ("gsm_symbolic", lambda e: f"{e['answer']} or 1 or 2", "several_numbers"),
    ("quantum_lock", lambda e: f"the {e['answer']}!", "stray_text"),
    ("coin_flip", lambda e: "1e999999999", "not_a_number"),
    ("coin_flip", lambda e: "0", "other_value"),
    ("fraction_simplification", lambda e: f"{in_latex(e)} or 7", "not_a_fraction"),
    (
        "fraction_simplification",
        lambda e: f"{in_latex(e)}; \\frac{{1}}{{2}}",
        "not_a_fraction",
    ),
    ("time_intervals", lambda e: f"{e['answer']}, or 7", "not_a_duration"),
    ("time_intervals", lambda e: f"{e['answer']} or 7", "not_a_duration"),
    ("kakurasu", lambda e: e["answer"].replace(" ", " or "), "stray_text"),
    ("kakurasu", lambda e: e["answer"] + " 2", "stray_text"),
    ("survo", lambda e: e["answer"].replace(" ", " or "), "stray_text"),
    ("polynomial_equations", lambda e: e["answer"] + ", or 7", "not_a_number"),
    ("polynomial_equations", lambda e: "nan", "not_a_number"),
    ("word_sorting", lambda e: e["answer"] + ", zebra", "other_words"),
    (
        "rubiks_cube",
        lambda e: e["metadata"]["example_correct_answer"] + " U9999999999",
        "stray_text",
    ),
]


@pytest.mark.parametrize(("task", "attack", "reason"), HOLES)
def test_what_a_scorer_overlooks_is_turned_down_before_it_is_asked(
    task: str, attack: Any, reason: str
) -> None:
    problem = entry(task)
    verdict = judge(attack(problem), problem, least=0)
    assert (verdict.score, verdict.reason) == (0.0, reason)


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ('""', 1.0),
        ("''", 1.0),
        ("No real solutions.", 1.0),
        ("There are no real values", 1.0),
        ("no idea", 0.0),
        ("banana", 0.0),
        ("1.5", 0.0),
    ],
)
def test_an_equation_without_solutions_is_not_solved_by_any_words(
    answer: str, score: float
) -> None:
    problem = entry("polynomial_equations") | {"answer": ""}
    assert judge(answer, problem).score == score


@pytest.mark.parametrize(
    "kind", ["time", "time_seconds", "time_ms", "date", "datetime", "datetime_tz"]
)
def test_a_duration_of_every_kind_passes_its_check(kind: str) -> None:
    problem = next(
        e
        for e in create_dataset("time_intervals", size=200, seed=5)
        if e["metadata"]["task_type"] == kind
    )
    assert judge(problem["answer"], problem).score == 1.0
    for junk in (" or 7", ", or 7", ", 7", ":07:07:07", " 7"):
        assert judge(problem["answer"] + junk, problem).score == 0.0


def test_a_point_has_two_coordinates() -> None:
    kinds = create_dataset("advanced_geometry", size=50, seed=5)
    problem = next(
        problem for problem in kinds if problem["metadata"]["task_type"] == "orthocenter"
    )
    assert [judge(problem["answer"] + rest, problem).score for rest in ("", ", 7")] == [
        1.0,
        0.0,
    ]


@pytest.mark.parametrize("task", sorted(CHECKS))
def test_a_check_lets_the_problem_s_own_answer_pass(task: str) -> None:
    for number in range(3):
        problem = create_dataset(task, size=3, seed=1)[number]
        answer = problem["answer"] or problem["metadata"]["example_correct_answer"]
        if "Integral" not in answer:
            assert problem_with(task, answer, problem) == ""


@pytest.mark.parametrize("task", sorted(CHECKS))
@pytest.mark.parametrize(
    "piece", ["1", "(", "[", "-", "1+", "x", "\ud800", "'", "1.", "A,", " "]
)
def test_a_check_judges_the_longest_answers(task: str, piece: str) -> None:
    problem = entry(task)
    for length in (995, 20_000):
        assert isinstance(
            problem_with(task, piece * (length // len(piece)) + "!", problem), str
        )


def test_a_gold_that_its_own_check_turns_down_is_the_data_s_fault() -> None:
    problem = entry("simple_integration") | {"answer": "Integral(X, X)"}
    assert judge("Integral(X, X)", problem).reason == "gold_not_itself"


def test_many_right_answers_are_told_from_wrong_ones() -> None:
    problem = entry("rubiks_cube")
    right = problem["metadata"]["example_correct_answer"]
    assert [judge(answer, problem).score for answer in (right, "U")] == [1.0, 0.0]


def test_check_rows_lists_rows_without_a_problem_and_if_thorough_those_that_reject_themselves() -> (
    None
):
    rows = [{"entry": SUM}, {"entry": None}, {"entry": entry("rush_hour")}]
    rows.append({"entry": entry("complex_arithmetic") | {"answer": "nan"}})
    verifier = ReasoningGymVerifier(timeout=30.0)
    assert [(problem.row, problem.reason) for problem in verifier.check_rows(rows)] == [
        (1, "entry_missing")
    ]
    thorough = [
        (problem.row, problem.reason)
        for problem in verifier.check_rows(rows, thorough=True)
    ]
    assert thorough == [(1, "entry_missing"), (3, "gold_not_itself")]


def test_the_options_that_problems_were_made_with_reach_the_scorer() -> None:
    problem = {
        "question": "?",
        "answer": "1.0",
        "metadata": {"source_dataset": "decimal_arithmetic"},
    }
    loose = {
        "task": "decimal_arithmetic",
        "options": {"min_num_decimal_places": 1, "max_num_decimal_places": 1},
    }
    assert (judge("1.05", problem).score, judge("1.05", problem, **loose).score) == (
        0.0,
        1.0,
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "chain_sun"}, "Did you mean `chain_sum`"),
        ({"task": "chain_sum", "options": {"max_termz": 3}}, "does not take these options"),
        ({"options": {"max_terms": 3}}, "task="),
        ({"least": 2}, "from 0 to 1"),
        ({"least": float("nan")}, "from 0 to 1"),
        ({"timeout": 0}, "above 0"),
        ({"answer_from": "tag"}, "no rule"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ReasoningGymVerifier(**settings)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"trl-grpo-ext\[reasoning-gym\]"):
        ReasoningGymVerifier()


def test_a_dataset_without_problems_is_refused() -> None:
    with pytest.raises(ValueError, match="`entry`"):
        ReasoningGymVerifier()(["<answer>5</answer>"], question=["2 + 3?"], answer=["5"])


def test_it_pickles_and_the_ready_instance_is_made_when_it_is_asked_for() -> None:
    from trl_grpo_ext.rewards.reasoning_gym.verifier import reasoning_gym_reward

    verifier = ReasoningGymVerifier(task="chain_sum", least=0.5)
    assert pickle.loads(pickle.dumps(verifier)) == verifier
    assert reasoning_gym_reward(["<answer>5</answer>"], entry=[SUM]) == [1.0]
    assert reasoning_gym_reward.__name__ == "reasoning_gym_reward"
