"""Posteriors of success rates: what a draw promises for any data, what verdicts teach, and what a state holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from command_line import modules_after
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.figures.success_rates import expected_live_share, live_share
from trl_grpo_ext.trainer.rows.posteriors import CANDIDATES, HALF_LIFE, Draw, Posteriors

SIZE = 8


def made(
    size: int, *, floor: float = 0.25, seed: int = 0, buckets: list[int] | None = None
) -> Posteriors:
    numbers = np.zeros(size, dtype=np.int64) if buckets is None else np.array(buckets)
    return Posteriors(buckets=numbers, group_size=SIZE, floor=floor, seed=seed)


def drawn_and_learned(
    posteriors: Posteriors, groups: int, rates: Any, seed: int = 0
) -> Draw:
    """Draw a batch, and learn verdicts of rows with these true success rates; a rate of NaN gives no verdict."""
    draw = posteriors.draw(groups)
    own = np.asarray(rates, dtype=float)[list(draw.rows)]
    known = ~np.isnan(own)
    right = (
        np.random.default_rng([seed, posteriors.batch])
        .binomial(SIZE, np.nan_to_num(own))
        .astype(float)
    )
    posteriors.learn(draw.rows, right=right * known, judged=SIZE * known.astype(float))
    return draw


@st.composite
def runs(draw: Any) -> tuple[Posteriors, int, list[float]]:
    """Posteriors of any data, groups a batch, and each row's true rate; NaN for a row that is always void."""
    size = draw(st.integers(1, 16))
    rates = draw(
        st.lists(
            st.sampled_from([0.0, 0.3, 0.9, 1.0, float("nan")]),
            min_size=size,
            max_size=size,
        )
    )
    buckets = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    floor = draw(st.sampled_from([0.25, 0.6, 1.0]))
    return (
        made(size, floor=floor, seed=draw(st.integers(0, 3)), buckets=buckets),
        draw(st.integers(1, size)),
        rates,
    )


@given(runs())
def test_no_batch_has_a_row_twice_and_each_has_as_many_rows_as_groups(
    run: tuple[Posteriors, int, list[float]],
) -> None:
    posteriors, groups, rates = run
    for _ in range(12):
        draw = drawn_and_learned(posteriors, groups, rates)
        assert len(draw.rows) == len(set(draw.rows)) == groups
        assert set(draw.rows) <= set(range(posteriors.size))
        assert len(draw.expected) == groups - draw.floor
        assert all(0 <= rate <= 1 for rate in draw.expected)


@given(runs())
def test_the_floor_has_its_share_of_all_groups_and_meets_every_row_in_its_turn(
    run: tuple[Posteriors, int, list[float]],
) -> None:
    posteriors, groups, rates = run
    walked: list[int] = []
    batches = 0
    while len(walked) < posteriors.size:
        draw = drawn_and_learned(posteriors, groups, rates)
        walked += draw.rows[: draw.floor]
        batches += 1
        assert len(walked) == math.ceil(round(batches * groups * posteriors.floor, 6))
    assert set(walked) == set(range(posteriors.size))


@given(runs(), st.integers(0, 6))
def test_equal_states_draw_equal_rows_and_a_state_is_all_that_a_draw_goes_by(
    run: tuple[Posteriors, int, list[float]], batches: int
) -> None:
    posteriors, groups, rates = run
    for _ in range(batches):
        drawn_and_learned(posteriors, groups, rates)
    other = made(
        posteriors.size,
        floor=posteriors.floor,
        seed=posteriors.seed,
        buckets=posteriors.buckets.tolist(),
    )
    other.restore(posteriors.state())
    for _ in range(4):
        assert drawn_and_learned(posteriors, groups, rates) == drawn_and_learned(
            other, groups, rates
        )
    assert all(map(np.array_equal, posteriors.state().values(), other.state().values()))


def test_rows_that_teach_are_drawn_and_rows_that_are_all_right_or_all_wrong_are_not() -> (
    None
):
    rates = [0.5] * 10 + [0.0] * 45 + [1.0] * 45
    posteriors = made(100)
    for _ in range(20):
        drawn_and_learned(posteriors, 8, rates)
    drawn = [
        row
        for _ in range(10)
        for draw in [posteriors.draw(8)]
        for row in draw.rows[draw.floor :]
    ]
    assert sum(row < 10 for row in drawn) >= 0.6 * len(drawn)


