"""Reward terms and their parts: weight schedules, gates, row conditions, shapes and combinations.

A term turns a sample into a value in this order: `when` selects the rows, the verifier or the combination scores them,
the shapes and then the gate change the score. The weight in force multiplies the value.
"""

from trl_grpo_ext.mix.combination import Combination, first, minimum, product
from trl_grpo_ext.mix.gate import Gate, When
from trl_grpo_ext.mix.schedule import Schedule, constant, cosine, linear, piecewise
from trl_grpo_ext.mix.shape import Clip, Threshold
from trl_grpo_ext.mix.term import RewardTerm

__all__ = [
    "Clip",
    "Combination",
    "Gate",
    "RewardTerm",
    "Schedule",
    "Threshold",
    "When",
    "constant",
    "cosine",
    "first",
    "linear",
    "minimum",
    "piecewise",
    "product",
]
