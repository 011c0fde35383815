"""Completions grow, and the answers get no better."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.evidence.level import length_level
from trl_grpo_ext.diagnostics.evidence.progress import has_hardly_gained, has_risen
from trl_grpo_ext.diagnostics.evidence.window import LEAST_GROUPS, Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity

GROWN, EXPLODED = 1.4, 3.0  # times the length at the start; rlprobe (rl-doctor: 1.5), and ours
LEAST_TOKENS = 28  # below, that is a matter of a few words; ours


def check(window: Window) -> Outcome:
    """Much longer than at the start, and no better."""
    if not window.later:
        return None
    level, opening = length_level(window.later), length_level(window.opening)
    if level is None or opening is None or not opening.mean:
        return NotChecked("token counts")
    if opening.count < LEAST_GROUPS:  # which do not tell how lengths differ
        return NotChecked(
            f"{LEAST_GROUPS} groups in the first {len(window.opening)} batches; they have {opening.count}"
        )
    now, before = level.mean, opening.mean
    if now < max(GROWN * before, LEAST_TOKENS) or not has_risen(window, length_level):
        return None
    if not has_hardly_gained(window):
        return None
    return Finding(
        code="length_explosion",
        step=window.step,
        severity=Severity.CRITICAL if now >= EXPLODED * before else Severity.WARNING,
        sentence=(
            f"Completions are {now / before:.1f} times as long as at the start ({before:.0f} to {now:.0f} tokens), and "
            f"answers are no better."
        ),
        numbers={"tokens": now, "tokens_at_the_start": before},
        action="Add a term that prefers the shorter of two right answers, or use a loss that does not favour long "
        'wrong ones (loss_type: "dr_grpo" or "dapo").',
    )
