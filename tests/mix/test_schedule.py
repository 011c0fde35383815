"""Schedules: weights over training."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import RewardMix, RewardTerm, mix
from trl_grpo_ext.mix import Schedule, constant, cosine, linear, piecewise
from trl_grpo_ext.mix.schedule import CURVES
from trl_grpo_ext.rewards import MathVerifier

FINITE = st.floats(-1e6, 1e6)
TIMES = st.lists(st.floats(0, 1), min_size=1, max_size=6, unique=True).map(sorted)


def test_a_linear_schedule_holds_before_it_begins_and_after_it_ends() -> None:
    schedule = linear(1.0, 0.0, begin=0.2, until=0.6)
    assert [schedule.at(p) for p in (0.0, 0.2, 0.6, 1.0)] == [1.0, 1.0, 0.0, 0.0]
    assert schedule.at(0.4) == pytest.approx(0.5)


def test_a_cosine_schedule_is_slow_at_both_ends() -> None:
    schedule = cosine(0.0, 1.0)
    assert [schedule.at(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([0.0, 0.5, 1.0])
    assert schedule.at(0.1) == pytest.approx((1 - math.cos(math.pi * 0.1)) / 2)
    assert schedule.at(0.1) < 0.1 < 0.9 < schedule.at(0.9)


def test_a_piecewise_schedule_goes_through_its_points_or_holds_them() -> None:
    points = {0.0: 0.0, 0.5: 1.0, 1.0: -1.0}
    assert [piecewise(points).at(p) for p in (0.25, 0.5, 0.75)] == [0.5, 1.0, 0.0]
    assert [piecewise(points, curve="hold").at(p) for p in (0.0, 0.49, 0.5, 0.99, 1.0)] == [
        0.0,
        0.0,
        1.0,
        1.0,
        -1.0,
    ]


def test_a_schedule_over_steps_does_not_look_at_the_progress() -> None:
    schedule = linear(0.0, 1.0, begin=10, until=20, unit="step")
    assert [schedule.at(0.9, step) for step in (0, 10, 15, 20, 1000)] == [
        0.0,
        0.0,
        0.5,
        1.0,
        1.0,
    ]
    with pytest.raises(ValueError, match="needs to know the step"):
        schedule.at(0.5)


@given(TIMES, st.data(), st.floats(0, 1), st.sampled_from(sorted(CURVES)))
def test_a_weight_is_always_between_those_of_the_points_around_it(
    times: list[float], data: Any, progress: float, curve: Any
) -> None:
    points = {time: data.draw(FINITE) for time in times}
    weight = piecewise(points, curve=curve).at(progress)
    before = [points[time] for time in times if time <= progress] or [points[times[0]]]
    after = [points[time] for time in times if time >= progress] or [points[times[-1]]]
    low, high = sorted([before[-1], after[0]])
    assert low - 1e-6 <= weight <= high + 1e-6


@given(TIMES, st.data(), st.sampled_from(sorted(CURVES)))
def test_at_each_point_the_weight_is_that_of_the_point(
    times: list[float], data: Any, curve: Any
) -> None:
    points = {time: data.draw(FINITE) for time in times}
    schedule = piecewise(points, curve=curve)
    assert [schedule.at(time) for time in times] == list(points.values())


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("cannot end before it begins", {"points": ((0.5, 1.0), (0.2, 0.0))}),
        ("cannot end before it begins", {"points": ((0.5, 1.0), (0.5, 0.0))}),
        ("at least one point", {"points": ()}),
        ("say unit: step", {"points": ((0.0, 1.0), (100, 0.0))}),
        ("0 or more", {"points": ((-0.1, 1.0),)}),
        ("0 or more", {"points": ((math.nan, 1.0),)}),
        ("finite numbers, got nan", {"points": ((0.0, math.nan),)}),
        ("finite numbers, got '1'", {"points": ((0.0, "1"),)}),
        ("no curve 'cos'", {"points": ((0.0, 1.0),), "curve": "cos"}),
        (
            "no unit 'steps'. Did you mean `step`",
            {"points": ((0.0, 1.0),), "unit": "steps"},
        ),
        (r"Progress is the share", {"points": ((0, 1.0), (1.5, 0.0))}),
        (r"finite numbers, got True", {"points": ((0, True),)}),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(message: str, arguments: Any) -> None:
    with pytest.raises(ValueError, match=message):
        Schedule(**arguments)


def test_a_weight_may_be_a_function_of_the_progress() -> None:
    mix = RewardMix(
        [
            RewardTerm(
                name="a", verifier=MathVerifier(), weight=lambda progress: 1 - progress
            )
        ]
    )
    assert mix.weights_at(0.25) == {"a": 0.75}


def test_a_function_that_gives_no_weight_is_refused_at_start_up_or_names_its_term_when_it_does() -> (
    None
):
    with pytest.raises(
        ValueError,
        match=r"'a' must be a finite number, and the function gives nan at progress 1.0",
    ):
        RewardTerm(
            name="a",
            verifier=MathVerifier(),
            weight=lambda progress: math.nan if progress == 1 else 1.0,
        )
    mix = RewardMix(
        [
            RewardTerm(
                name="a",
                verifier=MathVerifier(),
                weight=lambda p: math.inf if p == 0.3 else 1.0,
            )
        ]
    )
    with pytest.raises(ValueError, match=r"reward term 'a'.*gives inf at progress 0.3"):
        mix.weights_at(0.3)


def test_plain_trl_refuses_a_mix_on_a_schedule_since_nothing_would_move_it() -> None:
    mix = RewardMix(
        [RewardTerm(name="fading", verifier=MathVerifier(), weight=linear(1.0, 0.0))]
    )
    for use in (lambda: mix.weights, mix.reward_funcs):
        with pytest.raises(
            ValueError, match=r"'fading' is on a schedule.*VerifiedGRPOTrainer"
        ):
            use()


def test_a_schedule_survives_pickling_and_a_constant_one_is_constant() -> None:
    schedule = cosine(1.0, 0.5, until=0.5)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert constant(0.3).at(0.0) == constant(0.3).at(1.0) == 0.3


def test_only_a_weight_that_is_0_all_along_makes_a_shadow() -> None:
    def is_shadow(weight: Any) -> bool:
        return RewardTerm(name="a", verifier=MathVerifier(), weight=weight).is_shadow

    assert [is_shadow(weight) for weight in (0, constant(0.0), linear(0.3, 0.0), 0.3)] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("curve", sorted(set(CURVES) - {"hold"}))
def test_each_curve_is_a_function_of_the_package_and_has_its_row_in_the_reference(
    curve: str,
) -> None:
    reference = Path(__file__).resolve().parents[2] / "docs" / "reward_mix_reference.md"
    assert curve in mix.__all__, (
        f"Export a function `{curve}` in trl_grpo_ext/mix/__init__.py."
    )
    assert f"\n| `{curve}(" in reference.read_text(encoding="utf-8"), (
        f"Add a row `{curve}(...)` to {reference.name}."
    )
