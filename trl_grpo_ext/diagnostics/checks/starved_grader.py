"""The grader's workers do not get the CPU time that they need."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.check import Outcome, Window, percent
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.verdict import Blame, Status

WARN, CRITICAL = 0.005, 0.05  # of a term's verdicts; each was tried twice before, so few mean a lot; ours
LEAST = 3  # ours


def is_starved(kind: tuple[Blame, Status, str]) -> bool:
    """Whether a failure is a deadline that passed while the worker had no CPU."""
    return kind[2].endswith("starved")


def check(window: Window) -> Outcome:
    """Among a term's recent verdicts, deadlines that passed while the worker waited for a CPU."""
    for term in window.terms:
        facts = window.of_term(term)
        verdicts = sum(one.verdicts for one in facts)
        starved = sum(count for one in facts for kind, count in one.failures.items() if is_starved(kind))
        if starved < LEAST or starved < WARN * verdicts:
            continue
        return Finding(
            code="starved_grader",
            step=window.step,
            severity=Severity.CRITICAL if starved >= CRITICAL * verdicts else Severity.WARNING,
            sentence=(
                f"The machine, not the model: {percent(starved / verdicts)} of the `{term}` verdicts ran out of time "
                f"while their worker had no CPU."
            ),
            numbers={"share": starved / verdicts, "starved": starved},
            action="Give the grader fewer workers than there are free cores, or move it to another machine.",
        )
    return None
