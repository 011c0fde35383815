"""The weight meter: how many weights a step changes, and how far they have moved."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from planted import Positions

from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOTrainer
from trl_grpo_ext.figures.logged import WEIGHTS_CHANGED, WEIGHTS_MOVED
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.trainer.meters.weight_meter import WeightMeter, held_parameters
from trl_grpo_ext.trainer.run_callback import RunCallback

Make = Callable[..., Any]


def measured(
    dtype: torch.dtype, rate: float, *, steps: int = 4, gradient: float | None = 1.0
) -> dict[str, float]:
    """Train weights of about 1 with Adam, which moves each by about `rate` a step."""
    torch.manual_seed(0)
    weights = [torch.nn.Parameter((1 + torch.rand(64, 64)).to(dtype)) for _ in range(3)]
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0)
    meter = WeightMeter()
    for _ in range(steps):
        for weight in weights:
            weight.grad = None if gradient is None else torch.full_like(weight, gradient)
        meter.on_pre_optimizer_step(None, None, None, optimizer=optimizer)
        optimizer.step()
        meter.on_optimizer_step(None, None, None, optimizer=optimizer)
    return meter.figures()


def test_updates_that_bfloat16_rounds_away_change_nothing_and_single_precision_keeps_them() -> (
    None
):
    lost, kept = measured(torch.bfloat16, 1e-4), measured(torch.float32, 1e-4)
    assert lost == {WEIGHTS_CHANGED: 0.0, WEIGHTS_MOVED: 0.0}
    assert kept[WEIGHTS_CHANGED] == 1.0
    assert kept[WEIGHTS_MOVED] == pytest.approx(4e-4 / 1.5, rel=0.1)
    assert measured(torch.bfloat16, 0.1)[WEIGHTS_CHANGED] == 1.0


def test_weights_without_a_gradient_tell_no_share() -> None:
    assert math.isnan(measured(torch.float32, 1e-4, gradient=0.0)[WEIGHTS_CHANGED])
    assert math.isnan(WeightMeter().figures()[WEIGHTS_MOVED])


def test_an_optimizer_of_weights_that_no_loss_reaches_has_moved_nothing() -> None:
    assert measured(torch.float32, 1e-4, gradient=None)[WEIGHTS_MOVED] == 0.0


def test_an_optimizer_that_cannot_be_read_is_told_once_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    meter = WeightMeter()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            meter.on_pre_optimizer_step(None, None, None, optimizer=object())
    assert caplog.text.count("The change of the weights could not be measured") == 1
    assert math.isnan(meter.figures()[WEIGHTS_CHANGED])


def test_a_run_logs_the_figures_and_records_what_is_trained(
    one_layer: str, sums: Any, config: Make
) -> None:
    mix = RewardMix([RewardTerm(name="answer", verifier=Positions(1.0, 0.0, 1.0, 0.0))])
    rows = sums["train"].select(range(8))
    trainer = VerifiedGRPOTrainer(
        one_layer, mix, config(max_steps=2), rows, eval_dataset=rows.select(range(4))
    )
    trainer.train()
    first, last = trainer.state.log_history[:2]
    assert first[WEIGHTS_CHANGED] > 0.9
    assert 0 < first[WEIGHTS_MOVED] < last[WEIGHTS_MOVED]
    settings = RecordedRun(trainer.args.output_dir).settings
    assert settings["trained_dtype"] == "float32"
    assert settings["evaluation_in_training"] == 1.0
    assert settings["evaluated_completions"] == 4 * trainer.num_generations_eval


def test_an_optimizer_that_holds_no_trained_parameter_is_told_once_and_recorded(
    tiny_model: str, sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    mix = RewardMix([RewardTerm(name="answer", verifier=Positions(1.0, 0.0, 1.0, 0.0))])
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(4))], lr=1e-3)
    args = config(max_steps=2)
    trainer = VerifiedGRPOTrainer(
        tiny_model, mix, args, sums["train"].select(range(8)), optimizers=(optimizer, None)
    )
    with caplog.at_level(logging.WARNING):
        trainer.train()
    settings = RecordedRun(args.output_dir).settings
    told = f"The optimizer holds none of the {settings['trainable_tensors']} trainable parameters"
    assert caplog.text.count(told) == 1
    assert settings["optimized_tensors"] == 0


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("AdamW", {"trainable_tensors": 1, "optimized_tensors": 1}),
        ("LayerWiseDummyOptimizer", {}),
    ],
)
def test_an_optimizer_that_works_by_hooks_leaves_unknown_what_it_holds(
    name: str, known: dict[str, int]
) -> None:
    model = torch.nn.Linear(2, 2, bias=False)
    optimizer = type(name, (torch.optim.AdamW,), {})(model.parameters())
    assert held_parameters(model, optimizer) == known


def test_parameters_that_fsdp_has_split_leave_unknown_what_the_optimizer_holds(
    tmp_path: Path,
) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(4))])
    (tmp_path / "scorecards").mkdir()
    for splits_weights in (True, False):
        callback = RunCallback(
            is_main=True, ask_main=lambda ask: ask(), splits_weights=splits_weights
        )
        callback.changes = {}
        args = SimpleNamespace(output_dir=str(tmp_path), disable_tqdm=True)
        callback.on_train_begin(
            args, SimpleNamespace(global_step=0), None, model=model, optimizer=optimizer
        )
        assert ("optimized_tensors" in RecordedRun(tmp_path).settings) is not splits_weights
