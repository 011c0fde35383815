"""Verify mathematical answers by equality with the gold answer."""

from trl_grpo_ext.answers.judge import forget
from trl_grpo_ext.answers.policy import SWITCHES
from trl_grpo_ext.rewards.math.verifier import MathVerifier, math_reward

__all__ = ["SWITCHES", "MathVerifier", "forget", "math_reward"]
