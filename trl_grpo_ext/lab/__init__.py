"""The lab: the real trainer trains a policy of ten actions in seconds, so that one sees exactly what GRPO does.

It is a demonstration (`trl-grpo-ext lab`), and the place where faults are planted to test diagnostics. It
shows nothing about length, format, language or credit over tokens: a completion is one token.
"""

from typing import TYPE_CHECKING

from trl_grpo_ext.support.lazy import lazy_exports

if TYPE_CHECKING:
    from trl_grpo_ext.lab.landscape import ACTIONS, ActionVerifier, Landscape, double_peak, linear, single_peak
    from trl_grpo_ext.lab.policy_history import PolicyHistory
    from trl_grpo_ext.lab.training import LabRun, run_lab

__all__ = [
    "ACTIONS",
    "ActionVerifier",
    "LabRun",
    "Landscape",
    "PolicyHistory",
    "double_peak",
    "linear",
    "run_lab",
    "single_peak",
]

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

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
