"""A term with weight that never tells two completions of a group apart, or never gets to speak."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.check import LEAST_SAMPLES, Outcome, Window, judged, percent
from trl_grpo_ext.diagnostics.checks.saturated_term import is_saturated
from trl_grpo_ext.diagnostics.diversity_view import is_one_answer
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.group_outcome import GroupOutcome

FLAT = 0.95  # of the groups; ours
LEAST_GROUPS = 8  # ours
GATED = 0.5  # of the verdicts: the gate has flattened it, not the verifier; ours
CLOSED = 0.95  # of the verdicts: the gate never opens; ours


def check(window: Window) -> Outcome:
    """A term in force that is flat within groups, for no reason that another finding gives."""
    closed = _closed_gate(window)
    if closed is not None or is_one_answer(window.batches, window.opening):
        return closed
    for term in window.in_force:
        facts = window.of_term(term)
        groups, verdicts = sum(one.groups for one in facts), sum(one.verdicts for one in facts)
        flat = sum(one.flat_groups for one in facts)
        valued = sum(one.valued for one in facts)
        if groups < LEAST_GROUPS or valued < LEAST_SAMPLES or flat < FLAT * groups:
            continue
        if is_saturated(facts) or sum(one.gated for one in facts) > GATED * verdicts:
            continue
        if term == window.in_force[0] and not is_tied(window):
            continue  # groups that are all right or all wrong are findings of their own
        value = sum(one.value_sum for one in facts) / valued
        return Finding(
            code="inert_term",
            step=window.step,
            severity=Severity.WARNING,
            sentence=(
                f"`{term}` gives every completion of a group the same value in {percent(flat / groups)} of the groups "
                f"(mean {value:.3g}), so it teaches nothing."
            ),
            numbers={"flat": flat / groups, "groups": groups, "mean": value},
            action=f"See in its verdicts what `{term}` objects to: always the same value is a bug, or far too hard.",
        )
    return None


def _closed_gate(window: Window) -> Finding | None:
    """A term in force whose gate lets next to nothing through, where that is not because nearly all is wrong."""
    right = sum(batch.primary.right for batch in window.batches)
    is_hard = right <= (1 - CLOSED) * judged(window.batches)
    for term in window.in_force:
        facts = window.of_term(term)
        verdicts, gated = sum(one.verdicts for one in facts), sum(one.gated for one in facts)
        if verdicts < LEAST_SAMPLES or gated <= CLOSED * verdicts or (is_hard and term != window.in_force[0]):
            continue
        return Finding(
            code="inert_term",
            step=window.step,
            severity=Severity.WARNING,
            sentence=(
                f"The gate of `{term}`{_gated_by(window, term)} never opens: it is closed for "
                f"{percent(gated / verdicts)} of the completions, so what `{term}` says of them does not count."
            ),
            numbers={"closed": gated / verdicts, "verdicts": verdicts},
            action=f"Read the verdicts of the term that gates `{term}`, and lower the gate's at_least, or take it out.",
        )
    return None


def _gated_by(window: Window, term: str) -> str:
    """Which term the gate goes by, where there is one other only: a run's settings do not say."""
    others = [other for other in window.terms if other != term]
    return f", by `{others[0]}`," if len(others) == 1 else ""


def is_tied(window: Window) -> bool:
    """Whether most groups are tied: partly right, and nothing differs."""
    groups = sum(batch.groups for batch in window.batches)
    tied = sum(batch.outcomes.get(GroupOutcome.TIED, 0) for batch in window.batches)
    return 2 * tied > groups
