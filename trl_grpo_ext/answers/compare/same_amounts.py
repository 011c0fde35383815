"""Compare amounts with units: numbers, percentages, angles."""

from __future__ import annotations

from dataclasses import dataclass

from trl_grpo_ext.answers.compare.amounts import DECIMALS, measured, percentages, same_number
from trl_grpo_ext.answers.compare.at_once import Algebra
from trl_grpo_ext.answers.read.tree import Apply, Node, Number, Symbol, walk
from trl_grpo_ext.answers.read.units import NONE, Unit, unit

_NUMBERS_BY_NAME = (Symbol("pi"), Symbol("e"), Symbol("i"))
_ANGLE = (("angle", 1),)


@dataclass(frozen=True, slots=True)
class AmountComparison:
    """A comparison of amounts.

    Attributes:
        algebra: Compares values whose types do not decide.
        decimals: Decimal places to which numbers must agree.
    """

    algebra: Algebra
    decimals: int = DECIMALS

    def same_amounts(self, gold: Node, answer: Node) -> bool:
        """Check whether two amounts with units are equal; a percentage also equals its number without the sign."""
        (asked, of), (given, by) = measured(gold), measured(answer)
        of_percent, by_percent = (isinstance(one, Apply) and one.name == "%" for one in (asked, given))
        if of_percent != by_percent and (by if of_percent else of) != NONE:
            return False
        if of != by and NONE not in (of, by):
            if of.measures != by.measures:
                return False
            if of.measures == _ANGLE:
                return self._same_angle((asked, of), (given, by))
            scale = by.factor / of.factor
            same_scale = (
                Number(given.value * scale, 0) if isinstance(given, Number) else Apply("*", (given, Number(scale)))
            )
            return self.same_number_of(asked, same_scale)
        of_pi = any(by == unit("deg") and Symbol("pi") in walk(amount) for amount, by in ((asked, of), (given, by)))
        if not of_pi and self.same_number_of(asked, given):
            return True
        if _ANGLE in (of.measures, by.measures) and NONE in (of, by):
            return self._same_angle((asked, of), (given, by))
        return False

    def _same_angle(self, gold: tuple[Node, Unit], answer: tuple[Node, Unit]) -> bool:
        """Check whether an angle in degrees equals an angle in multiples of pi."""
        sides = []
        for amount, of in (gold, answer):
            in_radians = of in (NONE, unit("rad"))
            if of == NONE and Symbol("pi") not in walk(amount):
                return False
            sides.append(
                amount if in_radians else Apply("*", (Apply("*", (amount, Number(of.factor / 180))), Symbol("pi")))
            )
        return self.algebra.same_values(sides[0], sides[1], self.decimals)

    def same_number_of(self, gold: Node, answer: Node) -> bool:
        asked, given = percentages(gold), percentages(answer)
        if len(asked) > 1 and len(given) > 1:
            asked, given = asked[:1], given[:1]
        return any(self._same_one(one, other) for one in asked for other in given)

    def _same_one(self, gold: Node, answer: Node) -> bool:
        if isinstance(gold, Number) and isinstance(answer, Number):
            return same_number(gold, answer, self.decimals)
        if not any(isinstance(one, Apply) or one in _NUMBERS_BY_NAME for one in (gold, answer)):
            return gold == answer
        return gold == answer or self.algebra.same_values(gold, answer, self.decimals)
