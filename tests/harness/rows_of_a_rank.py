"""Run one rank of several with learnable rows, for test_learnable_rows_ranks.py; ranks share some groups."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from planted import collected
from tiny_vlm import with_pictures
from transformers.trainer_utils import get_last_checkpoint

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    Verdict,
    VerifiedGRPOConfig,
    VerifiedGRPOTrainer,
    Verifier,
)
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.verdict import as_verdict

GROUP_SIZE, ROWS = 4, 24


class Given(Verifier):
    """A verifier with given verdicts: by the row's number and the completion's place in its group, not by its text."""

    def __init__(self, rank: int, size: int) -> None:
        self.first = rank * size
        # The batch in which the process of the second rank is killed; 0 means never.
        self.last_batch = 0
        self.batches = 0

    def judge_samples(self, samples: Any) -> list[Verdict]:
        self.batches += 1
        if self.first and self.batches == self.last_batch:
            os.kill(os.getpid(), signal.SIGKILL)
        places = [(self.first + place) % GROUP_SIZE for place in range(len(samples))]
        return [
            as_verdict(sample.row["number"] % 5 > place)
            for sample, place in zip(samples, places, strict=True)
        ]

    def verify(self, sample: Sample) -> Verdict:
        raise AssertionError("judged by batch")


def main(how: str, folder: Path, ranks: int) -> None:
    """Train on `ranks` ranks with 12 completions a micro-batch, and keep what rank, draws and posteriors were."""
    torch.set_num_threads(1)
    size = 12 // ranks
    settings: dict[str, Any] = {"max_steps": 4}
    if how in ("iterations", "killed", "resumed iterations"):
        settings = {
            "max_steps": 8,
            "num_iterations": 2,
            "steps_per_generation": 2,
            "gradient_accumulation_steps": 2,
        }
    if how == "workers":
        settings |= {"dataloader_num_workers": 2, "dataloader_prefetch_factor": 2}
    args = VerifiedGRPOConfig(
        output_dir=str(folder / "run"), per_device_train_batch_size=size, num_generations=GROUP_SIZE,
        max_completion_length=8, use_cpu=True, bf16=False, report_to="none", save_strategy="steps", save_steps=2,
        logging_steps=1, disable_tqdm=True, write_report=False, ddp_backend="gloo" if ranks > 1 else None,
        learnable_rows=True, rows_by="number", **settings,
    )  # fmt: skip
    rows = (
        load_dataset(resolve("bundled:sums"))["train"]
        .select(range(ROWS))
        .add_column("number", list(range(ROWS)))
    )
    model = resolve("bundled:tiny_reasoner")
    if how == "pictures":
        model, rows = str(folder / "vlm"), with_pictures(rows)
    given = Given(int(os.environ.get("RANK", "0")), size * args.steps_per_generation)
    given.last_batch = 3 if how == "killed" else 0
    mix = RewardMix([RewardTerm(name="given", verifier=given)])
    trainer = VerifiedGRPOTrainer(model, mix, args, rows)
    cards = collected(trainer)
    trainer.train(
        resume_from_checkpoint=get_last_checkpoint(folder / "run")
        if how.startswith("resumed")
        else None
    )
    assert trainer.learnable_rows is not None
    drawn = [
        [card.samples[members[0]].row["number"] for members in card.members]
        for card in cards
    ]
    kept = trainer.learnable_rows.posteriors.state(), drawn
    (folder / f"rank-{trainer.accelerator.process_index}.pickle").write_bytes(
        pickle.dumps(kept)
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
