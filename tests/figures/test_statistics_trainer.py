"""Figures in TRL's logs: every step, evaluations, other reward functions, and failing figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from planted import MODE_NAMES, MODES
from statistics_mix import RIGHT, TIMES, WRONG, Planted, everything, logged, run, tasks

from trl_grpo_ext import RewardMix, RewardTerm, Scorecard, VerifiedGRPOTrainer
from trl_grpo_ext.figures.logged import logged_figures
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.trainer import verified_grpo

Make = Callable[..., Any]


def other_reward(completions: list[Any], **_: Any) -> list[float | None]:
    """Score by batch position, without a score for every fifth completion."""
    return [
        None if index % 5 == 4 else index * 7 % 5 / 4 for index in range(len(completions))
    ]


def quiet_term() -> RewardMix:
    """Make a mix that applies to one row in three."""
    verifier = Planted(RIGHT, WRONG, WRONG, RIGHT, WRONG)
    return RewardMix([RewardTerm(name="right", verifier=verifier, when={"task": "sum"})])


def centred(column: Any) -> Any:
    return column - np.nanmean(column) if np.isfinite(column).any() else column


def parts_by_hand(card: Scorecard, aggregation: str) -> Any:
    """Compute the parts of the mix's term and of `other_reward` in each advantage, up to one divisor per group."""
    other = other_reward([sample.text for sample in card.samples])
    columns = np.array([card.values["right"], other], dtype=float).T
    unscored = np.isnan(columns).all(axis=1)
    assert card.void == tuple(unscored)
    if aggregation == "sum_then_normalize":
        columns = np.where(unscored[:, None], math.nan, np.nan_to_num(columns))
    for start in range(0, len(card), 4):
        rows = slice(start, start + 4)
        for column in range(2):
            own = columns[rows, column]
            spread = (
                np.nanstd(own, ddof=1) + 1e-4 if np.isfinite(own).sum() > 1 else math.nan
            )
            columns[rows, column] = centred(own) / (
                spread if aggregation == "normalize_then_sum" else 1.0
            )
    return np.nan_to_num(columns)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Degrees of freedom")
@pytest.mark.parametrize("mode", MODES, ids=MODE_NAMES)
def test_other_reward_functions_have_their_share_of_the_totals_and_of_what_drives(
    one_layer: str, sums: Any, config: Make, mode: dict[str, Any]
) -> None:
    args = config(max_steps=3, per_device_train_batch_size=12, **mode)
    trained = VerifiedGRPOTrainer(
        one_layer, [quiet_term(), other_reward], args, tasks(sums["train"], 24)
    )
    trained.train()
    run, shares = RecordedRun(args.output_dir), []
    for card, entry in zip(run.cards(), logged(trained), strict=True):
        parts = parts_by_hand(card, args.multi_objective_aggregation)
        whole = parts.sum(axis=1)
        advantages = np.array(card.advantages)
        for start in range(0, len(card), 4):
            rows = slice(start, start + 4)
            # Advantages and parts differ by the divisor of the group or batch; fit the factor.
            divisor = (
                (whole[rows] @ advantages[rows]) / (whole[rows] @ whole[rows])
                if whole[rows].any()
                else 0.0
            )
            parts[rows] *= divisor
        assert parts.sum(axis=1) == pytest.approx(advantages, abs=1e-4)
        wanted = parts.T @ advantages / (advantages @ advantages)
        assert entry["verified/right/driver_share"] == pytest.approx(wanted[0], abs=1e-3)
        assert entry["verified/other_reward/driver_share"] == pytest.approx(
            wanted[1], abs=1e-3
        )
        shares.append(entry["verified/right/driver_share"])
        rewards = [
            entry["reward"]
            for entry in trained.state.log_history[:3]
            if entry["step"] == card.step + 1
        ]
        assert rewards[0] == pytest.approx(
            np.mean([total for total in card.totals if total is not None])
        )
    assert any(0 < share < 1 for share in shares)


