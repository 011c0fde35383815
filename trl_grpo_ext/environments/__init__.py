"""Environments with `get_reward` and `state`: a calculator as an example, and adapters for Harbor and OpenReward."""

from trl_grpo_ext.environments.calculator import Calculator
from trl_grpo_ext.environments.harbor import FromHarbor
from trl_grpo_ext.environments.openreward import FromOpenReward

__all__ = ["Calculator", "FromHarbor", "FromOpenReward"]
