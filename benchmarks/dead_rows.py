"""Measure what `drop_dead_groups` saves: seconds of forward and backward pass, by the share of dead groups.

Both trainers have equal completions of the bundled model, and verdicts that make the same groups dead. `masked` keeps
the rows of dead groups in the batch, with masks of zeros, as TRL does with truncated completions. Times are CPU times
of the process, the median over steps.

    python benchmarks/dead_rows.py --steps 6
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from typing import Any

import torch
from datasets import disable_progress_bars, load_dataset

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
from trl_grpo_ext.trainer import verified_grpo
from trl_grpo_ext.trainer.judge import without_dead_rows
from trl_grpo_ext.verdict import as_verdict

GROUP_SIZE, GROUPS = 8, 8


class SomeDead(Verifier):
    """A verifier by place: groups below `dead` are all right, and half of each other group is."""

    def __init__(self, dead: int) -> None:
        self.dead = dead

    def judge_samples(self, samples: Any) -> list[Verdict]:
        return [
            as_verdict(place // GROUP_SIZE % GROUPS < self.dead or place % 2 == 0)
            for place in range(len(samples))
        ]

    def verify(self, sample: Sample) -> Verdict:
        raise AssertionError("judged by batch")


class Timed(VerifiedGRPOTrainer):
    """A trainer that notes the CPU seconds of each forward and backward pass."""

    def _prepare_inputs(self, batch: Any) -> Any:
        inputs = super()._prepare_inputs(batch)
        self.began = time.process_time()
        return inputs

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        loss = super().training_step(*args, **kwargs)
        self.__dict__.setdefault("seconds", []).append(time.process_time() - self.began)
        return loss


def seconds(dead: int, steps: int) -> float:
    """Return the median CPU seconds of a step's forward and backward pass."""
    with tempfile.TemporaryDirectory() as folder:
        args = VerifiedGRPOConfig(
            output_dir=folder, max_steps=steps, drop_dead_groups=True, per_device_train_batch_size=GROUPS * GROUP_SIZE,
            num_generations=GROUP_SIZE, max_completion_length=48, learning_rate=0.0, beta=0.0, use_cpu=True, bf16=False,
            gradient_checkpointing=False, report_to="none", save_strategy="no", disable_tqdm=True,
            record_scorecards=False, write_report=False, run_checks=False, measure_noise=False,
        )  # fmt: skip
        mix = RewardMix([RewardTerm(name="right", verifier=SomeDead(dead))])
        data = load_dataset(resolve("bundled:sums"))["train"]
        trainer = Timed(resolve("bundled:tiny_reasoner"), mix, args, data)
        trainer.train()
        return statistics.median(trainer.seconds)


def main() -> None:
    """Print a line per share of dead groups."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=6)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    disable_progress_bars()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    print("| dead groups | masked, s | taken out, s | saved |")
    print("|---|---|---|---|")
    for dead in (0, 4, 6, 7):
        times = []
        for take_out in (lambda output, *_, **__: output, without_dead_rows):
            verified_grpo.without_dead_rows = take_out  # type: ignore[assignment]
            times.append(seconds(dead, steps))
        print(
            f"| {dead / GROUPS:.0%} | {times[0]:.3f} | {times[1]:.3f} | {1 - times[1] / times[0]:.0%} |"
        )


if __name__ == "__main__":
    main()
