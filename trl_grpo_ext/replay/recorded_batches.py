"""The recorded batches that are to be replayed, and what to say where there are none."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.replay.selection import Selection
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import About
from trl_grpo_ext.scorecard import Scorecard


class RecordedBatches:
    """The batches of a run that a selection means.

    Attributes:
        numbers: Their numbers, in order.
        terms: The terms that the run had, of any session.
        left_out: How many batches the limit leaves out.
        unreadable: The numbers of those that turned out to be unreadable.
    """

    def __init__(self, run: RecordedRun, selection: Selection) -> None:
        self.run = run
        self.selection = selection
        self.unreadable: list[int] = []
        self._parts = run.parts()
        self.terms = tuple(dict.fromkeys(term for _, about in self._parts for term in about.weights))
        meant = [number for number, about in self._parts if self._may_be_meant(about)]
        self.numbers = meant if selection.limit is None else selection.within_limit(meant, self._batch_size(meant))
        self.left_out = len(meant) - len(self.numbers)

    def card(self, number: int) -> Scorecard | None:
        """A batch; None for one that cannot be read, is empty, or is not meant after all."""
        card = self.run.readable(number)
        if card is None and number not in self.unreadable:
            self.unreadable.append(number)
        return card if card is not None and len(card) and self.selection.has_step(card.step) else None

    def _may_be_meant(self, about: About) -> bool:
        # The parts of version 0.1.0 say nothing of their step.
        return about.mode == self.selection.mode and (about.step is None or self.selection.has_step(about.step))

    def _batch_size(self, numbers: Sequence[int]) -> int:
        return next((len(card) for number in numbers if (card := self.card(number)) is not None), 1)

    def why_none(self, settings: Mapping[str, Any]) -> str:
        """Why nothing could be replayed, and what to do."""
        folder = repr(os.fspath(self.run.folder))
        functions = settings.get("reward_functions") or []
        if not self._parts and functions and not settings.get("verifiers"):
            return (
                f"{folder} has no scorecards: its rewards ({listed(functions)}) are plain functions, and only "
                f"verifiers and the terms of a RewardMix are recorded."
            )
        if not self._parts:
            return f"{folder} has no scorecards yet: nothing was generated, or nothing was recorded."
        if self.unreadable:
            return f"None of the batches that are meant can be read; in {folder} they are: {listed(self.unreadable)}."
        steps = [about.step for _, about in self._parts if about.mode == self.selection.mode]
        if not steps:
            training = self.selection.mode == "train"
            return (
                f"{folder} has no batches of {'training' if training else 'evaluation'}; "
                f"--mode {'eval' if training else 'train'} replays those that it has."
            )
        known = [step for step in steps if step is not None]
        span = f"its batches are of the steps {min(known)} to {max(known)}" if known else "nobody knows its steps"
        return f"{folder} has no batches of the steps that were asked for; {span}."


def listed(items: Sequence[Any], most: int = 8) -> str:
    """The first few, with commas.

    Example:
        >>> listed(range(10))
        '0, 1, 2, 3, 4, 5, 6, 7 and 2 more'
    """
    shown = ", ".join(map(str, items[:most]))
    return f"{shown} and {len(items) - most} more" if len(items) > most else shown
