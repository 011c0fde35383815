r"""Check whether an answer has the form that the question asks for: factored, simplified, expanded, as a percentage.

An answer equal to the gold is unfinished if it has work left that the gold has not: `2(x^2 - 4)` for `2(x-2)(x+2)`,
`2\sqrt{12}` for `4\sqrt{3}`, `3x + 6 - 2x + 2` for `x + 8`. Forms that are worked out as far as the gold stay right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from trl_grpo_ext.answers.asked.letter import is_unsolved
from trl_grpo_ext.answers.compare.forms import is_label
from trl_grpo_ext.answers.compare.polynomials import (
    CONSTANT,
    combines,
    content,
    degree,
    factors,
    is_expanded,
    is_rational,
    polynomial,
    terms,
)
from trl_grpo_ext.answers.find.asked import MAX_PROMPT
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.spelling import spelled
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Collection,
    Logic,
    Node,
    Number,
    Quantity,
    Relation,
    Symbol,
    symbols,
    walk,
)

# Values with more nodes are not checked.
MAX_NODES = 200
# Larger numbers under a root are not checked.
MAX_RADICAND = 10**6
MAX_INDEX = 12
REDUCED = r"simplif(?:y|ied)|simplest|lowest terms|reduced?"
_SIMPLIFIES = re.compile(rf"\b(?:{REDUCED})\b|\bcombine like terms\b", re.IGNORECASE)
# The verb: "Factor x^2 - 9", "Can you factor it?", not "the scale factor".
_FACTORS = re.compile(
    r"(?:(?:\A|[.:;,!?\n]|\b(?:and|then|to|please|you|we|can|fully|completely))\s*\bfactor\b"
    r"|\bfactori[sz]e[ds]?|\bfactor(?:ed|s completely|ing)|(?<!prime )\bfactori[sz]ation)\b",
    re.IGNORECASE,
)
_EXPANDS = re.compile(r"\b(?:expand(?:ed)?|multiply(?: out)?)\b", re.IGNORECASE)
_RATIONALIZES = re.compile(r"\brationali[sz]e\b", re.IGNORECASE)
_SCIENTIFIC = re.compile(
    r"\b(?:scientific notation|standard (?:index )?form|index form)\b", re.IGNORECASE
)
_TO_PERCENT = re.compile(r"\b(?:as|to|into)\s+an?\s+percent(?:age)?\b", re.IGNORECASE)
_TO_FRACTION = re.compile(
    r"\b(?:as|to|into)\s+an?\s+(?:\w+\s+)?(?:fraction|mixed number)\b(?!\s+or\b)",
    re.IGNORECASE,
)
_TO_DECIMAL = re.compile(
    r"\b(?:as|to|into)\s+an?\s+(?:\w+\s+)?decimal\b(?!\s+or\b)", re.IGNORECASE
)
_DIVIDES = re.compile(r"\b(?:divide[ds]?|division|quotient)\b|÷|\\div\b", re.IGNORECASE)
_COMPLETES = re.compile(r"\bcomplet\w+ the square\b|\bvertex form\b", re.IGNORECASE)
# 5.3 \times 10^4, 4.2e-4
_MANTISSA = re.compile(
    r"(?<![\d.])(\d{1,9}(?:\.\d{1,30})?)"
    r"(?:\s{0,3}(?:\\times|\\cdot|[*×·x])\s{0,3}10\s{0,3}(?:\^|\*\*)|[eE][-+]?\d)"
)
_POWER_ALONE = re.compile(r"[^\d]{0,9}10\s?\^")
_PRIME_FACTORS = re.compile(
    r"\bprime factor(?:s|i[sz]ation)?\b|\bproduct of (?:its )?prime", re.IGNORECASE
)
_TIMES = re.compile(r"\\cdot|\\times|[*×·⋅]")
_PRIME_POWER = re.compile(r"\d{1,6}(?:\^\d{1,3})?")
_SPACING = re.compile(r"[\s{}$]")
# Terms of a fraction or ratio: 12/8, 2.5 : 4, 1/2 to 3/4, 2:4:6
_DECIMAL = r"\d{1,9}(?:\.\d{1,9})?"
_TERM = rf"(?:{_DECIMAL}(?:\s?/\s?\d{{1,9}})?|\\[dt]?frac(?:\{{\d{{1,9}}\}}|\d){{2}})"
_TERMS = re.compile(
    r"[A-Za-z\s]{0,40}"
    rf"(?:(?:\\[dt]?frac\s*\{{)?({_DECIMAL})\s*(?:/|\\div|\}}\s*\{{)\s*({_DECIMAL})\}}?"
    rf"|(?P<ratio>{_TERM}(?:\s*(?::|\bto\b)\s*{_TERM}){{1,5}}))",
    re.IGNORECASE,
)
_WHOLE_TERMS = re.compile(r"\bwhole[- ]numbers?\b|\bintegers?\b", re.IGNORECASE)
_BETWEEN_TERMS = re.compile(r"\s*(?::|\bto\b)\s*", re.IGNORECASE)


def is_unfinished(answer: str, gold: str, prompt: str) -> bool:
    r"""Check whether an answer has work left that the gold has not, though the question asks for it to be done.

    Examples:
        >>> is_unfinished("2(x^2 - 4)", "2(x-2)(x+2)", "Factor completely: 2x^2 - 8.")
        True
        >>> [is_unfinished(said, "4\\sqrt{3}", "Simplify \\sqrt{48}.") for said in ("2\\sqrt{12}", "4\\sqrt{3}")]
        [True, False]
        >>> is_unfinished("53 * 10^3", "5.3 * 10^4", "Write 53,000 in scientific notation.")
        True
        >>> is_unfinished("2x > 8", "x > 4", "Solve 2x + 1 > 9."), is_unfinished("9/12", "3/4", "Simplify 18/24.")
        (True, True)
    """
    # Without a question, equal values are equal answers.
    if not prompt:
        return False
    tail = prompt[-MAX_PROMPT:]
    if any(_is_left(answer, gold) for _is_left in _textual_forms(tail)):
        return True
    asked = read(gold).node
    # Most golds are numbers: only the text tells their forms.
    if isinstance(asked, Number):
        return False
    given = read(answer).node
    if is_unsolved(asked, given, tail):
        return True
    if not _forms(tail):
        return False
    target = _values(asked)[-1]
    values = _values(given)
    if any(_is_large(one) for one in (target, *values)):
        return False
    return all(any(is_left(target, value) for is_left in _forms(tail)) for value in values)


@lru_cache(maxsize=256)
def _textual_forms(prompt: str) -> tuple[Callable[[str, str], bool], ...]:
    """Return the checks of a prompt's forms that only texts show."""
    checks = (
        (_SIMPLIFIES, _is_left_to_reduce),
        (_WHOLE_TERMS, _has_broken_terms),
        (_PRIME_FACTORS, _is_left_to_factor),
        (_SCIENTIFIC, _is_other_mantissa),
        (_TO_FRACTION, _is_decimal),
        (_TO_DECIMAL, _is_fraction),
    )
    return tuple(check for pattern, check in checks if pattern.search(prompt))


