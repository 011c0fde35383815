"""Decide whether an answer is accepted: compare values, then refuse some kinds of equal answers.

math-verify solves the problem for the model where it can: it evaluates a sum that only repeats the question, keeps the
last side of a false equation, and drops text as if it were a unit. Each refusal here has a switch that allows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, permutations
from typing import Literal

from trl_grpo_ext.answers.asked.form import REDUCED, is_unfinished
from trl_grpo_ext.answers.compare.amounts import is_plain_number
from trl_grpo_ext.answers.compare.comparison import Comparison
from trl_grpo_ext.answers.compare.forms import (
    assigned,
    congruent,
    is_label,
    named,
    remainder,
    stem,
)
from trl_grpo_ext.answers.compare.roundings import is_rounding
from trl_grpo_ext.answers.find.asked import asks_percentage, is_given_amount
from trl_grpo_ext.answers.find.values import FORMULA
from trl_grpo_ext.answers.read.answer import Answer, read
from trl_grpo_ext.answers.read.spelling import spelled
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
    Time,
    Words,
    is_exact,
    rename,
    symbols,
    walk,
)
from trl_grpo_ext.answers.read.units import unit
from trl_grpo_ext.answers.read.working import ROUGH

SWITCHES = (
    "accept_unevaluated",
    "accept_stray_text",
    "accept_other_units",
    "accept_other_case",
    "accept_false_equations",
)
# Decimal places to which the sides of an approximation must agree.
APPROXIMATE = 2
# Sides of a chain of equations that are compared with each other; the rest is not checked.
MAX_SIDES = 30
# A gold with more words beside its value is prose; answers may leave out or repeat fewer.
MAX_STRAY = 2
# A gold with more words is prose: it has too many paraphrases for a comparison.
MAX_WORDS = 5
_WORKED_OUT = frozenset(("gcd", "lcm", "mod", "det", "between"))
_INTEGERS = frozenset("klmnjt")
# Constants of a solution of a differential equation that an answer may rename.
MAX_CONSTANTS = 3
_CONSTANTS = frozenset(
    ("C", "K", *(f"{letter}_{index}" for letter in "cCK" for index in range(4)))
)
_ARGUMENTS = frozenset(("x", "y", "z", "t", "u", "s", "theta"))
# How much of the prompt's formula an answer copies: nothing, a part, or the whole formula. An unfinished answer has not
# the form that the prompt asks for.
Echo = Literal["", "part", "whole", "unfinished"]
_SPACING = re.compile(r"[\s{}$]|\\[,;:! ]|\\(?:left|right)")
# Words of a prompt that asks to rewrite a number or a time in another form.
_OTHER_FORM = re.compile(
    rf"\b(?:{REDUCED}|rationali[sz]e|rounded?|nearest|convert(?:ed)?|mixed number"
    r"|(?:scientific|standard) (?:notation|form)|(?:decimal|significant) (?:places|figures|digits)"
    r"|(?:12|24)-hour|(?:as|in|into|to) an? (?:\w+ )?(?:fraction|decimal|percent(?:age)?))\b",
    re.IGNORECASE,
)

# Where a formula of plain text ends: a stop, a quotation mark or a word. Words of two letters may be products: `xy`.
_BETWEEN_FORMULAS = re.compile(
    r"[`\"\n;?]|\*\*|\\[()\[\]]|[,:.!](?=\s|$)"
    r"|(?<![A-Za-z\\\d])(?!(?:sin|cos|tan|log|exp|sqrt)(?![A-Za-z]))"
    r"(?:[A-Za-z]{3,}|is|of|if|in|to|at|as|by|or|on|we|it|be|so|do|an|[aAI](?=\s+[\w(\\]))(?![A-Za-z])",
    re.IGNORECASE,
)
# Another value, or a command such as \text, in the words around a formula.
_MATHEMATICAL = re.compile(r"[\d\\=<>]")
_LETTER = re.compile(r"[A-Za-z]")
_OPERATION = re.compile(r"[-+*/^]|\\|[\d)]\(|sqrt")
# Signs that an answer may add to a formula, or leave out, without any work.
_OPTIONAL = re.compile(r"\\(?:cdot|times)(?![A-Za-z])|[()\[\]\\*]")
_TERM = re.compile(r"[-+]?[^-+]+")
_LAST_ZEROS = re.compile(r"(\.\d{0,30}?)0{1,30}(?!\d)")


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge that gives a reason code for a wrong or refused answer.

    Attributes:
        comparison: Compares values.
        accepted: Switches that allow an otherwise refused kind of answer.
        echo: How much of the prompt's formula the answer copies; an answer that only repeats the question, or has not
            the asked form, is refused.
    """

    comparison: Comparison
    accepted: Sequence[str] = ()
    echo: str = ""

    def problem(self, gold: Answer, answer: Answer) -> str:
        """Return the reason code for a wrong answer; an empty string for a right answer."""
        if gold.domain and answer.domain and gold.domain != answer.domain:
            return "not_equal"
        if not self._same(gold, answer):
            return self._difference(gold, answer)
        # Words beside the value may change it: `5 \text{ is wrong}`, `\text{minus } 5`.
        if (
            "accept_stray_text" not in self.accepted
            and answer.stray - gold.stray - gold.counted
        ):
            return "stray_text"
        if "accept_unevaluated" not in self.accepted and is_unevaluated(
            gold, answer, echo=self.echo
        ):
            return "unevaluated"
        if "accept_false_equations" not in self.accepted and self._is_false_equation(
            gold, answer
        ):
            return "false_equation"
        return ""

    def _same(self, gold: Answer, answer: Answer) -> bool:
        return any(self.comparison.same(gold.node, node) for node in _renamed(gold, answer))

    def _difference(self, gold: Answer, answer: Answer) -> str:
        """Return the reason code for unequal values: `other_unit`, `other_symbols` or `negated`, else `not_equal`.

        An empty string means that a switch accepts the difference.
        """
        if isinstance(gold.node, Number) and isinstance(answer.node, Number):
            return "not_equal"
        if isinstance(answer.node, Apply) and answer.node.name == "not":
            inner = replace(answer, node=answer.node.arguments[0])
            if self._same(gold, inner):
                return "" if "accept_stray_text" in self.accepted else "negated"
        bare_gold = _without_unit(gold.node)
        bare_answer = _without_unit(answer.node)
        has_unit = (bare_gold, bare_answer) != (gold.node, answer.node)
        if has_unit and self.comparison.same(bare_gold, bare_answer):
            return "" if "accept_other_units" in self.accepted else "other_unit"
        if self._differs_in_case(gold, answer):
            return "" if "accept_other_case" in self.accepted else "other_symbols"
        return "not_equal"

    def _differs_in_case(self, gold: Answer, answer: Answer) -> bool:
        """Check whether an answer equals the gold once its letters have the gold's case."""
        missing = symbols(gold.node) - symbols(answer.node)
        letters = {name.swapcase(): name for name in missing if len(name) == 1}
        if not letters.keys() & symbols(answer.node):
            return False
        node = answer.node
        for other, name in letters.items():
            node = rename(node, other, name)
        return self.comparison.same(gold.node, node)

    def _is_false_equation(self, gold: Answer, answer: Answer) -> bool:
        r"""Check whether sides of an equation have different values: `4 = 5`, `6 = x = 5`. Names have no value."""
        if gold.node == answer.node:
            return False
        for relation in walk(answer.node):
            if not isinstance(relation, Relation) or not set(relation.signs) <= {"=", "~"}:
                continue
            decimals = APPROXIMATE if "~" in relation.signs else self.comparison.decimals
            values = _values(relation)
            is_last = "~" in relation.signs and self._is_last(gold, values)
            for one, other in combinations(values, 2):
                if is_last and _is_rounded(relation, one, other):
                    continue
                are_constant = (not symbols(one) and not symbols(other)) or isinstance(
                    one, Opaque
                )
                is_chain = len(values) > 2 or not isinstance(gold.node, Relation)
                are_alike = is_chain and symbols(one) == symbols(other)
                if (not are_constant and not are_alike) or _is_rate(one, other):
                    continue
                same = replace(self.comparison, decimals=decimals).same
                if not same(one, other) and not same(other, one):
                    return True
        return False

    def _is_last(self, gold: Answer, values: Sequence[Node]) -> bool:
        """Check whether the last of an equation's values is the gold."""
        return bool(values) and self.comparison.same(_said(gold.node), values[-1])


