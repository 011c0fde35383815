"""The algebra of the trainer's process: it knows numbers and what is written alike, and says where it does not know."""

from __future__ import annotations

from trl_grpo_ext.answers.compare.amounts import DECIMALS, apart
from trl_grpo_ext.answers.read.tree import Node, Relation


class UndecidedError(Exception):
    """The algebra at hand cannot tell."""


class Algebra:
    """Compares values that are not decided by their types: here those that are written alike, else it is undecided."""

    def same_values(self, gold: Node, answer: Node, decimals: int) -> bool:
        """Whether two expressions or matrices are equal."""
        if gold == answer:
            return True
        if apart(gold, answer, decimals):
            return False
        raise UndecidedError

    def same_equations(self, gold: Relation, answer: Relation) -> bool:
        """Whether two equations or inequalities of several variables say the same."""
        return self.same_values(gold, answer, DECIMALS)

    def same_regions(self, gold: Node, answer: Node) -> bool:
        """Whether two nodes name the same set of numbers."""
        return self.same_values(gold, answer, DECIMALS)

    def solves(self, gold: Relation, answer: Node) -> bool:
        """Whether an expression is what an equation says of the variable that the expression lacks."""
        return self.same_values(gold, answer, DECIMALS)
