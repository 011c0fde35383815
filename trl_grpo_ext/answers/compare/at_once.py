"""The trainer process's algebra: it compares numbers and identical expressions, else raises `UndecidedError`."""

from __future__ import annotations

from trl_grpo_ext.answers.compare.amounts import DECIMALS, apart
from trl_grpo_ext.answers.read.tree import Node, Relation


class UndecidedError(Exception):
    """An algebra without sympy cannot compare these two values."""


class Algebra:
    """An algebra without sympy: identical expressions are equal, distant values differ, all else is undecided."""

    def same_values(self, gold: Node, answer: Node, decimals: int) -> bool:
        """Check whether two expressions or matrices are equal.

        Raises:
            UndecidedError: The expressions are neither identical nor clearly different.
        """
        if gold == answer:
            return True
        if apart(gold, answer, decimals):
            return False
        raise UndecidedError

    def same_equations(self, gold: Relation, answer: Relation) -> bool:
        """Check whether two equations, or two inequalities in several variables, are equivalent."""
        return self.same_values(gold, answer, DECIMALS)

    def same_regions(self, gold: Node, answer: Node) -> bool:
        """Check whether two nodes name the same set of numbers."""
        return self.same_values(gold, answer, DECIMALS)

    def solves(self, gold: Relation, answer: Node) -> bool:
        """Check whether an expression solves an equation for the variable that the expression lacks."""
        return self.same_values(gold, answer, DECIMALS)
