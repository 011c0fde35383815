"""A small term that everything passes, beside an answer that gets no better."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.batch_facts import TermFacts
from trl_grpo_ext.diagnostics.check import LEAST_SAMPLES, Outcome, Window, is_stuck, percent, score_level
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.verdict import Status

PASSED = 0.98  # of the verdicts; rlprobe's ceiling
LEAST_GAIN = 0.1  # a score that surely rises by less over the window is flat; ours
CEILING = 0.95  # a score above has nowhere to go; ours


def is_saturated(facts: Sequence[TermFacts]) -> bool:
    """Whether nearly all verdicts of a term are correct."""
    verdicts = sum(one.verdicts for one in facts)
    return sum(one.statuses.get(Status.CORRECT, 0) for one in facts) >= PASSED * verdicts > 0


def check(window: Window) -> Outcome:
    """A term in force, not the primary one, that nearly everything passes, while the primary score is flat."""
    level = score_level(window.batches)
    if level is None or level.count < LEAST_SAMPLES or level.mean >= CEILING:
        return None
    saturated = [term for term in window.in_force[1:] if is_saturated(window.of_term(term))]
    if not saturated or not is_stuck(window, LEAST_GAIN):
        return None
    term = saturated[0]
    facts = window.of_term(term)
    passed = sum(one.statuses.get(Status.CORRECT, 0) for one in facts) / sum(one.verdicts for one in facts)
    return Finding(
        code="saturated_term",
        step=window.step,
        severity=Severity.INFO,
        sentence=(
            f"`{term}` passes {percent(passed)} of the completions and has nothing more to teach, while "
            f"`{window.in_force[0]}` stays at {level.mean:.2f}."
        ),
        numbers={"passed": passed, "primary_score": level.mean},
        action=f"Fade the weight of `{term}` out, or gate it by `{window.in_force[0]}`.",
    )
