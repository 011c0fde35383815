"""What a worker does with one gold and one answer. It may take for ever, and so runs nowhere else.

math-verify's own timeouts are off: they need signals and the main thread, and miss what hangs outside of them. The
pool's deadline and SIGKILL take their place. Nothing of a model's text reaches `eval` or `parse_expr` here;
math-verify hands the latter digits and operators only.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import sympy
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from sympy import Expr

from trl_grpo_ext.rewards.answers.latex import is_sentence, standard
from trl_grpo_ext.rewards.answers.numbers import number
from trl_grpo_ext.rewards.math.equality import Parsed, difference, equal, same_values
from trl_grpo_ext.rewards.math.refusals import has_stray_text, violation
from trl_grpo_ext.verdict import Status, Verdict, skipped

# It warns once that timeouts are off; they are not.
logging.getLogger("math_verify").setLevel(logging.ERROR)


_BOXED_FIRST = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
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
    if not any(equal(one, other, decimals) for one in golds for other in parsed):
        return _verdict(Status.INCORRECT, "not_equal", said, details)
    reason = (
        _false_equation(said, accepted) or violation(gold, said, accepted) or difference(golds[0], parsed[0], decimals)
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
    equal(golds[0], sympy.Integer(1))
    same = any(equal(one, other) for one in golds for other in _parse_gold.__wrapped__(gold))
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
    """A number without a decimal point, which needs no parser."""
    found = number(text)
    return (sympy.Rational(*found.value.as_integer_ratio()),) if found and found.exact else ()


def _parse(text: str) -> list[Any]:
    found: list[Any] = parse(text, _BOXED_FIRST, parsing_timeout=None)
    return found


def _expressions(found: list[Any]) -> tuple[Parsed, ...]:
    return tuple(item for item in found if not isinstance(item, str))


def _box(text: str) -> str:
    return rf"\boxed{{{text}}}"


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
        elif one.free_symbols == other.free_symbols and same_values(one, other) is False:
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
