"""Run one rank of two, for test_environments_ranks.py: environments fail on some or all ranks."""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from environment_run import tool_tokenizer
from planted import collected, term

from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.rewards import EnvironmentReward


class Refusing:
    """An environment whose `reset` fails on the given ranks."""

    ranks = ""

    def reset(self, **_: Any) -> None:
        if os.environ["RANK"] in self.ranks:
            raise ConnectionError(f"refused on rank {os.environ['RANK']}")

    def get_reward(self) -> float:
        return 0.5


def main(ranks: str, folder: Path) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "You are using 'environment_factory'")
    Refusing.ranks = ranks
    args = VerifiedGRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=6, num_generations=4, max_completion_length=16, max_steps=5,
        use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=1,
        disable_tqdm=True, ddp_backend="gloo",
    )  # fmt: skip
    model, data = resolve("bundled:tiny_reasoner"), load_dataset(resolve("bundled:sums"))
    mix = RewardMix(
        [
            term("right", 1, 0),
            RewardTerm(name="solved", verifier=EnvironmentReward(), weight=0),
        ]
    )
    trainer = VerifiedGRPOTrainer(
        model,
        mix,
        args,
        data["train"],
        environment_factory=Refusing,
        processing_class=tool_tokenizer(model),
    )
    cards = collected(trainer)
    trainer.train()
    if trainer.accelerator.is_main_process:
        (folder / "cards.pickle").write_bytes(
            pickle.dumps((cards, trainer.state.log_history))
        )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
