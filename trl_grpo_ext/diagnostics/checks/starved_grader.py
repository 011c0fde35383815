"""The grader's workers do not get the CPU time that they need."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.evidence.figures import percent
from trl_grpo_ext.diagnostics.evidence.verdict_share import by_weight, verdict_share
from trl_grpo_ext.diagnostics.evidence.window import Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding
from trl_grpo_ext.figures.terms import TermFigures
from trl_grpo_ext.verdict import Blame, Status

WARN, CRITICAL = 0.005, 0.05  # of a term's verdicts; each was tried twice before, so few mean a lot; ours


def is_starved(kind: tuple[Blame, Status, str]) -> bool:
    """Whether a failure is a deadline that passed while the worker had no CPU."""
    return kind[2].endswith("starved")


def check(window: Window) -> Outcome:
    """Among a term's recent verdicts, deadlines that passed while the worker waited for a CPU."""
    for term in by_weight(window):
        starved = verdict_share(window, term, _starved)
        if not starved.is_pattern(WARN, CRITICAL):
            continue
        return Finding(
            code="starved_grader",
            step=window.step,
            severity=starved.severity(CRITICAL),
            sentence=(
                f"The machine, not the model: {percent(starved.share)} of the `{term}` verdicts ran out of time "
                f"while their worker had no CPU."
                + ("" if starved.in_force else " It has no weight, and holds nothing back.")
            ),
            numbers={"share": starved.share, "starved": starved.count},
            action="Give the grader fewer workers than there are free cores, or move it to another machine.",
        )
    return None


def _starved(facts: TermFigures) -> int:
    return sum(count for kind, count in facts.failures.items() if is_starved(kind))
