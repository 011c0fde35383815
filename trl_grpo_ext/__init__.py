"""Verifier-backed rewards, reward mixing and diagnostics for GRPO on TRL.

Names are imported when they are first used, so that a worker process or `--help` starts without torch.
"""

from typing import TYPE_CHECKING

from trl_grpo_ext.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trl_grpo_ext.config import VerifiedGRPOConfig
    from trl_grpo_ext.mix import RewardMix
    from trl_grpo_ext.protocol import Verifier, verifier
    from trl_grpo_ext.sample import Sample
    from trl_grpo_ext.scorecard import Scorecard
    from trl_grpo_ext.terms.term import RewardTerm
    from trl_grpo_ext.trainer import VerifiedGRPOTrainer
    from trl_grpo_ext.verdict import Blame, Status, Verdict

__version__ = "0.1.0"

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
    "RewardMix": "mix",
    "RewardTerm": "terms.term",
    "Sample": "sample",
    "Scorecard": "scorecard",
    "Status": "verdict",
    "Verdict": "verdict",
    "VerifiedGRPOConfig": "config",
    "VerifiedGRPOTrainer": "trainer",
    "Verifier": "protocol",
    "verifier": "protocol",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
