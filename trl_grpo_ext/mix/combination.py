"""A combination: a reward term that is made of other terms, for cases where a sum is not wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import UNIT, UNSCORED, Blame, ScoreRange, Status, Verdict, as_verdict

Kind = Literal["product", "minimum", "first"]


@dataclass(frozen=True, slots=True)
class Combination:
    """Other terms' values made into one. Terms that do not apply to a row are left out of it.

    | kind | value |
    |---|---|
    | `product` | all values multiplied |
    | `minimum` | the least of the values |
    | `first` | that of the first term that applies to the row |

    If a term could not be judged, the combination has no score either. The terms usually have weight 0: they are
    logged, and only the combination is trained on. It has at least one term, each once.

    Raises:
        ValueError: for an unknown kind, no names, or one that is repeated.

    Examples:
        >>> product("accuracy", "format")
        Combination(kind='product', terms=('accuracy', 'format'))
    """

    kind: Kind
    terms: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(
                f"Terms cannot be combined by {self.kind!r}. {did_you_mean(str(self.kind), get_args(Kind))}"
            )
        object.__setattr__(self, "terms", tuple(self.terms))
        if not self.terms:
            raise ValueError(f"A {self.kind} needs a list of the names of other terms, got {self.terms!r}.")
        for name in self.terms:
            if not isinstance(name, str):
                raise TypeError(f"A {self.kind} takes the names of other terms, as product('a', 'b'); got {name!r}.")
        if len(set(self.terms)) != len(self.terms):
            raise ValueError(f"A {self.kind} lists a term twice: {', '.join(map(str, self.terms))}.")

    def verdict(self, parts: Sequence[tuple[Verdict | None, float | None]]) -> Verdict | None:
        """The verdict on one sample, of each term's verdict and value on it; None if none of them applies."""
        rows = zip(self.terms, parts, strict=True)
        applying = [(name, verdict, value) for name, (verdict, value) in rows if verdict is not None]
        if self.kind == "first":
            applying = applying[:1]
        values = [value for _, _, value in applying if value is not None]
        if len(values) < len(applying):
            return unscored([(name, verdict) for name, verdict, value in applying if value is None])
        if not values:
            return None
        score = math.prod(values) if self.kind == "product" else min(values)
        decisive = values.index(score) if score in values else None  # a product may be none of its factors
        # Marks of correctness are combined to one; of other numbers nobody knows which is right.
        is_known = all(verdict.status is not Status.SCORED for _, verdict, _ in applying)
        score_range = UNIT if is_known and all(0 <= value <= 1 for value in values) else None
        return _scored(score, "" if decisive is None else applying[decisive][0], score_range)


@lru_cache(maxsize=4096)  # a batch has few different ones
def _scored(score: float, decisive: str, score_range: ScoreRange | None) -> Verdict:
    return replace(as_verdict(score, score_range), reason=decisive)


def product(*terms: str) -> Combination:
    """The terms' values multiplied."""
    return Combination("product", terms)


def minimum(*terms: str) -> Combination:
    """The least of the terms' values."""
    return Combination("minimum", terms)


def first(*terms: str) -> Combination:
    """The value of the first term that applies."""
    return Combination("first", terms)


def unscored(parts: Sequence[tuple[str, Verdict]]) -> Verdict:
    """Return the verdict of a term that waits for others without a score; the grader's fault is told before the data's.

    It has their blame. Its reason is theirs to tell: it ends with `UNSCORED`.
    """
    name, verdict = next((part for part in parts if part[1].blame is Blame.GRADER), parts[0])
    blame = Blame.GRADER if verdict.blame is Blame.POLICY else verdict.blame  # a gate before it was not judged
    status = Status.SKIPPED if blame is Blame.DATA else Status.ERROR
    return Verdict(status=status, score=None, blame=blame, reason=f"{name}{UNSCORED}")
