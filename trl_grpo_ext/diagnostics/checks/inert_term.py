"""Terms with weight that teach nothing: a group's completions get the same value, or every completion passes."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.batches import is_one_answer, mostly, names, other_terms, percent
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.progress import has_risen, is_stuck, steps_so_far
from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, LEAST_SAMPLES, CheckResult, Window
from trl_grpo_ext.figures.terms import TermFigures
from trl_grpo_ext.support.estimate import NOTHING, Estimate
from trl_grpo_ext.verdict import Status

# Ours, tried in tests/test_fault_injection.py (inert_term) and tests/test_healthy_runs.py (a penalty with nothing to
# punish, scores that no group differs in once they are learned).
FLAT = 0.95  # of the groups
FLATTENED = 0.3  # of the groups differ in scores, and not in values
GATED = 0.5  # of the verdicts: if the gate sets more, the gate has flattened the term, not the verifier
UNMATCHED = 128  # groups without a row for a term: of one row in twenty, chance leaves 0.1 % of runs without any
CLOSED = 0.95  # of the verdicts: the gate never opens


def flat(window: Window) -> CheckResult:
    """Find a term in force with equal values within groups, unless another finding explains it."""
    if is_one_answer(window):
        return None
    for term in window.in_force:
        facts = window.of_term(term)
        if _is_flat(facts) and not (_is_saturated(facts) or _is_idle(window, term) or _has_been_learned(window, term)):
            return _flat_term(window, term)
    return None


def flattened(window: Window) -> CheckResult:
    """Find a shape that flattens a term: scores differ within groups, values do not."""
    for term in window.in_force:
        facts = window.of_term(term)
        groups, flattened = sum(one.groups for one in facts), sum(one.flattened_groups for one in facts)
        if groups < LEAST_GROUPS or flattened < FLATTENED * groups or _flat_share(facts) < FLAT:
            continue
        return Finding(
            severity=Severity.WARNING,
            terms=(term,),
            sentence=(
                f"The shape of `{term}` makes its scores equal: in {percent(flattened / groups)} of the groups scores "
                f"differ and values do not, so it teaches nothing."
            ),
            numbers={"flattened": flattened / groups, "groups": groups},
            action=f"Mend the shape of `{term}`: compare its bounds with the scores that the verifier gives.",
        )
    return None


def _is_flat(facts: Sequence[TermFigures]) -> bool:
    """Test whether a term's own verdicts, not its gate, give nearly every group one value."""
    groups, verdicts = sum(one.groups for one in facts), sum(one.verdicts for one in facts)
    if groups < LEAST_GROUPS or sum(one.values.numbers.count for one in facts) < LEAST_SAMPLES:
        return False
    is_gated = sum(one.gated for one in facts) > GATED * verdicts
    return _flat_share(facts) >= FLAT and not is_gated


def _flat_share(facts: Sequence[TermFigures]) -> float:
    groups = sum(one.groups for one in facts)
    return sum(one.flat_groups for one in facts) / groups if groups else 0.0


def _has_been_learned(window: Window, term: str) -> bool:
    """Whether it told completions apart at first: a policy that has converged gives them no difference to tell.

    Of a primary term, groups that are all right or all wrong are findings of their own, and the score must have risen
    for it to count as learned.
    """
    if term not in window.primary_terms:
        return _flat_share([batch.terms[term] for batch in window.opening if term in batch.terms]) < FLAT
    facts = window.of_term(term)
    between = sum(one.statuses.get(Status.PARTIAL, 0) + one.statuses.get(Status.SCORED, 0) for one in facts)
    return 2 * between <= sum(one.verdicts for one in facts) or has_risen(window)


def _is_idle(window: Window, term: str) -> bool:
    """Test for a penalty with nothing to punish, or a comparison of equal completions.

    Both give nearly every completion 0. They differ from a reward that no completion earns: their verdicts pass,
    their weight is negative, or they have taken something away before.
    """
    facts = window.of_term(term)
    if not FLAT - 1 <= _mean(facts) / window.value_scale(term).span <= 0:
        return False
    has_punished = any(batch.terms[term].values.numbers.total < 0 for batch in window.opening if term in batch.terms)
    return 2 * _passed(facts) > 1 or window.batches[-1].terms[term].weight < 0 or has_punished or _mean(facts) < 0


