"""Check `repetition`: completions that repeat their own phrases."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.batches import percent
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.progress import has_hardly_gained
from trl_grpo_ext.diagnostics.window import CheckResult, Window
from trl_grpo_ext.support.estimate import mean_of_known

# Of the 8-grams: rlprobe's level, and ours, twice that.
REPEATED_WARN, REPEATED_CRITICAL = 0.3, 0.6
# Times the share at the start; rlprobe asks for 0.3 from 0.15.
TWICE = 2.0


def repeated(window: Window) -> CheckResult:
    """Find repeated n-grams, twice the opening share, without better answers."""
    if not window.later:
        return None
    now = mean_of_known(batch.text.repeated for batch in window.later)
    if now is None:
        return NotChecked("completions of 32 tokens or more")
    before = mean_of_known(batch.text.repeated for batch in window.opening) or 0.0
    if now < max(REPEATED_WARN, TWICE * before) or not has_hardly_gained(window):
        return None
    return Finding(
        severity=Severity.critical_if(now >= REPEATED_CRITICAL),
        sentence=(
            f"Completions repeat themselves: {percent(now)} of their 8-token phrases were there before, "
            f"{percent(before)} at the start."
        ),
        numbers={"repeated": now, "repeated_at_the_start": before},
        action="Read the longest completions; punish loops with the `repetition` verifier, or lower the length limit.",
    )
