"""Advantages in numpy, compared with TRL's torch formulas and hand-computed figures."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from planted import MODES, card_of
from trl.trainer.utils import nanstd

from trl_grpo_ext import Scorecard, Status, Verdict
from trl_grpo_ext.figures.advantages import Advantages, AdvantageSettings, advantages_of

SETTINGS = [AdvantageSettings.read(mode) for mode in MODES]

Row = tuple[float | None, ...]


def rows_of(rows: list[Row], weights: tuple[float, ...], size: int = 4) -> Scorecard:
    """Make a scorecard of rows; a None first makes the row void, any other None is a term that does not apply."""
    kept = [row if row[0] is not None else (None,) * len(weights) for row in rows]
    columns = {
        f"term{place}": [
            None if one is None else Verdict(status=Status.PARTIAL, score=one)
            for one in column
        ]
        for place, column in enumerate(zip(*kept, strict=True))
    }
    return card_of(columns, weights, size=size)


def trls_own(card: Scorecard, size: int, settings: AdvantageSettings) -> torch.Tensor:
    """Compute advantages with lines copied from TRL's trainer, on the terms' rewards."""
    columns = [
        [math.nan if value is None else value for value in card.rewards(name)]
        for name in card.terms
    ]
    rewards_per_func = torch.tensor(columns, dtype=torch.float32).T
    weights = torch.tensor(list(card.weights.values()), dtype=torch.float32)
    unscorable = torch.isnan(rewards_per_func).all(dim=1)
    if settings.multi_objective_aggregation == "normalize_then_sum":
        grouped = rewards_per_func.view(-1, size, len(weights))
        spread = nanstd(grouped, dim=1, keepdim=True)
        normal = (grouped - torch.nanmean(grouped, dim=1, keepdim=True)) / (spread + 1e-4)
        rewards = (normal.view(-1, len(weights)) * weights).nansum(dim=1)
        rewards[unscorable] = torch.nan
        advantages = (rewards - torch.nanmean(rewards)) / (nanstd(rewards) + 1e-4)
    else:
        rewards = (rewards_per_func * weights).nansum(dim=1)
        rewards[unscorable] = torch.nan
        grouped = rewards.view(-1, size)
        advantages = rewards - torch.nanmean(grouped, dim=1).repeat_interleave(size)
        if settings.scale_rewards == "group":
            advantages = advantages / (
                nanstd(grouped, dim=1).repeat_interleave(size) + 1e-4
            )
        elif settings.scale_rewards == "batch":
            advantages = advantages / (nanstd(rewards) + 1e-4)
    return torch.nan_to_num(advantages, nan=0.0)


values = st.one_of(
    st.none(), st.sampled_from([0.0, 1.0, 0.1, -0.5]), st.floats(-3, 3, width=32)
)
rows_of_two = st.lists(st.tuples(values, values), min_size=4, max_size=16).filter(
    lambda rows: len(rows) % 4 == 0
)
weights_of_two = st.tuples(st.floats(-2, 2, width=16), st.sampled_from([0.0, 0.01, 1.0]))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@given(rows=rows_of_two, weights=weights_of_two)
def test_they_are_trls_up_to_the_rounding_that_is_told(
    settings: AdvantageSettings, rows: list[Row], weights: tuple[float, ...]
) -> None:
    card = rows_of(rows, weights)
    made = advantages_of(card, settings)
    assert made.values.dtype == np.float32
    difference = np.abs(made.values - trls_own(card, 4, settings).numpy())
    assert (difference <= 1e-5 * (1 + np.abs(made.values)) + made.rounding).all()
    assert np.isfinite(made.values).all()
    assert (made.values[list(card.void)] == 0).all()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (SETTINGS[0], [1.4997, -0.4999, -0.4999, -0.4999, 0.7070, 0.0, -0.7070, 0.0]),
        (SETTINGS[2], [0.75, -0.25, -0.25, -0.25, 0.25, 0.0, -0.25, 0.0]),
    ],
    ids=str,
)
def test_they_are_what_the_formulas_say_with_void_rows_left_out(
    settings: AdvantageSettings, expected: list[float]
) -> None:
    rows: list[Row] = [(1.0,), (0.0,), (0.0,), (0.0,), (0.5,), (None,), (0.0,), (None,)]
    made = advantages_of(rows_of(rows, (1.0,)), settings)
    assert made.values.tolist() == pytest.approx(expected, abs=1e-4)


def made_of(
    rows: list[Row], weights: tuple[float, ...], settings: AdvantageSettings
) -> Advantages:
    return advantages_of(rows_of(rows, weights), settings)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@given(value=st.floats(-100, 100, width=32), weight=st.floats(-2, 2, width=16))
def test_a_group_of_equals_pulls_nowhere_whatever_rounding_leaves(
    settings: AdvantageSettings, value: float, weight: float
) -> None:
    rows: list[Row] = [(value, 0.1)] * 4 + [(1.0, 0.1), (0.0, 0.1), (0.0, 0.1), (0.0, 0.1)]
    assert made_of(rows, (weight, 0.3), settings).signs[:4].tolist() == [0, 0, 0, 0]


def test_a_small_term_alone_pulls_as_far_as_an_answer_under_group_scaling_and_is_no_rounding() -> (
    None
):
    rows: list[Row] = [(1.0, 1.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)]
    made = made_of(rows, (1.0, 0.001), SETTINGS[0])
    assert made.values[0] > 1.2
    assert made.signs.tolist() == [1, -1, -1, -1]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_samples_without_a_group_number_have_none(settings: AdvantageSettings) -> None:
    card = rows_of([(1.0,), (0.0,), (1.0,), (0.5,)], (1.0,))
    alone = replace(
        card, samples=tuple(replace(sample, group=None) for sample in card.samples)
    )
    assert advantages_of(alone, settings).values.tolist() == [0.0] * 4


def test_settings_are_read_as_trl_reads_them_and_what_is_missing_is_as_told() -> None:
    assert AdvantageSettings.read({}) == AdvantageSettings()
    run = AdvantageSettings(
        scale_rewards="batch", multi_objective_aggregation="normalize_then_sum"
    )
    assert AdvantageSettings.read({"scale_rewards": None}, otherwise=run) == run
    read = [
        AdvantageSettings.read({"scale_rewards": value}, otherwise=run).scale_rewards
        for value in (True, False)
    ]
    assert read == ["group", "none"]
    with pytest.raises(ValueError, match=r"scale_rewards.*'groups'.*`group`"):
        AdvantageSettings.read({"scale_rewards": "groups"})
    with pytest.raises(ValueError, match="multi_objective_aggregation"):
        AdvantageSettings.read({"multi_objective_aggregation": ["sum"]})
