"""Read the unit and the counted things after a number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from trl_grpo_ext.answers.read.expressions import Expressions
from trl_grpo_ext.answers.read.numerals import number
from trl_grpo_ext.answers.read.tokens import Token, UnreadableError
from trl_grpo_ext.answers.read.tree import Node, Number
from trl_grpo_ext.answers.read.units import (
    NONE,
    Unit,
    as_one_currency,
    is_unit,
    raised_by,
    unit,
)

# The Greek letter as a unit.
_OHM = {"Omega": "ohm"}
# Kinds of tokens that may begin a unit.
_KINDS_OF_UNITS = ("word", "symbol", "function")
# 36 m long
_SIDES = ("long", "wide", "high", "tall", "deep")
_BEHIND_UNITS = (",", ";", "/", "^", "and", "or", "altogether", *_SIDES)
_OF_AMOUNTS = ("^", "-", "*", "frac", "sqrt")
TAILS = frozenset(("for", "where", "with", "when", "if", "forall", "such"))


@cache
def known_words(name: str) -> frozenset[str]:
    """Load a list of `words.txt` by its name."""
    table = (
        files("trl_grpo_ext.answers.read").joinpath("words.txt").read_text(encoding="utf-8")
    )
    found: set[str] = set()
    for line in table.splitlines():
        if line.startswith(name + " "):
            _, *words = line.split()
            found.update(words)
    return frozenset(found)


class Quantities(Expressions):
    """A reader of expressions with units."""

    def __init__(self, row: Sequence[Token]) -> None:
        super().__init__(row)
        self.stray: set[str] = set()
        self.counted: set[str] = set()

    def _unit(self) -> Unit:
        """Read a unit: `km/h`, `square feet`, `m^2`, `newtons per metre`; `NONE` without a unit."""
        # Most values have no unit.
        if self.next.kind not in _KINDS_OF_UNITS and self.next.text != "/":
            return NONE
        found, last, sign, power = NONE, NONE, 1, 1
        while True:
            if (
                self.sees("word")
                and raised_by(self.next.text) > 1
                and (last != NONE or self._is_unit_at(1))
            ):
                raising = raised_by(self.take().text)
                if last != NONE and not (self.sees("word") and is_unit(self.next.text)):
                    found = found.times(last, sign * (raising - 1))
                else:
                    power = raising
            elif self.sees("word", "per") or (
                self.sees("sign", "/") and self._is_unit_at(1)
            ):
                self.take()
                sign = -1
            elif self.sees("sign", "*") and self._is_unit_at(1) and found != NONE:
                self.take()
            elif (
                self.sees("word") or found != NONE or power > 1 or self._begins_unit()
            ) and self._is_unit_at(0):
                name = self.take().text
                last = unit(_OHM.get(name, name))
                power = self._exponent_of_unit() or power
                if found == unit("deg") and last in (unit("celsius"), unit("fahrenheit")):
                    found = NONE
                found, power = found.times(last, sign * power), 1
            else:
                return found

    def _is_unit_at(self, ahead: int) -> bool:
        token = self.ahead(ahead)
        if self._is_in_total(ahead):
            return False
        return token.kind in ("word", "symbol", "function") and is_unit(
            _OHM.get(token.text, token.text)
        )

    def _is_in_total(self, ahead: int) -> bool:
        """Check for words that sum up: `135 minutes in total`. Their "in" is no inch."""
        return self.ahead(ahead).text == "in" and self.ahead(ahead + 1).text in (
            "total",
            "all",
        )

    def _exponent_of_unit(self) -> int:
        # cm3
        if self.sees("number", "2", "3") and not self.next.space:
            return int(self.take().text)
        if not self.skip("sign", "^"):
            return 0
        exponent = self.exponent()
        if (
            not isinstance(exponent, Number)
            or exponent.value.denominator != 1
            or abs(exponent.value) > 4
        ):
            raise UnreadableError
        return int(exponent.value)

    def _count(self) -> Unit:
        """Read the words after a value as a unit of counted things; unknown words are stray."""
        words: list[str] = []
        while self.next.text not in TAILS and (
            self.sees("word")
            or (words and self.sees("sign", ".") and self.ahead(1).kind == "word")
        ):
            token = self.take()
            if token.kind == "word":
                words.append(token.text)
        while self.sees("sign", ".", "?", "!"):
            if self.take().text == "?":
                self.stray.add("?")
        if not words:
            return NONE
        known = known_words("counted")
        scaled = known_words("changing") | known_words("scaling")
        said = [word.casefold() for word in words]
        # Short units depend on case.
        unknown = []
        # Not the M of "5 M dollars", which scales.
        acronyms = {word.casefold() for word in words if len(word) > 1 and word.isupper()}
        for plain, word in zip(said, words, strict=True):
            if plain not in known and not is_unit(word):
                unknown.append(plain)
        # `red apples` counts things, so that its unknown words are not stray.
        is_plural = said[-1].endswith("s") and said[-1] not in scaled and len(said) <= 3
        if is_plural and all(
            word not in scaled and word.isalpha() and (len(word) > 2 or word in acronyms)
            for word in unknown
        ):
            unknown = [word for word in unknown if word in known_words("negating")]
        self.counted.update(said)
        self.stray.update(unknown)
        generic = known_words("generic")
        things = [word for word in said if word not in generic and not is_unit(word)]
        return Unit(((things[-1].rstrip("s"), 1),)) if things else NONE

    def _with_smaller_parts(self, amount: Node, measured: Unit) -> tuple[Node, Unit]:
        r"""Add amounts of smaller units: `2 hours and 30 minutes` in hours, `30^\circ 15'` in degrees.

        The pounds of `4 pounds and 35 pence` are money.

        A comma joins only times, "6 weeks, 3 days": other amounts may be a list.
        """
        is_time = measured.measures == unit("hour").measures
        while isinstance(amount, Number):
            begin = self.at
            if is_time:
                self.skip("sign", ",")
            self.skip("sign", "and")
            if not self.sees("number"):
                self.at = begin
                break
            part = number(self.take().text)
            is_of_arc = measured == unit("deg") and self.sees("sign", "'", '"')
            smaller = self._primes() if is_of_arc else self._unit()
            whole, smaller = as_one_currency(measured, smaller)
            share = smaller.factor / whole.factor
            added = part.value * share
            if smaller.measures != whole.measures or not 0 <= added < 1 or share >= 1:
                self.at = begin
                break
            amount = Number(amount.value + added, part.places or amount.places)
            measured = whole
        return amount, measured

    def _primes(self) -> Unit:
        """Read a prime as minutes, two primes as seconds of arc."""
        if self.skip("sign", '"'):
            return unit("arcsecond")
        self.take()
        if self.skip("sign", "'"):
            return unit("arcsecond")
        return unit("arcminute")

    def _begins_factor(self) -> bool:
        return (
            super()._begins_factor()
            and not self._begins_unit()
            and not self._is_part_of_degree()
        )

    def _is_part_of_degree(self) -> bool:
        r"""Check whether a number counts minutes or seconds of arc: `30^\circ 15'`."""
        behind = [token.text for token in self.row[max(self.at - 2, 0) : self.at]]
        return self.sees("number") and "deg" in behind and self.ahead(1).text in ("'", '"')

    def _begins_unit(self) -> bool:
        """Check whether a letter means a unit, as in `5 m`: listed in the table, after space, ending a statement."""
        token = self.next
        is_letter = (
            token.kind == "symbol"
            and (token.space or token.text in _OHM)
            and self._is_unit_at(0)
        )
        is_time = token.kind == "function" and token.text in ("min", "sec")
        if not (is_letter or is_time):
            return False
        following = 1
        # N m, m * s^-2
        while True:
            after = self.ahead(following)
            is_product = after.text == "*"
            place = following + is_product
            is_joined = is_product or after.space
            if not (
                is_joined and self.ahead(place).kind == "symbol" and self._is_unit_at(place)
            ):
                break
            following = place + 1
        at_end = (
            after.kind in ("end", "close", "number")
            or after.text in _BEHIND_UNITS
            or self._is_in_total(following)
            or self._ends_with_words(following)
        )
        return at_end and self._is_behind_amount()

    def _ends_with_words(self, ahead: int) -> bool:
        """Check whether only words that change no value follow: `14 L left`."""
        # Of "6 h square units", the letter is no unit.
        known = known_words("counted") - {"unit", "units"}
        behind = self.row[self.at + ahead :]
        said = [token.text.casefold() for token in behind if token.kind == "word"]
        others = {token.text for token in behind if token.kind not in ("word", "end")}
        return bool(said) and known.issuperset(said) and others <= {"."}

    def _is_behind_amount(self) -> bool:
        r"""Check whether only a number precedes the next token, such as `\frac{1}{2}` or `2 \times 10^{3}`."""
        begin = self.at
        while begin:
            token = self.row[begin - 1]
            if token.kind not in ("number", "group") and token.text not in _OF_AMOUNTS:
                break
            begin -= 1
        has_number = any(token.kind == "number" for token in self.row[begin : self.at])
        if begin == 0:
            return has_number
        before = self.row[begin - 1]
        # 2 h 15 min
        if begin > 1 and self.row[begin - 2].kind == "number" and is_unit(before.text):
            return True
        return has_number and before.kind not in ("symbol", "function", "close")
