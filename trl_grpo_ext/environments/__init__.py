"""Environments: a local Python, code repair, a calculator as an example, adapters for Harbor and OpenReward."""

from trl_grpo_ext.environments.calculator import Calculator
from trl_grpo_ext.environments.code_repair import CodeRepairEnvironment, extra_submissions
from trl_grpo_ext.environments.harbor import FromHarbor
from trl_grpo_ext.environments.openreward import FromOpenReward
from trl_grpo_ext.environments.python import PythonEnvironment
from trl_grpo_ext.environments.python import python as python_tool

__all__ = [
    "Calculator",
    "CodeRepairEnvironment",
    "FromHarbor",
    "FromOpenReward",
    "PythonEnvironment",
    "extra_submissions",
    "python_tool",
]
