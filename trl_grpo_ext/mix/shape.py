"""Shapes: functions that transform a score before it is weighted. The verdict keeps the raw score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from trl_grpo_ext.protocol import is_number
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import Status, Verdict


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
        limits = {"low": self.low, "high": self.high}
        _check_numbers("clip", **{name: limit for name, limit in limits.items() if limit is not None})
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
        _refuse_constant("threshold", "`above` and `below`", is_constant=self.above == self.below)

    def __call__(self, value: float, verdict: Verdict) -> float:
        return self.above if value >= self.at else self.below


@dataclass(frozen=True, slots=True)
class Affine:
    """A shape that multiplies the value by `scale` and adds `offset`.

    Under TRL's `normalize_then_sum` a positive scale and an offset have no effect, since each column is normalised; use
    the weight there.

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
    """A shape that returns -1, 0 or 1, the value's sign.

    Examples:
        >>> from trl_grpo_ext.verdict import as_verdict
        >>> Sign()(-0.25, as_verdict(-0.25))
        -1.0
    """

    def __call__(self, value: float, verdict: Verdict) -> float:
        return float(value > 0) - float(value < 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A shape that replaces values by the verdict's reason or status; verdicts not listed keep their value.

    For example, an unparseable answer can earn less than a wrong answer.

    Attributes:
        reason: Values by reason code; reasons have precedence over statuses. A verifier made of parts gives reasons
            such as `part: no_boxed`; the key `no_boxed` matches them too.
        status: Values by status.

    Raises:
        ValueError: for no entries, an unknown status, a status that never has a score, or a value that is not finite.

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
    """Return the shapes as a tuple, in order.

    Raises:
        TypeError: for an object that is not a shape, a function, or a list of these.
    """
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
