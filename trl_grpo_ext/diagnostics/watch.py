"""The watch: runs checks on a live or recorded run, and tells each finding at its onset."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.finding import (
    FILE,
    Finding,
    NotChecked,
    Severity,
    append_finding,
)
from trl_grpo_ext.diagnostics.levels import OPENING_BATCHES, RECENT_BATCHES
from trl_grpo_ext.diagnostics.telling import alert_trackers, show_finding
from trl_grpo_ext.diagnostics.window import Check, RunView, Window
from trl_grpo_ext.figures.reduction import BatchFigures, reduce_card
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.files import set_aside
from trl_grpo_ext.support.text import Once

logger = logging.getLogger(__name__)

LEVELS = {
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.CRITICAL: logging.ERROR,
}


class Watch(RunListener):
    """Takes scorecards and logs in, and tells what begins to be wrong: file, console, trackers.

    Findings are appended to the run's `findings.jsonl`. `cite` is told the steps that they are about, so that their
    batches are kept, `halt_on` has the codes of those that should end the run, and those below `log_level` are not
    shown on the console.

    Attributes:
        halted_by: The finding that should end the training that goes on; None where there is none.
    """

    def __init__(
        self,
        run_folder: str | os.PathLike[str],
        settings: Mapping[str, Any],
        *,
        cite: Callable[[Collection[int]], None] | None = None,
        halt_on: Collection[str] = (),
        log_level: int = logging.WARNING,
    ) -> None:
        self.run_folder = run_folder
        self.halt_on = frozenset(halt_on)
        self.log_level = log_level
        self.halted_by: Finding | None = None
        self._cite = cite
        self._view = RunView(settings, run_folder)
        self._onsets = Onsets(dict(CHECKS))
        self._has_begun = False

    def on_train_begin(self, *, quiet: bool) -> None:
        # Who goes on after a halt has seen why.
        self.halted_by = None
        self._has_begun = False

    def learn(self, settings: Mapping[str, Any]) -> None:
        """Add settings that are known only since training started."""
        self._view.settings.update(settings)

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
        """Replay the earlier part of a resumed run silently; a new run ignores earlier ones."""
        folder = Path(self.run_folder)
        is_resumed = step > 0 and (folder / "scorecards").is_dir()
        # Seen before training began again.
        if is_resumed or (step == 0 and self._view.window.batches):
            self._view = RunView(self._view.settings, self.run_folder)
            self._onsets = Onsets(dict(CHECKS))
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
            if _level(finding) >= self.log_level:
                show_finding(finding)
            alert_trackers(finding)


def _level(finding: Finding) -> int:
    """Return a finding's level on the console: a term's only value, unless it is 0, is a likely bug, so a warning."""
    if finding.code == "inert_term" and finding.numbers.get("mean"):
        return logging.WARNING
    return LEVELS[finding.severity]


# Ours, so that one odd batch is not told; tried in test_healthy_runs.py.
# Batches in a row until a finding is told.
HOLD = 3
# Findings told after one batch, which is proof.
AT_ONCE = frozenset(("mixed_groups",))
# Batches in a row without it until it is over and may be told again: a whole window.
CLEAR = RECENT_BATCHES


@dataclass(slots=True)
class Onsets:
    """Runs checks batch by batch, and tells the onset of each finding once."""

    # The checks, by code.
    checks: dict[str, Check]
    # The findings that have begun and are not over, as they were last seen, by code.
    active: dict[str, Finding] = field(default_factory=dict)
    # What each check lacked when it was last asked, by code.
    not_checked: dict[str, str] = field(default_factory=dict)
    _primary: tuple[str, ...] = ()
    _once: Once = field(default_factory=Once)
    _told: dict[str, Finding] = field(default_factory=dict)
    _held: dict[str, int] = field(default_factory=dict)
    _missed: dict[str, int] = field(default_factory=dict)

    def look(self, window: Window) -> list[Finding]:
        """Run all checks, and return findings that begin; call once per training batch."""
        # What was found of another primary term is over.
        if window.in_force[:1] != self._primary:
            self._primary = window.in_force[:1]
            self.active.clear()
            self._told.clear()
            self._held.clear()
        begun = []
        for code, check in self.checks.items():
            finding = self._look(code, check, window)
            if finding is not None:
                begun.append(finding)
        return begun

    def _look(self, code: str, check: Check, window: Window) -> Finding | None:
        try:
            found = check(window)
        # One check that fails must not silence the others.
        except Exception as error:
            self._once.warn(
                logger, code, "The check %r failed; the others go on.", code, error=error
            )
            self.not_checked[code] = f"a check that does not fail ({type(error).__name__})"
            return None
        self.not_checked.pop(code, None)
        if isinstance(found, NotChecked):
            # A check without its data says neither that a finding holds nor that it is over.
            if not found.in_part:
                self.not_checked[code] = found.needs
                return None
            self.not_checked[code] = f"{found.needs} (for a part of it)"
        if not isinstance(found, Finding):
            self._held[code] = 0
            self._missed[code] = self._missed.get(code, 0) + 1
            if self._missed[code] >= CLEAR:
                self.active.pop(code, None)
                self._told.pop(code, None)
            return None
        self._missed[code] = 0
        told = self._told.get(code)
        # Not told yet, or more severe now and asking for something else: it has another cause.
        is_news = told is None or (
            found.severity.rank > told.severity.rank and found.action != told.action
        )
        self._held[code] = self._held.get(code, 0) + 1 if is_news else 0
        begins = self._held[code] >= (1 if code in AT_ONCE else HOLD)
        if begins:
            self._told[code] = found
        if begins or code in self.active:
            self.active[code] = found
        return found if begins else None


# Batches read after the opening ones. Ours: it bounds the time of `diagnose`.
MOST_BATCHES = 512


def look_back(
    run: RecordedRun,
    view: RunView,
    onsets: Onsets,
    *,
    before: int | None = None,
    seconds: float = math.inf,
) -> tuple[list[Finding], int]:
    """Replay recorded batches and logs through the checks, in order.

    `view` takes the batches and logs in, and `onsets` looks at it after each training batch. With `before`, only what
    was made before this optimizer step is shown. It takes `seconds`, about: of a run that takes longer, fewer batches
    are read.

    Returns:
        The findings as they began, and the number of training batches.
    """
    began = time.monotonic()
    shown = _Showing(run, view, onsets, before)
    opening, latest = _numbers(run, before)
    shown.show(opening)
    most = MOST_BATCHES
    each = (time.monotonic() - began) / max(1, len(opening))
    if len(latest) * each > seconds:
        most = max(RECENT_BATCHES, int(seconds / each))
    if len(latest) > most:
        latest = latest[-most:]
        view.skip()
    shown.show(latest)
    shown.show_logs(math.inf)
    return shown.findings, shown.batches


class _Showing:
    """Replay of a recorded run for checks: logs and batches in order."""

    def __init__(
        self, run: RecordedRun, view: RunView, onsets: Onsets, before: int | None
    ) -> None:
        self.findings: list[Finding] = []
        self.batches = 0
        self._run = run
        self._view = view
        self._onsets = onsets
        self._logs = (
            entry
            for entry in run.iterate_logs()
            if before is None or entry["step"] <= before
        )
        self._entry = next(self._logs, None)

    def show(self, numbers: Sequence[int]) -> None:
        for card in map(self._run.readable, numbers):
            if card is None:
                continue
            # A log of step n is written at its end, before the batch that is generated after n steps.
            if card.step is not None:
                self.show_logs(card.step)
            if self._view.add(reduce_card(card, self._view.settings)):
                self.batches += 1
                self.findings += self._onsets.look(self._view.window)

    def show_logs(self, up_to: float) -> None:
        while self._entry is not None and self._entry["step"] <= up_to:
            self._view.add_logs(self._entry["step"], self._entry)
            self._entry = next(self._logs, None)


def _numbers(run: RecordedRun, before: int | None) -> tuple[list[int], list[int]]:
    """Split recorded batch numbers: opening training batches first, then all later ones."""
    numbers = []
    train = []
    for number, about in run.parts():
        if before is not None and (about.step or 0) >= before:
            continue
        numbers.append(number)
        if about.mode == "train":
            train.append(number)
    opening = train[:OPENING_BATCHES]
    end = opening[-1] if opening else -1
    return [each for each in numbers if each <= end], [
        each for each in numbers if each > end
    ]
