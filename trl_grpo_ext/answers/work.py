"""Compare a gold with an answer inside a worker process; the comparison may never end.

The pool's deadline and SIGKILL bound it. If the comparison fails, the answer is to blame: the gold was compared with
itself before.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import sympy

from trl_grpo_ext.answers.acceptance import Judge, is_prose
from trl_grpo_ext.answers.compare import algebra, equality
from trl_grpo_ext.answers.compare.amounts import DECIMALS, Algebra, rounds_to, same_number
from trl_grpo_ext.answers.compare.comparison import Comparison
from trl_grpo_ext.answers.compare.expanded import same_polynomial, same_relation
from trl_grpo_ext.answers.read.answer import Answer, read
from trl_grpo_ext.answers.read.tree import (
    CONSTANTS,
    Node,
    Number,
    Opaque,
    Relation,
    symbols,
)
from trl_grpo_ext.verdict import Status, Verdict, skipped


class Sympy(Algebra):
    """An algebra that compares values with sympy."""

    def same_values(self, gold: Node, answer: Node, decimals: int) -> bool:
        decided = same_polynomial(gold, answer)
        if decided is not None:
            return decided
        one, other = algebra.value_of(gold), algebra.value_of(answer)
        if equality.equal(one, other) or (
            Opaque in (type(gold), type(answer)) and equality.verified(one, other)
        ):
            return True
        if equality.same_integrals(one, other):
            return True
        # Exact values that differ are different, however near their decimals are.
        if algebra.exact(gold) and algebra.exact(answer):
            return False
        # Constants may be equal as far as their decimals go.
        asked, given = equality.approximate(one), equality.approximate(other)
        if asked is None or given is None:
            return False
        if isinstance(gold, Number) and rounds_to(
            gold, given, getattr(answer, "places", None)
        ):
            return True
        places = [
            getattr(side, "places", None) or equality.DIGITS for side in (gold, answer)
        ]
        return same_number(Number(asked, places[0]), Number(given, places[1]), decimals)

    def same_equations(self, gold: Relation, answer: Relation) -> bool:
        decided = same_relation(gold, answer)
        if decided is not None:
            return decided
        if gold.signs == answer.signs == ("=",):
            sides = [
                tuple(map(algebra.value_of, relation.sides)) for relation in (gold, answer)
            ]
            return equality.same_equations(sides[0], sides[1])
        return equality.same_inequalities(gold, answer)

    def same_regions(self, gold: Node, answer: Node) -> bool:
        decided = same_relation(gold, answer)
        if decided is not None:
            return decided
        return equality.same_regions(algebra.region_of(gold), algebra.region_of(answer))

    def solves(self, gold: Relation, answer: Node) -> bool:
        missing = symbols(gold) - symbols(answer) - CONSTANTS
        left, right = map(algebra.value_of, gold.sides)
        if len(missing) != 1 or not symbols(answer):
            return False
        found = sympy.solve(left - right, sympy.Symbol(next(iter(missing))))
        # Where the gold has several solutions, an answer that gives one of them is incomplete.
        return len(found) == 1 and equality.equal(found[0], algebra.value_of(answer))


def compare(
    gold: str, answer: str, accepted: Sequence[str], decimals: int, echo: str = ""
) -> dict[str, Any]:
    """Compare a gold with an answer, given the fields of a `judge.Pair`; return the verdict's record."""
    asked = read(gold)
    if not _is_readable(asked):
        return skipped("gold_unparseable").to_record()
    details = {"compared": "as mathematics"}
    said = read(answer)
    if isinstance(said.node, Opaque) and not _is_readable(said):
        return _verdict(Status.UNPARSEABLE, "unparseable_answer", answer)
    try:
        reason = Judge(Comparison(Sympy(), decimals), accepted, echo).problem(asked, said)
    # sympy raises many kinds of errors on models' texts; the gold was read before, so the answer is to blame.
    except Exception as error:
        return _verdict(
            Status.UNPARSEABLE, "not_comparable", answer, {"error": type(error).__name__}
        )
    return _verdict(Status.INCORRECT if reason else Status.CORRECT, reason, answer, details)


def check_gold(gold: str) -> dict[str, Any]:
    """Compare a gold with `1` and with itself, and return the verdict's record; a slow gold runs into the deadline."""
    asked = read(gold)
    if is_prose(asked):
        return skipped("gold_prose").to_record()
    if not _is_readable(asked):
        return skipped("gold_unparseable").to_record()
    try:
        judge = Judge(Comparison(Sympy()))
        # A gold that is slow to compare with `1` is slow beside every answer.
        judge.problem(asked, Answer(Number(Fraction(1))))
        same = not judge.problem(asked, asked)
    except algebra.NotComparableError:
        return skipped("gold_unparseable").to_record()
    return (
        _verdict(Status.CORRECT, "", gold)
        if same
        else skipped("gold_not_itself", answer=gold).to_record()
    )


def _is_readable(said: Answer) -> bool:
    if not isinstance(said.node, Opaque):
        return True
    try:
        algebra.value_of(said.node)
    # Any error of the parser means that the text is unreadable.
    except Exception:
        return False
    return True


def _verdict(
    status: Status, reason: str, answer: str | None, details: dict[str, str] | None = None
) -> dict[str, Any]:
    score = 1.0 if status is Status.CORRECT else 0.0
    return Verdict(
        status=status, score=score, answer=answer, reason=reason, details=details or {}
    ).to_record()


# Parsers build their tables on first use: the usual forms are parsed at start-up, so that no answer's deadline pays.
_USUAL_FORMS = r"""
\frac{3}{4}
2\sqrt{5}
x^2-3x+2
[0, \infty)
(-\infty, 2) \cup (3, 5]
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
y \le 2x + 1
\frac{\pi}{6} + 2\pi n
e^{-x} \sin(2x)
\log_2 8
3 + 4i
\int_0^1 x dx
"""


def _worker_is_warm() -> None:
    for form in _USUAL_FORMS.strip().splitlines():
        compare(form, form + " + 1", (), DECIMALS)


_worker_is_warm()
