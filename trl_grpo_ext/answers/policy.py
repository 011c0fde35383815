"""What counts as the same answer: the comparison of values, and the kinds of answers that are refused all the same.

math-verify does the problem for the model where it can: it works out a sum that only repeats the question, keeps the
last side of a false equation, drops text as if it were a unit. Each refusal here has a switch that allows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

from trl_grpo_ext.answers.compare.amounts import is_plain_number
from trl_grpo_ext.answers.compare.comparison import Comparison
from trl_grpo_ext.answers.compare.compound import congruent, remainder
from trl_grpo_ext.answers.compare.forms import assigned, is_label, named, stem
from trl_grpo_ext.answers.read.answer import Answer
from trl_grpo_ext.answers.read.tree import (
    OF_OWN_TYPE,
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
    is_exact,
    rename,
    symbols,
    walk,
)
from trl_grpo_ext.answers.read.units import unit

SWITCHES = (
    "accept_unevaluated",
    "accept_stray_text",
    "accept_other_units",
    "accept_other_case",
    "accept_false_equations",
)
APPROXIMATE = 2  # places to which the sides of an approximation must agree
MAX_SIDES = 30  # of a chain of equations that are compared with each other
MAX_STRAY = 2  # words of a gold beside its value that answers may leave out or repeat
MAX_WORDS = 5  # of a gold in words; what is longer can be said in many ways
_WORKED_OUT = frozenset(("gcd", "lcm", "mod", "det"))
_INTEGERS = frozenset("klmnjt")
MAX_CONSTANTS = 3  # of a solution of a differential equation that may have other names
_CONSTANTS = frozenset(("C", "K", *(f"{letter}_{index}" for letter in "cCK" for index in range(4))))
_ARGUMENTS = frozenset(("x", "y", "z", "t", "u", "s", "theta"))


@dataclass(frozen=True, slots=True)
class Judge:
    """Says why an answer is not right.

    Attributes:
        comparison: Of values.
        accepted: The switches of the refusals that are off.
        echo: How much of the prompt the answer is: what only repeats the question is no answer.
    """

    comparison: Comparison
    accepted: Sequence[str] = ()
    echo: str = ""

    def problem(self, gold: Answer, answer: Answer) -> str:
        """The reason code why this answer is not right; empty if it is."""
        if gold.domain and answer.domain and gold.domain != answer.domain:
            return "not_equal"
        if not self._same(gold, answer):
            return self._difference(gold, answer)
        # Words beside the value may change it: `5 \text{ is wrong}`, `\text{minus } 5`.
        if "accept_stray_text" not in self.accepted and answer.stray - gold.stray - gold.counted:
            return "stray_text"
        if "accept_unevaluated" not in self.accepted and is_unevaluated(gold, answer, echo=self.echo):
            return "unevaluated"
        if "accept_false_equations" not in self.accepted and self._is_false_equation(gold, answer):
            return "false_equation"
        return ""

    def _same(self, gold: Answer, answer: Answer) -> bool:
        return any(self.comparison.same(gold.node, node) for node in _renamed(gold, answer))

    def _difference(self, gold: Answer, answer: Answer) -> str:
        """Why a value is another one: its unit or the case of a letter alone may be."""
        if isinstance(gold.node, Number) and isinstance(answer.node, Number):
            return "not_equal"
        if isinstance(answer.node, Apply) and answer.node.name == "not":
            inner = replace(answer, node=answer.node.arguments[0])
            if self._same(gold, inner):
                return "" if "accept_stray_text" in self.accepted else "negated"
        bare = [_without_unit(one.node) for one in (gold, answer)]
        if bare != [gold.node, answer.node] and self.comparison.same(bare[0], bare[1]):
            return "" if "accept_other_units" in self.accepted else "other_unit"
        letters = {name.swapcase(): name for name in symbols(gold.node) - symbols(answer.node) if len(name) == 1}
        if letters.keys() & symbols(answer.node):
            node = answer.node
            for other, name in letters.items():
                node = rename(node, other, name)
            if self.comparison.same(gold.node, node):
                return "" if "accept_other_case" in self.accepted else "other_symbols"
        return "not_equal"

    def _is_false_equation(self, gold: Answer, answer: Answer) -> bool:
        r"""Whether sides of `=` have different values: `4 = 5`, `6 = x = 5`. Sides that are names have none."""
        if gold.node == answer.node:
            return False
        for relation in walk(answer.node):
            if not isinstance(relation, Relation) or not set(relation.signs) <= {"=", "~"}:
                continue
            decimals = APPROXIMATE if "~" in relation.signs else self.comparison.decimals
            values = _values(relation)
            for one, other in combinations(values, 2):
                constant = (not symbols(one) and not symbols(other)) or isinstance(one, Opaque)
                alike = symbols(one) == symbols(other) and (len(values) > 2 or not isinstance(gold.node, Relation))
                same = replace(self.comparison, decimals=decimals).same
                if (constant or alike) and not (same(one, other) or same(other, one)):
                    return True
        return False


def _values(relation: Relation) -> list[Node]:
    """The sides of an equation that have values; beside an integral, the constant that is added to them goes."""
    values: list[Node] = [side for side in relation.sides if not is_label(side) and not isinstance(side, Collection)]
    if any(isinstance(side, Opaque) and side.operator == "integral" for side in values):
        values = list(map(_without_constant, values))
    return values[:MAX_SIDES]


def _without_constant(side: Node) -> Node:
    match side:
        case Apply("+", (value, Symbol("C" | "c" | "K"))) | Apply("+", (Symbol("C" | "c" | "K"), value)):
            return value
    return side


def _renamed(gold: Answer, answer: Answer) -> Iterator[Node]:
    """The answer's value, and the same with its other letters under the gold's names, where letters are free.

    A letter is free that stands for any integer, as in `k\\pi`, for a function's argument, or for any constant, as the
    `C` of an integral.
    """
    yield answer.node
    asked, given = (symbols(_said(one.node)) for one in (gold, answer))
    asked, given = asked - given, given - asked
    if len(asked) == len(given) == 1 and _is_free(gold, answer, *asked, *given):
        yield rename(answer.node, *given, *asked)
    elif len(asked) == len(given) <= MAX_CONSTANTS and _are_constants(gold.node, asked, given):
        for names in permutations(sorted(asked)):
            node = answer.node
            for other, name in zip(sorted(given), names, strict=True):
                node = rename(node, other, name)
            yield node


def _is_free(gold: Answer, answer: Answer, name: str, other: str) -> bool:
    """Whether a letter of the gold and one of the answer stand for any integer, or for a function's argument."""
    whole = name in gold.whole or other in answer.whole
    bound = _bound(gold.node) == {name} and _bound(answer.node) == {other}
    sides = ((gold.node, name), (answer.node, other))
    counted = {name, other} <= _INTEGERS and all(_beside_pi(node, letter) for node, letter in sides)
    return whole or bound or counted


