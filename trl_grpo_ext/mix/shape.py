"""Shapes: functions that transform a score before it is weighted. The verdict keeps the raw score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from trl_grpo_ext.support.setting_checks import is_number
from trl_grpo_ext.verdict import Verdict


@runtime_checkable
class Shape(Protocol):
    """A function that transforms a value.

    It may look at the verdict, which always has a score here.
    """

    def __call__(self, value: float, verdict: Verdict) -> float: ...


@dataclass(frozen=True, slots=True)
class Clip:
    """A shape that limits values to the range from `low` to `high`; None is no limit.

    Examples:
        >>> from trl_grpo_ext.verdict import as_verdict
        >>> Clip(-1.0, 1.0)(-7.5, as_verdict(-7.5))
        -1.0
    """

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise ValueError("A clip needs a `low`, a `high`, or both.")
        if self.low is not None:
            _check_numbers("clip", low=self.low)
        if self.high is not None:
            _check_numbers("clip", high=self.high)
        if self.low is None or self.high is None:
            return
        if self.low > self.high:
            raise ValueError(
                f"A clip's `low` must not be above its `high`, got {self.low} and {self.high}."
            )
        _refuse_constant("clip", "`low` and `high`", is_constant=self.low == self.high)

    def __call__(self, value: float, verdict: Verdict) -> float:
        if self.low is not None:
            value = max(value, self.low)
        if self.high is not None:
            value = min(value, self.high)
        return value


@dataclass(frozen=True, slots=True)
class Threshold:
    """A shape that returns `above` for values of `at` and more, else `below`.

    Examples:
        >>> from trl_grpo_ext.verdict import as_verdict
        >>> Threshold(0.5)(0.7, as_verdict(0.7))
        1.0
    """

    at: float
    above: float = 1.0
    below: float = 0.0

    def __post_init__(self) -> None:
        _check_numbers("threshold", at=self.at, above=self.above, below=self.below)
        _refuse_constant(
            "threshold", "`above` and `below`", is_constant=self.above == self.below
        )

    def __call__(self, value: float, verdict: Verdict) -> float:
        if value >= self.at:
            return self.above
        return self.below


NAMES: Mapping[str, type[Shape]] = {
    "clip": Clip,
    "threshold": Threshold,
}
# Shapes of earlier versions, and what to do now.
GONE = {
    "affine": "Give the term another weight; an offset is a function of your own: shape: my_module.my_shape.",
    "sign": "Write a function of a value and a verdict, and name it: shape: my_module.my_shape.",
    "table": "Write a function that looks at `verdict.status`, and name it: shape: my_module.my_shape.",
}


def check_shapes(shape: object) -> tuple[Shape, ...]:
    """Return the shapes as a tuple, in order.

    Raises:
        TypeError: for an object that is not a shape, a function, or a list of these.
    """
    if shape is None:
        return ()
    shapes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for each in shapes:
        # A class is callable, too: its instance is the shape.
        if isinstance(each, type) or not callable(each):
            raise TypeError(
                f"a shape is one of {', '.join(sorted(NAMES))}, or a function of a value and a verdict"
            )
    return shapes


def _check_numbers(what: str, **numbers: object) -> None:
    for name, number in numbers.items():
        if not is_number(number):
            raise ValueError(
                f"The shape {what!r} needs a finite number as `{name}`, got {number!r}."
            )


def _refuse_constant(what: str, names: str, *, is_constant: bool) -> None:
    if is_constant:
        raise ValueError(
            f"The shape {what!r} makes one value of every score, so nothing could be learned from its term: "
            f"change its {names}, or leave the shape out."
        )
