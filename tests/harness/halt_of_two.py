"""Run one rank of two, for test_diagnose.py: a failing grader should halt the run."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from datasets import load_dataset
from rank_of_several import mix

from trl_grpo_ext import VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.assets import resolve


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    args = VerifiedGRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=6, num_generations=4, max_completion_length=16,
        max_steps=20, use_cpu=True, bf16=False, report_to="none", save_strategy="no", disable_tqdm=True,
        halt_on=["grader_trouble"],
    )  # fmt: skip
    data = load_dataset(resolve("bundled:sums"), split="train").select(range(64))
    trainer = VerifiedGRPOTrainer(resolve("bundled:tiny_reasoner"), mix("fail"), args, data)
    trainer.train()
    (folder / f"stopped-{trainer.accelerator.process_index}").write_text(
        str(trainer.state.global_step)
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
