"""Single figures of a batch, on handmade or random scorecards."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import modules_after
from hypothesis import given
from hypothesis import strategies as st
from planted import MODES, Column, card_of, samples_of

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Scorecard, Status, Verdict
from trl_grpo_ext.figures.advantages import AdvantageSettings, driver_shares
from trl_grpo_ext.figures.arrays import deviation, ranks
from trl_grpo_ext.figures.logged import logged_figures
from trl_grpo_ext.figures.primary import Agreement, ks_for, pass_at_k, read_answer
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.verdict import grader_error

SETTINGS = {"num_generations": 4}


def verdict(score: float | None, **settings: Any) -> Verdict:
    if score is None:
        return grader_error("planted")
    status = (
        Status.CORRECT if score == 1 else Status.INCORRECT if score <= 0 else Status.PARTIAL
    )
    return Verdict(**({"status": status, "score": score} | settings))


def scores(*values: float | None) -> list[Verdict | None]:
    return [verdict(value) for value in values]


def figure(card: Scorecard, name: str, **settings: Any) -> float:
    return logged_figures(reduce_card(card, SETTINGS | settings))[f"verified/{name}"]


def test_every_logged_figure_has_a_row_in_the_reference() -> None:
    page = Path(__file__).parents[2] / "docs" / "metrics_reference.md"
    named = re.findall("`([^`]+)`", page.read_text(encoding="utf-8"))
    last_words = {name.rpartition("/")[2] for name in named}
    logged = logged_figures(
        reduce_card(card_of({"right": scores(1, 0)}, [1.0]), {"num_generations": 2})
    )
    assert {name.rpartition("/")[2] for name in logged} <= last_words


def test_a_small_term_drives_as_much_as_a_large_one_only_where_groups_are_scaled() -> None:
    card = card_of(
        {"right": scores(1, 0, 0, 1, 1, 1, 1, 1), "small": scores(0, 0, 0, 0, 1, 0, 1, 0)},
        [1.0, 0.01],
    )
    shares = [figure(card, "small/driver_share", **mode) for mode in MODES]
    # Scaling gives all groups equal weight, except for TRL's 1e-4, which matters beside a deviation of 0.006.
    weights = [(spread / (spread + 1e-4)) ** 2 for spread in (1 / 3**0.5, 0.01 / 3**0.5)]
    assert shares[0] == pytest.approx(weights[1] / sum(weights), abs=1e-9)
    assert shares[1:] == pytest.approx([1e-4] * 3, rel=1e-3)
    assert figure(card, "groups/secondary_only") == 0.5
    assert figure(card, "groups/live") == 1.0


def test_driver_shares_are_covariances_over_variances_as_the_docstring_says() -> None:
    rng = np.random.default_rng(0)
    columns = {name: scores(*rng.random(12).round(3).tolist()) for name in "abc"}
    card = card_of(columns, [1.0, 0.3, -0.5])
    values = np.array([card.values[name] for name in "abc"]).reshape(3, 3, 4)
    totals = np.array(card.totals).reshape(3, 4)
    for mode, weigh in (
        ({"scale_rewards": "group"}, True),
        ({"scale_rewards": "none"}, False),
    ):
        weights = 1 / (totals.std(axis=1, ddof=1) + 1e-4) ** 2 if weigh else np.ones(3)
        variance = sum(weights[g] * totals[g].var(ddof=1) for g in range(3))
        wanted = [
            sum(weights[g] * w * np.cov(values[k, g], totals[g])[0, 1] for g in range(3))
            / variance
            for k, w in enumerate((1.0, 0.3, -0.5))
        ]
        shares, _ = driver_shares(card, AdvantageSettings.read(mode))
        assert list(shares.values()) == pytest.approx(wanted)


def test_nothing_drives_where_no_group_is_live_or_terms_cancel() -> None:
    tied = card_of({"right": scores(0.3, 0.3, 0.3, 0.3)}, [1.0])
    cancelled = card_of(
        {"up": scores(1, 0.5, 0.25, 0.1), "down": scores(1, 0.5, 0.25, 0.1)}, [0.3, -0.3]
    )
    for card, mode in itertools.product((tied, cancelled), MODES):
        assert math.isnan(figure(card, f"{card.terms[0]}/driver_share", **mode))
        assert math.isnan(figure(card, "drivers/others", **mode))


def test_what_other_functions_have_added_is_their_share_and_makes_groups_live() -> None:
    card = card_of({"right": scores(1, 0, 0, 1, 0, 0, 0, 0)}, [1.0])
    more = card.with_others([0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    assert figure(more, "groups/live") == 1.0
    assert figure(more, "groups/secondary_only") == 0.5
    for mode in MODES[:3]:
        assert figure(more, "right/driver_share", **mode) == pytest.approx(0.5)
        assert figure(more, "drivers/others", **mode) == pytest.approx(0.5)


def test_a_sample_that_only_another_function_has_scored_is_not_void() -> None:
    card = card_of({"right": [*scores(1), None, *scores(1), None, *scores(None)]}, [1.0])
    assert card.void == (False, True, False, True, True)
    more = card.with_others([0.5, 0.25, None, None, 0.5])
    assert more.totals == (1.5, 0.25, 1.0, None, None)
    assert more.void == (False, False, False, True, True)


def test_shadows_are_set_against_the_first_term_in_force_that_applies() -> None:
    columns = {
        "maths": [*scores(1, 1, 0, 0), *[None] * 4],
        "code": [*[None] * 4, *scores(1, 0, 0, 1)],
        "strict": scores(1, 0, 0, 0, 1, 1, 0, None),
    }
    card = card_of(columns, [1.0, 1.0, 0.0])
    assert figure(card, "strict/fails_where_primary_passes") == pytest.approx(1 / 3)
    # Of 7 pairs 5 agree; both are right 3 times of 7.
    by_chance = (3 * 3 + 4 * 4) / 49
    assert figure(card, "strict/kappa") == pytest.approx(
        (5 / 7 - by_chance) / (1 - by_chance)
    )
    assert math.isnan(figure(card, "code/kappa"))
    assert figure(card, "pass_at_1") == pytest.approx(0.5)


def test_an_agreement_that_says_one_thing_only_has_no_kappa() -> None:
    assert math.isnan(Agreement(both=4, primary_only=0, shadow_only=0, neither=0).kappa)
    assert math.isnan(Agreement(both=0, primary_only=0, shadow_only=0, neither=0).kappa)
    assert math.isnan(
        Agreement(
            both=0, primary_only=0, shadow_only=2, neither=1
        ).fails_where_primary_passes
    )
    assert Agreement(both=1, primary_only=1, shadow_only=1, neither=1).kappa == 0


def test_pass_at_k_leaves_out_groups_with_fewer_than_k_judged() -> None:
    card = card_of({"right": scores(1, 0, 0, 0, 1, None, None, None)}, [1.0])
    assert figure(card, "pass_at_1") == pytest.approx(0.625)
    assert figure(card, "pass_at_4") == 1.0
    assert math.isnan(pass_at_k(3, 1, 4))


def test_ks_are_fixed_by_the_settings_not_by_the_batch() -> None:
    assert ks_for({}, "train") == (1,)
    assert ks_for({"num_generations": 8, "num_generations_eval": None}, "eval") == (
        1,
        2,
        4,
        8,
    )
    assert ks_for({"num_generations": 8, "num_generations_eval": 3}, "eval") == (1, 2, 3)


@given(
    st.lists(
        st.lists(st.sampled_from([1.0, 2.0, 3.5, math.nan]), min_size=4, max_size=4),
        min_size=1,
    )
)
def test_ranks_are_those_of_pandas(rows: list[list[float]]) -> None:
    wanted = pd.DataFrame(rows).rank(axis=1).to_numpy()
    assert np.array_equal(ranks(np.array(rows)), wanted, equal_nan=True)


def test_lengths_of_no_completions_are_unknown_and_a_cut_one_counts_by_its_verdict_too() -> (
    None
):
    card = card_of({"right": scores(1, 0, 0.5, 0)}, [1.0], lengths=[10, 20, 30, 40])
    cut = replace(
        card, samples=(*card.samples[:3], replace(card.samples[3], truncated=True))
    )
    assert figure(cut, "length/mean_correct") == 10
    assert figure(cut, "length/mean_incorrect") == 30
    assert figure(cut, "length/mean_truncated") == 40
    assert math.isnan(figure(cut, "length/mean_unparseable"))
    assert figure(cut, "length/correlation") == pytest.approx(
        pd.Series([1, 2, 3, 4]).corr(pd.Series([1, 0, 0.5, 0]).rank())
    )


def test_no_answer_is_not_one_more_answer_and_what_could_not_be_read_is_none() -> None:
    unread = verdict(0, answer="gibberish", status=Status.UNPARSEABLE)
    column = [
        verdict(1, answer="4"),
        unread,
        verdict(0, answer="5"),
        verdict(1, answer="4"),
        *scores(0, 0, 0, 0),
    ]
    assert [read_answer(one) for one in (None, *column[:3])] == [None, "4", None, "5"]
    card = card_of({"right": [*column, *[verdict(1, answer="7")] * 4]}, [1.0])
    assert figure(card, "answers/distinct") == 1.5
    assert figure(card, "answers/given") == 7 / 12


def test_advantages_that_are_rounding_are_none() -> None:
    card = card_of({"right": scores(0.3, 0.3, 0.3, 0.3, 1, 0.5, 0, 0.5)}, [1.0])
    assert math.isnan(figure(card, "effective_completions"))
    known = card.with_advantages([3e-4, -1e-4, -1e-4, -1e-4, 1.2, 1e-8, -1.2, 0.0])
    assert figure(known, "effective_completions") == 0.25


def statistics_of(card: Scorecard, settings: dict[str, Any]) -> dict[str, float]:
    figures = logged_figures(reduce_card(card, settings))
    assert all(
        isinstance(value, float) and not math.isinf(value) for value in figures.values()
    )
    return figures


def test_empty_ungrouped_weightless_and_wholly_void_batches_have_the_same_names() -> None:
    full = card_of({"right": scores(1, 0, 0, 1), "shadow": scores(1, 1, 0, 0)}, [1.0, 0.0])
    cards = [
        full,
        full.first(0),
        full.first(1),
        full.first(0).with_advantages([]),
        full.with_advantages([1.0, -1.0, -1.0, 1.0]),
        replace(full, samples=tuple(Sample(text="") for _ in range(4))),
        card_of(
            {"right": scores(None, None, None, None), "shadow": [None] * 4}, [1.0, 0.0]
        ),
        card_of({"right": [None] * 4, "shadow": [None] * 4}, [0.0, 0.0]),
    ]
    for card, mode in itertools.product(cards, MODES):
        assert list(statistics_of(card, SETTINGS | mode)) == list(
            statistics_of(full, SETTINGS)
        )
    empty = statistics_of(full.first(0), SETTINGS)
    assert {name for name, value in empty.items() if not math.isnan(value)} == {
        "verified/right/weight",
        "verified/shadow/weight",
    }
    assert statistics_of(
        replace(full.first(0), weights={}, verdicts={}, values={}, gated={}), {}
    )


HARSH = st.sampled_from([0.0, 1.0, 0.5, -1.0, 1e-300, 1e300, -1e300, 1e-9])
CELL = st.one_of(
    st.none(),
    st.builds(lambda score: verdict(score), HARSH),
    st.builds(lambda: grader_error("planted", seconds=1.0)),
    st.builds(lambda: Verdict(status=Status.SKIPPED, score=None, blame=Blame.DATA)),
)


@given(st.data())
def test_no_batch_makes_the_figures_raise_change_names_or_leave_the_numbers(
    data: st.DataObject,
) -> None:
    size, count = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 12))
    columns = {
        name: data.draw(st.lists(CELL, min_size=count, max_size=count)) for name in "abc"
    }
    weights = data.draw(
        st.lists(st.sampled_from([0.0, 1.0, -0.5, 1e-4, 1e200]), min_size=3, max_size=3)
    )
    card = card_of(columns, weights, size=size)
    card = replace(
        card,
        samples=tuple(replace(s, group=data.draw(st.integers(0, 2))) for s in card.samples),
    )
    if data.draw(st.booleans()):
        card = card.with_advantages(
            data.draw(st.lists(HARSH, min_size=count, max_size=count))
        )
    for mode in MODES:
        figures = statistics_of(card, SETTINGS | mode)
        assert list(figures) == list(
            statistics_of(card_of({n: [None] for n in "abc"}, [1.0] * 3), SETTINGS)
        )
        shares = [figures[f"verified/{name}/driver_share"] for name in "abc"]
        if not any(map(math.isnan, shares)):
            assert sum(shares) + figures["verified/drivers/others"] == pytest.approx(
                1.0, abs=1e-6
            )


@given(
    st.permutations(
        [
            "groups",
            "length",
            "grader",
            "blame",
            "answers",
            "drivers",
            "void",
            "pass_at_1",
            "correct",
        ]
    )
)
def test_no_term_can_take_the_name_of_a_figure_of_the_batch(names: list[str]) -> None:
    card = card_of({name: scores(1, 0, 0, 1) for name in names}, [1.0] * len(names))
    own = len(
        statistics_of(
            card_of({"a": scores(1, 0, 0, 1), "b": scores(1, 0, 0, 1)}, [1.0, 1.0]),
            SETTINGS,
        )
    )
    one = len(statistics_of(card_of({"a": scores(1, 0, 0, 1)}, [1.0]), SETTINGS))
    assert len(statistics_of(card, SETTINGS)) == one + (own - one) * (len(names) - 1)


def test_figures_need_no_torch() -> None:
    assert not modules_after("import trl_grpo_ext.figures.logged") & {
        "torch",
        "trl",
        "transformers",
    }


def test_one_value_has_no_deviation() -> None:
    assert np.isnan(deviation(np.array([1.0, np.nan]))).all()
    assert deviation(np.array([1.0, 1.0])).tolist() == [0.0]


def test_a_term_that_pulls_against_the_total_has_a_share_below_0() -> None:
    terms = [
        RewardTerm(name="most", verifier=Column("most")),
        RewardTerm(name="against", verifier=Column("against")),
    ]
    rows = samples_of(most=[1.0, 0.0, 1.0, 0.0], against=[0.0, 0.5, 0.0, 0.5])
    card = RewardMix(terms).score([replace(sample, group=0) for sample in rows])
    shares, _ = driver_shares(card, AdvantageSettings(scale_rewards="none"))
    assert shares == pytest.approx({"most": 2.0, "against": -1.0})
