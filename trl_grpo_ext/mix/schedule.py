"""Schedules that change the weight of a reward term during training."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trl_grpo_ext.support.setting_checks import is_number
from trl_grpo_ext.support.text import did_you_mean

Curve = Literal["linear", "cosine", "hold"]
# By curve, the share of the change of weight that is made at a share of the way from one point to the next.
CURVES: Mapping[Curve, Callable[[float], float]] = {
    "linear": lambda share: share,
    "cosine": lambda share: (1 - math.cos(math.pi * share)) / 2,
    "hold": lambda share: 0.0,
}
Unit = Literal["progress", "step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A weight curve over training: points and an interpolation; constant before the first and after the last point.

    The weight depends on the current step alone, so a resumed run gets the weights of an uninterrupted run.

    Attributes:
        points: Pairs of (when, weight), in order of time; weights are finite and may be negative.
        curve: The interpolation between two points: a straight line, half a cosine, or the earlier weight held.
        unit: The unit of `when`: `"progress"`, the finished share of the run's `max_steps`, in [0, 1], or `"step"`,
            optimizer steps from 0, which do not stretch when a run gets longer.

    Raises:
        ValueError: for no points, points out of order, and invalid times or weights.

    Examples:
        >>> fading = linear(0.3, 0.0, until=0.4)
        >>> [round(fading.at(progress), 3) for progress in (0.0, 0.2, 0.4, 1.0)]
        [0.3, 0.15, 0.0, 0.0]
        >>> piecewise({0: 1.0, 100: 0.5}, curve="hold", unit="step").at(0.0, step=99)
        1.0
    """

    points: tuple[tuple[float, float], ...]
    curve: Curve = "linear"
    unit: Unit = "progress"

    def __post_init__(self) -> None:
        _check_name("curve", self.curve, tuple(CURVES))
        _check_name("unit", self.unit, get_args(Unit))
        if not self.points:
            raise ValueError("A schedule needs at least one point, (when, weight).")
        for point in self.points:
            self._check_point(point)
        times = [when for when, _ in self.points]
        for earlier, later in itertools.pairwise(times):
            # Equal times are refused as well: `at` would divide by 0 between them.
            if not earlier < later:
                raise ValueError(
                    f"A schedule cannot end before it begins: its points must be in order of time, and one goes from "
                    f"{self.unit} {earlier} to {later}."
                )
        points = tuple((float(when), float(weight)) for when, weight in self.points)
        object.__setattr__(self, "points", points)

    def _check_point(self, point: object) -> None:
        if not isinstance(point, tuple | list) or len(point) != 2:
            raise ValueError(
                f"A schedule's points are pairs of a time and a weight, got {point!r}."
            )
        when, weight = point
        self._check_time(when)
        if not is_number(weight):
            raise ValueError(
                f"A schedule's weights must be finite numbers, got {weight!r}."
            )

    def _check_time(self, when: object) -> None:
        if not is_number(when) or when < 0:
            raise ValueError(
                f"A schedule's times must be finite numbers, 0 or more; got {when!r}."
            )
        if self.unit == "step" and when != int(when):
            raise ValueError(
                f"Steps are counted in whole numbers, and a schedule has a point at {when}."
            )
        if self.unit == "progress" and when > 1:
            raise ValueError(
                f"Progress is the share of training that is done, in [0, 1], and a schedule has a point at {when}. "
                f"To count optimizer steps, say unit: step."
            )

    def at(self, progress: float, step: int | None = None) -> float:
        """Return the weight at a moment of training.

        Args:
            progress: The finished share of training, in [0, 1].
            step: The number of finished optimizer steps; needed if `unit` is `"step"`.

        Raises:
            ValueError: if the schedule counts steps and the step is unknown.
        """
        now = progress if self.unit == "progress" else step
        if now is None:
            raise ValueError("A schedule over steps needs to know the step.")
        # `bisect_right`: at the time of a point its own weight is in force, so that `hold` jumps there.
        after = bisect.bisect_right(self.points, now, key=lambda point: point[0])
        is_before_first = after == 0
        is_after_last = after == len(self.points)
        begin, first = self.points[max(after - 1, 0)]
        # The nearest point's weight holds: `first` is the last point's after the last.
        if is_before_first or is_after_last:
            return first
        end, last = self.points[after]
        share = CURVES[self.curve]((now - begin) / (end - begin))
        return first + (last - first) * share


Weight = float | Schedule | Callable[[float], float]


def constant(weight: float) -> Schedule:
    """Return a schedule with a constant weight."""
    return Schedule(points=((0.0, weight),))


def linear(
    start: float,
    end: float,
    *,
    begin: float = 0.0,
    until: float = 1.0,
    unit: Unit = "progress",
) -> Schedule:
    """Return a schedule from weight `start` to weight `end`, on a straight line from `begin` to `until`."""
    points = ((begin, start), (until, end))
    return Schedule(points=points, unit=unit)


def cosine(
    start: float,
    end: float,
    *,
    begin: float = 0.0,
    until: float = 1.0,
    unit: Unit = "progress",
) -> Schedule:
    """Return a schedule from weight `start` to weight `end`, along half a cosine: slow near `begin` and `until`."""
    points = ((begin, start), (until, end))
    return Schedule(points=points, curve="cosine", unit=unit)


def piecewise(
    points: Mapping[float, float],
    *,
    curve: Curve = "linear",
    unit: Unit = "progress",
) -> Schedule:
    """Return a schedule through weights by time, in the order given; `curve="hold"` changes the weight in jumps."""
    if not isinstance(points, Mapping):
        raise TypeError(
            f"piecewise takes a mapping of times to weights, such as {{0: 1.0, 0.5: 0.2}}; got {points!r}."
        )
    return Schedule(points=tuple(points.items()), curve=curve, unit=unit)


def check_weight(weight: object) -> Weight:
    """Return a valid weight, numbers as floats.

    Raises:
        ValueError: for a weight that is no finite number, schedule or function, or a function that fails when called.
    """
    if isinstance(weight, Schedule):
        return weight
    if is_number(weight):
        return float(weight)
    # A class is callable, too, but gives no number.
    if callable(weight) and not isinstance(weight, type):
        # A function that fails somewhere in training should fail now.
        for progress in (0.0, 0.5, 1.0):
            weight_at(weight, progress)
        return weight
    raise ValueError(
        f"must be a finite number, a schedule, or a function of the progress in [0, 1]: {weight!r}"
    )


def weight_at(weight: Weight, progress: float, step: int | None = None) -> float:
    """Return the weight in force at a moment of training, a finite number.

    Raises:
        ValueError: for a function that raises or returns no finite number, or a schedule over steps without a step.
    """
    if isinstance(weight, Schedule):
        return weight.at(progress, step)
    if not callable(weight):
        return weight
    try:
        found = weight(progress)
    except Exception as error:
        # A user's function may raise any exception.
        raise ValueError(
            f"must be a finite number, and the function raised {type(error).__name__} at progress {progress}: {error}"
        ) from None
    if not is_number(found):
        raise ValueError(
            f"must be a finite number, and the function gives {found!r} at progress {progress}"
        )
    return float(found)


def is_shadow(weight: Weight) -> bool:
    """Return whether a weight is 0 during the whole run."""
    if isinstance(weight, Schedule):
        return all(value == 0 for _, value in weight.points)
    # A function may return a weight at any time, so it is never a shadow.
    return weight == 0


def _check_name(what: str, name: Any, valid: tuple[str, ...]) -> None:
    if name not in valid:
        near = did_you_mean(str(name), valid)
        raise ValueError(f"A schedule has no {what} {name!r}. {near}")
