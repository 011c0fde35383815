"""A verifier that gives the same completion different scores."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.groups import percent
from trl_grpo_ext.diagnostics.terms import by_weight
from trl_grpo_ext.diagnostics.window import CheckResult, Window

LEAST_REPEATS = 16  # of a term's verdicts; ours
WARN, CRITICAL = 0.1, 0.3  # of them; a coin contradicts itself in half; ours


def check(window: Window) -> CheckResult:
    """Among completions of a group that are the same word for word, scores that are not."""
    for term in by_weight(window):
        facts = window.of_term(term)
        repeats, contradictions = sum(one.repeats for one in facts), sum(one.contradictions for one in facts)
        if repeats < LEAST_REPEATS or contradictions < WARN * repeats:
            continue
        return Finding(
            code="inconsistent_verifier",
            step=window.step,
            severity=_severity(contradictions / repeats, in_force=term in window.in_force),
            sentence=(
                f"`{term}` contradicts itself: of {repeats} completions that a sibling has given word for word, it "
                f"scored {percent(contradictions / repeats)} differently."
            ),
            numbers={"share": contradictions / repeats, "repeats": repeats},
            action=f"Make `{term}` give the same text the same score: what it decides by chance cannot be learned.",
        )
    return None


def _severity(share: float, *, in_force: bool) -> Severity:
    """A term whose verdicts do not count holds nothing back."""
    if not in_force:
        return Severity.INFO
    return Severity.CRITICAL if share >= CRITICAL else Severity.WARNING
