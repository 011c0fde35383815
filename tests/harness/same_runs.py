"""Compare a run of TRL's trainer with a run of `VerifiedGRPOTrainer`, with equal rewards and settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from trl import GRPOTrainer

from trl_grpo_ext import RewardMix, RewardTerm, Sample, VerifiedGRPOTrainer, verifier

Make = Callable[..., Any]

# Suffixes of logged values that differ between any two runs.
TIMED = ("runtime", "per_second", "step_time", "reward_time", "total_flos")


def even_text(text: str) -> float:
    return float(len(text) % 2 == 0)


def digits_text(text: str) -> float:
    return sum(character.isdigit() for character in text) / (len(text) + 1)


def even(completions: list[Any], **_: Any) -> list[float]:
    return [even_text(completion[0]["content"]) for completion in completions]


def digits(completions: list[Any], **_: Any) -> list[float]:
    return [digits_text(completion[0]["content"]) for completion in completions]


@verifier
def even_verifier(sample: Sample) -> float:
    return even_text(sample.text)


@verifier
def digits_verifier(sample: Sample) -> float:
    return digits_text(sample.text)


def mix() -> RewardMix:
    return RewardMix(
        [
            RewardTerm(name="even", verifier=even_verifier, weight=1.0),
            RewardTerm(name="digits", verifier=digits_verifier, weight=0.5),
        ]
    )


def trained(trainer: Any) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """Train, and return the logs without times, and the final model weights."""
    trainer.train()
    logs = trainer.state.log_history
    kept = [
        {name: value for name, value in entry.items() if not name.endswith(TIMED)}
        for entry in logs
    ]
    return kept, {
        name: weight.detach().clone() for name, weight in trainer.model.named_parameters()
    }


def check_same(
    tiny_model: str, sums: Any, config: Make, folder: Path, setting: dict[str, Any]
) -> None:
    """Train both trainers, and assert equal logs and weights; `lora` in `setting` adds an adapter."""
    with_lora = setting.get("lora", False)
    shared = {name: value for name, value in setting.items() if name != "lora"}
    data = {"train_dataset": sums["train"], "eval_dataset": sums["test"].select(range(4))}

    def run(
        trainer_class: Any, rewards: Any, **settings: Any
    ) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
        lora = LoraConfig(r=4, target_modules="all-linear") if with_lora else None
        args = config(output_dir=str(folder / trainer_class.__name__), **shared, **settings)
        return trained(trainer_class(tiny_model, rewards, args, **data, peft_config=lora))

    plain_logs, plain_weights = run(GRPOTrainer, [even, digits], reward_weights=[1.0, 0.5])
    logs, weights = run(VerifiedGRPOTrainer, mix())

    assert len(logs) == len(plain_logs)
    for entry, plain in zip(logs, plain_logs, strict=True):
        assert {name: entry.get(name) for name in plain} == plain
    assert weights.keys() == plain_weights.keys()
    assert all(torch.equal(weights[name], plain_weights[name]) for name in weights)
    # Guard against an empty comparison: two runs that learn nothing would be equal, too.
    steps = [entry for entry in plain_logs if "grad_norm" in entry]
    assert any(entry["grad_norm"] > 0 for entry in steps)
    assert any(entry["reward_std"] > 0 for entry in steps)
