"""Check `way_out`: void completions beside judged siblings, rising or instead of wrong answers."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.batches import percent
from trl_grpo_ext.diagnostics.example import safe_reason
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, CheckResult, Window
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.voids import NOT_FINITE, Cause
from trl_grpo_ext.support.estimate import Estimate

# Ours, tried in test_fault_injection.py (wrong answers that break the grader), and against graders that fail by
# chance in test_checks_verdicts.py.
# Of the completions beside judged siblings.
WARN, CRITICAL = 0.02, 0.10
# Since the first batches.
RISE = 0.05
# Of the scale, by which their siblings score less than their batch.
LOWER = 0.15
# Batches with such rows; the later half must have more.
LEAST_BATCHES = 8
# Standard errors: every batch is looked at, and the rarest chance comes up.
SURE, GOES_ON = 4.0, 3.0


def escaped(window: Window) -> CheckResult:
    """Find the most severe cause of void rows that increase, or replace wrong siblings."""
    causes: dict[Cause, None] = {}
    for batch in window.batches:
        causes.update(dict.fromkeys(batch.voids))
    found = [_of_cause(window, cause) for cause in causes]
    known = [finding for finding in found if finding is not None]
    return max(
        known,
        key=lambda finding: (finding.severity.rank, finding.numbers["share"]),
        default=None,
    )


def _of_cause(window: Window, cause: Cause) -> Finding | None:
    share = _share(window.batches, cause).mean
    rise = _rise(window, cause)
    lower = _lower(window, cause)
    if share < WARN or not (rise or lower):
        return None
    term, reason = cause
    whose = "the environment"
    if term:
        whose = f"`{term}`"
    elif reason == NOT_FINITE:
        whose = "a reward function"
    how = []
    if rise:
        how.append(f"up by {percent(rise)}")
    if lower:
        how.append(f"where their siblings score {lower:.2f} less than others do")
    return Finding(
        severity=Severity.critical_if(share >= CRITICAL),
        terms=(term,) if term else (),
        sentence=(
            f"{percent(share)} of the completions have no verdict of {whose} (`{safe_reason(reason)}`) beside "
            f"siblings that have one, {' and '.join(how)}: the policy may have found a way to have none, which pays "
            f"nothing."
        ),
        numbers={"share": share, "rise": rise, "siblings_lower": lower},
        action=_action(term, reason),
    )


def _rise(window: Window, cause: Cause) -> float:
    """Rise of the share of void rows since the first batches; 0 where chance or an outage can explain the rise."""
    with_some = [batch for batch in window.batches if cause in batch.voids]
    if not window.later or len(with_some) < LEAST_BATCHES:
        return 0.0
    rise = _share(window.later, cause) - _share(window.opening, cause)
    half = len(with_some) // 2
    # A server that is down takes as many in each batch; a policy learns.
    goes_on = _share(with_some[half:], cause) - _share(with_some[:half], cause)
    is_rise_sure = rise.mean >= max(RISE, SURE * rise.error)
    is_going_on = goes_on.mean > GOES_ON * goes_on.error
    if not (is_rise_sure and is_going_on):
        return 0.0
    return rise.mean


def _lower(window: Window, cause: Cause) -> float:
    """Mean score deficit of siblings of these void rows; 0 if chance explains it."""
    with_some = [batch.voids[cause] for batch in window.batches if cause in batch.voids]
    lower = Estimate.together(figures.lower for figures in with_some)
    if lower.count < LEAST_GROUPS or lower.mean <= SURE * lower.error:
        return 0.0
    share = Estimate.together(figures.shares for figures in with_some)
    siblings = lower.mean / share.mean
    return siblings if siblings / window.scale.span >= LOWER else 0.0


def _share(batches: Sequence[BatchFigures], cause: Cause) -> Estimate:
    """Share of void rows with this cause among judged groups."""
    without: list[Estimate] = []
    having: list[Estimate] = []
    for batch in batches:
        if cause in batch.voids:
            having.append(batch.voids[cause].shares)
        else:
            without.append(Estimate(0.0, 0.0, batch.groups))
    return Estimate.together([*without, *having])


def _action(term: str, reason: str) -> str:
    read = "Read these completions. If they bring the failure about, it is no failure"
    if term:
        return f"{read}: have the verifier of `{term}` score it 0, or set `on_unscored: zero` for the term."
    function = "the function" if reason == NOT_FINITE else "`get_reward`"
    return f"{read}: have {function} return 0 for it."
