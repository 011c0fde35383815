"""Confidence intervals, against published figures and against simulation."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.support.estimate import Estimate, Grouped, Interval


def mean_interval(groups: Sequence[Sequence[float]]) -> Interval | None:
    """Compute the interval of prompt scores, from one batch per prompt."""
    scored = [group for group in groups if group]
    parts = (
        Grouped(
            Estimate.of(group),
            Estimate.of([sum(group) / len(group)]),
            low=min(group),
            high=max(group),
        )
        for group in scored
    )
    return sum(parts, start=Grouped()).interval


def test_wilsons_interval_is_that_of_the_textbook() -> None:
    # Newcombe (1998), Statistics in Medicine 17, table I: 81 of 263.
    interval = mean_interval([[1.0]] * 81 + [[0.0]] * 182)
    assert interval is not None
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.2553, 0.3662)


def test_completions_of_one_prompt_do_not_count_as_so_many_prompts() -> None:
    one, four = (
        mean_interval([[1.0], [0.0]] * 50),
        mean_interval([[1.0] * 4, [0.0] * 4] * 50),
    )
    assert one is not None and four is not None
    assert (one.low, one.high) == pytest.approx((four.low, four.high))


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
def test_the_mean_lies_in_its_interval_and_that_in_0_and_1(
    groups: list[list[float]],
) -> None:
    interval = mean_interval(groups)
    assert interval is not None
    assert 0.0 <= interval.low <= interval.mean <= interval.high <= 1.0


NUMBERS = st.lists(st.floats(-1e6, 1e6), max_size=20)


@given(st.lists(NUMBERS, max_size=5))
def test_estimates_of_parts_add_up_to_that_of_the_whole(parts: list[list[float]]) -> None:
    numbers = [number for part in parts for number in part]
    together, whole = Estimate.together(map(Estimate.of, parts)), Estimate.of(numbers)
    assert together.count == whole.count == len(numbers)
    assert together.mean == pytest.approx(whole.mean, rel=1e-6, abs=1e-6, nan_ok=True)
    assert together.error == pytest.approx(whole.error, rel=1e-4, abs=1e-3, nan_ok=True)


def test_the_error_of_a_mean_is_the_standard_error_and_that_of_a_difference_of_both() -> (
    None
):
    low, high = Estimate.of([1.0, 2.0, 3.0]), Estimate.share(3, 4)
    assert low.error == pytest.approx(statistics.stdev([1.0, 2.0, 3.0]) / math.sqrt(3))
    assert high.error == pytest.approx(statistics.stdev([1.0, 1.0, 1.0, 0.0]) / 2)
    assert (low - high).error == pytest.approx(math.hypot(low.error, high.error))
    assert (low - high).mean == 1.25


def test_no_numbers_and_numbers_too_large_to_square_are_not_known() -> None:
    assert not Estimate.of([]).is_known
    assert not Estimate.share(0, 0).is_known
    assert not Estimate.of([math.nan]).count
    assert not Estimate.of([1e300, -1e300]).is_known


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
