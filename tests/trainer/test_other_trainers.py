"""Verifiers as rewards in TRL's other trainers, as documented in docs/verifiers_reference.md."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from planted import collected, term

from trl_grpo_ext import RewardMix, Sample, VerifiedGRPOTrainer, verifier
from trl_grpo_ext.mix.reward_mix import UnscoredError
from trl_grpo_ext.rewards import math_reward

# TRL removes experimental trainers from time to time.
sdpo = pytest.importorskip("trl.experimental.sdpo")
online_dpo = pytest.importorskip("trl.experimental.online_dpo")
a2po = pytest.importorskip("trl.experimental.a2po")

pytestmark = pytest.mark.filterwarnings("ignore")


def short_run(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    settings = {
        "output_dir": str(tmp_path / "run"), "max_steps": 1, "use_cpu": True, "bf16": False, "report_to": "none",
        "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True, "per_device_train_batch_size": 4,
    }  # fmt: skip
    return settings | changes


def tokenizer_of(model: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model, padding_side="left")


def run_sdpo(model: str, rewards: Any, data: Any, tmp_path: Path, **changes: Any) -> Any:
    args = sdpo.SDPOConfig(
        **short_run(
            tmp_path,
            num_generations=4,
            max_completion_length=8,
            distillation_weight=0.5,
            **changes,
        )
    )
    trainer = sdpo.SDPOTrainer(
        model=model, reward_funcs=rewards, args=args, train_dataset=data
    )
    trainer.train()
    return trainer


def run_online_dpo(
    model: str, rewards: Any, data: Any, tmp_path: Path, **changes: Any
) -> Any:
    from transformers import AutoModelForCausalLM

    trainer = online_dpo.OnlineDPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model),
        reward_funcs=rewards,
        args=online_dpo.OnlineDPOConfig(**short_run(tmp_path, max_new_tokens=8, **changes)),
        train_dataset=data,
        processing_class=tokenizer_of(model),
    )
    trainer.train()
    return trainer


def run_a2po(model: str, rewards: Any, data: Any, tmp_path: Path, **changes: Any) -> Any:
    trainer = a2po.A2POTrainer(
        model=model,
        reward_funcs=rewards,
        args=a2po.A2POConfig(
            **short_run(tmp_path, num_value_samples=2, max_completion_length=24, **changes)
        ),
        train_dataset=data,
        processing_class=tokenizer_of(model),
    )
    trainer.train()
    return trainer


RUNS = [run_sdpo, run_online_dpo, run_a2po]


@verifier
def down(sample: Sample) -> bool:
    raise OSError("the server is down")


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_other_trainers_take_a_verifier_and_a_mixes_functions(
    run: Any, tiny_model: str, sums: Any, tmp_path: Path
) -> None:
    mix = RewardMix([term("right", 1, 0), term("short", 0, 1, 0.5, weight=0.2)])
    data = sums["train"].select(range(8))
    for rewards, changes in (
        (math_reward, {}),
        (mix.reward_funcs(), {"reward_weights": mix.weights}),
    ):
        trainer = run(tiny_model, rewards, data, tmp_path, **changes)
        assert all(torch.isfinite(weight).all() for weight in trainer.model.parameters())


@pytest.mark.parametrize(
    "run", [run_sdpo, pytest.param(run_online_dpo, marks=pytest.mark.slow)]
)
def test_a_trainer_that_counts_what_could_not_be_judged_as_0_is_warned_of_once(
    run: Any,
    one_layer: str,
    sums: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr("trl_grpo_ext.protocol._once._seen", set())
    caplog.set_level(logging.WARNING, "trl_grpo_ext")
    run(one_layer, down, sums["train"].select(range(8)), tmp_path, max_steps=2)
    assert caplog.text.count("TRL's Online DPO and SDPO count that as 0") == 1
    assert "'down' has no score for" in caplog.text
    mix = RewardMix([term("right", 1, None), term("short", 1, 0)])
    run(
        one_layer,
        mix.reward_funcs(),
        sums["train"].select(range(8)),
        tmp_path,
        max_steps=2,
    )
    assert caplog.text.count("TRL's Online DPO and SDPO count that as 0") == 2


def test_trainers_that_leave_such_rows_out_are_not_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setattr("trl_grpo_ext.protocol._once._seen", set())
    scores = [
        down(["4"], trainer_state=object(), log_metric=lambda name, value: None),
        down(["4"]),
    ]
    assert scores == [[None], [None]]
    assert "count that as 0" not in caplog.text


@pytest.mark.parametrize("run", RUNS)
def test_a_mix_can_end_the_run_of_any_trainer_where_a_row_could_not_be_judged(
    run: Any, one_layer: str, sums: Any, tmp_path: Path
) -> None:
    mix = RewardMix([term("right", 1, None, on_unscored="raise")])
    with pytest.raises(UnscoredError, match="'right' could not judge"):
        run(one_layer, mix.reward_funcs(), sums["train"].select(range(8)), tmp_path)


def test_a_mix_can_score_such_rows_0_where_the_trainer_needs_a_number(
    one_layer: str, sums: Any, tmp_path: Path
) -> None:
    data = sums["train"].select(range(8))
    with pytest.raises(
        TypeError, match="NoneType"
    ):  # should TRL mend this, the table of trainers has to change
        run_a2po(one_layer, math_reward, data.map(lambda row: {"solution": ""}), tmp_path)
    mix = RewardMix([term("right", 1, None, on_unscored="zero")])
    run_a2po(one_layer, mix.reward_funcs(), data, tmp_path)


@pytest.mark.slow
def test_the_trainer_may_be_mixed_with_trls_gmpo(
    one_layer: str, sums: Any, config: Any
) -> None:
    gmpo = pytest.importorskip("trl.experimental.gmpo")

    class Both(VerifiedGRPOTrainer, gmpo.GMPOTrainer):
        pass

    trainer = Both(one_layer, math_reward, config(max_steps=1), sums["train"])
    cards = collected(trainer)
    trainer.train()
    assert len(cards) == 1
