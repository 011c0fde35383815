"""Run one rank of several, for test_ranks.py: six completions per rank in groups of four split some groups."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import torch
from datasets import load_dataset
from isolated_verifiers import even_in_worker
from planted import collected

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    Verdict,
    VerifiedGRPOConfig,
    VerifiedGRPOTrainer,
)
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix import linear
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.verdict import as_verdict

# Three rows per rank and batch, so the last batch is incomplete.
EVALUATED_ROWS = 7


class Even(Verifier):
    """A stand-in for correctness: an even text length, which a random model reaches half the time."""

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(len(sample.text) % 2 == 0)


class Shortest(GroupVerifier):
    """A group verifier that scores the relative saving over the longest text."""

    def verify_group(self, samples: Any) -> list[Verdict]:
        longest = max(len(sample.text) for sample in samples) or 1
        return [as_verdict(1 - len(sample.text) / longest) for sample in samples]


class FailsOnRank1(Verifier):
    """A verifier that executes the command `how` on rank 1 only; `fine` does nothing."""

    def __init__(self, how: str) -> None:
        self.how = how

    def verify(self, sample: Sample) -> Verdict:
        if os.environ.get("RANK") == "1":
            match self.how:
                case "fail" | "raise":
                    raise RuntimeError("planted")
                case "slow":
                    time.sleep(1.0)
                case "hangs":
                    time.sleep(3600)
                case "dies":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "workers":
                    for worker in psutil.Process().children(recursive=True):
                        worker.kill()
        return as_verdict(1.0)


def mix(how: str) -> RewardMix:
    """Make the mix shared by the run and its test."""
    return RewardMix(
        [
            RewardTerm(
                name="even", verifier=even_in_worker if how == "workers" else Even()
            ),
            RewardTerm(
                name="short", verifier=Shortest(), weight=linear(1.0, 0.5), gate="even"
            ),
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
    if how == "hangs":
        # Transformers passes `ddp_timeout` on only with an accelerator.
        torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=15))
    args = VerifiedGRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=6, num_generations=4, max_completion_length=16, max_steps=3,
        use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=1,
        disable_tqdm=True, drop_dead_groups=True, ddp_backend="gloo",
        per_device_eval_batch_size=6, num_generations_eval=2,
    )  # fmt: skip
    data = load_dataset(resolve("bundled:sums"))
    train, test = (
        data["train"].select(range(64)),
        data["test"].select(range(EVALUATED_ROWS)),
    )
    trainer = VerifiedGRPOTrainer(
        resolve("bundled:tiny_reasoner"), mix(how), args, train, test
    )
    cards = collected(trainer)
    trainer.train()
    if how == "fine":
        trainer.evaluate()
    (folder / f"log-{trainer.accelerator.process_index}.pickle").write_bytes(
        pickle.dumps(trainer.state.log_history)
    )
    if trainer.accelerator.is_main_process:
        (folder / "cards.pickle").write_bytes(
            pickle.dumps((cards, trainer.state.log_history))
        )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
