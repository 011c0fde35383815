"""The diagnosis cases keep their claims: deterministic events, and curves that match their stories."""

from __future__ import annotations

from statistics import fmean

import pytest
from diagnosis_cases import CASES, FAULTY, HEALTHY, diagnosed, events_of
from diagnosis_simulator import Event

from trl_grpo_ext import Scorecard
from trl_grpo_ext.scorecard import Mode


def scores(events: list[Event], mode: Mode = "train") -> list[float]:
    """List the mean primary score of each batch that has scores."""
    cards = [
        event for event in events if isinstance(event, Scorecard) and event.mode == mode
    ]
    found = (
        [one.score for one in card.primary if one is not None and one.score is not None]
        for card in cards
    )
    return [fmean(batch) for batch in found if batch]


def test_there_are_enough_and_their_names_are_unique() -> None:
    assert len(CASES) == sum(map(len, FAULTY.values())) + len(HEALTHY)
    assert len(CASES) >= 32 + len(HEALTHY) >= 64
    assert all(case.expected for kind in FAULTY.values() for case in kind.values())
    assert not any(case.expected for case in HEALTHY.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["gold_shifted_in_a_third", "judge_with_little_noise", "two_updates_a_batch"]
)
def test_a_run_is_the_same_every_time(name: str) -> None:
    assert list(events_of(name)) == list(events_of(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("slow_learner", 0.1, 0.25),
        ("learned_all", 0.5, 0.97),
        ("falls_from_the_start", 0.55, 0.22),
        ("halved_out_of_the_blue", 0.42, 0.35),
        ("gold_shifted", 0.0, 0.0),
        ("gold_shifted_in_a_third", 0.36, 0.62),
        ("too_strict", 0.09, 0.09),
        ("light_judge_down", 0.4, 0.4),
        ("accepts_everything", 1.0, 1.0),
        ("broken_lora", 0.12, 0.0),
    ],
)
def test_its_score_is_what_it_claims(name: str, start: float, end: float) -> None:
    found = scores(list(events_of(name)))
    assert (fmean(found[:15]), fmean(found[-15:])) == pytest.approx((start, end), abs=0.08)


@pytest.mark.slow
def test_an_evaluation_is_what_it_claims() -> None:
    events = list(events_of("evaluation_falls_training_flat"))
    found = scores(events, "eval")
    assert len(found) == 16
    assert (fmean(found[:2]), fmean(found[-2:])) == pytest.approx((0.46, 0.24), abs=0.1)
    logged = [
        step
        for step, logs in (event for event in events if isinstance(event, tuple))
        if "eval_reward" in logs
    ]
    assert logged == list(range(20, 161, 20))


@pytest.mark.slow
def test_batches_are_logged_in_the_order_of_a_trainer() -> None:
    events = list(events_of("reason_and_evaluation_rise"))
    kinds = [
        f"{event.mode} {event.step}" if isinstance(event, Scorecard) else f"log {event[0]}"
        for event in events
    ]
    assert kinds[:4] == ["train 0", "log 1", "train 1", "log 2"]
    assert kinds[38:44] == [
        "train 19",
        "log 20",
        "eval 20",
        "eval 20",
        "log 20",
        "train 20",
    ]


@pytest.mark.parametrize("name", ["broken_lora", "learned_all"])
def test_the_diagnosis_names_the_fault_and_is_silent_about_a_healthy_run(name: str) -> None:
    assert diagnosed(name).is_right


@pytest.mark.slow  # the others too
def test_of_all_runs_at_least_95_percent_are_diagnosed_rightly() -> None:
    wrong = [name for name in CASES if not diagnosed(name).is_right]
    assert len(wrong) <= 0.05 * len(CASES), wrong
