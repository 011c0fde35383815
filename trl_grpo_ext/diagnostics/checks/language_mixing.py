"""Completions that leave the script of their prompt."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.evidence.figures import percent
from trl_grpo_ext.diagnostics.evidence.window import Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.figures.reduction import BatchFigures

WARN = 0.1  # of the words; ours
GROWN = 2.0  # times the share at the start; ours


def check(window: Window) -> Outcome:
    """Many words in scripts that the prompts do not use, twice as many as at the start."""
    now, before = _foreign(window.later), _foreign(window.opening)
    if now is None:
        return NotChecked("completions and prompts with words") if window.later else None
    if now < WARN or now < GROWN * (before or 0.0):
        return None
    return Finding(
        code="language_mixing",
        step=window.step,
        # Forbidding it costs some right answers (arXiv 2507.15849), so it is the user's to judge.
        severity=Severity.INFO,
        sentence=(
            f"{percent(now)} of the words of completions are in a script that their prompt does not use, "
            f"{percent(before or 0.0)} at the start."
        ),
        numbers={"foreign": now} | ({} if before is None else {"foreign_at_the_start": before}),
        action="If readers matter, add the `language` verifier with a small weight.",
    )


def _foreign(batches: Sequence[BatchFigures]) -> float | None:
    known = [batch.text.foreign for batch in batches if batch.text.foreign is not None]
    return sum(known) / len(known) if known else None
