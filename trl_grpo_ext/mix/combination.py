"""Combinations: reward terms computed from the values of other terms by a product, a minimum or the first value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import (
    UNIT,
    UNSCORED,
    Blame,
    ScoreRange,
    Status,
    Verdict,
    as_verdict,
)

Kind = Literal["product", "minimum", "first"]


@dataclass(frozen=True, slots=True)
class Combination:
    """A rule that computes one value from other terms' values.

    Terms that do not apply to the row are skipped.

    | kind | value |
    |---|---|
    | `product` | all values multiplied |
    | `minimum` | the least of the values |
    | `first` | the value of the first term that applies to the row |

    If an applying term has no value, the combination has no score either; `first` looks at its first applying term
    only. The terms usually have weight 0: they are logged, and only the combination is trained on.

    Raises:
        ValueError: for an unknown kind, an empty list of terms, or a repeated name.
        TypeError: for a name that is not a string.

    Examples:
        >>> product("accuracy", "format")
        Combination(kind='product', terms=('accuracy', 'format'))
    """

    kind: Kind
    terms: tuple[str, ...]

    def __post_init__(self) -> None:
        kinds = get_args(Kind)
        if self.kind not in kinds:
            near = did_you_mean(str(self.kind), kinds)
            raise ValueError(f"Terms cannot be combined by {self.kind!r}. {near}")
        # A caller may give a list, which a frozen value must not hold: it could change later.
        object.__setattr__(self, "terms", tuple(self.terms))
        if not self.terms:
            raise ValueError(
                f"A {self.kind} needs a list of the names of other terms, got {self.terms!r}."
            )
        for name in self.terms:
            if not isinstance(name, str):
                raise TypeError(
                    f"A {self.kind} takes the names of other terms, as product('a', 'b'); got {name!r}."
                )
        if len(set(self.terms)) != len(self.terms):
            raise ValueError(f"A {self.kind} lists a term twice: {', '.join(self.terms)}.")

    def verdict(
        self, parts: Sequence[tuple[Verdict | None, float | None]]
    ) -> Verdict | None:
        """Combine the verdict and value of each term on one sample; return None if no term applies to the sample."""
        applying: list[_Part] = []
        without_value: list[tuple[str, Verdict]] = []
        for name, (verdict, value) in zip(self.terms, parts, strict=True):
            if verdict is None:
                continue
            if value is None:
                without_value.append((name, verdict))
            else:
                applying.append(_Part(name, verdict, value))
            # The first term that applies decides, also without a value: the next term must not stand in for it.
            if self.kind == "first":
                break
        if without_value:
            return unscored(without_value)
        if not applying:
            return None
        values = [part.value for part in applying]
        # A `first` has a single value left, which `min` returns.
        score = math.prod(values) if self.kind == "product" else min(values)
        return _scored(score, _decisive(applying, score), _score_range(applying))


class _Part(NamedTuple):
    """A combined term on one sample."""

    name: str
    verdict: Verdict
    value: float


def _decisive(parts: Sequence[_Part], score: float) -> str:
    """Return the name of the first term with this value; empty for a product equal to none of its values."""
    # Equality is exact: a minimum is one of the values, unchanged.
    names = (part.name for part in parts if part.value == score)
    return next(names, "")


def _score_range(parts: Sequence[_Part]) -> ScoreRange | None:
    """Return [0, 1] if all parts are marks of correctness, whose combination is a mark too; else None."""
    for part in parts:
        # A SCORED verdict is a number without a right end, such as a length, and no mark of correctness.
        is_mark = part.verdict.status is not Status.SCORED and 0 <= part.value <= 1
        if not is_mark:
            return None
    return UNIT


# Cached, because a batch has few different scores.
@lru_cache(maxsize=4096)
def _scored(score: float, decisive: str, score_range: ScoreRange | None) -> Verdict:
    verdict = as_verdict(score, score_range)
    if verdict.score is None:
        return verdict
    return replace(verdict, reason=decisive)


def product(*terms: str) -> Combination:
    """Combine terms by multiplying their values."""
    return Combination("product", terms)


def minimum(*terms: str) -> Combination:
    """Combine terms by taking the lowest of their values."""
    return Combination("minimum", terms)


def first(*terms: str) -> Combination:
    """Combine terms by taking the value of the first term that applies to the row."""
    return Combination("first", terms)


def unscored(parts: Sequence[tuple[str, Verdict]]) -> Verdict:
    """Make the verdict of a term whose gating or combined terms have no score.

    The deciding term is the first with a grader error, else the first of all. The verdict has its blame, and its name
    in the reason, `accuracy_unscored`.
    """
    failed = (part for part in parts if part[1].blame is Blame.GRADER)
    name, verdict = next(failed, parts[0])
    status = Status.SKIPPED if verdict.blame is Blame.DATA else Status.ERROR
    return Verdict(
        status=status,
        score=None,
        blame=verdict.blame,
        reason=f"{name}{UNSCORED}",
    )
