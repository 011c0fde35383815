"""Verifier-backed rewards, reward mixing and diagnostics for GRPO on TRL.

Names are imported on first use, so worker processes and `--help` start without torch.
"""

from typing import TYPE_CHECKING

from trl_grpo_ext.support.lazy import lazy_exports
from trl_grpo_ext.support.version import __version__ as __version__

if TYPE_CHECKING:
    from trl_grpo_ext.mix.reward_mix import RewardMix as RewardMix
    from trl_grpo_ext.mix.term import RewardTerm as RewardTerm
    from trl_grpo_ext.protocol import Verifier as Verifier
    from trl_grpo_ext.rewards.function import verifier as verifier
    from trl_grpo_ext.sample import Sample as Sample
    from trl_grpo_ext.scorecard import Scorecard as Scorecard
    from trl_grpo_ext.trainer.async_grpo import judge_by as judge_by
    from trl_grpo_ext.trainer.config import VerifiedGRPOConfig as VerifiedGRPOConfig
    from trl_grpo_ext.trainer.verified_grpo import (
        VerifiedGRPOTrainer as VerifiedGRPOTrainer,
    )
    from trl_grpo_ext.verdict import Blame as Blame
    from trl_grpo_ext.verdict import Status as Status
    from trl_grpo_ext.verdict import Verdict as Verdict

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
    "judge_by": "trainer.async_grpo",
    "verifier": "rewards.function",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
