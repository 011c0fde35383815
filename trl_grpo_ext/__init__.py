"""Verifier-backed rewards, reward mixing and diagnostics for GRPO on TRL.

Names are imported when they are first used, so that a worker process or `--help` starts without torch.
"""

from typing import TYPE_CHECKING

from trl_grpo_ext.support.lazy import lazy_exports
from trl_grpo_ext.support.version import __version__ as __version__

if TYPE_CHECKING:
    from trl_grpo_ext.mix.reward_mix import RewardMix
    from trl_grpo_ext.mix.term import RewardTerm
    from trl_grpo_ext.protocol import Verifier
    from trl_grpo_ext.rewards.function import verifier
    from trl_grpo_ext.sample import Sample
    from trl_grpo_ext.scorecard import Scorecard
    from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
    from trl_grpo_ext.trainer.verified_grpo import VerifiedGRPOTrainer
    from trl_grpo_ext.verdict import Blame, Status, Verdict

__all__ = [
    "Blame",
    "RewardMix",
    "RewardTerm",
    "Sample",
    "Scorecard",
    "Status",
    "Verdict",
    "VerifiedGRPOConfig",
    "VerifiedGRPOTrainer",
    "Verifier",
    "verifier",
]

_HOMES = {
    "Blame": "verdict",
    "RewardMix": "mix.reward_mix",
    "RewardTerm": "mix.term",
    "Sample": "sample",
    "Scorecard": "scorecard",
    "Status": "verdict",
    "Verdict": "verdict",
    "VerifiedGRPOConfig": "trainer.config",
    "VerifiedGRPOTrainer": "trainer.verified_grpo",
    "Verifier": "protocol",
    "verifier": "rewards.function",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
