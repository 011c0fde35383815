"""Onsets: a finding is told once when it has held for a while, live or looking back at a recorded run."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field

from trl_grpo_ext.diagnostics.finding import Finding, NotChecked
from trl_grpo_ext.diagnostics.run_view import RunView
from trl_grpo_ext.diagnostics.window import Check, Window
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import OPENING_BATCHES, RECENT_BATCHES
from trl_grpo_ext.support.once import Once

logger = logging.getLogger(__name__)

HOLD = 3  # batches in a row until it is told; ours
CLEAR = RECENT_BATCHES  # batches in a row without it until it is over, and may be told anew: a whole window; ours


@dataclass(slots=True)
class Onsets:
    """Runs checks batch by batch, and tells the onset of each finding once.

    Attributes:
        checks: The checks, by code.
        active: The findings that have begun and are not over, as they were last seen, by code.
        not_checked: What each check lacked when it was last asked, by code.
    """

    checks: dict[str, Check]
    active: dict[str, Finding] = field(default_factory=dict)
    not_checked: dict[str, str] = field(default_factory=dict)
    _primary: tuple[str, ...] = ()
    _once: Once = field(default_factory=Once)
    _held: dict[str, int] = field(default_factory=dict)
    _missed: dict[str, int] = field(default_factory=dict)

    def look(self, window: Window) -> list[Finding]:
        """The findings that begin with this window; call it once a training batch."""
        if window.in_force[:1] != self._primary:  # what was found of another primary term is over
            self._primary = window.in_force[:1]
            self.active.clear()
            self._held.clear()
        return [finding for code, check in self.checks.items() if (finding := self._look(code, check, window))]

    def _look(self, code: str, check: Check, window: Window) -> Finding | None:
        try:
            found = check(window)
        except Exception as error:  # one check that fails must not silence the others
            self._once.warn(logger, code, "The check %r failed; the others go on.", code, error=error)
            self.not_checked[code] = f"a check that does not fail ({type(error).__name__})"
            return None
        self.not_checked.pop(code, None)
        if isinstance(found, NotChecked):  # which says neither that it holds nor that it is over
            self.not_checked[code] = found.needs
            return None
        if not isinstance(found, Finding):
            self._held[code] = 0
            self._missed[code] = self._missed.get(code, 0) + 1
            if self._missed[code] >= CLEAR:
                self.active.pop(code, None)
            return None
        self._missed[code] = 0
        self._held[code] = self._held.get(code, 0) + 1
        begins = code not in self.active and self._held[code] >= HOLD
        if begins or code in self.active:
            self.active[code] = found
        return found if begins else None


MOST_BATCHES = 512  # that are read beside those that the run began with; ours


def look_back(
    run: RecordedRun, view: RunView, onsets: Onsets, *, before: int | None = None, seconds: float = math.inf
) -> tuple[list[Finding], int]:
    """Show a run's batches and logs to the checks, in the order in which they were made.

    Args:
        run: The run.
        view: Takes the batches and logs in.
        onsets: Looks at the view after each training batch.
        before: Only what was made before this optimizer step; None for all.
        seconds: How long it may take, about: of a run that takes longer, fewer batches are read.

    Returns:
        The findings as they began, and the number of training batches.
    """
    began = time.monotonic()
    shown, (opening, latest) = _Showing(run, view, onsets, before), _numbers(run, before)
    for number in opening:
        shown.show(number)
    each = (time.monotonic() - began) / max(1, len(opening))
    most = MOST_BATCHES if len(latest) * each <= seconds else max(RECENT_BATCHES, int(seconds / each))
    if len(latest) > most:
        latest = latest[-most:]
        view.skip()
    for number in latest:
        shown.show(number)
    shown.end()
    return shown.findings, shown.batches


class _Showing:
    """Shows batches to the checks, and before each the logs that came before it."""

    def __init__(self, run: RecordedRun, view: RunView, onsets: Onsets, before: int | None) -> None:
        self.findings: list[Finding] = []
        self.batches = 0
        self._run, self._view, self._onsets = run, view, onsets
        self._logs = (entry for entry in run.iterate_logs() if before is None or entry["step"] <= before)
        self._entry = next(self._logs, None)

    def show(self, number: int) -> None:
        """Show a batch, if it can be read."""
        card = self._run.readable(number)
        if card is None:
            return
        # A log of step n is written at its end, before the batch that is generated after n steps.
        if card.step is not None:
            self._show_logs(card.step)
        if self._view.add(reduce_card(card, self._view.settings)):
            self.batches += 1
            self.findings += self._onsets.look(self._view.window)

    def end(self) -> None:
        """Show the logs that are left."""
        self._show_logs(math.inf)

    def _show_logs(self, up_to: float) -> None:
        while self._entry is not None and self._entry["step"] <= up_to:
            self._view.add_logs(self._entry["step"], self._entry)
            self._entry = next(self._logs, None)


def _numbers(run: RecordedRun, before: int | None) -> tuple[list[int], list[int]]:
    """The numbers of the batches in order: up to the first few of training, to be compared with, and the rest."""
    parts = [(number, about) for number, about in run.parts() if before is None or (about.step or 0) < before]
    train = [number for number, about in parts if about.mode == "train"][:OPENING_BATCHES]
    end = train[-1] if train else -1
    return [number for number, _ in parts if number <= end], [number for number, _ in parts if number > end]
