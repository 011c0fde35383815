"""What tells completions apart is not what the run is meant to teach."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.check import Outcome, Window, percent
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity

WARN, CRITICAL = 0.5, 0.25  # the primary term's share; ours
OTHER = 0.5  # another single term's share, so that three equal terms are no finding; ours
LEAST_BATCHES = 4  # ours


def check(window: Window) -> Outcome:
    """Where the primary term does tell completions of a group apart, another term has more of the advantage."""
    if window.batches and len(window.in_force) < 2:
        return NotChecked("two terms with weight")
    shares = {
        term: [facts.driver_share for facts in window.of_term(term) if facts.driver_share is not None]
        for term in window.in_force
    }
    if not shares or min(map(len, shares.values())) < LEAST_BATCHES:
        return NotChecked("live groups in which the primary term differs") if window.batches else None
    means = {term: sum(found) / len(found) for term, found in shares.items()}
    primary = window.in_force[0]
    driver = max(means, key=lambda term: means[term])
    if driver == primary or means[primary] >= WARN or means[driver] < OTHER:
        return None
    return Finding(
        code="wrong_driver",
        step=window.step,
        severity=Severity.CRITICAL if means[primary] < CRITICAL else Severity.WARNING,
        sentence=(
            f"{percent(means[driver])} of the advantage comes from `{driver}` and {percent(means[primary])} from "
            f"`{primary}`, even where `{primary}` has something to say."
        ),
        numbers={"driver": means[driver], "primary": means[primary]},
        action=(
            f"Lower the weight of `{driver}`, or gate it by `{primary}`; if `{primary}` is not what you want taught, "
            f"put the right term first."
        ),
    )
