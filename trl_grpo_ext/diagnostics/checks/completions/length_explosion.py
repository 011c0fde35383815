"""Check `length_explosion`: completions that grow without better answers."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.batches import names, other_terms
from trl_grpo_ext.diagnostics.checks import kl_blowup
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.levels import length_level
from trl_grpo_ext.diagnostics.progress import LEAST_GAIN, has_hardly_gained, has_risen
from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, CheckResult, Window
from trl_grpo_ext.support.estimate import mean_of_known

# Times the length at the start: rlprobe's level (rl-doctor has 1.5), and ours, twice that and more.
GROWN, EXPLODED = 1.4, 3.0
# Shorter completions differ by a few words only. Ours, tried in test_healthy_runs.py and the quickstart.
LEAST_TOKENS = 28
# Rank correlation of length and reward within groups. Ours, tried in test_diagnosis_cases.py.
PAYS_SHORT, PAYS_LONG = -0.2, 0.2


def length(window: Window) -> CheckResult:
    """Find completions that grow far beyond their opening length without better scores."""
    if not window.later:
        return None
    level = length_level(window.later)
    opening = length_level(window.opening)
    if not level.count or not opening.total:
        return NotChecked("token counts")
    # Few groups do not tell how lengths differ.
    if opening.count < LEAST_GROUPS:
        return NotChecked(
            f"{LEAST_GROUPS} groups in the first {len(window.opening)} batches; they have {opening.count}"
        )
    now = level.mean
    before = opening.mean
    has_grown = now >= max(GROWN * before, LEAST_TOKENS) and has_risen(window, length_level)
    if not has_grown or not has_hardly_gained(window):
        return None
    payer = _pays_for_length(window)
    paid = f"; `{payer}` has risen with them" if payer else ""
    return Finding(
        severity=Severity.critical_if(now >= EXPLODED * before),
        sentence=(
            f"Completions are {now / before:.1f} times as long as at the start ({before:.0f} to {now:.0f} tokens), and "
            f"answers are no better{paid}."
        ),
        numbers={"tokens": now, "tokens_at_the_start": before},
        action=_how_to_shorten(window, payer),
    )


def _pays_for_length(window: Window) -> str:
    """Return a lesser term that has risen since the start while longer siblings earn more; empty without one."""
    correlation = mean_of_known(batch.length_correlation for batch in window.batches)
    if correlation is None or correlation < PAYS_LONG:
        return ""
    for term in other_terms(window):
        if kl_blowup.earned(window, term) >= LEAST_GAIN:
            return term
    return ""


def _how_to_shorten(window: Window, payer: str) -> str:
    if payer:
        return f"Look at what `{payer}` pays for: lower its weight, or gate it by {names(window.primary_terms, 'or')}."
    correlation = mean_of_known(batch.length_correlation for batch in window.batches)
    if correlation is not None and correlation <= PAYS_SHORT:
        return "The reward pays for shorter completions already, and too little: raise the weight of that term."
    return (
        "Add a term that prefers the shorter of two right answers, or use a loss that does not favour long "
        'wrong ones (loss_type: "dr_grpo" or "dapo").'
    )
