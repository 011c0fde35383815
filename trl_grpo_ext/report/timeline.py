"""Figures over the steps of a run, as a chart takes them, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trl_grpo_ext.figures.batch_figures import Mean
from trl_grpo_ext.report.plain_values import rounded
from trl_grpo_ext.report.tally import Key, Tally, added

MOST_POINTS = 1000  # no screen shows more


@dataclass(slots=True)
class Point:
    """The figures of one step, or of several in a row, and the last of them."""

    step: int
    figures: Tally = field(default_factory=dict)

    def add(self, step: int, figures: Mapping[Key, Mean]) -> None:
        """Take more figures in; the order does not matter."""
        self.step = max(self.step, step)
        self.figures = added(self.figures, figures)


class Timeline:
    """Adds up figures by step; of a run of many steps, several in a row as one point.

    Example:
        >>> timeline = Timeline()
        >>> for step in range(3):
        ...     timeline.add(step, {("loss",): Mean(float(step), 1)})
        >>> timeline.columns()
        {'steps': [0, 1, 2], 'figures': {'loss': [0.0, 1.0, 2.0]}}
    """

    def __init__(self) -> None:
        self._steps_a_point = 1
        self._points: dict[int, Point] = {}

    def __len__(self) -> int:
        return len(self._points)

    def add(self, step: int, figures: Mapping[Key, Mean]) -> None:
        """Add a batch's figures to those of its step. Batches may come in any order."""
        self._put(step, figures)
        while len(self._points) > MOST_POINTS:
            self._steps_a_point *= 2
            points, self._points = self._points, {}
            for point in points.values():
                self._put(point.step, point.figures)

    def _put(self, step: int, figures: Mapping[Key, Mean]) -> None:
        self._points.setdefault(step // self._steps_a_point, Point(step)).add(step, figures)

    def columns(self) -> dict[str, Any]:
        """`steps`, and `figures` nested by their keys: lists as long, null where there is nothing."""
        points = [point for _, point in sorted(self._points.items())]
        keys = dict.fromkeys(key for point in points for key in point.figures)
        nested: dict[str, Any] = {}
        for key in keys:
            *path, last = key
            place = nested
            for part in path:
                place = place.setdefault(part, {})
            place[last] = [rounded(point.figures[key].value) if key in point.figures else None for point in points]
        return {"steps": [point.step for point in points], "figures": nested}