def _flat_term(window: Window, term: str) -> Finding:
    facts = window.of_term(term)
    mean, flat = _mean(facts), _flat_share(facts)
    reason = mostly([one.reasons for one in facts])
    return Finding(
        # Of another term, there is something to learn all the same.
        severity=Severity.WARNING if term in window.primary_terms else Severity.INFO,
        terms=(term,),
        sentence=(
            f"`{term}` gives every completion of a group the same value in {percent(flat)} of the groups (mean "
            f"{mean:.3g}{reason}), so it teaches nothing."
        ),
        numbers={"flat": flat, "groups": sum(one.groups for one in facts), "mean": mean},
        action="Read a few of its verdicts: "
        + (
            "always the same is a bug, or a comparison of completions that do not differ."
            if mean
            else "always 0 is a bug, or more than any completion does; of a penalty it is as it should be."
        ),
    )


def _mean(facts: Sequence[TermFigures]) -> float:
    """The mean value; 0 for none."""
    values = Estimate.together(one.values.numbers for one in facts)
    return values.total / max(1, values.count)


def closed_gate(window: Window) -> CheckResult:
    """Find a gate that stays closed although primary scores are not hopeless."""
    primary, is_hard = window.primary_terms, not window.scale.unit(window.score).mean > 1 - CLOSED
    for term in window.in_force:
        facts = window.of_term(term)
        verdicts, gated = sum(one.verdicts for one in facts), sum(one.gated for one in facts)
        if verdicts < LEAST_SAMPLES or gated <= CLOSED * verdicts or (is_hard and term not in primary):
            continue
        return Finding(
            severity=Severity.WARNING,
            terms=(term,),
            sentence=(
                f"The gate of `{term}`{_gated_by(window, term)} never opens: it is closed for "
                f"{percent(gated / verdicts)} of the completions, so what `{term}` says of them does not count."
            ),
            numbers={"closed": gated / verdicts, "verdicts": verdicts},
            action=f"Read the verdicts of the term that gates `{term}`, and lower the gate's at_least, or take it out.",
        )
    return None


def unmatched(window: Window) -> CheckResult:
    """Find a weighted term without a single row in the whole run."""
    groups = sum(part.scores.count for part in window.history)
    for term in window.in_force:
        judged_before = any(part.levels.values.get(term, NOTHING).count for part in window.history)
        if groups < UNMATCHED or judged_before or any(facts.verdicts for facts in window.of_term(term)):
            continue
        return Finding(
            severity=Severity.WARNING,
            terms=(term,),
            sentence=f"`{term}` has weight, and no row was for it: its `when` has matched none of the run's rows.",
            numbers={"groups": groups},
            action=f"Compare the `when` of `{term}` with the values of that column, or take the term out.",
        )
    return None


def _gated_by(window: Window, term: str) -> str:
    """Name the gating term if only one candidate exists: run settings do not tell."""
    others = [other for other in window.terms if other != term]
    return f", by `{others[0]}`," if len(others) == 1 else ""


# Optimizer steps. Ours, set by benchmarks/false_alarms.py; less than for a stuck score, since this is information only.
PATIENCE = 64
PASSED = 0.98  # of the verdicts; rlprobe's ceiling


def _is_saturated(facts: Sequence[TermFigures]) -> bool:
    """Test whether nearly all verdicts are correct and earn something; a clean penalty earns nothing.

    So is a comparison of completions that do not differ: both pass, and are worth nothing.
    """
    return _passed(facts) >= PASSED and sum(one.values.numbers.total for one in facts) > 0


def _passed(facts: Sequence[TermFigures]) -> float:
    """Share of correct verdicts of a term, in [0, 1]; 0 without verdicts."""
    verdicts = sum(one.verdicts for one in facts)
    return sum(one.statuses.get(Status.CORRECT, 0) for one in facts) / verdicts if verdicts else 0.0


def saturated(window: Window) -> CheckResult:
    """A term in force, not the primary one, that nearly everything passes, while the primary score is flat."""
    level, seen = window.score, steps_so_far(window)
    term = next((term for term in other_terms(window) if _is_saturated(window.of_term(term))), None)
    if term is None or level.count < LEAST_SAMPLES or window.is_solved:
        return None
    if not is_stuck(window, PATIENCE):
        missing = NotChecked(f"{PATIENCE} optimizer steps, to tell a slow rise from none; {seen:.0f} so far")
        return missing if seen < PATIENCE else None
    share = _passed(window.of_term(term))
    return Finding(
        severity=Severity.INFO,
        terms=(term,),
        sentence=(
            f"`{term}` passes {percent(share)} of the completions and has nothing more to teach, while "
            f"the score of {names(window.primary_terms)} stays at {level.mean:.2f}."
        ),
        numbers={"passed": share, "primary_score": level.mean},
        action=f"Fade the weight of `{term}` out, or gate it by {names(window.primary_terms, 'or')}.",
    )