def test_a_bucket_tells_of_rows_that_no_one_has_seen() -> None:
    rates = [0.5] * 500 + [0.0] * 500
    posteriors = made(1000, buckets=[0] * 500 + [1] * 500)
    for _ in range(10):
        drawn_and_learned(posteriors, 8, rates)
    draw = posteriors.draw(64)
    assert sum(row < 500 for row in draw.rows[draw.floor :]) >= 0.9 * (64 - draw.floor)


def test_verdicts_lose_half_of_their_weight_in_a_half_life_so_that_retired_rows_come_back() -> (
    None
):
    posteriors = made(2)
    posteriors.learn([0, 1], right=np.array([0.0, 4.0]), judged=np.array([8.0, 8.0]))
    posteriors.batch += int(HALF_LIFE)
    right, wrong = posteriors._faded(np.arange(2))
    assert (right.tolist(), wrong.tolist()) == ([0.0, 2.0], [4.0, 2.0])
    rates = [0.0] * 20 + [0.5] * 20
    posteriors = made(40)
    draws = [drawn_and_learned(posteriors, 8, rates) for _ in range(120)]
    assert max(draw.retired for draw in draws) > 0
    assert sum(draw.revived for draw in draws) > 0


def test_a_row_without_a_verdict_counts_nothing_and_only_the_floor_meets_it_again() -> None:
    rates = [float("nan")] * 5 + [0.0] * 95
    posteriors = made(100)
    draws = [drawn_and_learned(posteriors, 8, rates) for _ in range(60)]
    assert not (posteriors.right + posteriors.wrong)[:5].any()
    met = {row for draw in draws[:30] for row in draw.rows if row < 5}
    later = [row for draw in draws[30:] for row in draw.rows[draw.floor :]]
    assert met and not met.intersection(later)


def test_a_partial_score_is_a_share_of_a_success() -> None:
    posteriors = made(3)
    posteriors.learn([2], right=np.array([0.25 * 8]), judged=np.array([8.0]))
    assert (posteriors.right[2], posteriors.wrong[2]) == (2.0, 6.0)


def test_the_prior_is_worth_little_where_rows_are_all_or_nothing_and_much_where_they_are_alike() -> (
    None
):
    strengths = {}
    for name, rates in {"all or nothing": [0.0, 1.0] * 50, "alike": [0.5] * 100}.items():
        posteriors = made(100)
        for _ in range(25):
            drawn_and_learned(posteriors, 8, rates)
        strengths[name] = posteriors.strength
    assert strengths["all or nothing"] < 0.5 < 5 < strengths["alike"]


def test_what_an_earlier_run_says_weighs_half() -> None:
    posteriors = made(3)
    posteriors.learn_earlier([1], right=np.array([6.0]), judged=np.array([8.0]))
    right, wrong = posteriors._faded(np.array([1]))
    assert (right[0], wrong[0]) == (3.0, 1.0)


def test_a_state_of_other_data_or_other_buckets_is_refused() -> None:
    state = made(10).state()
    with pytest.raises(
        ValueError, match="knows 10 rows in 1 buckets, and train_dataset has 11"
    ):
        made(11).restore(state)
    with pytest.raises(ValueError, match="rows_by"):
        made(10, buckets=[0, 1] * 5).restore(state)


def test_a_state_has_no_place_for_rows_that_were_never_met() -> None:
    posteriors = made(10**6)
    drawn_and_learned(posteriors, 8, np.full(10**6, 0.5))
    assert sum(column.nbytes for column in posteriors.state().values()) < 1000


def test_a_draw_from_large_data_compares_no_more_rows_than_are_candidates(
    monkeypatch: Any,
) -> None:
    compared: list[int] = []

    def noted(rates: Any, group_size: int) -> Any:
        compared.append(len(rates))
        return live_share(rates, group_size)

    monkeypatch.setattr("trl_grpo_ext.trainer.rows.posteriors.live_share", noted)
    assert len(set(made(10**6).draw(64).rows)) == 64
    assert compared == [CANDIDATES]


@given(st.floats(0.01, 50), st.floats(0.01, 50), st.integers(2, 64))
def test_the_expected_share_of_live_groups_is_the_mean_over_the_distribution(
    a: float, b: float, size: int
) -> None:
    rates = np.random.default_rng(0).beta(a, b, 20_000)
    expected = float(expected_live_share(np.array([a]), np.array([b]), size)[0])
    assert expected == pytest.approx(float(live_share(rates, size).mean()), abs=0.02)


def test_posteriors_need_no_torch() -> None:
    assert "torch" not in modules_after("import trl_grpo_ext.trainer.rows.posteriors")


def test_a_floor_is_not_rounded_up_for_a_rounding_error() -> None:
    assert 25 * 0.28 > 7
    assert made(100, floor=0.28).draw(25).floor == 7