def test_every_step_of_training_and_of_evaluation_has_the_same_names(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(
        max_steps=3,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=1,
        max_completion_length=4,
    )
    entries = [
        entry for entry in run(one_layer, sums, args).state.log_history if "reward" in entry
    ]
    names = [{key for key in entry if key.startswith("verified/")} for entry in entries]
    assert len(names) == 3
    assert names[0] == names[1] == names[2]


@pytest.mark.slow  # real runs
def test_evaluation_alone_has_the_names_of_training(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(record_scorecards=False)
    made = VerifiedGRPOTrainer(
        one_layer, everything(), args, tasks(sums["train"], 8), tasks(sums["test"], 4)
    )
    figures = made.evaluate()
    own = {name.removeprefix("eval_") for name in figures if "verified/" in name}
    made.train()
    trained = {name for name in made.state.log_history[1] if "verified/" in name}
    assert own == {name for name in trained if "/weights/" not in name}
    assert figures["eval_verified/grader/judging_seconds"] > 0
    assert 0 < figures["eval_verified/grader/share_of_step"] < 1


def test_a_single_completion_a_prompt_is_a_group_in_evaluation(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(num_generations_eval=1)
    rewards = Planted(RIGHT, WRONG, RIGHT, RIGHT)
    made = VerifiedGRPOTrainer(
        one_layer, rewards, args, tasks(sums["train"], 8), tasks(sums["test"], 8)
    )
    figures = made.evaluate()
    assert figures["eval_verified/groups/all_right"] == 0.75
    assert figures["eval_verified/groups/live"] == 0.0
    assert figures["eval_verified/pass_at_1"] == 0.75
    assert figures["eval_verified/planted/driver_share"] is None


def test_steps_that_reuse_a_batch_log_no_figures_of_it(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(max_steps=4, num_iterations=2)
    trained = run(one_layer, sums, args)
    steps = [entry for entry in trained.state.log_history if "loss" in entry]
    assert ["verified/void" in entry for entry in steps] == [
        "reward" in entry for entry in steps
    ]
    assert ["verified/void" in entry for entry in steps] == [True, False, True, False]


def test_several_batches_to_a_logging_step_are_averaged_without_what_is_unknown(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(max_steps=4, logging_steps=4)
    entry = logged(run(one_layer, sums, args))[0]
    recorded = RecordedRun(args.output_dir)
    figures = [
        logged_figures(reduce_card(card, recorded.settings))
        for card in recorded.cards("train")
    ]
    for name in set(entry) - TIMES:
        known = [batch[name] for batch in figures if not math.isnan(batch[name])]
        assert entry[name] == (pytest.approx(sum(known) / len(known)) if known else None), (
            name
        )
    assert 0 < entry["verified/grader/share_of_step"] < 1


def test_a_plain_function_alone_has_the_figures_of_a_term(
    one_layer: str, sums: Any, config: Make
) -> None:
    made = VerifiedGRPOTrainer(
        one_layer, other_reward, config(), sums["train"], tasks(sums["test"], 4)
    )
    made.train()
    made.evaluate()
    for entry in logged(made):
        assert entry["verified/other_reward/driver_share"] == pytest.approx(1.0)
        assert entry["verified/other_reward/coverage"] == pytest.approx(7 / 8)


@pytest.mark.slow  # real runs
def test_figures_that_cannot_be_made_do_not_stop_the_run(
    one_layer: str,
    sums: Any,
    config: Make,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: Any) -> dict[str, float]:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(verified_grpo, "reduce_card", broken)
    trained = run(one_layer, sums, config(max_steps=2))
    assert trained.state.global_step == 2
    (warned,) = (record.message for record in caplog.records if "figures" in record.message)
    assert warned.startswith(
        "The figures of a batch could not be computed. This is shown once.\nTraceback"
    )
    assert len(list(RecordedRun(trained.args.output_dir).cards())) == 4
