"""Check `label_hacks`: programs that would pass a naive grader."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.batches import percent, worst_share
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.window import CheckResult, Window

# Of a term's verdicts. Ours, tried in test_code_recipe.py.
WARN, CRITICAL = 0.02, 0.10


def fooled(window: Window) -> CheckResult:
    """Find `passes_naively` verdicts, shadows included: they show the policy."""
    found = worst_share(window, lambda figures: figures.fooled, WARN, CRITICAL)
    if found is None:
        return None
    term = found.term
    earned = "They earned nothing here."
    if not found.in_force:
        earned = f"`{term}` has no weight: others may pay for them."
    return Finding(
        severity=Severity.critical_if(found.share >= CRITICAL),
        terms=(term,),
        sentence=(
            f"{percent(found.share)} of the programs fail `{term}` but would have passed a naive grader: they end, "
            f"print or exit as a solution would. {earned}"
        ),
        numbers={"share": found.share, "fooled": found.count},
        action="Read a few of them, and do not move this run to a grader that is not isolated.",
    )