def _is_rounded(relation: Relation, one: Node, other: Node) -> bool:
    """Check whether the sign of an approximation stands before a rounding of the side before it: `x = 46.67 ≈ 47`."""
    sides = list(relation.sides)
    # Of sides that are repeated, the last: 4 * 18 ≈ 4 * 18 = 80
    end = max((place for place, side in enumerate(sides) if side == other), default=0)
    begin = max(
        (place for place, side in enumerate(sides[:end]) if side == one), default=end
    )
    return "~" in relation.signs[begin:end] and is_rounding(one, other)


def _is_rate(one: Node, other: Node) -> bool:
    """Check whether sides of an equation have different units, and so tell a rate: `3 pens = $45`, `5 miles = 8 km`.

    Units of one measure may be converted roughly: the sides may differ by a tenth.
    """
    match one, other:
        case Quantity(_, of), Quantity(_, by) if of.measures != by.measures:
            return True
        case Quantity(Number(given), of), Quantity(Number(converted), by) if of != by:
            size = given * of.factor
            return abs(size - converted * by.factor) <= ROUGH * abs(size)
    return False


def _values(relation: Relation) -> list[Node]:
    """Return an equation's sides that have values, at most `MAX_SIDES`; beside an integral, drop the added constant."""
    values: list[Node] = [
        side
        for side in relation.sides
        if not is_label(side) and not isinstance(side, Collection)
    ]
    if any(isinstance(side, Opaque) and side.operator == "integral" for side in values):
        values = list(map(_without_constant, values))
    return values[:MAX_SIDES]


