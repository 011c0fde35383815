"""What a worker does with one gold and one answer. It may take for ever, and so runs nowhere else.

math-verify's own timeouts are off: they need signals and the main thread, and miss what hangs outside of them. The
pool's deadline and SIGKILL take their place. Nothing of a model's text reaches `eval` or `parse_expr` here;
math-verify hands the latter digits and operators only.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import sympy
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from sympy import Expr, MatrixBase, Tuple

from trl_grpo_ext.rewards.answers.golds import is_sentence
from trl_grpo_ext.rewards.answers.latex import standard
from trl_grpo_ext.rewards.answers.numbers import number
from trl_grpo_ext.rewards.math.policy import has_stray_text, violation
from trl_grpo_ext.verdict import Status, Verdict, skipped

# It warns once that timeouts are off; they are not.
logging.getLogger("math_verify").setLevel(logging.ERROR)

Parsed = Any  # a sympy Basic or MatrixBase; sympy ships no types that mypy reads here

_BOXED_FIRST = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
POINTS = 40  # tried, of which AGREEING must be usable, when two expressions are compared by their values
AGREEING = 6
DECIMALS = 6  # that math-verify rounds to
CLOSE = 1e-3  # relative; math-verify rounds to six decimals, where all tiny numbers are alike
MAX_SIDES = 10  # of a chain of equations


def compare(gold: str, answer: str, rule: str, accepted: Sequence[str], decimals: int) -> dict[str, Any]:
    """The verdict's record for one answer.

    Args:
        gold: The gold answer, its delimiters and box taken off, or a sentence that ends with it.
        answer: What the rule found.
        rule: The name of the rule; `last_expression` found a text in which the answer still has to be found.
        accepted: The switches of the policies that are off.
        decimals: Decimal places that numbers are rounded to.
    """
    golds = _parse_gold(gold)
    if not golds:
        return skipped("gold_unparseable").to_record()
    try:
        return _compare(gold, golds, answer, rule, frozenset(accepted), decimals)
    except Exception as error:  # sympy fails in many ways on what models write; the gold has been read already
        return _verdict(Status.UNPARSEABLE, "not_comparable", answer, {"error": type(error).__name__})


def _compare(
    gold: str, golds: Sequence[Parsed], answer: str, rule: str, accepted: frozenset[str], decimals: int
) -> dict[str, Any]:
    parsed, said = _parse_answer(answer, searched=rule == "last_expression")
    if not parsed:
        return _verdict(Status.UNPARSEABLE, "no_answer" if rule == "last_expression" else "unparseable_answer", said)
    details = {"compared": "as mathematics", "read_as": standard(said)}
    if not any(_equal(one, other, decimals) for one in golds for other in parsed):
        return _verdict(Status.INCORRECT, "not_equal", said, details)
    reason = (
        _false_equation(said, accepted) or violation(gold, said, accepted) or _difference(golds[0], parsed[0], decimals)
    )
    if not reason and rule == "last_expression" and "accept_stray_text" not in accepted:
        sentence = _SENTENCE_END.split(answer.strip())[-1]
        reason = "stray_text" if sentence.endswith("?") or has_stray_text(gold, sentence) else ""
    return _verdict(Status.INCORRECT if reason else Status.CORRECT, reason, said, details)


def check_gold(gold: str) -> dict[str, Any]:
    """The verdict's record for a gold against itself; runs out of time if the gold is slow against any answer."""
    golds = _parse_gold(gold)
    if not golds:
        return skipped("gold_unparseable").to_record()
    _equal(golds[0], sympy.Integer(1))
    same = any(_equal(one, other) for one in golds for other in _parse_gold.__wrapped__(gold))
    return _verdict(Status.CORRECT, "", gold) if same else skipped("gold_not_itself", answer=gold).to_record()


def _verdict(
    status: Status, reason: str, answer: str | None, details: Mapping[str, str] | None = None
) -> dict[str, Any]:
    score = 1.0 if status is Status.CORRECT else 0.0
    return Verdict(status=status, score=score, answer=answer, reason=reason, details=details or {}).to_record()


@lru_cache(maxsize=1024)
def _parse_gold(gold: str) -> tuple[Parsed, ...]:
    # Raw LaTeX is misread unless it stands in a box (Math-Verify#56); a sentence is misread if it does.
    return _literal(gold) or _expressions(_parse(gold) if is_sentence(gold) else _parse(_box(standard(gold))))


def _parse_answer(answer: str, *, searched: bool) -> tuple[tuple[Parsed, ...], str]:
    if not (searched or is_sentence(answer)):
        return _literal(answer) or _expressions(_parse(_box(standard(answer)))), answer
    found = _parse(_ESCAPED_DOLLAR.sub("", answer).replace("\N{MINUS SIGN}", "-"))
    return _expressions(found), next((item for item in found if isinstance(item, str)), answer)


