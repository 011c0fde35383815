"""The lab: `VerifiedGRPOTrainer` trains a ten-action policy in seconds, so every step of GRPO can be inspected.

It serves as a demonstration (`trl-grpo-ext lab`), and to plant faults that test diagnostics. A completion is a single
token, so the lab shows nothing about length, format, language or credit assignment over tokens.
"""

from typing import TYPE_CHECKING

from trl_grpo_ext.support.lazy import lazy_exports

if TYPE_CHECKING:
    from trl_grpo_ext.lab.landscape import ACTIONS as ACTIONS
    from trl_grpo_ext.lab.landscape import ActionVerifier as ActionVerifier
    from trl_grpo_ext.lab.landscape import Landscape as Landscape
    from trl_grpo_ext.lab.landscape import double_peak as double_peak
    from trl_grpo_ext.lab.landscape import linear as linear
    from trl_grpo_ext.lab.landscape import single_peak as single_peak
    from trl_grpo_ext.lab.policy_history import PolicyHistory as PolicyHistory
    from trl_grpo_ext.lab.training import LabRun as LabRun
    from trl_grpo_ext.lab.training import run_lab as run_lab

_HOMES = {
    "ACTIONS": "landscape",
    "ActionVerifier": "landscape",
    "LabRun": "training",
    "Landscape": "landscape",
    "PolicyHistory": "policy_history",
    "double_peak": "landscape",
    "linear": "landscape",
    "run_lab": "training",
    "single_peak": "landscape",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
