"""With equal rewards, `VerifiedGRPOTrainer` and TRL's own trainer log equal figures and end with equal weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from same_runs import Make, check_same

pytestmark = pytest.mark.slow  # two real runs a setting

LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")
SCALES = ("group", "batch", "none")
OTHERS: list[dict[str, Any]] = [
    {"multi_objective_aggregation": "normalize_then_sum"},
    {"multi_objective_aggregation": "normalize_then_sum", "loss_type": "dr_grpo"},
    {"beta": 0.04},
    {"beta": 0.04, "loss_type": "grpo"},
    {"beta": 0.04, "scale_rewards": "batch", "num_iterations": 2, "max_steps": 4},
    {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4},
    {
        "gradient_accumulation_steps": 2,
        "per_device_train_batch_size": 4,
        "loss_type": "grpo",
    },
    {
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 4,
        "per_device_train_batch_size": 4,
    },
    {"num_iterations": 2, "max_steps": 4},
    {"num_iterations": 2, "max_steps": 4, "loss_type": "cispo"},
    {"importance_sampling_level": "sequence", "num_iterations": 2, "max_steps": 4},
    {"epsilon_high": 0.28, "delta": 1.5, "num_iterations": 2, "max_steps": 4},
    {"mask_truncated_completions": True},
    {"lora": True},
    {"lora": True, "beta": 0.04},
    {"eval_strategy": "steps", "eval_steps": 1},
    {"eval_strategy": "steps", "eval_steps": 1, "num_generations_eval": 2, "beta": 0.04},
    {"sync_ref_model": True, "ref_model_sync_steps": 1, "beta": 0.04},
    {"use_bias_correction_kl": True, "beta": 0.04, "num_iterations": 2, "max_steps": 4},
    {"top_entropy_quantile": 0.2, "entropy_coef": 0.01},
    {"use_adaptive_entropy": True, "entropy_coef": 0.01},
    {"off_policy_mask_threshold": 0.5, "num_iterations": 2, "max_steps": 4},
    {"gradient_checkpointing": True},
    {"log_completions": True, "log_unique_prompts": True},
]
SETTINGS = [
    {"loss_type": loss, "scale_rewards": scale} for loss in LOSSES for scale in SCALES
] + OTHERS

SHARED = {"learning_rate": 1e-3, "seed": 7, "max_completion_length": 32}


@pytest.mark.parametrize(
    "setting", SETTINGS, ids=lambda setting: "-".join(map(str, setting.values()))
)
def test_losses_rewards_and_weights_are_those_of_trls_trainer(
    tiny_model: str, sums: Any, config: Make, tmp_path: Path, setting: dict[str, Any]
) -> None:
    check_same(tiny_model, sums, config, tmp_path, setting | SHARED)