def _without_constant(side: Node) -> Node:
    match side:
        case Apply("+", (value, Symbol("C" | "c" | "K"))) | Apply(
            "+", (Symbol("C" | "c" | "K"), value)
        ):
            return value
    return side


def _renamed(gold: Answer, answer: Answer) -> Iterator[Node]:
    r"""Yield the answer's value, then copies with free letters renamed to the gold's letters.

    A letter is free if it stands for any integer, as in `k\\pi`, for a function's argument, or for any constant, as the
    `C` of an integral.
    """
    yield answer.node
    letters = symbols(_said(gold.node))
    others = symbols(_said(answer.node))
    asked = letters - others
    given = others - letters
    if len(asked) == len(given) == 1 and _is_free(gold, answer, *asked, *given):
        yield rename(answer.node, *given, *asked)
    elif len(asked) == len(given) <= MAX_CONSTANTS and _are_constants(
        gold.node, asked, given
    ):
        for names in permutations(sorted(asked)):
            node = answer.node
            for other, name in zip(sorted(given), names, strict=True):
                node = rename(node, other, name)
            yield node


def _is_free(gold: Answer, answer: Answer, name: str, other: str) -> bool:
    """Check whether a gold's letter and an answer's letter denote free integers or function arguments."""
    whole = name in gold.whole or other in answer.whole
    bound = _bound(gold.node) == {name} and _bound(answer.node) == {other}
    sides = ((gold.node, name), (answer.node, other))
    counted = {name, other} <= _INTEGERS and all(
        _beside_pi(node, letter) for node, letter in sides
    )
    return whole or bound or counted