@lru_cache(maxsize=256)
def _forms(prompt: str) -> tuple[Callable[[Node, Node], bool], ...]:
    """Return the checks of a prompt's forms: each takes gold and answer, and finds work left in the answer."""
    checks = (
        (_FACTORS, _is_less_factored),
        (_SIMPLIFIES, _is_less_simplified),
        (_EXPANDS, _is_less_expanded),
        (_RATIONALIZES, _is_less_rational),
        (_TO_PERCENT, _is_no_percentage),
        (_COMPLETES, _has_no_square),
        (_DIVIDES, _is_less_divided),
    )
    return tuple(check for pattern, check in checks if pattern.search(prompt))


def _values(node: Node) -> list[Node]:
    """Return the values that an answer tells: the sides of an equation without names, all forms of a value."""
    match node:
        case Quantity(amount):
            return [amount]
        case Relation(signs, sides) if set(signs) <= {"=", "~"}:
            return [side for side in sides if not is_label(side)] or [sides[-1]]
        case Logic("same" | "or", parts):
            return [value for part in parts for value in _values(part)]
        # x + 3, x != 3
        case Collection("list", (value, Relation(("!=",), _))):
            return [value]
    return [node]


def _is_large(node: Node) -> bool:
    return sum(1 for _ in walk(node)) > MAX_NODES


