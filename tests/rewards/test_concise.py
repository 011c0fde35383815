"""Conciseness: a ranking of group lengths, robust to outliers and ties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status
from trl_grpo_ext.rewards.lengths import ConciseVerifier, concise_reward


def group(*lengths: int | None, number: int | None = 0) -> list[Sample]:
    return [
        Sample(text="", completion_ids=None if n is None else [1] * n, group=number)
        for n in lengths
    ]


def scores(*lengths: int | None, tolerance: float = 0.05) -> list[float | None]:
    return [
        verdict.score
        for verdict in ConciseVerifier(tolerance=tolerance).judge_samples(group(*lengths))
    ]


def test_the_shortest_scores_most_and_the_longest_least() -> None:
    verdicts = ConciseVerifier().judge_samples(group(30, 10, 20))
    assert [verdict.score for verdict in verdicts] == [-0.5, 0.5, 0.0]
    assert [verdict.status for verdict in verdicts] == [
        Status.PARTIAL,
        Status.CORRECT,
        Status.CORRECT,
    ]
    assert [verdict.reason for verdict in verdicts] == ["longer", "", ""]


def test_equal_lengths_are_neutral() -> None:
    verdicts = ConciseVerifier().judge_samples(group(100, 100, 104))
    assert {(verdict.score, verdict.reason) for verdict in verdicts} == {
        (0.0, "equal_lengths")
    }
    assert scores(100, 100, 104, tolerance=0.0) == [0.25, 0.25, -0.5]


def test_a_group_of_one_is_neutral() -> None:
    (verdict,) = ConciseVerifier().judge_samples(group(7))
    assert (verdict.score, verdict.reason) == (0.0, "no_others")


def test_one_very_long_completion_moves_nobody_elses_score() -> None:
    assert scores(10, 20, 30) == scores(10, 20, 10**5) == [0.5, 0.0, -0.5]


def test_empty_completions_are_equal_to_each_other_and_shorter_than_any() -> None:
    assert scores(0, 0, 1) == [0.25, 0.25, -0.5]


def test_a_length_that_nobody_knows_is_the_graders_fault_and_left_out_of_the_ranking() -> (
    None
):
    known, unknown, longer = ConciseVerifier().judge_samples(group(10, None, 30))
    assert (unknown.score, unknown.blame, unknown.reason) == (
        None,
        Blame.GRADER,
        "tokens_unknown",
    )
    assert (known.score, longer.score) == (0.5, -0.5)


def test_groups_are_ranked_apart() -> None:
    verdicts = ConciseVerifier().judge_samples(
        [*group(10, 20, number=0), *group(1000, 2000, number=1)]
    )
    assert [verdict.score for verdict in verdicts] == [0.5, -0.5, 0.5, -0.5]


@given(
    lengths=st.lists(st.integers(0, 9000), min_size=1, max_size=64),
    tolerance=st.floats(0, 2),
)
def test_the_scores_of_a_group_add_up_to_0_and_never_prefer_the_longer(
    lengths: list[int], tolerance: float
) -> None:
    found = [score for score in scores(*lengths, tolerance=tolerance) if score is not None]
    assert len(found) == len(lengths)
    assert sum(found) == pytest.approx(0, abs=1e-9)
    assert all(-0.5 <= score <= 0.5 for score in found)
    by_length = [
        score
        for _, score in sorted(zip(lengths, found, strict=True), key=lambda pair: pair[0])
    ]
    assert by_length == sorted(by_length, reverse=True)


def test_it_works_as_a_term_and_refuses_to_be_a_plain_reward_function() -> None:
    mix = RewardMix([RewardTerm(name="concise", verifier=concise_reward)])
    assert mix.score(group(10, 20)).totals == (0.5, -0.5)
    with pytest.raises(ValueError, match="RewardMix"):
        concise_reward(["a", "b"])


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), "5%", True])
def test_a_tolerance_that_cannot_be_is_refused(tolerance: object) -> None:
    with pytest.raises(ValueError, match="share by which lengths may differ"):
        ConciseVerifier(tolerance=tolerance)  # type: ignore[arg-type]