def _are_constants(gold: Node, asked: frozenset[str], given: frozenset[str]) -> bool:
    r"""Check whether letters stand for arbitrary constants: the `C` of `x^2 + C`, the `C_1` of `C_1 e^{2x}`.

    A lower-case `c` is such a constant only in a function or against an answer's `C`; elsewhere it is usually given.
    """
    stems = set(map(stem, asked)) & set(map(stem, given))
    if (stems and asked != stems) or not symbols(gold) & _ARGUMENTS:
        return False
    if asked == {"c"}:
        of_function = bool(_bound(gold))
        return (
            given <= ({"C", "k", "a"} if of_function else {"C"})
            and symbols(gold) <= _ARGUMENTS | asked
        )
    return asked <= _CONSTANTS and given <= _CONSTANTS | {"c", "k", "A", "B"}


def _bound(node: Node) -> set[str]:
    """Return the argument of a function definition: `f(x) = 2x` gives `x`; an empty set for other statements."""
    match node:
        case Relation(("=",), (Apply(_, (Symbol(name),)), _)) if named(node.sides[0]):
            return {name}
    return set()


def _beside_pi(node: Node, name: str) -> bool:
    pair = {Symbol(name), Symbol("pi")}
    for one in walk(node):
        is_product = isinstance(one, Apply) and one.name in ("*", "/")
        if is_product and pair <= set(walk(one)):
            return True
    return False


def _without_unit(node: Node) -> Node:
    match node:
        case Quantity(amount):
            return amount
        case Relation(signs, sides):
            return Relation(signs, tuple(map(_without_unit, sides)))
    return node


def is_unevaluated(gold: Answer, answer: Answer, *, echo: str = "") -> bool:
    r"""Check whether an answer leaves the work to the grader: `17 \times 23`, `\sum_{k=1}^{100} k`, `\frac{d}{dx} x^2`.

    For a gold that is a plain number, an answer must be a number, or one closed form (a power, a root, a factorial, a
    function's value) that does not repeat the question. Exact sums and products are accepted for a gold with a decimal
    point. For any other gold, an answer may use only the gold's own operators. A formula copied from the prompt is
    refused: `(x+5)(x-2)` if the prompt asks to expand it, `15/20` if the prompt asks to reduce it.
    """
    if echo == "unfinished":
        return True
    if echo == "whole" and isinstance(
        answer.node, Apply | Number | Quantity | Relation | Time
    ):
        return True
    asked = gold.node if isinstance(gold.node, Logic) else _said(gold.node)
    given = _said(answer.node)
    # n = 7 (mod 5) is a statement: nothing is left to compute.
    if congruent(answer.node) or remainder(answer.node):
        return False
    asks_for_degrees = isinstance(gold.node, Quantity) and gold.node.unit == unit("deg")
    # An angle in radians, such as pi/3, is evaluated.
    if asks_for_degrees and Symbol("pi") in walk(given):
        return False
    if operators(given) - operators(asked):
        return True
    if (
        not is_plain_number(asked)
        or is_plain_number(given)
        or isinstance(given, (Words, *OF_OWN_TYPE))
    ):
        return False
    if is_closed_form(given) and not echo:
        return False
    return is_exact(asked) or not is_exact(given) or bool(symbols(given))


def is_closed_form(node: Node) -> bool:
    r"""Check whether a value is a single power, root, factorial or function's value, without sum or product: `2^{10}`.

    Examples:
        >>> from trl_grpo_ext.answers.read.answer import read
        >>> [is_closed_form(read(text).node) for text in ("2^{10}", r"\sin(7\pi)", r"17 \times 23", "(1+2)^2")]
        [True, True, False, False]
    """
    match node:
        case Apply(name, arguments) if name not in (
            "+",
            "*",
            "/",
            "+-",
            "-+",
            "ratio",
            *_WORKED_OUT,
        ):
            return all(
                _is_simple(argument) or is_closed_form(argument) for argument in arguments
            )
    return False


