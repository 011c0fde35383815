"""Train with a named isolated verifier and a checkpoint each step, for test_faults.py."""

from __future__ import annotations

import sys
from pathlib import Path

import isolated_verifiers
import torch
from datasets import load_dataset

from trl_grpo_ext import VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.assets import resolve


def main(folder: Path, verifier: str) -> None:
    torch.set_num_threads(1)
    args = VerifiedGRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=8, num_generations=4, max_completion_length=16,
        max_steps=3, use_cpu=True, bf16=False, report_to="none", save_strategy="steps", save_steps=1, logging_steps=1,
        disable_tqdm=True, write_report=False,
    )  # fmt: skip
    data = load_dataset(resolve("bundled:sums"), split="train").select(range(64))
    trainer = VerifiedGRPOTrainer(
        resolve("bundled:tiny_reasoner"), getattr(isolated_verifiers, verifier), args, data
    )
    trainer.train(resume_from_checkpoint=(folder / "checkpoint-1").exists() or None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