def _are_constants(gold: Node, asked: frozenset[str], given: frozenset[str]) -> bool:
    r"""Whether letters stand for constants that may have any value: the `C` of `x^2 + C`, the `C_1` of `C_1 e^{2x}`.

    A small `c` is such a constant only where the answer says `C`, or in a function: as `k`, it is usually given.
    """
    stems = set(map(stem, asked)) & set(map(stem, given))
    if (stems and asked != stems) or not symbols(gold) & _ARGUMENTS:
        return False
    if asked == {"c"}:
        of_function = bool(_bound(gold))
        return given <= ({"C", "k", "a"} if of_function else {"C"}) and symbols(gold) <= _ARGUMENTS | asked
    return asked <= _CONSTANTS and given <= _CONSTANTS | {"c", "k", "A", "B"}


def _bound(node: Node) -> set[str]:
    """The argument of the function that a statement defines."""
    match node:
        case Relation(("=",), (Apply(_, (Symbol(name),)), _)) if named(node.sides[0]):
            return {name}
    return set()


def _beside_pi(node: Node, name: str) -> bool:
    products = (one for one in walk(node) if isinstance(one, Apply) and one.name in ("*", "/"))
    return any({Symbol(name), Symbol("pi")} <= set(walk(product)) for product in products)


def _without_unit(node: Node) -> Node:
    match node:
        case Quantity(amount):
            return amount
        case Relation(signs, sides):
            return Relation(signs, tuple(map(_without_unit, sides)))
    return node