def _is_simple(node: Node) -> bool:
    """Check whether a node represents a number, constant, or multiple of pi."""
    match node:
        case Number() | Symbol("pi" | "e" | "i"):
            return True
        case Apply("*", (Symbol("pi" | "i"), Symbol("pi" | "i"))):
            return True
        case Apply("*", (Number(), inner)) | Apply("/", (inner, Number())):
            return Symbol("pi") in walk(inner) and _is_simple(inner)
    return False


def _said(node: Node) -> Node:
    """Return the value that a statement gives: `x = 5` gives `5`; other nodes are returned unchanged."""
    value = assigned(node)
    match node:
        # (x, y) = (1, 2)
        case Relation(("=",), (Collection(), Collection() as values)):
            return values
        case Logic("same" | "or", parts):
            return parts[-1]
        case Quantity(amount):
            return amount
    return value[1] if value else node


def operators(node: Node) -> set[str]:
    """Return a value's operators that a computer algebra system would evaluate, such as `integral` or `gcd`."""
    found: set[str] = set()
    for one in walk(node):
        if isinstance(one, Opaque):
            found.add(one.operator)
        elif isinstance(one, Apply) and one.name in _WORKED_OUT:
            found.add(one.name)
    # The operator of a text that only sympy evaluates may be unknown.
    return found - {""}


def is_prose(gold: Answer) -> bool:
    """Check whether a gold is prose. Rules cannot compare prose: paraphrases are too many."""
    match gold.node:
        case Words(text):
            return len(text.split()) > MAX_WORDS
    return len(gold.stray) > MAX_STRAY or (
        bool(gold.stray) and isinstance(gold.node, Logic)
    )


@lru_cache(maxsize=1024)
def unspaced(text: str) -> str:
    """Remove white space, braces, dollars and sizing commands from a text.

    The result is cached, because each completion of a prompt needs the prompt without spacing.
    """
    return _SPACING.sub("", spelled(text))


@lru_cache(maxsize=256)
def _formulas(prompt: str) -> frozenset[str]:
    """Return a prompt's delimited formulas and the sides of its equations, without optional signs."""
    sides: set[str] = set()
    for match in FORMULA.finditer(prompt):
        # The pattern has a group for each kind of delimiters; the others are empty.
        formula = next(filter(None, match.groups()))
        sides.update(map(_bare, (formula, *formula.split("="))))
    return frozenset(sides)


@lru_cache(maxsize=256)
def _plain_formulas(prompt: str) -> frozenset[str]:
    """Return the formulas of a prompt's plain text, such as `x^2 - 9` of "Factor x^2 - 9.", and their sides.

    Numbers, names and values of names, such as `x = 5`, are no formulas.
    """
    found: set[str] = set()
    for text in _BETWEEN_FORMULAS.split(spelled(prompt)):
        sides = [unspaced(side) for side in text.split("=")]
        if any(_LETTER.search(side) and _OPERATION.search(side) for side in sides):
            found.update(map(_bare, (text, *sides)))
    return frozenset(found)


def _bare(formula: str) -> str:
    """Remove brackets, backslashes and signs of multiplication from a formula's unspaced text."""
    return _OPTIONAL.sub("", unspaced(formula))


@lru_cache(maxsize=4096)
def _terms(bare: str) -> tuple[str, ...]:
    """Return the terms of a sum in a fixed order: `5x+x^2` and `x^2+5x` give the same."""
    return tuple(
        sorted(term if term[0] in "+-" else f"+{term}" for term in _TERM.findall(bare))
    )


def _repeats(answer: str, gold: str, asked: frozenset[str]) -> bool:
    """Check whether an answer copies a formula of the prompt, terms in any order, while the gold copies none."""
    said, *golds = map(_bare, (answer, gold, *gold.split("=")))
    sums = set(map(_terms, asked))
    return _terms(said) in sums and sums.isdisjoint(map(_terms, golds))


