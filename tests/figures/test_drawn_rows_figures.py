"""Figures of a batch with drawn rows: those of the floor, but for figures of the advantages."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import card_of

from trl_grpo_ext import Scorecard, Status, Verdict
from trl_grpo_ext.diagnostics.diagnosis import diagnose
from trl_grpo_ext.diagnostics.window import RunView
from trl_grpo_ext.figures.logged import logged_figures
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.report.reported_run import ReportedRun
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import Recorder
from trl_grpo_ext.scorecard import concatenate

SIZE = 4
OF_ADVANTAGES = ("driver_share", "drivers/others", "effective_completions")


def batch(groups: list[list[float]], drawn: list[bool], *, step: int = 0) -> Scorecard:
    """Make a batch of groups with these scores, with TRL's advantages; `drawn` has a flag per group."""
    scores = [score for group in groups for score in group]
    status = {0.0: Status.INCORRECT, 1.0: Status.CORRECT}
    verdicts = [
        Verdict(status=status.get(score, Status.PARTIAL), score=score) for score in scores
    ]
    card = card_of({"right": verdicts}, [1.0], size=SIZE)
    card = replace(
        card,
        samples=tuple(
            replace(one, step=step, prompt=str(one.group)) for one in card.samples
        ),
    )
    table = np.array(scores).reshape(-1, SIZE)
    advantages = (table - table.mean(axis=1, keepdims=True)) / (
        table.std(axis=1, ddof=1, keepdims=True) + 1e-4
    )
    return card.with_advantages(advantages.ravel().tolist()).with_drawn(
        [one for one in drawn for _ in range(SIZE)]
    )


scores_of_groups = st.lists(
    st.tuples(
        st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=SIZE, max_size=SIZE),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@given(scores_of_groups)
def test_figures_of_the_policy_are_those_of_the_floor_alone(
    groups: list[tuple[list[float], bool]],
) -> None:
    card = batch([scores for scores, _ in groups], [drawn for _, drawn in groups])
    floor = [scores for scores, drawn in groups if not drawn]
    found = logged_figures(reduce_card(card, {"num_generations": SIZE}))
    assert set(found) == set(
        logged_figures(
            reduce_card(batch([[0.0] * SIZE], [False]), {"num_generations": SIZE})
        )
    )
    if floor:
        wanted = logged_figures(
            reduce_card(batch(floor, [False] * len(floor)), {"num_generations": SIZE})
        )
        for name in set(found) - {
            name for name in found if name.endswith(OF_ADVANTAGES) or "length" in name
        }:
            assert found[name] == pytest.approx(wanted[name], nan_ok=True), name


@given(scores_of_groups)
def test_figures_of_the_advantages_are_those_of_the_whole_batch(
    groups: list[tuple[list[float], bool]],
) -> None:
    card = batch([scores for scores, _ in groups], [drawn for _, drawn in groups])
    found, whole = (
        logged_figures(reduce_card(one, {})) for one in (card, card.with_drawn(None))
    )
    for name in found:
        if name.endswith(OF_ADVANTAGES):
            assert found[name] == pytest.approx(whole[name], nan_ok=True), name


def test_a_batch_without_a_floor_has_no_figures_and_the_checks_go_on() -> None:
    view = RunView({})
    card = batch([[1.0, 0.0, 1.0, 0.0]], [True], step=3)
    figures = reduce_card(card, {})
    assert (figures.step, figures.size, figures.groups, figures.rewards.numbers.count) == (
        3,
        0,
        0,
        0,
    )
    assert math.isnan(logged_figures(figures)["verified/pass_at_1"])
    view.add(figures)
    assert not view.window.score.count


def test_a_card_keeps_its_drawn_rows_through_parts_ranks_and_the_disk(
    tmp_path: Path,
) -> None:
    card = batch([[1.0, 0.0, 1.0, 0.0], [0.0] * SIZE], [False, True])
    assert concatenate([card, card]).drawn == (card.drawn or ()) * 2
    assert card.first(6).drawn == (False,) * 4 + (True,) * 2
    assert card.first(SIZE).representative.samples == card.samples[:SIZE]
    Recorder(tmp_path).on_batch(card)
    (read,) = RecordedRun(tmp_path).cards()
    assert read.drawn == card.drawn
    assert asdict(reduce_card(read, {})) == asdict(reduce_card(card, {}))


FLOOR, DRAWN = 8, 24


def run_of(*, has_drawn: bool, is_marked: bool = True) -> list[Scorecard]:
    """A run whose policy solves 37 % of the data, with drawn rows that it solves 62 % of, from step 10 on."""
    of_floor, of_drawn = np.random.default_rng(0), np.random.default_rng(1)
    cards = []
    for step in range(40):
        groups = [
            (of_floor.random(SIZE) < 0.37).astype(float).tolist() for _ in range(FLOOR)
        ]
        rate = 0.23 if step < 10 else 0.62
        groups += [
            (of_drawn.random(SIZE) < rate).astype(float).tolist()
            for _ in range(DRAWN * has_drawn)
        ]
        cards.append(
            batch(
                groups,
                [is_marked and place >= FLOOR for place in range(len(groups))],
                step=step,
            )
        )
    return cards


def told_of(cards: list[Scorecard], folder: Path) -> tuple[str, Any]:
    """What the diagnosis says of a run, and the report's figures of its training."""
    recorder, page = Recorder(folder), ReportedRun("run", {})
    for card in cards:
        recorder.on_batch(card)
        page.add(card)
    figures = page.page_data()["train"]["figures"]
    return diagnose(RecordedRun(folder)).sentence, {
        name: figures[name] for name in figures if name != "driver"
    }


@pytest.mark.slow
def test_a_diagnosis_and_a_report_of_a_run_with_drawn_rows_say_the_same_as_without_them(
    tmp_path: Path,
) -> None:
    with_drawn = told_of(run_of(has_drawn=True), tmp_path / "drawn")
    alone = told_of(run_of(has_drawn=False), tmp_path / "alone")
    assert with_drawn == alone
    assert "risen" not in alone[0]
    unmarked, _ = told_of(run_of(has_drawn=True, is_marked=False), tmp_path / "unmarked")
    assert "risen" in unmarked
