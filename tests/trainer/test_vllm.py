"""With vLLM in the trainer's process, training and evaluation equal those with transformers.

These tests need vLLM: `make vllm-tests` installs its CPU build into a separate environment, and runs them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import run_here
from same_runs import Make, check_same

pytest.importorskip(
    "vllm", reason="vLLM is not installed; `make vllm-tests` installs it and runs these"
)

SETTINGS: list[dict[str, Any]] = [
    {},
    {"beta": 0.04, "num_iterations": 2, "gradient_accumulation_steps": 2},
    {"vllm_importance_sampling_mode": "sequence_mask"},
    {"vllm_importance_sampling_correction": False},
    {"loss_type": "dr_grpo", "scale_rewards": "none", "mask_truncated_completions": True},
    {"lora": True},
    {"judge_early": True, "beta": 0.04},
    {"eval_strategy": "steps", "eval_steps": 1, "num_generations_eval": 2},
]
VLLM = {"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 128}
FLAGS = [part for name, value in VLLM.items() for part in (f"--{name}", str(value).lower())]


@pytest.fixture(autouse=True)
def _weights_that_can_be_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop vLLM from packing weights on a CPU, after which TRL could not load trained weights."""

    def keep(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    monkeypatch.setattr(
        "vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm", keep
    )
    # In GiB.
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")


@pytest.mark.parametrize(
    "setting",
    SETTINGS,
    ids=lambda setting: "-".join(map(str, setting.values())) or "default",
)
def test_losses_rewards_and_weights_are_those_of_trls_trainer(
    tiny_model: str, sums: Any, config: Make, tmp_path: Path, setting: dict[str, Any]
) -> None:
    check_same(
        tiny_model, sums, config, tmp_path, VLLM | {"max_completion_length": 32} | setting
    )


def test_the_recipe_that_needs_vllm_trains_an_adapter_with_it(tmp_path: Path) -> None:
    rows = [
        {"prompt": [{"role": "user", "content": f"{n}+1"}], "solution": str(n + 1)}
        for n in range(16)
    ]
    (tmp_path / "data").mkdir()
    for split in ("train", "test"):
        (tmp_path / "data" / f"{split}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
    flags = [
        "--model_name_or_path",
        "bundled:tiny_reasoner",
        "--dataset_name",
        "data",
        "--output_dir",
        "trained",
    ]
    flags += [
        "--use_cpu",
        "true",
        "--bf16",
        "false",
        "--dtype",
        "float32",
        "--max_completion_length",
        "16",
    ]
    flags += [
        "--max_steps",
        "2",
        "--gradient_accumulation_steps",
        "2",
        "--report_to",
        "none",
    ]
    run_here(
        "train", "--config", "math", *flags, "--vllm_max_model_length", "128", cwd=tmp_path
    )
    summary = json.loads((tmp_path / "trained" / "summary.json").read_text())
    assert summary["steps"] == 2
    assert (tmp_path / "trained" / "adapter_model.safetensors").is_file()


def test_a_recipe_learns_and_two_models_are_compared_in_one_process(tmp_path: Path) -> None:
    trained = [
        "train",
        "--config",
        "quickstart",
        "--max_steps",
        "20",
        "--output_dir",
        "trained",
    ]
    run_here(*trained, *FLAGS, cwd=tmp_path)

    models = ["--model", "bundled:tiny_reasoner", "trained"]
    told = run_here(
        "eval",
        "--config",
        "quickstart",
        *models,
        "--limit",
        "100",
        "--json",
        *FLAGS,
        cwd=tmp_path,
    )

    assert json.loads(told.stdout)["differences"]["pass@1"]["low"] > 0.2
