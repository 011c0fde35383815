"""One rank of several, started by test_ranks.py: six completions a rank in groups of four, so some are split."""

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

from trl_grpo_ext import RewardMix, RewardTerm, Sample, Verdict, VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix import linear
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.verdict import as_verdict

EVALUATED_ROWS = 7  # in batches of three rows a rank, so the last batch lacks some


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
    """Does what the script was asked for, on rank 1 only: `fine` is nothing."""

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
    """The mix that both the run and the test that checks it use."""
    return RewardMix(
        [
            RewardTerm(name="even", verifier=even_in_worker if how == "workers" else Even()),
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
    if how == "hangs":  # transformers hands ddp_timeout on only where there is an accelerator
        torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=15))
    args = VerifiedGRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=6, num_generations=4, max_completion_length=16, max_steps=3,
        use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=1,
        disable_tqdm=True, drop_dead_groups=True, ddp_backend="gloo",
        per_device_eval_batch_size=6, num_generations_eval=2,
    )  # fmt: skip
    data = load_dataset(resolve("bundled:sums"))
    train, test = data["train"].select(range(64)), data["test"].select(range(EVALUATED_ROWS))
    trainer = VerifiedGRPOTrainer(resolve("bundled:tiny_reasoner"), mix(how), args, train, test)
    cards = collected(trainer)
    trainer.train()
    if how == "fine":
        trainer.evaluate()
    (folder / f"log-{trainer.accelerator.process_index}.pickle").write_bytes(pickle.dumps(trainer.state.log_history))
    if trainer.accelerator.is_main_process:
        (folder / "cards.pickle").write_bytes(pickle.dumps((cards, trainer.state.log_history)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