def _is_less_factored(gold: Node, answer: Node) -> bool:
    """Check whether an answer has fewer factors with letters than the gold, or leaves a number in a factor."""
    asked = list(_with_letters(gold))
    given = list(_with_letters(answer))
    is_product = isinstance(gold, Apply) and gold.name in ("*", "/", "^", "-")
    if not is_product or not any(_is_sum(factor) for factor, _ in asked):
        return False
    if sum(power for _, power in given) < sum(power for _, power in asked):
        return True
    has_numbers = [
        any(_is_sum(factor) and content(factor) > 1 for factor, _ in one)
        for one in (asked, given)
    ]
    return has_numbers == [False, True]


def _with_letters(node: Node) -> Iterator[tuple[Node, int]]:
    return (found for found in factors(node) if symbols(found[0]))


def _is_sum(node: Node) -> bool:
    return isinstance(node, Apply) and node.name in ("+", "-")


def _is_less_expanded(gold: Node, answer: Node) -> bool:
    """Check whether an answer to an expanded polynomial has brackets or like terms left."""
    if not _is_sum(gold) or not is_expanded(gold) or is_expanded(answer):
        return False
    return combines(answer) or not all(map(_is_collected, terms(answer)))


def _is_collected(term: Node) -> bool:
    """Check whether a term has no brackets, or collects the coefficients of other letters: `(a + b)x`."""
    found = list(factors(term))
    sums = [base for base, _ in found if _is_sum(base)]
    others = frozenset().union(*(symbols(base) for base, _ in found if base not in sums))
    return not sums or (bool(others) and others.isdisjoint(*map(symbols, sums)))


def _is_less_simplified(gold: Node, answer: Node) -> bool:
    """Check whether an answer has a kind of work left that the gold has not: terms to combine, a root to reduce."""
    kinds = (_has_like_terms, _is_reducible, _has_large_root, _repeats_letter)
    if any(kind(answer) and not kind(gold) for kind in kinds):
        return True
    return (
        is_rational(gold)
        and is_rational(answer)
        and (_denominator(answer, max) > _denominator(gold, sum))
    )


def _has_like_terms(node: Node) -> bool:
    """Check whether terms of a sum combine: `3x - 2x`, `2(x + 1) + 3`; not `(x + 1)^2 + 3`, which is as short."""
    for one in walk(node):
        if not isinstance(one, Apply) or one.name != "+" or not combines(one):
            continue
        are_monomials = all(len(polynomial(term) or ()) == 1 for term in terms(one))
        if are_monomials or _leaves(one) > _expanded_leaves(one):
            return True
    return False


def _leaves(node: Node) -> int:
    return sum(isinstance(one, Number | Symbol) for one in walk(node))


def _expanded_leaves(node: Node) -> int:
    """Count the numbers and letters of a polynomial's monomials."""
    count = 0
    for monomial, factor in (polynomial(node) or {}).items():
        count += abs(factor) != 1 or monomial == CONSTANT
        count += sum(1 + (power > 1) for _, power in monomial)
    return count


