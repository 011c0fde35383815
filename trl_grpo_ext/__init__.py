"""Verifier-backed rewards, reward mixing and diagnostics for GRPO on TRL.

Names are imported when they are first used, so that a worker process or `--help` starts without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
