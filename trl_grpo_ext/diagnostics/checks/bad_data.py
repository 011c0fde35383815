"""Rows of the dataset that cannot be judged against."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.check import Outcome, Window, most_common, percent
from trl_grpo_ext.diagnostics.example import safe_reason
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.verdict import Blame

WARN, CRITICAL = 0.02, 0.10  # of the verdicts of a term in force; ours
LEAST = 3  # ours


def check(window: Window) -> Outcome:
    """Among the recent verdicts of terms in force, those that are the data's fault."""
    worst: Finding | None = None
    for term in window.in_force:
        facts = window.of_term(term)
        verdicts = sum(one.verdicts for one in facts)
        failures = [(kind, n) for kind, n in most_common([one.failures for one in facts]) if kind[0] is Blame.DATA]
        failed = sum(count for _, count in failures)
        if failed < LEAST or failed < WARN * verdicts:
            continue
        if worst is not None and worst.numbers["share"] >= failed / verdicts:
            continue
        (_, status, reason), count = failures[0]
        worst = Finding(
            code="bad_data",
            step=window.step,
            severity=Severity.CRITICAL if failed >= CRITICAL * verdicts else Severity.WARNING,
            sentence=(
                f"The data, not the model: {percent(failed / verdicts)} of the completions have nothing that `{term}` "
                f"could judge them against, mostly `{safe_reason(reason) or status}`; they are left out of training."
            ),
            numbers={"share": failed / verdicts, "failed": failed, "most_common": count},
            action="Run `trl-grpo-ext check-data` with the recipe, and mend or drop the rows that it lists.",
        )
    return worst
