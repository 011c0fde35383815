"""Groups without one wrong answer, from the start: the data is too easy to teach anything."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.batch_facts import BatchFacts
from trl_grpo_ext.diagnostics.check import LEAST_SAMPLES, Outcome, Window, judged, percent
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.group_outcome import GroupOutcome

WARN, CRITICAL = 0.75, 0.95  # of the groups; rl-doctor's critical level for dead groups, and ours
LEAST_GROUPS = 8  # ours


def check(window: Window) -> Outcome:
    """Most groups all right, now and when the run began: one that has become so has learned what there was."""
    groups = sum(batch.groups for batch in window.batches)
    now, opening = _all_right(window.batches), _all_right(window.opening)
    if groups < LEAST_GROUPS or judged(window.batches) < LEAST_SAMPLES or now is None or opening is None:
        return None
    if now < WARN or opening < WARN:
        return None
    return Finding(
        code="all_right_groups",
        step=window.step,
        severity=Severity.CRITICAL if now >= CRITICAL else Severity.WARNING,
        sentence=(
            f"{percent(now)} of the groups are all right, as they were when the run began ({percent(opening)}): "
            f"there is nothing left to learn from this data."
        ),
        numbers={"all_right": now, "at_the_start": opening, "groups": groups},
        action="Take harder data, or drop the prompts that the model already solves.",
    )


def _all_right(batches: Sequence[BatchFacts]) -> float | None:
    groups = sum(batch.groups for batch in batches)
    right = sum(batch.outcomes.get(GroupOutcome.ALL_RIGHT, 0) for batch in batches)
    return right / groups if groups else None