_ESCAPED_DOLLAR = re.compile(r"\\\$(?=\s*\d)")


def _literal(text: str) -> tuple[Parsed, ...]:
    """An integer or a fraction of integers, which needs no parser."""
    value = number(text)
    return (sympy.Rational(value[0].numerator, value[0].denominator),) if value and value[1] else ()


def _parse(text: str) -> list[Any]:
    found: list[Any] = parse(text, _BOXED_FIRST, parsing_timeout=None)
    return found


def _expressions(found: list[Any]) -> tuple[Parsed, ...]:
    return tuple(item for item in found if not isinstance(item, str))


def _box(text: str) -> str:
    return rf"\boxed{{{text}}}"


def _equal(gold: Parsed, answer: Parsed, decimals: int = DECIMALS) -> bool:
    if isinstance(gold, Expr) and isinstance(answer, Expr):
        same = _same_values(gold, answer)
        if same is not None:
            return same
    if verify(gold, answer, float_rounding=decimals, timeout_seconds=None, allow_set_relation_comp=True):
        return True
    if isinstance(gold, MatrixBase) != isinstance(answer, MatrixBase):
        gold, answer = _as_tuple(gold), _as_tuple(answer)
    if isinstance(gold, Tuple) and isinstance(answer, Tuple):
        return len(gold) == len(answer) and all(_equal(a, b, decimals) for a, b in zip(gold, answer, strict=True))
    return False


def _as_tuple(value: Parsed) -> Parsed:
    """A vector, or what may be a point, as the tuple of its entries; anything else as it is."""
    if isinstance(value, MatrixBase) and 1 in value.shape and len(value) > 1:
        return Tuple(*value)
    if isinstance(value, sympy.Interval) and value.left_open and value.right_open:
        return Tuple(value.start, value.end)  # (1, 2) is an interval or a point, and only the other answer tells which
    return value


def _same_values(gold: Expr, answer: Expr) -> bool | None:
    """Whether two expressions have the same values wherever both are real; None if that is not clear.

    Sampled at fixed points of both signs. It finds identities that simplification misses, such as rules of
    logarithms, without assuming that variables are positive: |x| and x differ at a negative point. And it is faster
    than simplification. Values that are close are left to math-verify, which has its own idea of rounding.
    """
    symbols = sorted(gold.free_symbols, key=str)
    if gold.free_symbols != answer.free_symbols or gold.atoms(*_SYMBOLIC) or answer.atoms(*_SYMBOLIC):
        return None
    if not symbols and not gold.has(sympy.Float) and not answer.has(sympy.Float):
        return _same_constants(gold, answer)
    generator = random.Random(0)
    agreeing = 0
    for _ in range(POINTS if symbols else 1):
        point = {symbol: sympy.Float(generator.uniform(-3, 3), 30) for symbol in symbols}
        try:
            one, other = gold.evalf(30, subs=point), answer.evalf(30, subs=point)
        except Exception:  # such as a number too large for its exponent
            return None
        if not all(value.is_Float or value.is_Rational for value in (one, other)):
            continue
        distance, size = abs(one - other), max(abs(one), abs(other))
        if distance > 0.05 * size and distance > 1e-4:
            # A constant may still be a percentage, which is a hundred times its value.
            return False if symbols or not _is_percentage(one, other) else None
        if distance > 1e-12 * size:
            return None
        agreeing += 1
        if agreeing == (AGREEING if symbols else 1):
            return True
    return None


def _same_constants(gold: Expr, answer: Expr) -> bool | None:
    """Whether two exact constants are equal, to the last digit: 2^2023 is not 2^2023 - 1. None if that is not clear."""
    try:
        difference = gold - answer
        if difference.is_Rational:
            same = bool(difference == 0)
        else:
            value = difference.evalf(15, maxn=500)
            if not value.is_Float or value._prec == 1:  # no digit of it is certain: perhaps 0
                return None
            same = False
        return None if not same and _is_percentage(gold.evalf(15), answer.evalf(15)) else same
    except Exception:  # such as a number too large for its exponent
        return None


def _is_percentage(one: Any, other: Any) -> bool:
    return any(abs(one - scale * other) <= 0.05 * abs(one) for scale in _PERCENT)


# What evalf could work on for ever, or has no value at a real point.
_SYMBOLIC = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Derivative, sympy.core.function.AppliedUndef)


