"""Completions that grow, repeat themselves or leave the script of their prompt."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.groups import percent
from trl_grpo_ext.diagnostics.levels import length_level
from trl_grpo_ext.diagnostics.progress import has_hardly_gained, has_risen
from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, CheckResult, Window
from trl_grpo_ext.figures.reduction import BatchFigures

# Times the length at the start: rlprobe's level (rl-doctor has 1.5), and ours, twice that and more.
GROWN, EXPLODED = 1.4, 3.0
# Shorter completions differ by a few words only. Ours, tried in tests/test_healthy_runs.py and the quickstart.
LEAST_TOKENS = 28
# Of the 8-grams: rlprobe's level, and ours, twice that.
REPEATED_WARN, REPEATED_CRITICAL = 0.3, 0.6
REPEATED_GROWN = 2.0  # times the share at the start; rlprobe asks for 0.3 from 0.15
# Ours, without an experiment: information only, so a wrong level costs a line. The second is as for repetition.
FOREIGN_WARN = 0.1  # of the words
FOREIGN_GROWN = 2.0  # times the share at the start


def check(window: Window) -> CheckResult:
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


def check_repetition(window: Window) -> CheckResult:
    """Many repeated n-grams, twice as many as at the start, and no better answers."""
    now, before = _repeated(window.later), _repeated(window.opening)
    if now is None:
        return NotChecked("completions of 32 tokens or more") if window.later else None
    if now < REPEATED_WARN or now < REPEATED_GROWN * (before or 0.0) or not has_hardly_gained(window):
        return None
    return Finding(
        code="repetition",
        step=window.step,
        severity=Severity.CRITICAL if now >= REPEATED_CRITICAL else Severity.WARNING,
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


def check_language(window: Window) -> CheckResult:
    """Many words in scripts that the prompts do not use, twice as many as at the start."""
    now, before = _foreign(window.later), _foreign(window.opening)
    if now is None:
        return NotChecked("completions and prompts with words") if window.later else None
    if now < FOREIGN_WARN or now < FOREIGN_GROWN * (before or 0.0):
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
