"""Groups without one wrong answer, from the start: the data is too easy to teach anything."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trl_grpo_ext.diagnostics.evidence.figures import group_count, groups_of, judged, percent
from trl_grpo_ext.diagnostics.evidence.window import LEAST_GROUPS, LEAST_SAMPLES, Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.group_outcome import GroupOutcome

WARN, CRITICAL = 0.75, 0.95  # of groups of `GROUP_SIZE`; rl-doctor's critical level for dead groups, and ours
GROUP_SIZE = 8  # TRL's default


def check(window: Window) -> Outcome:
    """Most groups all right, now and when the run began: one that has become so has learned what there was."""
    groups = group_count(window.batches)
    now, opening = _all_right(window.batches), _all_right(window.opening)
    if groups < LEAST_GROUPS or judged(window.batches) < LEAST_SAMPLES or now is None or opening is None:
        return None
    size = judged(window.batches) / groups
    error = math.sqrt(opening * (1 - opening) / group_count(window.opening))
    if min(now, opening - error) < _least(WARN, size):  # a few groups only tell how it began
        return None
    return Finding(
        code="all_right_groups",
        step=window.step,
        severity=Severity.CRITICAL if now >= _least(CRITICAL, size) else Severity.WARNING,
        sentence=(
            f"{percent(now)} of the groups are all right, as they were when the run began ({percent(opening)}): "
            f"there is little to learn from this data."
        ),
        numbers={"all_right": now, "at_the_start": opening, "groups": groups},
        action="Take harder data, or drop the prompts that the model already solves.",
    )


def _all_right(batches: Sequence[BatchFigures]) -> float | None:
    groups = group_count(batches)
    right = groups_of(batches, GroupOutcome.ALL_RIGHT)
    return right / groups if groups else None


def _least(share: float, size: float) -> float:
    """A share of all-right groups, for groups of another size than `GROUP_SIZE`.

    A policy that is right with probability p has p ** size by chance: a pair is all right where a larger group is live.

    Example:
        >>> [round(_least(0.75, size), 2) for size in (2, 4, 8, 16)]
        [0.93, 0.87, 0.75, 0.75]
    """
    return max(share, float(share ** (size / GROUP_SIZE)))
