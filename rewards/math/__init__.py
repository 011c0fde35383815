"""Verify mathematical answers by equality with the gold answer."""

from trl_grpo_ext.answers.acceptance import SWITCHES
from trl_grpo_ext.answers.pairs import forget
from trl_grpo_ext.rewards.math.verifier import MathVerifier, math_reward

__all__ = ["SWITCHES", "MathVerifier", "forget", "math_reward"]