def _is_reducible(node: Node) -> bool:
    """Check whether a fraction has a common factor above and below: `6x/3`, `(6 + 2 sqrt(5))/2`, `x^3/x`."""
    for one in walk(node):
        match one:
            case Apply("/", (above, below)):
                bases = {factor for factor, _ in _with_letters(above)}
                others = {factor for factor, _ in _with_letters(below)}
                if bases & others or math.gcd(content(above), content(below)) > 1:
                    return True
    return False


def _has_large_root(node: Node) -> bool:
    r"""Check whether a root contains a power that can be taken out, or a fraction: `\sqrt{12}`, `\sqrt{16 \cdot 3}`."""
    for one in walk(node):
        match one:
            case Apply("root", (inside, Number(index))) if 1 < index <= MAX_INDEX:
                if _can_leave_root(inside, int(index)):
                    return True
    return False


def _can_leave_root(inside: Node, index: int) -> bool:
    found = polynomial(inside) or {}
    if found.keys() == {CONSTANT} and found[CONSTANT].denominator > 1:
        return True
    if len(found) == 1 and _has_power(int(*found.values()), index):
        return True
    powers = (power for base, power in factors(inside) if isinstance(base, Symbol))
    return any(power >= index for power in powers)


def _has_power(number: int, index: int) -> bool:
    """Check whether a number is divisible by the power of an integer above 1."""
    number = abs(number)
    if not 0 < number <= MAX_RADICAND:
        return False
    return any(
        number % base**index == 0 for base in range(2, round(number ** (1 / index)) + 1)
    )


def _repeats_letter(node: Node) -> bool:
    """Check whether a product has factors to combine: `x^3 x^4`, `2 * 3x`, or a power has a power: `(x^2)^3`."""
    for one in walk(node):
        match one:
            case Apply("^", (Apply("^", (Symbol(), Number())), Number())):
                return True
            case Apply("*"):
                bases = [base for base in _bases(one) if _combines_with_equals(base)]
                kinds = ["" if isinstance(base, Number) else base for base in bases]
                if len(set(kinds)) < len(kinds):
                    return True
    return False


def _combines_with_equals(base: Node) -> bool:
    match base:
        case Number(value):
            return value.denominator == 1
        case Symbol(name):
            return name != "i"
    return False


def _bases(product: Node) -> Iterator[Node]:
    """Yield the bases of a product's factors; a power counts once."""
    pending = [product]
    while pending:
        match pending.pop():
            case Apply("*", parts) | Apply("-", (_,) as parts):
                pending += parts
            case Apply("^", (base, _)) if not isinstance(base, Number):
                yield base
            case base:
                yield base


def _denominator(node: Node, of_several: Callable[[list[int]], int]) -> int:
    """Return the degree of a value's denominators, of several the largest or the sum."""
    degrees = [0]
    for one in walk(node):
        match one:
            case Apply("/", (_, below)):
                degrees.append(degree(below))
            case Apply("^", (base, Number(value))) if value < 0:
                degrees.append(int(-value) * degree(base))
    return of_several(degrees)


def _is_less_rational(gold: Node, answer: Node) -> bool:
    """Check whether an answer has a root in a denominator and the gold has none."""
    return _has_root_below(answer) and not _has_root_below(gold)


def _has_root_below(node: Node) -> bool:
    return any(
        isinstance(below, Apply) and below.name == "root"
        for one in walk(node)
        if isinstance(one, Apply) and one.name == "/"
        for below in walk(one.arguments[1])
    )


def _is_no_percentage(gold: Node, answer: Node) -> bool:
    """Check whether the answer writes the gold's percentage as a decimal: 0.75 for 75 %."""
    match gold, answer:
        case Apply("%", (Number(percentage),)), Number(share):
            return share * 100 == percentage
    return False


def _has_no_square(gold: Node, answer: Node) -> bool:
    """Check whether the gold has a term with the square of a sum, and the answer has none: `(x + 3)^2 - 4`."""
    return _has_square(gold) and not _has_square(answer)


