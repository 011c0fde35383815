"""Environments with `get_reward`, and a `state` for verifiers and the record: a first one, and those of others."""

from trl_grpo_ext.environments.calculator import Calculator
from trl_grpo_ext.environments.harbor import FromHarbor
from trl_grpo_ext.environments.openreward import FromOpenReward

__all__ = ["Calculator", "FromHarbor", "FromOpenReward"]
