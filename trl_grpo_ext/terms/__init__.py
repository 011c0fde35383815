"""Reward terms, and what they are made of: weights that move, gates, routing, shapes and combinations.

A term's verdicts become values in this order: the rows it is for (`when`), the verifier or the combination, the shape,
the gate; the weight in force multiplies what comes out.
"""

from trl_grpo_ext.terms.combination import Combination, first, minimum, product
from trl_grpo_ext.terms.gate import Gate
from trl_grpo_ext.terms.routing import When
from trl_grpo_ext.terms.schedule import Schedule, constant, cosine, linear, piecewise
from trl_grpo_ext.terms.shape import Affine, Clip, Sign, Table, Threshold
from trl_grpo_ext.terms.term import RewardTerm

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
