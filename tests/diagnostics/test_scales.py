"""The diagnosis reads scores of any range: the cause of a run is the same, whatever its scores are multiplied with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest
from diagnosis_cases import CASES
from diagnosis_simulator import simulate
from simulated_run import on_scale
from windows import batch, diagnosis_of, window_of

from trl_grpo_ext.diagnostics.diagnosis import Diagnosis
from trl_grpo_ext.diagnostics.scale import (
    CORRECTNESS,
    NO_NUMBERS,
    Seen,
    declared_ranges,
    observed_scale,
    scale_of,
)
from trl_grpo_ext.support.estimate import Estimate, Grouped

# What is at fault in each, and by how much its score has changed, if its finding tells.
FAULTY = (
    "rose_and_decays",
    "learning_rate_typo",
    "politeness_wins",
    "cut_at_the_limit",
    "grows_for_nothing",
    "four_prompts",
    "schedule_undoes",
    "judge_by_chance",
)
HEALTHY = ("learned_all", "harder_evaluation")
SCALES = {"marks up to 50": (0.0, 50.0), "penalties": (-1.0, 0.0)}


# Its cause is there from the first batch on: half of its steps show it.
QUICK = "judge_by_chance"


@cache
def said(name: str, scale: str, *, declared: bool) -> Diagnosis:
    """The diagnosis of a case whose scores are on another scale."""
    run = CASES[name].run
    if name == QUICK:
        run = replace(run, steps=run.steps // 2)
    if scale:
        run = on_scale(run, *SCALES[scale], declared=declared)
    return diagnosis_of(simulate(name, run), run.settings)


def slow(names: Iterable[str], quick: str) -> list[object]:
    return [
        name if name == quick else pytest.param(name, marks=pytest.mark.slow)
        for name in names
    ]


@pytest.mark.parametrize("scale", slow(SCALES, "penalties"))
@pytest.mark.parametrize("name", slow(FAULTY, QUICK))
def test_with_a_declared_range_cause_and_action_are_the_same_and_figures_rescaled(
    name: str, scale: str
) -> None:
    plain, scaled = said(name, "", declared=False), said(name, scale, declared=True)
    assert [one.code for one in scaled.causes] == [one.code for one in plain.causes]
    # A closed gate would spare wrong answers a penalty.
    gated = ", or gate it by `accuracy`" if scale == "penalties" else ""
    assert scaled.causes[0].action == plain.causes[0].action.replace(gated, "")
    assert scaled.causes[0].severity == plain.causes[0].severity
    low, high = SCALES[scale]
    wanted = low + (high - low) * plain.score["training"].end.mean
    assert scaled.score["training"].end.mean == pytest.approx(wanted)


@pytest.mark.parametrize("scale", slow(SCALES, "penalties"))
@pytest.mark.parametrize("name", slow(FAULTY, QUICK))
def test_with_an_observed_range_the_cause_is_the_same(name: str, scale: str) -> None:
    plain, scaled = said(name, "", declared=False), said(name, scale, declared=False)
    assert scaled.causes[0].code == plain.causes[0].code


@pytest.mark.slow  # simulated runs
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_is_healthy_on_any_scale(
    name: str, declared: bool, scale: str
) -> None:
    diagnosis = said(name, scale, declared=declared)
    assert diagnosis.causes == ()
    assert " has risen from " in diagnosis.sentence


@pytest.mark.slow  # simulated runs
@pytest.mark.parametrize("declared", [True, False])
def test_a_known_range_or_a_ceiling_tells_that_there_is_little_left_to_learn(
    declared: bool,
) -> None:
    assert (
        "little left to teach"
        in said("learned_all", "penalties", declared=declared).sentence
    )


def seen(*scores: float, unplaced: int = 0) -> Seen:
    """What a term has given in a run."""
    numbers = Grouped(numbers=Estimate.of(scores), low=min(scores), high=max(scores))
    return Seen(scores=numbers, values=numbers, unplaced=unplaced)


def test_scores_from_0_to_1_whose_verifier_says_what_is_right_are_marks_of_correctness() -> (
    None
):
    assert scale_of(seen(0.0, 0.7), None) == CORRECTNESS
    assert not scale_of(seen(0.0, 0.7, unplaced=2), None).is_known
    assert not scale_of(seen(0.0, 7.0), None).is_known


def test_a_declared_range_holds_as_long_as_no_score_is_outside_of_it() -> None:
    assert scale_of(seen(3.0, 50.0), (0.0, 50.0)).is_known
    assert not scale_of(seen(3.0, 51.0), (0.0, 50.0)).is_known


def test_one_outlier_does_not_stretch_an_observed_scale() -> None:
    usual = [float(number % 10) for number in range(200)]
    assert observed_scale(seen(*usual).scores).span == 9.0
    assert observed_scale(seen(*usual, 1000.0).scores).span < 300.0


@pytest.mark.parametrize("scores", [(), (2.0, 2.0), (1e300, -1e300)])
def test_scores_without_a_usable_spread_have_a_scale_all_the_same(
    scores: tuple[float, ...],
) -> None:
    scale = observed_scale(seen(*scores).scores if scores else NO_NUMBERS)
    assert scale.span > 0 and math.isfinite(scale.span) and not scale.is_known


def test_terms_of_different_ranges_share_the_spread_of_all_their_scores() -> None:
    view = window_of([batch({"answer": [0.0, 1.0] * 8})])
    assert view.scale == CORRECTNESS


def test_declared_ranges_are_read_from_the_settings_of_a_run_and_nonsense_is_none() -> None:
    rewards = [
        {"name": "bleu", "score_range": [0, 100]},
        {"name": "math"},
        {"name": "x", "score_range": "?"},
        None,
    ]
    assert declared_ranges({"rewards": rewards}) == {"bleu": (0.0, 100.0)}
    assert declared_ranges({"rewards": None}) == declared_ranges({}) == {}
