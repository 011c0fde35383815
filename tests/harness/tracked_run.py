"""Train two steps with two evaluations under a tracker, for test_trackers.py; trackers keep global state."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from datasets import load_dataset
from statistics_mix import everything, tasks

from trl_grpo_ext import VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.assets import resolve


def main(tracker: str, folder: Path) -> None:
    torch.set_num_threads(1)
    args = VerifiedGRPOConfig(
        output_dir=str(folder / "run"), per_device_train_batch_size=8, per_device_eval_batch_size=16, num_generations=4,
        max_completion_length=24, max_steps=2, use_cpu=True, bf16=False, save_strategy="no", logging_steps=1,
        disable_tqdm=True, eval_strategy="steps", eval_steps=1, report_to=tracker, project="figures", run_name="run",
        metrics="full",
    )  # fmt: skip
    data = load_dataset(resolve("bundled:sums"))
    trainer = VerifiedGRPOTrainer(
        resolve("bundled:tiny_reasoner"),
        everything(),
        args,
        tasks(data["train"], 8),
        tasks(data["test"], 4),
    )
    trainer.train()
    (folder / "log.json").write_text(json.dumps(trainer.state.log_history))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
