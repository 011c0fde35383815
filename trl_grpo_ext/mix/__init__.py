"""Reward terms, and what they are made of: weights that move, gates, routing, shapes and combinations.

A term's verdicts become values in this order: the rows it is for (`when`), the verifier or the combination, the shape,
the gate; the weight in force multiplies what comes out.
"""

from trl_grpo_ext.mix.combination import Combination, first, minimum, product
from trl_grpo_ext.mix.gate import Gate, When
from trl_grpo_ext.mix.schedule import Schedule, constant, cosine, linear, piecewise
from trl_grpo_ext.mix.shape import Affine, Clip, Sign, Table, Threshold
from trl_grpo_ext.mix.term import RewardTerm

__all__ = [
    "Affine",
    "Clip",
    "Combination",
    "Gate",
    "RewardTerm",
    "Schedule",
    "Sign",
    "Table",
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