def _has_square(node: Node) -> bool:
    found = (factor for term in terms(node) for factor in factors(term))
    return any(_is_sum(base) and power > 1 for base, power in found)


def _is_less_divided(gold: Node, answer: Node) -> bool:
    """Check whether an answer has a division left that goes on, and the gold has none: `(x^2 + 5x + 7)/(x + 2)`."""
    return _has_division(answer) and not _has_division(gold)


def _has_division(node: Node) -> bool:
    return any(
        isinstance(one, Apply)
        and one.name == "/"
        and 0 < degree(one.arguments[1]) <= degree(one.arguments[0])
        for one in walk(node)
    )


def _is_decimal(answer: str, gold: str) -> bool:
    """Check whether an answer is a decimal and the gold a fraction."""
    asked, given = read(gold).node, read(answer).node
    return _is_share(asked) and isinstance(given, Number) and given.places is not None


def _is_fraction(answer: str, gold: str) -> bool:
    """Check whether an answer is a fraction and the gold a decimal."""
    asked, given = read(gold).node, read(answer).node
    return _is_share(given) and isinstance(asked, Number) and asked.places is not None


def _is_share(node: Node) -> bool:
    return isinstance(node, Number) and node.places is None and node.value.denominator > 1


def _is_other_mantissa(answer: str, gold: str) -> bool:
    """Check whether the gold is in scientific notation and the answer is not: `53 * 10^3` for `5.3 * 10^4`."""
    return _has_mantissa(gold) and not _has_mantissa(answer)


def _has_mantissa(text: str) -> bool:
    """Check for a number from 1 to 10 before a power of ten; the power alone means 1."""
    if _POWER_ALONE.match(text):
        return True
    return any(1 <= float(found) < 10 for found in _MANTISSA.findall(spelled(text)))


def _is_left_to_reduce(answer: str, gold: str) -> bool:
    if _has_broken_terms(answer, gold):
        return True
    return _common_factor(_terms_of(answer)) > 1 >= _common_factor(_terms_of(gold))


def _has_broken_terms(answer: str, gold: str) -> bool:
    """Check whether the gold has integers as terms, and the answer, `2.5:4`, other terms; or a decimal for a ratio."""
    asked, given = _terms_of(gold), _terms_of(answer)
    if not asked or not all(map(str.isdigit, asked)):
        return False
    value = read(answer).node
    is_decimal = "/" not in gold and isinstance(value, Number) and bool(value.places)
    return is_decimal or not all(map(str.isdigit, given))


def _terms_of(text: str) -> list[str]:
    """Return the terms of the fraction or ratio at a text's end, `2.5` and `4` of `2.5:4`; empty for other texts.

    An equation concludes with its last side: `24:36 = 4:6`.
    """
    found = _TERMS.fullmatch(text.rpartition("=")[2].strip(" $"))
    if found is None:
        return []
    return [found[1], found[2]] if found[1] else _BETWEEN_TERMS.split(found["ratio"])


def _common_factor(terms_told: list[str]) -> int:
    """Return the common factor of integers; 0 without integers."""
    return math.gcd(*map(int, terms_told)) if all(map(str.isdigit, terms_told)) else 0


def _is_left_to_factor(answer: str, gold: str) -> bool:
    return _is_prime_product(gold) and not _is_prime_product(answer)


def _is_prime_product(text: str) -> bool:
    """Check whether a text is a prime or a product of powers of primes: `2^2 * 3`, `12 = 2 * 2 * 3`."""
    found = _TIMES.split(_SPACING.sub("", spelled(text).rpartition("=")[2]))
    return all(
        _PRIME_POWER.fullmatch(factor) and _is_prime(int(factor.partition("^")[0]))
        for factor in found
    )


def _is_prime(number: int) -> bool:
    return number > 1 and all(
        number % divisor for divisor in range(2, math.isqrt(number) + 1)
    )
