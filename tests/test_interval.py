"""Confidence intervals, against published figures and against simulation."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.support.interval import mean_interval


def test_wilsons_interval_is_that_of_the_textbook() -> None:
    # Newcombe (1998), Statistics in Medicine 17, table I: 81 of 263.
    interval = mean_interval([[1.0]] * 81 + [[0.0]] * 182)
    assert interval is not None
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.2553, 0.3662)


def test_completions_of_one_prompt_do_not_count_as_so_many_prompts() -> None:
    one, four = mean_interval([[1.0], [0.0]] * 50), mean_interval([[1.0] * 4, [0.0] * 4] * 50)
    assert one == four


def test_no_score_is_no_interval() -> None:
    assert mean_interval([]) is None
    assert mean_interval([[], []]) is None
    assert mean_interval([[3.0]]) is None


def test_scores_outside_0_and_1_get_the_normal_interval() -> None:
    interval = mean_interval([[2.0], [4.0]] * 50)
    assert interval is not None
    assert interval.mean == 3.0
    assert interval.high - interval.mean == pytest.approx(1.96 * 1.005 / 10, abs=1e-3)


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=1, max_size=20))
def test_the_mean_lies_in_its_interval_and_that_in_0_and_1(groups: list[list[float]]) -> None:
    interval = mean_interval(groups)
    assert interval is not None
    assert 0.0 <= interval.low <= interval.mean <= interval.high <= 1.0


def test_the_interval_holds_the_truth_at_least_as_often_as_it_says() -> None:
    generator = random.Random(0)
    held = 0
    for _ in range(400):  # prompts differ in difficulty, two completions each
        difficulties = [generator.betavariate(0.5, 0.5) for _ in range(50)]
        groups = [[float(generator.random() < p) for _ in range(2)] for p in difficulties]
        interval = mean_interval(groups)
        assert interval is not None
        held += interval.low <= 0.5 <= interval.high
    assert held >= 0.93 * 400
