"""Figures over the steps of a run, as a chart takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.report.plain_values import rounded
from trl_grpo_ext.report.tally import Key, Tally, added

MOST_POINTS = 1000  # no screen shows more


class Timeline:
    """Adds up figures by step. What has no step is put where it was seen, by its place in the run."""

    def __init__(self) -> None:
        self._steps: dict[int, Tally] = {}

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: int, figures: Mapping[Key, Any]) -> None:
        """Add a batch's figures to those of its step."""
        self._steps[step] = added(self._steps.get(step, {}), figures)

    def points(self) -> list[tuple[int, Tally]]:
        """Steps and their figures, in order; of a run of many steps, several in a row as one."""
        steps = sorted(self._steps.items())
        size = -(-len(steps) // MOST_POINTS)
        return [_as_one(steps[start : start + size]) for start in range(0, len(steps), size)] if size else []

    def columns(self) -> dict[str, Any]:
        """`steps`, and `figures` nested by their keys: lists as long, null where there is nothing."""
        points = self.points()
        keys = dict.fromkeys(key for _, figures in points for key in figures)
        nested: dict[str, Any] = {}
        for key in keys:
            *path, last = key
            place = nested
            for part in path:
                place = place.setdefault(part, {})
            place[last] = [rounded(figures[key].value) if key in figures else None for _, figures in points]
        return {"steps": [step for step, _ in points], "figures": nested}


def _as_one(steps: list[tuple[int, Tally]]) -> tuple[int, Tally]:
    together: Tally = {}
    for _, figures in steps:
        together = added(together, figures)
    return steps[-1][0], together
