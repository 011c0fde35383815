"""Environments of others as this package takes them: with `get_reward`, and a `state` for verifiers and the record."""

from trl_grpo_ext.environments.harbor import FromHarbor
from trl_grpo_ext.environments.openreward import FromOpenReward

__all__ = ["FromHarbor", "FromOpenReward"]
