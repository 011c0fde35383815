"""Measure the judging time hidden by early judging, which runs while TRL computes log-probabilities.

A model pass is replaced by a sleep, since the CPU is idle while a GPU works; so is judging, like verdicts from a server
or from processes on other cores. Printed are medians over steps: judging time, time that a step waits for judging (late
and early), and step time.

    python benchmarks/early_judging.py --pass-seconds 1.0 --judge-seconds 0.2 0.5 0.9 1.5
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from datasets import load_dataset

from trl_grpo_ext import Sample, Verdict, VerifiedGRPOConfig, VerifiedGRPOTrainer, Verifier
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.verdict import as_verdict


class Sleeping(VerifiedGRPOTrainer):
    """A trainer whose reference pass takes at least `pass_seconds`."""

    pass_seconds = 1.0

    def _get_per_token_logps_and_entropies(self, *arguments: Any, **settings: Any) -> Any:
        if not torch.is_grad_enabled():
            time.sleep(self.pass_seconds)
        return super()._get_per_token_logps_and_entropies(*arguments, **settings)


class Slow(Verifier):
    """A verifier that sleeps for `seconds` on each batch."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(len(sample.text) % 2 == 0)

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        time.sleep(self.seconds)
        return super().judge_samples(samples)


def waited(seconds: float, pass_seconds: float, steps: int, *, early: bool) -> tuple[float, float]:
    """Train, and return medians over steps: seconds waited for verdicts, and seconds per step."""
    with tempfile.TemporaryDirectory() as folder:
        args = VerifiedGRPOConfig(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=16,
            beta=0.04,
            judge_early=early,
            logging_steps=1,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            write_report=False,
            run_checks=False,
        )
        data = load_dataset(resolve("bundled:sums"))["train"]
        trainer = Sleeping(resolve("bundled:tiny_reasoner"), Slow(seconds), args, data)
        trainer.pass_seconds = pass_seconds
        trainer.train()
        entries = [each for each in trainer.state.log_history if "step_time" in each]
        return (
            median(each["verified/grader/judging_seconds"] for each in entries),
            median(each["step_time"] for each in entries),
        )


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pass-seconds", type=float, default=1.0)
    parser.add_argument("--judge-seconds", type=float, nargs="+", default=[0.2, 0.5, 0.9, 1.5])
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"a pass takes {options.pass_seconds} s; seconds, medians of {options.steps} steps")
    print("judging | waited late, early | hidden | step late, early")
    for seconds in options.judge_seconds:
        (late, late_step), (early, early_step) = (
            waited(seconds, options.pass_seconds, options.steps, early=early) for early in (False, True)
        )
        hidden = 1 - early / late
        print(f"{seconds:7.2f} | {late:11.3f} {early:6.3f} | {hidden:5.1%} | {late_step:9.3f} {early_step:6.3f}")


if __name__ == "__main__":
    main()
