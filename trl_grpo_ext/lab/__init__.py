"""The lab: a policy of ten actions, trained by the real trainer in seconds, where what GRPO does can be seen exactly.

It is a demonstration (`trl-grpo-ext lab`), and the place where diagnostics are proven on runs with planted faults. It
shows nothing about length, format, language or credit over tokens: a completion is one token.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trl_grpo_ext.lab.action import ACTIONS, ActionVerifier
    from trl_grpo_ext.lab.landscape import Landscape, double_peak, linear, single_peak
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
    "ACTIONS": "action",
    "ActionVerifier": "action",
    "LabRun": "training",
    "Landscape": "landscape",
    "PolicyHistory": "policy_history",
    "double_peak": "landscape",
    "linear": "landscape",
    "run_lab": "training",
    "single_peak": "landscape",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
