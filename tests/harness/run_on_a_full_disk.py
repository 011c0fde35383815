"""Train with a disk that is full from the third batch to the sixth, and print the recorded steps at the end.

test_faults.py starts this script in its own namespaces, since the script mounts a small disk.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import torch
from datasets import load_dataset
from planted import Positions

from trl_grpo_ext import Scorecard, VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.runs.recorded_run import RecordedRun


def main(disk: Path) -> None:
    torch.set_num_threads(1)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True
    )
    args = VerifiedGRPOConfig(
        output_dir=str(disk / "run"), per_device_train_batch_size=8, num_generations=4, max_completion_length=16,
        max_steps=8, use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=1,
        disable_tqdm=True, write_report=False,
    )  # fmt: skip
    data = load_dataset(resolve("bundled:sums"), split="train").select(range(64))
    trainer = VerifiedGRPOTrainer(
        resolve("bundled:tiny_reasoner"), Positions(1, 0), args, data
    )
    filler = disk / "filler"

    def fill(card: Scorecard) -> None:
        if card.step == 1:
            filler.write_bytes(b"")
            with open(filler, "ab", buffering=0) as file:
                try:
                    while True:
                        file.write(b"0" * 512)
                except OSError:
                    pass
        elif card.step == 5:
            filler.unlink()

    trainer.add_scorecard_listener(fill)
    trainer.train()
    logging.disable()
    run = RecordedRun(disk / "run")
    recorded = {
        "steps": trainer.state.global_step,
        "batches": [card.step for card in run.cards("train")],
        "logged": [entry["step"] for entry in run.logs if "loss" in entry],
    }
    print(json.dumps(recorded))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
