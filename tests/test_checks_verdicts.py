"""Checks of verdicts: what fires, and what looks like it and must not."""

from __future__ import annotations

import pytest
from windows import batch, codes, needs, window_of

from trl_grpo_ext import Blame, Status, Verdict

UNREAD = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_boxed")
STARVED = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason="worker_starved")
FOOLED = Verdict(status=Status.INCORRECT, score=0.0, reason="passes_naively")
RIGHT = Verdict(status=Status.CORRECT, score=1.0, answer="4")
WRONG = Verdict(status=Status.INCORRECT, score=0.0, answer="4")
MATCHED = Verdict(status=Status.CORRECT, score=1.0, answer="<think>")

MIXED = [1, 0, 1, 0, 1, 0, 1, 0] * 4


def test_a_worker_without_cpu_is_a_starved_grader_and_no_other_trouble() -> None:
    cards = [batch({"answer": [STARVED, *MIXED[1:]]}, step=step) for step in range(4)]
    assert codes(window_of(cards)) == ["starved_grader"]


def test_one_or_two_failures_are_nobodys_pattern() -> None:
    failed = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason="worker_died")
    assert codes(window_of([batch({"answer": [failed, failed, *MIXED[2:]]})])) == []


def test_trouble_of_a_shadow_counts_and_bad_data_of_a_shadow_does_not() -> None:
    failed = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason="worker_died")
    shadows = {"answer": MIXED, "grader": [failed] * 32, "data": [None] * 32}
    assert codes(window_of([batch(shadows, weights={"grader": 0, "data": 0})])) == ["grader_trouble"]


def test_programs_that_would_fool_a_naive_grader_are_label_hacks() -> None:
    window = window_of([batch({"tests": [FOOLED, *MIXED[1:]]}, step=step) for step in range(4)])
    assert codes(window) == ["label_hacks"]


def test_a_flood_that_recedes_is_a_model_that_learns_the_form() -> None:
    cards = [batch({"answer": [UNREAD] * (30 - 3 * step) + MIXED[30 - 3 * step :]}, step=step) for step in range(8)]
    assert codes(window_of(cards)) == []
    assert codes(window_of(cards[:1] * 4)) == ["unparseable_flood"]


def test_cut_completions_that_are_right_all_the_same_are_no_truncation() -> None:
    assert codes(window_of([batch({"answer": MIXED}, truncated=True)], settings={"max_completion_length": 9})) == []
    cut = window_of([batch({"answer": [0] * 32}, truncated=True)], settings={"max_completion_length": 9})
    assert codes(cut) == ["truncation"]


def test_completions_of_one_token_are_always_cut() -> None:
    window = window_of([batch({"answer": [0] * 32}, truncated=True)], settings={"max_completion_length": 1})
    assert needs(window, "truncation") == "completions of more than one token"


def test_nobody_knows_what_was_cut() -> None:
    assert needs(window_of([batch({"answer": MIXED})]), "truncation") == "to know which completions were cut"


def test_groups_that_have_become_all_right_are_success() -> None:
    learning = [batch({"answer": MIXED}, step=step) for step in range(4)]
    solved = [batch({"answer": [1] * 32}, step=step) for step in range(4, 24)]
    assert codes(window_of([*learning, *solved])) == []
    assert codes(window_of([batch({"answer": [1] * 32}, step=step) for step in range(8)])) == ["all_right_groups"]


def test_hard_data_that_is_being_learned_is_no_finding() -> None:
    cards = [batch({"answer": [1] * step + [0] * (32 - step)}, step=step) for step in range(10)]
    assert "all_wrong_groups" not in codes(window_of(cards))


def test_groups_that_nobody_could_read_are_not_all_wrong() -> None:
    window = window_of([batch({"answer": [UNREAD] * 32}, step=step) for step in range(10)])
    assert codes(window) == ["unparseable_flood"]


def test_a_term_that_its_gate_has_silenced_is_not_inert() -> None:
    cards = [batch({"answer": MIXED, "small": [0] * 32}, step=step) for step in range(4)]
    assert codes(window_of(cards)) == ["inert_term"]


def test_small_terms_need_advantages_to_be_judged() -> None:
    small = {"answer": [0] * 32, "small": MIXED}
    assert needs(window_of([batch(small, step=step) for step in range(4)]), "secondary_only") == "advantages"
    told = [batch(small, step=step, advantages=[1.0, -1.0] * 16) for step in range(4)]
    assert codes(window_of(told)) == ["secondary_only"]
    assert needs(window_of([batch({"answer": MIXED})]), "secondary_only") == "two terms with weight"


def test_three_equal_terms_are_no_wrong_driver() -> None:
    terms = {"a": [1, 0, 0, 0] * 8, "b": [0, 1, 0, 0] * 8, "c": [0, 0, 1, 0] * 8}
    assert codes(window_of([batch(terms, step=step) for step in range(8)])) == []


def test_a_second_opinion_that_differs_is_verifier_disagreement() -> None:
    pair = {"answer": [RIGHT, WRONG] * 16, "strict": [WRONG, WRONG, RIGHT, WRONG] * 8}
    cards = [batch(pair, step=step, weights={"strict": 0}) for step in range(4)]
    assert codes(window_of(cards)) == ["verifier_disagreement"]


def test_a_shadow_that_asks_another_question_is_no_second_opinion() -> None:
    for other in ([0, 0, 1, 0], [MATCHED, MATCHED, MATCHED, 0]):
        pair = {"answer": [RIGHT, WRONG] * 16, "format": other * 8}
        window = window_of([batch(pair, step=step, weights={"format": 0}) for step in range(4)])
        assert codes(window) == []
        assert "second opinion" in needs(window, "verifier_disagreement")


@pytest.mark.parametrize("score", [1e300, -1e300])
def test_scores_of_any_size_do_no_harm(score: float) -> None:
    cards = [batch({"answer": [score, 0.0] * 16, "small": MIXED}, step=step) for step in range(8)]
    assert isinstance(codes(window_of(cards, [{"kl": 1.0, "entropy": 0.1, "grad_norm": 1.0}] * 8)), list)
