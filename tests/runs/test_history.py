"""The score history: a slow rise differs from a stuck run, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from windows import batch, codes, window_of

from trl_grpo_ext.diagnostics.levels import MOST_PERIODS, History, fitted_rise
from trl_grpo_ext.diagnostics.progress import PATIENCE, has_risen, is_stuck
from trl_grpo_ext.diagnostics.window import RunView, Window
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.support.estimate import Estimate

GROUPS, SIZE = 8, 8


def history_of(batches: list[list[float]]) -> History:
    history = History()
    for step, scores in enumerate(batches):
        history.add(step, Estimate.of(scores))
    return history


def simulated_run(
    start: float, end: float, steps: int, *, seed: int, alike: float = 0.5
) -> Window:
    """Simulate a run with a linear score, and return its window; a low `alike` makes prompts very easy or very hard."""
    chance, view = np.random.default_rng(seed), RunView({})
    for step in range(steps):
        mean = start + (end - start) * step / steps
        prompts = chance.beta(mean * alike, (1 - mean) * alike, GROUPS)
        right = chance.random((GROUPS, SIZE)) < prompts[:, None]
        view.add(
            reduce_card(batch({"answer": right.ravel().tolist()}, step=step, size=SIZE), {})
        )
    return view.window


@given(st.lists(st.lists(st.floats(0, 1), max_size=4), max_size=300))
def test_a_history_of_any_length_is_bounded_and_loses_no_score(
    batches: list[list[float]],
) -> None:
    stretches = history_of(batches).periods
    assert len(stretches) <= MOST_PERIODS
    assert sum(stretch.scores.count for stretch in stretches) == sum(map(len, batches))
    middles = [stretch.middle for stretch in stretches]
    assert middles == sorted(middles)
    assert all(0 <= middle < len(batches) for middle in middles)


def test_the_rise_and_its_error_are_those_of_a_least_squares_line() -> None:
    chance = np.random.default_rng(0)
    scores = 0.2 + 0.01 * np.arange(30)[:, None] + chance.normal(0, 0.1, (30, 4))
    found = fitted_rise(history_of(scores.tolist()).periods)
    times = np.repeat(np.arange(30), 4)
    (slope, _), covariance = np.polyfit(times, scores.ravel(), 1, cov=True)
    assert found is not None
    assert (found.mean, found.error) == pytest.approx(
        (slope * 29, np.sqrt(covariance[0, 0]) * 29)
    )


def test_stretches_that_have_become_one_keep_the_rise() -> None:
    scores = [[0.001 * step] for step in range(1000)]
    found = fitted_rise(history_of(scores).periods)
    assert found is not None
    assert found.mean == pytest.approx(1.0, rel=0.05)  # less half a stretch at either end


@pytest.mark.parametrize("scores", [[], [[0.5]], [[0.5], [0.6]], [[], [], []]])
def test_a_rise_of_too_few_batches_is_unknown(scores: list[list[float]]) -> None:
    assert fitted_rise(history_of(scores).periods) is None


def test_scores_too_large_to_square_have_no_known_rise() -> None:
    assert fitted_rise(history_of([[1e200], [2e200], [3e200]]).periods) is None


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_a_slow_rise_is_seen_and_not_called_stuck(seed: int) -> None:
    window = simulated_run(0.10, 0.30, 160, seed=seed)
    assert has_risen(window)
    assert not is_stuck(window)
    assert codes(window) == []


@pytest.mark.slow
def test_a_run_that_stays_where_it_is_is_stuck_but_not_before_a_slow_rise_could_be_seen() -> (
    None
):
    hard = [1, 1, *[0] * 62]
    early, late = (
        window_of([batch({"answer": hard}, step=step) for step in range(steps)])
        for steps in (PATIENCE, PATIENCE + 4)
    )
    assert not is_stuck(early)
    assert is_stuck(late)
    assert codes(late) == ["dead_groups"]


def test_a_run_without_one_right_answer_is_stuck_as_soon_as_there_is_a_window() -> None:
    assert is_stuck(
        window_of([batch({"answer": [0] * 64}, step=step) for step in range(8)])
    )


def test_a_run_whose_scores_are_all_the_same_is_stuck_whatever_rounding_says() -> None:
    view = RunView({})
    for step in range(120):
        view.add(
            reduce_card(batch({"answer": [0.3] * (GROUPS * (1 + step % 3))}, step=step), {})
        )
    assert is_stuck(view.window)
