"""Recipes with a model sharded over two ranks by FSDP2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import HARNESS
from safetensors.torch import load_file

SCRIPT = HARNESS / "fsdp_on_cpu.py"
SMALL = {
    "per_device_train_batch_size": 16,
    "per_device_eval_batch_size": 100,
    "max_steps": 2,
    "logging_steps": 1,
}


def train_sharded(folder: Path, state_dict_type: str, **changes: Any) -> dict[str, Any]:
    """Train the quickstart on two ranks, and return its summary."""
    fsdp = {
        "fsdp_version": 2,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_reshard_after_forward": True,
        "fsdp_state_dict_type": state_dict_type,
    }
    launch = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "fsdp_config": fsdp,
    }
    launch |= {"num_processes": 2, "mixed_precision": "no", "main_process_port": 0}
    folder.mkdir(exist_ok=True)
    (folder / "launch.yaml").write_text(yaml.safe_dump(launch))
    keys = SMALL | {"output_dir": str(folder / "run")} | changes
    flags = [part for key, value in keys.items() for part in (f"--{key}", str(value))]
    command = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--config_file",
        str(folder / "launch.yaml"),
    ]
    command += [str(SCRIPT), "train", "--config", "quickstart", *flags]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    summary: dict[str, Any] = json.loads((folder / "run" / "summary.json").read_text())
    return summary


@pytest.mark.slow  # two ranks
def test_a_recipe_is_evaluated_before_and_after_and_saved_where_the_model_is_in_shards(
    tmp_path: Path,
) -> None:
    summary = train_sharded(
        tmp_path, "SHARDED_STATE_DICT", save_strategy="steps", save_steps=1
    )
    assert summary["accuracy"]["before"]["mean"] != summary["accuracy"]["after"]["mean"]
    parts = summary["seconds_by_part"]
    assert parts["evaluating before"] > 0
    assert sum(parts.values()) == pytest.approx(summary["seconds"], abs=0.1)
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert all(weight.isfinite().all() for weight in weights.values())
    resumed = train_sharded(
        tmp_path,
        "SHARDED_STATE_DICT",
        resume_from_checkpoint=tmp_path / "run" / "checkpoint-1",
    )
    assert (
        resumed["accuracy"] == summary["accuracy"]
    )  # what was recorded before training, and the same after it
    again = load_file(tmp_path / "run" / "model.safetensors")
    assert all(again[name].equal(weights[name]) for name in weights)
