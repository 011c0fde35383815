"""Programs that would have fooled a naive grader: the policy is trying to get past the tests, not to pass them."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.groups import percent
from trl_grpo_ext.diagnostics.terms import by_weight, verdict_share
from trl_grpo_ext.diagnostics.window import CheckResult, Window

WARN, CRITICAL = 0.02, 0.10  # of a term's verdicts; ours


def check(window: Window) -> CheckResult:
    """Verdicts of a recent window that say `passes_naively`; a shadow's count too: it is the policy that they show."""
    for term in by_weight(window):
        fooled = verdict_share(window, term, lambda facts: facts.fooled)
        if not fooled.is_pattern(WARN, CRITICAL):
            continue
        earned = "They earned nothing here." if fooled.in_force else f"`{term}` has no weight: others may pay for them."
        return Finding(
            code="label_hacks",
            step=window.step,
            severity=Severity.CRITICAL if fooled.share >= CRITICAL else Severity.WARNING,
            sentence=(
                f"{percent(fooled.share)} of the programs fail `{term}` but would have passed a naive grader: "
                f"they end, print or exit as a solution would. {earned}"
            ),
            numbers={"share": fooled.share, "fooled": fooled.count},
            action="Read a few of them, and do not move this run to a grader that is not isolated.",
        )
    return None
