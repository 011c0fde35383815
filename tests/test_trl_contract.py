"""What this package touches of TRL, and what happens when TRL is another."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import trl
from trl import GRPOTrainer

from trl_grpo_ext import VerifiedGRPOTrainer
from trl_grpo_ext.trainer.trl_contract import SUPPORTED, check_trl, end_token_ids


def test_the_installed_trl_is_the_one_this_package_knows() -> None:
    check_trl(GRPOTrainer, trl.__version__)


def test_every_private_attribute_that_is_read_is_there(tiny_model: str, sums: Any, config: Any) -> None:
    trainer = VerifiedGRPOTrainer(
        tiny_model, lambda completions, **_: [0.0] * len(completions), config(), sums["train"]
    )
    for name in ("reward_weights", "num_generations", "num_generations_eval", "processing_class", "accelerator"):
        assert hasattr(trainer, name)
    ends = end_token_ids(trainer.processing_class, trainer.model.generation_config)
    assert trainer.processing_class.eos_token_id in ends


@pytest.mark.parametrize("method", ["_calculate_rewards", "_generate", "_generate_and_score_completions"])
def test_a_method_that_is_missing_or_takes_other_arguments_is_an_import_error(method: str) -> None:
    other = type("GRPOTrainer", (GRPOTrainer,), {method: lambda self, batch: None})
    missing = type("GRPOTrainer", (), {})
    for trainer_class in (other, missing):
        with pytest.raises(ImportError) as caught:
            check_trl(trainer_class, "9.9")
        message = str(caught.value)
        assert SUPPORTED in message
        assert "9.9" in message
        assert "\n" not in message


OTHER_TRL = """
import trl
from trl import GRPOTrainer
GRPOTrainer._calculate_rewards = lambda self, batch: None
from trl_grpo_ext.rewards import math_reward
print(math_reward(["$4$"], solution=["4"]))
from trl_grpo_ext import VerifiedGRPOTrainer
"""


@pytest.mark.slow
def test_against_another_trl_the_trainer_fails_at_import_in_one_sentence_and_the_verifiers_work() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OTHER_TRL], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[1.0]\n"
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: trl_grpo_ext supports trl>=1.6,<2,!=1.15.0")
