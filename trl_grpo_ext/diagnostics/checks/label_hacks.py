"""Programs that would have fooled a naive grader: the policy is trying to get past the tests, not to pass them."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.check import Outcome, Window, percent
from trl_grpo_ext.diagnostics.finding import Finding, Severity

WARN, CRITICAL = 0.02, 0.10  # of a term's verdicts; ours
LEAST = 3  # ours


def check(window: Window) -> Outcome:
    """Verdicts of a recent window that say `passes_naively`."""
    for term in window.terms:
        facts = window.of_term(term)
        verdicts, fooled = sum(one.verdicts for one in facts), sum(one.fooled for one in facts)
        if fooled < LEAST or fooled < WARN * verdicts:
            continue
        return Finding(
            code="label_hacks",
            step=window.step,
            severity=Severity.CRITICAL if fooled >= CRITICAL * verdicts else Severity.WARNING,
            sentence=(
                f"{percent(fooled / verdicts)} of the programs fail `{term}` but would have passed a naive grader: "
                f"they end, print or exit as a solution would. They earned nothing here."
            ),
            numbers={"share": fooled / verdicts, "fooled": fooled},
            action="Read a few of them, and do not move this run to a grader that is not isolated.",
        )
    return None
