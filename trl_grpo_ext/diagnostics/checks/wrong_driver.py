"""What tells completions apart is not what the run is meant to teach."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.evidence.figures import percent
from trl_grpo_ext.diagnostics.evidence.primary_terms import names, other_terms, primary_terms
from trl_grpo_ext.diagnostics.evidence.window import Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity

WARN, CRITICAL = 1 / 3, 0.25  # the primary term's share: of two equal weights it has .4 and more; ours
OTHER = 0.5  # another single term's share, so that three equal terms are no finding; ours
LEAST_BATCHES = 4  # ours


def check(window: Window) -> Outcome:
    """Where the primary term does tell completions of a group apart, another term has more of the advantage."""
    primary, others = primary_terms(window), other_terms(window)
    if window.batches and not others:
        return NotChecked("two terms with weight for the same rows")
    shares = {term: _driver_shares(window, term) for term in window.in_force}
    known = min(map(len, shares.values()), default=0)
    if known < LEAST_BATCHES:
        return _too_few(known) if window.batches else None
    means = {term: sum(found) / len(found) for term, found in shares.items()}
    own, driver = sum(means[term] for term in primary), max(others, key=lambda term: means[term])
    if own >= WARN or means[driver] < OTHER:
        return None
    named = names(primary, "or")
    return Finding(
        code="wrong_driver",
        step=window.step,
        severity=Severity.CRITICAL if own < CRITICAL else Severity.WARNING,
        sentence=(
            f"{percent(means[driver])} of the advantage comes from `{driver}` and {percent(own)} from "
            f"{names(primary)}, even where {named} has something to say."
        ),
        numbers={"driver": means[driver], "primary": own},
        action=(
            f"Lower the weight of `{driver}`, or gate it by {named}; if {named} is not what you want "
            f"taught, put the right term first."
        ),
    )


def _driver_shares(window: Window, term: str) -> list[float]:
    return [
        facts.driver_where_primary_differs
        for facts in window.of_term(term)
        if facts.driver_where_primary_differs is not None
    ]


def _too_few(known: int) -> NotChecked:
    return NotChecked(
        f"{LEAST_BATCHES} recent batches with live groups in which the primary term differs; {known} so far"
    )
