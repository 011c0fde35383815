"""One rank of two, started by test_ranks.py: six completions a rank in groups of four, so the second is split."""

from __future__ import annotations

import pickle
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset

from trl_grpo_ext import RewardMix, RewardTerm, Sample, Scorecard, Verdict, VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix import linear
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.verdict import as_verdict


class Even(Verifier):
    """Whether the text's length is even: a stand-in for correctness that a random model gets right half of the time."""

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(len(sample.text) % 2 == 0)


class Shortest(GroupVerifier):
    """How much shorter than the longest of those compared, as a share of it."""

    def verify_group(self, samples: Any) -> list[Verdict]:
        longest = max(len(sample.text) for sample in samples) or 1
        return [as_verdict(1 - len(sample.text) / longest) for sample in samples]


class FailsOnRank1(Verifier):
    """As the script was asked: raises, sleeps, or does nothing, on rank 1 only."""

    def __init__(self, how: str) -> None:
        self.how = how

    def verify(self, sample: Sample) -> Verdict:
        import os

        if os.environ["RANK"] == "1":
            if self.how in ("fail", "raise"):
                raise RuntimeError("planted")
            if self.how == "slow":
                time.sleep(1.0)
        return as_verdict(1.0)


def mix(how: str) -> RewardMix:
    """The mix that both the run and the test that checks it use."""
    return RewardMix(
        [
            RewardTerm(name="even", verifier=Even()),
            RewardTerm(name="short", verifier=Shortest(), weight=linear(1.0, 0.5), gate="even"),
            RewardTerm(
                name="trouble",
                verifier=FailsOnRank1(how),
                weight=0.1,
                on_unscored="raise" if how == "raise" else "void_row",
            ),
        ]
    )


def main(how: str, folder: Path) -> None:
    torch.set_num_threads(1)
    args = VerifiedGRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=6, num_generations=4, max_completion_length=16, max_steps=3,
        use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=1,
        disable_tqdm=True, drop_dead_groups=True,
    )  # fmt: skip
    data = load_dataset(resolve("bundled:sums"), split="train").select(range(64))
    trainer = VerifiedGRPOTrainer(resolve("bundled:tiny_reasoner"), mix(how), args, data)
    cards: list[Scorecard] = []
    trainer.add_scorecard_listener(cards.append)
    trainer.train()
    (folder / f"log-{trainer.accelerator.process_index}.pickle").write_bytes(pickle.dumps(trainer.state.log_history))
    if trainer.accelerator.is_main_process:
        (folder / "cards.pickle").write_bytes(pickle.dumps((cards, trainer.state.log_history)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
