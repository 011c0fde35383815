"""Read statements: values and relations with the words around them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from trl_grpo_ext.answers.read.expressions import OPERATORS
from trl_grpo_ext.answers.read.numerals import is_whole, negative
from trl_grpo_ext.answers.read.quantities import TAILS, Quantities, known_words
from trl_grpo_ext.answers.read.structures import OperatorError
from trl_grpo_ext.answers.read.tokens import Token, UnreadableError
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Collection,
    Logic,
    Node,
    Number,
    Opaque,
    Quantity,
    Relation,
    Symbol,
    Words,
)
from trl_grpo_ext.answers.read.units import NONE, Unit, is_currency, is_unit, unit

RELATIONS = (
    "=",
    "<",
    ">",
    "<=",
    ">=",
    "!=",
    "~",
    "==",
    "in",
    "notin",
    "implies",
    "to",
    "subset",
    "perp",
    "parallel",
)
# A longer list is unreadable: no honest answer needs more items.
MAX_ITEMS = 200
NUMBER_SETS = frozenset(("Reals", "Integers", "Naturals", "Rationals", "Complexes"))

# Tokens of a side that may name an operator's value.
MAX_NAME = 30
# Operators of things that an answer's text does not hold: the rank of A.
_OF_THINGS = frozenset("det dim deg rank nullity trace tr Var Cov Pr ker sup".split())  # noqa: SIM905
# Words that declare a letter's domain, with the name of the domain.
_DOMAINS = {
    "integer": "Integers", "natural": "Naturals", "real": "Reals", "rational": "Rationals",
    "even": "even", "odd": "odd", "positive": "positive", "negative": "negative",
    "nonnegative": "nonnegative", "nonzero": "nonzero",
}  # fmt: skip
TEMPERATURES = {"C": unit("celsius"), "F": unit("fahrenheit")}


def is_operator_name(side: Sequence[Token]) -> bool:
    r"""Check whether a side only names an operator's value: `\det`, `\lim f(x)`, `\operatorname{rank}(A)`, `dy/dx`.

    Where the side tells of what the value is, as in `\gcd(12, 18)`, the value can be checked, so the side is no name.
    """
    if not side:
        return False
    head, *rest = side
    texts = [token.text for token in side if token.text not in "{}"]
    if texts[:2] == ["frac", "d"] and texts[3:4] == ["d"]:
        # dy/dx, also at a place
        return len(texts) == 5 or texts[5] == "|"
    is_of_things = head.kind in ("command", "word") and head.text in _OF_THINGS
    is_operator = is_of_things or (head.kind == "command" and head.text in OPERATORS)
    if not rest:
        return is_operator or head.kind == "function"
    if head.text == "Pr":
        return rest[0].kind in ("open", "group")
    if not is_operator or any(token.kind == "command" for token in rest):
        return False
    if is_of_things:
        return not any(token.kind == "number" for token in rest)
    # A limit of a function that is not told: f(x)
    applied = [one.text for one, other in itertools.pairwise(rest) if other.text == "("]
    return head.text.startswith("lim") and not {"f", "g", "h"}.isdisjoint(applied)


def _is_congruence(sides: Sequence[Node]) -> bool:
    """Check whether only the last of several sides is a remainder, which makes an `=` a congruence: `100 = 2 mod 7`."""
    mods = [isinstance(side, Apply) and side.name == "mod" for side in sides]
    return mods[-1] and not any(mods[:-1])


class Statements(Quantities):
    """A reader of whole answers: statements with the words around them."""

    def __init__(self, row: Sequence[Token], text: str) -> None:
        super().__init__(row)
        self.text = text
        self.has_equals = "=" in text
        self.whole: set[str] = set()
        self.domain: set[str] = set()

    def answer(self) -> Node:
        """Read all tokens as a value.

        Raises:
            UnreadableError: Tokens remain after the value.
        """
        value = self._items(self._statement())
        if self.next.kind != "end":
            raise UnreadableError
        return value

    def conditions(self) -> Node:
        return self._items(self.statement())

    def _items(self, first: Node) -> Node:
        """Read statements up to a bracket or the end: a single statement, or several joined by `,`, `and` or `or`."""
        items = [first]
        joints: set[str] = set()
        while (
            self.sees("sign", ",", ";", "and", "or", "implies")
            or self.sees("row")
            or self.sees("command", "same")
        ):
            joint = self.take()
            while self.sees("sign", ",", "and", "or") or self.sees("row"):
                joint = self.take()
            if self.skip("sign", "..."):
                items = self._before_sequence(items)
                continue
            if self.next.kind in ("end", "close"):
                break
            if self._is_tail():
                self._quantify()
                continue
            joints.add(joint.text)
            items.append(self._statement())
            if len(items) > MAX_ITEMS:
                raise UnreadableError
        items = self._without_domains(items)
        if len(items) == 1:
            return items[0]
        word = next((name for name in ("same", "or", "and") if name in joints), "")
        if (
            word == "same"
            or joints == {"or"}
            or (word and all(isinstance(item, Relation | Logic) for item in items))
        ):
            return Logic(word, tuple(items))
        return Collection("list", tuple(items))

    def _before_sequence(self, items: list[Node]) -> list[Node]:
        r"""Drop indices such as `n = 1, 2, 3, \ldots`, which only declare `n`; return the items before."""
        for place, item in enumerate(items):
            match item:
                case Relation(("=",), (Symbol(letter), Number())) if place:
                    if all(isinstance(later, Number) for later in items[place + 1 :]):
                        self.whole.add(letter)
                        return items[:place]
        raise UnreadableError

    def _without_domains(self, items: list[Node]) -> list[Node]:
        r"""Remove items that only declare a letter's domain: `k \in \mathbb{Z}`."""
        kept = []
        for item in items:
            match item:
                case Relation(("in",), (Symbol(letter), Symbol(domain))) if (
                    len(items) > 1 and domain[:8] in NUMBER_SETS
                ):
                    self.whole.add(letter)
                    self.domain.add(domain)
                case _:
                    kept.append(item)
        return kept or items

    def statement(self, *, in_set: bool = False) -> Node:
        bars, self.bars = self.bars, int(in_set)
        value = self._statement()
        self.bars = bars
        return value

    def _statement(self) -> Node:
        """Read a value or a relation, with the leading and trailing words."""
        # Items of a list, such as coordinates, have neither.
        if self._sees_one_token() and self.ahead(1).text != "=":
            return self.sets()
        lead = self._leading()
        if self.next.kind in ("end", "close") or self.sees("sign", ",", ";"):
            if not lead:
                raise UnreadableError
            return Words(" ".join(lead))
        if self.sees("sign", "forall", "exists"):
            return Apply(self.take().text, (self._statement(),))
        if self.skip("sign", "!="):
            return Apply("not", (self.sets(),))
        if not lead:
            self.skip("sign", "=", "~")
        if lead and lead[-1] == ":" and not self.sees("sign"):
            label: Node = Words(" ".join(lead[:-1]))
            return Relation(("=",), (label, self._value()))
        value = self._relation(lead)
        if self._is_tail():
            self._quantify()
        return value

    def _leading(self) -> list[str]:
        """Read words before a value, including a final colon, and the name of an operator's value."""
        words: list[str] = []
        while not is_operator_name(side := self._side_ahead()):
            is_word = self.sees("word") or (
                words
                and self.sees("sign", "'", "-", ".", '"')
                and self.ahead(1).kind == "word"
            )
            if not is_word:
                break
            token = self.take()
            if token.kind != "sign":
                words.append(token.text if token.text == "usd" else token.text.casefold())
        else:
            self.at += len(side)
            words.append(" ".join(token.text for token in side))
        if words and self.skip("sign", ":"):
            words.append(":")
        return words

    def _side_ahead(self) -> Sequence[Token]:
        """Return the next tokens up to an `=` outside brackets; none without such a sign."""
        if not self.has_equals:
            return ()
        depth = 0
        for place in range(self.at, min(self.at + MAX_NAME, len(self.row))):
            token = self.row[place]
            if token.text == "=" and depth == 0:
                return self.row[self.at : place]
            if token.kind in ("open", "close", "group"):
                depth += 1 if token.kind == "open" or token.text == "{" else -1
        return ()

    def _relation(self, lead: list[str]) -> Node:
        if lead and self.sees("sign", "="):
            sides: list[Node] = [Words(" ".join(lead))]
        else:
            money = next(map(unit, filter(is_currency, lead)), None)
            for word in lead:
                # Of `USD 5`, the word before the value is its unit.
                is_of_money = bool(money and is_unit(word))
                if word not in known_words("leading") and not is_of_money:
                    self.stray.add(word)
            value = self._value(money or NONE)
            sides = [value]
        signs: list[str] = []
        before = lead
        while self.sees("sign", *RELATIONS) or (
            self.sees("word", "in") and isinstance(sides[-1], Symbol)
        ):
            sign = self.take().text
            if sign == "!=" and self.sees("sign", "="):
                raise UnreadableError
            lead = self._leading()
            self.stray.update(set(lead) - known_words("leading") - {"usd"})
            if self.next.kind == "end" and sign == "=":
                raise UnreadableError
            if sign == "implies":
                signs, sides = [], [self._value()]
            else:
                signs.append(sign)
                sides.append(self._value(unit("usd") if "usd" in lead else NONE))
        if not signs:
            return self._named_by_words(before, sides[0])
        if _is_congruence(sides):
            signs = ["=="] * len(signs)
        return Relation(tuple(signs), tuple(sides))

    def _named_by_words(self, lead: list[str], value: Node) -> Node:
        """Turn a value after an unusual word into an amount of that word's unit: `width 4 m`."""
        name = next((word for word in reversed(lead) if word in self.stray), "")
        if not name:
            return value
        named = Unit(((name, 1),))
        if isinstance(value, Quantity):
            return Quantity(value.amount, value.unit.times(named))
        return Quantity(value, named)

    def _amount(self) -> Node:
        """Read an expression; if sympy must evaluate it, take the LaTeX up to the next relation sign as `Opaque`."""
        begin = self.at
        depth, bars = self.depth, self.bars
        try:
            return self.sets()
        except OperatorError as operator:
            self.at, self.depth, self.bars = begin, depth, bars
            groups = 0
            while self.next.kind != "end" and not (
                groups == 0 and self.next.text in ("=", "~", ",", "<", ">", "row")
            ):
                groups += {"{": 1, "}": -1}.get(self.take().text, 0)
            last = self.row[self.at - 1]
            return Opaque(self.text[self.row[begin].start : last.end], str(operator))

    def _value(self, before: Unit = NONE) -> Node:
        """Read an expression with its unit and the counted things."""
        amount = self._amount()
        measured = self._unit()
        amount, measured = self._degrees(amount) or (amount, measured)
        if measured == NONE:
            measured = before
        if measured != NONE:
            amount, measured = self._with_smaller_parts(amount, measured)
        counted = self._count()
        for found in (measured, counted):
            if found != NONE:
                return Quantity(amount, found)
        return amount

    def _degrees(self, amount: Node) -> tuple[Node, Unit] | None:
        r"""Split degrees, or a temperature such as `20^\circ C`, into amount and unit; None without a degree sign."""
        match amount:
            case Apply("-", (inner,)) if found := self._degrees(inner):
                return negative(found[0]), found[1]
            case Apply("deg", (inner,)):
                letter = self.next.text if self.sees("symbol") or self.sees("word") else ""
                if letter not in TEMPERATURES:
                    return inner, unit("deg")
                self.take()
                return inner, TEMPERATURES[letter]
            case Apply("*", (Apply("deg", (inner,)), Symbol("C" | "F" as letter))):
                return inner, TEMPERATURES[letter]
        return None

    def _is_tail(self) -> bool:
        """Check whether the remaining tokens only declare letters to be any numbers: `for all integers k`."""
        if not (self.next.text in TAILS and self.next.kind in ("word", "sign")):
            return False
        if any(token.text == "=" for token in self.row[self.at :]):
            return False
        rest = [token for token in self.row[self.at :] if token.kind == "word"]
        return {token.text.casefold() for token in rest} <= known_words("quantifying")

    def _quantify(self) -> None:
        while self.next.kind != "end" and not self.sees("sign", "or"):
            token = self.take()
            if token.kind == "symbol" and token.text not in NUMBER_SETS:
                self.whole.add(token.text)
            elif token.text in NUMBER_SETS or token.text.casefold().rstrip("s") in _DOMAINS:
                self.domain.add(_DOMAINS.get(token.text.casefold().rstrip("s"), token.text))
        self.stray.discard("such")

    def _beside(self, value: Node) -> Node:
        begin = self.at
        found = super()._beside(value)
        match found:
            case Apply("*", (first, Relation(("in",), (Symbol(letter), _)))):
                self.whole.add(letter)
                return first
            case Apply("*", (factor, Relation() | Logic() | Collection() as items)) if (
                self.row[begin].text == "("
            ):
                if (
                    isinstance(items, Collection)
                    and isinstance(factor, Apply | Number)
                    and not is_whole(factor)
                ):
                    return Collection(
                        items.kind,
                        tuple(Apply("*", (factor, item)) for item in items.items),
                    )
                raise UnreadableError
        return found
