"""A view of a run as it goes by: batches and logs come in, in the order in which they were made; windows come out."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.diagnostics.levels import History, score_level
from trl_grpo_ext.diagnostics.window import CLIFF_STEPS, EVALUATIONS, OPENING_LOGS, RECENT_LOGS, Window
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.runs.recorder import OPENING_BATCHES, RECENT_BATCHES
from trl_grpo_ext.support.estimate import Estimate, is_finite

MOST_BETWEEN_LOGS = 32  # optimizer steps, for the entropies of two logs to be compared; ours


class RunView:
    """Keeps what checks need of a run, bounded, whether it is live or read from disk.

    Args:
        settings: The run's, as `run_settings` or `RecordedRun.settings` give them.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)
        self._opening: list[BatchFigures] = []
        self._history = History()
        self._trained_on: set[str] = set()
        self._batches: deque[BatchFigures] = deque(maxlen=RECENT_BATCHES)
        self._opening_logs: list[Mapping[str, Any]] = []
        self._logs: deque[Mapping[str, Any]] = deque(maxlen=RECENT_LOGS)
        self._entropies: deque[tuple[int, float]] = deque(maxlen=CLIFF_STEPS + 1)
        self._first_entropy = 0.0
        self._entropy_cliff: float | None = None
        self._evaluations: list[tuple[int | None, Estimate]] = []
        self._evaluating: list[BatchFigures] = []
        self._trained_at_first_evaluation: Estimate | None = None

    def add(self, figures: BatchFigures) -> bool:
        """Take a batch in; True if it is one of training, with which a window is worth a look."""
        if not figures.size:
            return False
        if figures.mode == "eval":
            if not (self._evaluating or self._evaluations) and self._batches:
                self._trained_at_first_evaluation = score_level(tuple(self._batches)[-OPENING_BATCHES:])
            if self._evaluating and self._evaluating[-1].step != figures.step:
                self._end_evaluation()
            self._evaluating.append(figures)
            return False
        self._end_evaluation()
        self._begin_anew_if_another_term_is_primary(figures)
        if len(self._opening) < OPENING_BATCHES:
            self._opening.append(figures)
        self._batches.append(figures)
        self._history.add(figures.step, figures.primary.group_scores)
        self._trained_on.update(figures.in_force)
        return True

    def _begin_anew_if_another_term_is_primary(self, figures: BatchFigures) -> None:
        """Where a schedule puts another term first, scores of before and after are of two things."""
        if self._batches and figures.in_force[:1] != self._batches[-1].in_force[:1]:
            self._opening, self._history = [], History()
            self._batches.clear()
            self._evaluations, self._trained_at_first_evaluation = [], None

    def skip(self) -> None:
        """Forget what is recent: the batches that come next do not follow it. How the run began is kept."""
        self._end_evaluation()
        self._batches.clear()

    def add_logs(self, step: int, logs: Mapping[str, Any]) -> None:
        """Take TRL's logs of a training step in; those of evaluations and of the end of the run are passed over."""
        if "loss" not in logs:
            return
        entry = {**logs, "step": step}
        if len(self._opening_logs) < OPENING_LOGS:
            self._opening_logs.append(entry)
        self._logs.append(entry)
        self._watch_entropy(step, logs.get("entropy"))

    @property
    def window(self) -> Window:
        """What checks may look at now."""
        return Window(
            batches=tuple(self._batches),
            opening=tuple(self._opening),
            history=self._history.stretches,
            trained_on=frozenset(self._trained_on),
            evaluations=(*self._evaluations, *self._last_evaluation()),
            logs=tuple(self._logs),
            opening_logs=tuple(self._opening_logs),
            entropy_cliff=self._entropy_cliff,
            trained_at_first_evaluation=self._trained_at_first_evaluation,
            settings=self.settings,
        )

    def _watch_entropy(self, step: int, entropy: object) -> None:
        if not is_finite(entropy):
            return
        self._first_entropy = self._first_entropy or entropy
        latest = len(self._entropies) - 1  # the log before, which may be many steps ago: TRL logs every 10
        fallen = [
            before - entropy
            for place, (when, before) in enumerate(self._entropies)
            if step - when <= (CLIFF_STEPS if place < latest else MOST_BETWEEN_LOGS)
        ]
        self._entropies.append((step, entropy))
        if fallen and self._first_entropy > 0:
            self._entropy_cliff = max(self._entropy_cliff or 0.0, max(fallen) / self._first_entropy)

    def _end_evaluation(self) -> None:
        self._evaluations += self._last_evaluation()
        del self._evaluations[1 : 1 - EVALUATIONS]  # the first is what the others are compared with
        self._evaluating = []

    def _last_evaluation(self) -> list[tuple[int | None, Estimate]]:
        """The batches of an evaluation that may go on, as one figure."""
        level = score_level(self._evaluating)
        return [] if level is None else [(self._evaluating[-1].step, level)]