def _difference(gold: Parsed, answer: Parsed, decimals: int) -> str:
    """The reason code of a difference that math-verify passes over; empty if there is none."""
    if _are_far_apart(gold, answer, decimals):
        return "not_equal"
    if isinstance(gold, sympy.Eq) and isinstance(answer, sympy.Eq) and not _same_equation(gold, answer):
        return "not_equal"
    if _symbol_names(answer) - _symbol_names(gold) and _symbol_names(gold):
        return "other_symbols"
    return ""


def _false_equation(answer: str, accepted: frozenset[str]) -> str:
    r"""`false_equation` if sides of `=` have different values: `4 = 5`, `6 = x = 5`, `x^3 = x^2`.

    Sides that only name something, such as `x`, `f(3)` or `|A|`, have none.
    """
    sides = standard(answer).split("=")
    if "accept_false_equations" in accepted or not 2 <= len(sides) <= MAX_SIDES:
        return ""
    values = [value for value in map(_side_value, sides) if value is not None]
    for one, other in combinations(values, 2):
        if not one.free_symbols and not other.free_symbols:
            if not verify(one, other, timeout_seconds=None):
                return "false_equation"
        elif one.free_symbols == other.free_symbols and _same_values(one, other) is False:
            return "false_equation"
    return ""


def _side_value(side: str) -> Parsed | None:
    r"""The value of a side of an equation; None for a name, and for what is an approximation's other half."""
    if not side.strip() or _NAMED.search(side):
        return None
    parsed = _expressions(_parse(_box(side)))
    value = parsed[0] if parsed else None
    return value if isinstance(value, Expr) and not isinstance(value, sympy.Symbol) else None


# What reads as a number or a product but names a quantity: f(3), |A|, [ABC], AB.
_NAMED = re.compile(r"[A-Za-z]\s*\(|\||\[|\\(?:angle|text|overline|approx|binom|triangle)|[A-Z]{2,}")


def _are_far_apart(gold: Parsed, answer: Parsed, decimals: int) -> bool:
    if not (isinstance(gold, Expr) and isinstance(answer, Expr)) or gold.free_symbols or answer.free_symbols:
        return False
    one, other = sympy.N(gold, 20), sympy.N(answer, 20)
    if not (one.is_real and other.is_real and one.is_finite and other.is_finite):
        return False
    # Who asks for fewer decimals wants their error; at six, all tiny numbers would be alike.
    rounding = 10.0**-decimals if decimals < DECIMALS else 0.0
    return not any(abs(one - scale * other) <= max(CLOSE * abs(one), rounding) for scale in (1, *_PERCENT))


_PERCENT = (sympy.Rational(1, 100), 100)  # math-verify takes 28 % for 0.28 and for 28


def _same_equation(gold: sympy.Eq, answer: sympy.Eq) -> bool:
    """Whether one is a multiple of the other, or both have the same solutions and there are some."""
    if not all(isinstance(side, Expr) for side in (*gold.args, *answer.args)):
        return True  # such as n = {1, 2, 3}, which has no difference of its sides
    one, other = gold.lhs - gold.rhs, answer.lhs - answer.rhs
    if one.free_symbols != other.free_symbols:  # y = 2x and f = 2x are the same function under two names
        both = _is_assignment(gold) and _is_assignment(answer)
        return both and bool(gold.rhs.free_symbols == answer.rhs.free_symbols)
    if sympy.simplify(one / other).is_number:
        return True
    return len(one.free_symbols) > 1 or bool(sympy.solve(one, dict=True))


def _is_assignment(equation: sympy.Eq) -> bool:
    return isinstance(equation.lhs, sympy.Symbol) and equation.lhs not in equation.rhs.free_symbols


def _symbol_names(value: Parsed) -> set[str]:
    if isinstance(value, sympy.Eq) and _is_assignment(value):
        value = value.rhs
    return {str(symbol) for symbol in getattr(value, "free_symbols", ())}


# The parser builds its tables as it meets new forms: it is shown the usual ones before any answer's deadline begins.
_USUAL_FORMS = r"""
\frac{3}{4}
2\sqrt{5}
\frac{\sqrt{3}}{2}
x^2-3x+2
(1, -2)
[0, \infty)
\left(\frac{1}{2}, 3\right]
(-\infty, 2) \cup (3, 5]
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
x = 3
y \le 2x + 1
1 \pm \sqrt{2}
\{1, 2, 3\}
\frac{\pi}{6} + 2\pi n
e^{-x} \sin(2x)
\log_2 8
3 + 4i
50\%
2^{10} - 1
12 \text{ cm}^2
f(x) = 3x
"""


def _worker_is_warm() -> None:
    known = [_parse(_box(form)) for form in _USUAL_FORMS.strip().splitlines()]
    verify(known[0], known[1], timeout_seconds=None)


_worker_is_warm()
