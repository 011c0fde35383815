"""The grader fails, or runs out of time, where it should judge."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.check import Outcome, Window, most_common, percent
from trl_grpo_ext.diagnostics.checks.starved_grader import is_starved
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.verdict import Blame, Status

WARN, CRITICAL = 0.02, 0.10  # of a term's verdicts; ours
LEAST = 3  # failures: one or two are nobody's pattern; ours


def check(window: Window) -> Outcome:
    """Among a term's recent verdicts, failures of the grader and timeouts."""
    worst: Finding | None = None
    for term in window.terms:
        facts = window.of_term(term)
        verdicts = sum(one.verdicts for one in facts)
        failures = [
            (kind, count)
            for kind, count in most_common([one.failures for one in facts])
            if (kind[0] is Blame.GRADER or kind[1] is Status.TIMEOUT) and not is_starved(kind)
        ]
        failed = sum(count for _, count in failures)
        if failed < LEAST or failed < WARN * verdicts:
            continue
        if worst is not None and worst.numbers["share"] >= failed / verdicts:
            continue
        slowest = max((one.seconds_p95 for one in facts if one.seconds_p95 is not None), default=0.0)
        worst = _finding(window, term, failed / verdicts, failures, slowest)
    return worst


def _finding(
    window: Window, term: str, share: float, failures: list[tuple[tuple[Blame, Status, str], int]], slowest: float
) -> Finding:
    (_, status, reason), count = failures[0]
    failed = sum(number for _, number in failures)
    timed_out = sum(number for (_, kind, _), number in failures if kind is Status.TIMEOUT)
    within = f" (95 % of verdicts within {slowest:.2g} s)" if timed_out else ""
    kind = "timeouts" if 2 * timed_out > failed else "failures of the grader"
    advice = (
        "Give the term a longer timeout or a cheaper verifier, and read what its slowest completions have in common."
        if 2 * timed_out > failed
        else f"Run the verifier of `{term}` by hand on one of these completions, and mend what it stumbles over."
    )
    return Finding(
        code="grader_trouble",
        step=window.step,
        severity=Severity.CRITICAL if share >= CRITICAL else Severity.WARNING,
        sentence=(
            f"The grader, not the model: {percent(share)} of the `{term}` verdicts are {kind}, "
            f"mostly `{reason or status}`{within}."
        ),
        numbers={"share": share, "failed": failed, "timeouts": timed_out, "most_common": count, "seconds_p95": slowest},
        action=advice,
    )
