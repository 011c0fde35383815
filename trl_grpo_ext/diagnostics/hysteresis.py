"""Hysteresis: a finding is told once when it has held for a while, and is over when it has not for a while."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from trl_grpo_ext.diagnostics.evidence.window import Check, Window
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked
from trl_grpo_ext.runs.recorder import RECENT_BATCHES

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
    _failed: set[str] = field(default_factory=set)
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
            if code not in self._failed:
                logger.warning("The check %r failed; the others go on. This is shown once.", code, exc_info=True)
            self._failed.add(code)
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