def echo(answer: str, gold: str, prompt: str) -> Echo:
    """Say how much of a prompt's formula an answer copies; spacing is ignored.

    The result is `whole` if the answer equals a formula of the prompt, whatever its delimiters, brackets and signs of
    multiplication, unless the gold, or a side of the gold, equals a formula too. A number counts as a copy only if the
    prompt asks for another form of the number and the gold has other digits; an amount, if it asks for another unit.
    Any other answer whose text occurs in the prompt is a `part`. An answer is `unfinished` if the prompt asks for a
    form that the gold has and the answer has not.

    Examples:
        >>> echo("2^{10}", "1024", "What is 2^{10}?"), echo("2^{10}", "1024", "How many subsets has a set of ten?")
        ('part', '')
        >>> echo("x(x+1)", "x^2 + x", "Integrate $x(x + 1)$."), echo("x+1", "y = x+1", "If $y=x+1$, what is $y$?")
        ('whole', 'part')
        >>> [echo("2x + 3x", "5x", prompt) for prompt in ("What is 2x + 3x?", "What is 2x + 3x - y?")]
        ['whole', 'part']
        >>> echo("15/20", "3/4", "Simplify 15/20."), echo("1/2", r"\\frac{1}{2}", "Convert 1/2 of 1 to a fraction.")
        ('unfinished', '')
    """
    alone = _formula_alone(answer)
    if is_unfinished(alone, gold, prompt):
        return "unfinished"
    said = unspaced(alone)
    if not said or not prompt:
        return ""
    if is_given(alone, gold, prompt) or is_given(answer, gold, prompt):
        return "whole"
    is_part = said in unspaced(prompt)
    if isinstance(read(alone).node, Number):
        return ""
    if any(
        _repeats(alone, gold, asked)
        for asked in (_formulas(prompt), _plain_formulas(prompt))
    ):
        return "whole"
    return "part" if is_part else ""


def _formula_alone(answer: str) -> str:
    """Return the only formula of an answer in words: `2x > 8` of "The result is $2x > 8$"; else the answer."""
    found = list(FORMULA.finditer(answer))
    if len(found) != 1:
        return answer
    around = answer[: found[0].start()] + answer[found[0].end() :]
    if _MATHEMATICAL.search(around):
        return answer
    formula: str = next(filter(None, found[0].groups()))
    return formula


def is_given(answer: str, gold: str, prompt: str) -> bool:
    """Check whether an answer is the prompt's own number or amount, though the prompt asks for another form or unit.

    Examples:
        >>> is_given("0.35", "35%", "Write 0.35 as a percentage."), is_given("0.35", "0.35", "Is it 0.35 or 35%?")
        (True, False)
        >>> [is_given(said, "36 inches", "How many inches are in 3 feet?") for said in ("3 ft", "36 in", "1 yd")]
        [True, False, False]
    """
    match read(answer).node:
        case Number() | Time():
            is_asked = False
        case Apply("%"):
            is_asked = asks_percentage(prompt)
        case _:
            return is_given_amount(answer, gold, prompt)
    said = unspaced(answer).replace("\\%", "%")
    given = unspaced(prompt)
    return (
        not is_asked
        and said in given
        and _digits(answer) != _digits(gold)
        and _OTHER_FORM.search(prompt) is not None
        and _stands_alone(said, given)
    )


def _digits(text: str) -> str:
    """Return the digits of a written number, without signs, points and the last zeros of a decimal."""
    exact = _LAST_ZEROS.sub(r"\1", spelled(text))
    return "".join(filter(str.isdigit, exact))


def _stands_alone(number: str, text: str) -> bool:
    """Check that a text contains a number as a whole, not inside a longer number: `5` in `x=5`, not in `15`."""
    return re.search(rf"(?<![\d.,/]){re.escape(number)}(?![\d/]|[.,]\d)", text) is not None
