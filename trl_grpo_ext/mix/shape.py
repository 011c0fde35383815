"""Shapes: functions that change a score before it is weighed. The raw score stays in the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from trl_grpo_ext.protocol import is_number
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import Status, Verdict


@runtime_checkable
class Shape(Protocol):
    """Makes a value of a value; it may look at the verdict, which has a score."""

    def __call__(self, value: float, verdict: Verdict) -> float: ...


@dataclass(frozen=True, slots=True)
class Clip:
    """No lower than `low`, no higher than `high`; None is no limit.

    Examples:
        >>> from trl_grpo_ext.verdict import as_verdict
        >>> Clip(-1.0, 1.0)(-7.5, as_verdict(-7.5))
        -1.0
    """

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        _check_numbers("clip", low=self.low or 0.0, high=self.high or 0.0)
        if self.low is None and self.high is None:
            raise ValueError("A clip needs a `low`, a `high`, or both.")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"A clip's `low` must not be above its `high`, got {self.low} and {self.high}.")
        _refuse_constant("clip", "`low` and `high`", is_constant=self.low is not None and self.low == self.high)

    def __call__(self, value: float, verdict: Verdict) -> float:
        if self.low is not None:
            value = max(value, self.low)
        return value if self.high is None else min(value, self.high)


@dataclass(frozen=True, slots=True)
class Threshold:
    """`above` from `at` on, `below` under it.

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
        _refuse_constant("threshold", "`above` and `below`", is_constant=self.above == self.below)

    def __call__(self, value: float, verdict: Verdict) -> float:
        return self.above if value >= self.at else self.below


@dataclass(frozen=True, slots=True)
class Affine:
    """`scale` times the value plus `offset`.

    Under TRL's `normalize_then_sum` neither has an effect, since each column is normalised; use the weight there.

    Examples:
        >>> from trl_grpo_ext.verdict import as_verdict
        >>> Affine(scale=2.0, offset=-1.0)(1.0, as_verdict(1.0))
        1.0
    """

    scale: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        _check_numbers("affine", scale=self.scale, offset=self.offset)
        _refuse_constant("affine", "`scale`", is_constant=self.scale == 0)

    def __call__(self, value: float, verdict: Verdict) -> float:
        return self.scale * value + self.offset


@dataclass(frozen=True, slots=True)
class Sign:
    """-1, 0 or 1, whichever the value's sign is.

    Examples:
        >>> from trl_grpo_ext.verdict import as_verdict
        >>> Sign()(-0.25, as_verdict(-0.25))
        -1.0
    """

    def __call__(self, value: float, verdict: Verdict) -> float:
        return float(value > 0) - float(value < 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A value by the verdict's reason or status, whichever is listed; others keep the value that they have.

    So an answer that cannot be read may earn less than a wrong one.

    Attributes:
        reason: Values by reason code; looked at first. A composition's may stand without the name of its part.
        status: Values by status.

    Raises:
        ValueError: for no entries, or a status that does not exist or never has a score.

    Examples:
        >>> from trl_grpo_ext.verdict import as_verdict
        >>> Table(status={"incorrect": -0.5})(0.0, as_verdict(False))
        -0.5
    """

    reason: Mapping[str, float] = field(default_factory=dict)
    status: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.reason and not self.status:
            raise ValueError("A table needs values by `status`, by `reason`, or both.")
        for status in self.status:
            if status not in list(Status):
                raise ValueError(f"A table lists the status {status!r}. {did_you_mean(str(status), list(Status))}")
            if status in (Status.ERROR, Status.SKIPPED):
                raise ValueError(f"A table lists the status {status!r}, which has no score; see `on_unscored`.")
        _check_numbers("table", **{str(key): value for key, value in {**self.reason, **self.status}.items()})

    def __call__(self, value: float, verdict: Verdict) -> float:
        reason = verdict.reason if verdict.reason in self.reason else verdict.reason.rpartition(": ")[2]
        return self.reason.get(reason, self.status.get(verdict.status, value))


NAMES: Mapping[str, type[Shape]] = {
    "clip": Clip,
    "threshold": Threshold,
    "affine": Affine,
    "sign": Sign,
    "table": Table,
}


def check_shapes(shape: object) -> tuple[Shape, ...]:
    """The shapes in order; raises a TypeError for what is neither a shape nor a list of them."""
    shapes = () if shape is None else tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for each in shapes:
        if isinstance(each, type) or not callable(each):
            raise TypeError(f"a shape is one of {', '.join(sorted(NAMES))}, or a function of a value and a verdict")
    return shapes


def _check_numbers(what: str, **numbers: object) -> None:
    for name, number in numbers.items():
        if not is_number(number):
            raise ValueError(f"The shape {what!r} needs a finite number as `{name}`, got {number!r}.")


def _refuse_constant(what: str, names: str, *, is_constant: bool) -> None:
    if is_constant:
        raise ValueError(
            f"The shape {what!r} makes one value of every score, so nothing could be learned from its term: "
            f"change its {names}, or leave the shape out."
        )
