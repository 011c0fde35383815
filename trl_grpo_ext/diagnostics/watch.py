"""The watch: checks a run while it goes, and tells each finding once."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.finding import FILE, Finding, Severity, append_finding
from trl_grpo_ext.diagnostics.onsets import Onsets, look_back
from trl_grpo_ext.diagnostics.run_view import RunView
from trl_grpo_ext.diagnostics.telling import alert_trackers, show_finding
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.files import set_aside

LEVELS = {Severity.INFO: logging.INFO, Severity.WARNING: logging.WARNING, Severity.CRITICAL: logging.ERROR}

Cite = Callable[[Collection[int]], None]


class Watch(RunListener):
    """Takes scorecards and logs in, and tells what begins to be wrong: file, console, trackers.

    Args:
        run_folder: The run's `output_dir`; findings are appended to its `findings.jsonl`.
        settings: The run's, as `run_settings` gives them.
        cite: Told the steps that findings are about, so that their batches are kept.
        halt_on: The codes of findings that should end the run.
        log_level: Findings below are not shown on the console: `logging.INFO` shows all.

    Attributes:
        halted_by: The finding that should end the training that goes on; None where there is none.
    """

    def __init__(
        self,
        run_folder: str | os.PathLike[str],
        settings: Mapping[str, Any],
        *,
        cite: Cite | None = None,
        halt_on: Collection[str] = (),
        log_level: int = logging.WARNING,
    ) -> None:
        self.run_folder = run_folder
        self.halt_on = frozenset(halt_on)
        self.log_level = log_level
        self.halted_by: Finding | None = None
        self._cite = cite
        self._view = RunView(settings)
        self._onsets = Onsets(dict(CHECKS))
        self._has_begun = False

    def on_train_begin(self, *, quiet: bool) -> None:
        # Who goes on after a halt has seen why.
        self.halted_by = None
        self._has_begun = False

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        if figures is None:
            return
        if card.mode == "train" and not self._has_begun:
            self._has_begun = True
            self._look_back(card.step or 0)
        if self._view.add(figures):
            self._look()

    def on_log(self, step: int, logs: Mapping[str, Any]) -> None:
        self._view.add_logs(step, logs)

    def on_train_end(self) -> None:
        # Once more, at what came after the last batch.
        if self._view.window.batches:
            self._look()

    def _look_back(self, step: int) -> None:
        """Of a run that is resumed, see what was before; it has been told already. Of an earlier run, nothing."""
        folder = Path(self.run_folder)
        is_resumed = step > 0 and (folder / "scorecards").is_dir()
        if is_resumed or (step == 0 and self._view.window.batches):  # seen before training began again
            self._view, self._onsets = RunView(self._view.settings), Onsets(dict(CHECKS))
        if step == 0:
            set_aside(folder / FILE)
        elif is_resumed:
            look_back(RecordedRun(folder), self._view, self._onsets, before=step)

    def _look(self) -> None:
        for finding in self._onsets.look(self._view.window):
            if finding.code in self.halt_on and self.halted_by is None:
                self.halted_by = finding
            append_finding(self.run_folder, finding)
            if self._cite is not None and finding.step is not None:
                self._cite([finding.step])
            if LEVELS[finding.severity] >= self.log_level:
                show_finding(finding)
            alert_trackers(finding)
