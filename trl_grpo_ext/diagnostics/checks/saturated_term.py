"""A small term that everything passes, beside an answer that gets no better."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.groups import percent
from trl_grpo_ext.diagnostics.levels import score_level
from trl_grpo_ext.diagnostics.progress import is_stuck, steps_so_far
from trl_grpo_ext.diagnostics.terms import names, other_terms, primary_terms
from trl_grpo_ext.diagnostics.window import CEILING, LEAST_SAMPLES, CheckResult, Window
from trl_grpo_ext.figures.terms import TermFigures
from trl_grpo_ext.verdict import Status

PATIENCE = 64  # optimizer steps: it is information only, so a slow rise may be taken for none now and then; ours
PASSED = 0.98  # of the verdicts; rlprobe's ceiling


def is_saturated(facts: Sequence[TermFigures]) -> bool:
    """Whether nearly all verdicts of a term are correct, and earn something: a penalty that never falls is at its best.

    So is a comparison of completions that do not differ: both pass, and are worth nothing.
    """
    return passed(facts) >= PASSED and sum(one.values.total for one in facts) > 0


def passed(facts: Sequence[TermFigures]) -> float:
    """The share of a term's verdicts that are correct, in [0, 1]; 0 for none."""
    verdicts = sum(one.verdicts for one in facts)
    return sum(one.statuses.get(Status.CORRECT, 0) for one in facts) / verdicts if verdicts else 0.0


def check(window: Window) -> CheckResult:
    """A term in force, not the primary one, that nearly everything passes, while the primary score is flat."""
    level = score_level(window.batches)
    if level is None or level.count < LEAST_SAMPLES or level.mean >= CEILING:
        return None
    saturated = [term for term in other_terms(window) if is_saturated(window.of_term(term))]
    if not saturated:
        return None
    if not is_stuck(window, PATIENCE):
        seen = steps_so_far(window)
        missing = NotChecked(f"{PATIENCE} optimizer steps, to tell a slow rise from none; {seen:.0f} so far")
        return missing if seen < PATIENCE else None
    term = saturated[0]
    share = passed(window.of_term(term))
    return Finding(
        code="saturated_term",
        step=window.step,
        severity=Severity.INFO,
        sentence=(
            f"`{term}` passes {percent(share)} of the completions and has nothing more to teach, while "
            f"the score of {names(primary_terms(window))} stays at {level.mean:.2f}."
        ),
        numbers={"passed": share, "primary_score": level.mean},
        action=f"Fade the weight of `{term}` out, or gate it by {names(primary_terms(window), 'or')}.",
    )