def is_unevaluated(gold: Answer, answer: Answer, *, echo: str = "") -> bool:
    r"""Whether the answer leaves the work to the grader: `17 \times 23`, `\sum_{k=1}^{100} k`, `\frac{d}{dx} x^2`.

    For a gold that is a plain number, an answer is a number as well, or one closed form: a power, a root, a factorial,
    a function's value, unless that only repeats the question. Sums and products may stand for a gold that is written
    as a decimal, if they are exact. Any other gold allows the operators that it has itself. A formula of the prompt is
    none: `(x+5)(x-2)` where that is to be expanded, `15/20` where that is to be reduced.
    """
    if echo == "whole" and isinstance(answer.node, Apply | Number | Relation):
        return True
    asked = gold.node if isinstance(gold.node, Logic) else _said(gold.node)
    given = _said(answer.node)
    if congruent(answer.node) or remainder(answer.node):  # statements, and nothing to be worked out: n = 7 (mod 5)
        return False
    in_radians = isinstance(gold.node, Quantity) and gold.node.unit == unit("deg") and Symbol("pi") in walk(given)
    if in_radians:
        return False
    if operators(given) - operators(asked):
        return True
    if not is_plain_number(asked) or is_plain_number(given) or isinstance(given, (Words, *OF_OWN_TYPE)):
        return False
    if is_closed_form(given) and not echo:
        return False
    return is_exact(asked) or not is_exact(given) or bool(symbols(given))


def is_closed_form(node: Node) -> bool:
    r"""Whether a value is one power, root, factorial or function's value, with no sum or product left: `2^{10}`.

    Examples:
        >>> from trl_grpo_ext.answers.read.answer import read
        >>> [is_closed_form(read(text).node) for text in ("2^{10}", r"\sin(7\pi)", r"17 \times 23", "(1+2)^2")]
        [True, True, False, False]
    """
    match node:
        case Apply("-", (inner,)):
            return is_closed_form(inner)
        case Apply(name, arguments) if name not in ("+", "*", "/", "+-", "-+", "ratio", *_WORKED_OUT):
            return all(_is_simple(argument) or is_closed_form(argument) for argument in arguments)
    return False


def _is_simple(node: Node) -> bool:
    """Whether a value is a number, a constant, or a multiple of pi."""
    match node:
        case Number() | Symbol("pi" | "e" | "i"):
            return True
        case Apply("*", (Symbol("pi" | "i"), Symbol("pi" | "i"))):
            return True
        case Apply("-", (inner,)):
            return _is_simple(inner)
        case Apply("*", (Number(), inner)) | Apply("/", (inner, Number())):
            return Symbol("pi") in walk(inner) and _is_simple(inner)
    return False


def _said(node: Node) -> Node:
    """The value that a statement gives."""
    value = assigned(node)
    match node:
        case Relation(("=",), (Collection(), Collection() as values)):
            return values
        case Logic("same" | "or", parts):
            return parts[-1]
        case Quantity(amount):
            return amount
    return value[1] if value else node


def operators(node: Node) -> set[str]:
    """The operators in a value that a computer algebra system would work out."""
    found = {one.operator for one in walk(node) if isinstance(one, Opaque)}
    return {*found, *(one.name for one in walk(node) if isinstance(one, Apply) and one.name in _WORKED_OUT)} - {""}


def is_prose(gold: Answer) -> bool:
    """Whether a gold is a text that can be said in many ways, which no rule can compare."""
    match gold.node:
        case Words(text):
            return len(text.split()) > MAX_WORDS
    return len(gold.stray) > MAX_STRAY or (bool(gold.stray) and isinstance(gold.node, Logic))
