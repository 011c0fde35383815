"""The lab: the real trainer trains a policy of ten actions in seconds, so that one sees exactly what GRPO does.

It is a demonstration (`trl-grpo-ext lab`), and the place where faults are planted to test diagnostics. It
shows nothing about length, format, language or credit over tokens: a completion is one token.
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
