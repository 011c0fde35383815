"""Completions that go round in circles."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.evidence.figures import percent
from trl_grpo_ext.diagnostics.evidence.progress import has_hardly_gained
from trl_grpo_ext.diagnostics.evidence.window import Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.figures.reduction import BatchFigures

WARN, CRITICAL = 0.3, 0.6  # of the 8-grams; rlprobe's level, and ours
GROWN = 2.0  # times the share at the start; rlprobe asks for .3 from .15


def check(window: Window) -> Outcome:
    """Many repeated n-grams, twice as many as at the start, and no better answers."""
    now, before = _repeated(window.later), _repeated(window.opening)
    if now is None:
        return NotChecked("completions of 32 tokens or more") if window.later else None
    if now < WARN or now < GROWN * (before or 0.0) or not has_hardly_gained(window):
        return None
    return Finding(
        code="repetition",
        step=window.step,
        severity=Severity.CRITICAL if now >= CRITICAL else Severity.WARNING,
        sentence=(
            f"Completions repeat themselves: {percent(now)} of their 8-token phrases were there before, "
            f"{percent(before or 0.0)} at the start."
        ),
        numbers={"repeated": now} | ({} if before is None else {"repeated_at_the_start": before}),
        action="Read the longest completions; punish loops with the `repetition` verifier, or lower the length limit.",
    )


def _repeated(batches: Sequence[BatchFigures]) -> float | None:
    known = [batch.text.repeated for batch in batches if batch.text.repeated is not None]
    return sum(known) / len(known) if known else None
