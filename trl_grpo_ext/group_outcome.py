"""Classify groups: a group is live, with a learning signal, if a reward with weight differs between its members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.verdict import Status, Verdict


class GroupOutcome(StrEnum):
    """A group's class: live, or the cause of death."""

    LIVE = "live"
    """A reward with weight differs between two members."""
    ALL_RIGHT = "all_right"
    """All rewards are equal; every member is correct."""
    ALL_WRONG = "all_wrong"
    """All rewards are equal; no member is correct or has a primary score above 0."""
    TIED = "tied"
    """All rewards are equal; members are partly correct, of mixed correctness, or of unknown correctness."""
    VOID = "void"
    """No reward exists for any member."""


RIGHT, BETWEEN, WRONG = 1, 0, -1
OF_EQUALS = {
    RIGHT: GroupOutcome.ALL_RIGHT,
    BETWEEN: GroupOutcome.TIED,
    WRONG: GroupOutcome.ALL_WRONG,
}


def judgement(verdict: Verdict | None) -> int:
    """Classify a verdict as RIGHT, BETWEEN (partial or unknown) or WRONG.

    Examples:
        >>> judgement(Verdict(status=Status.CORRECT, score=1.0)), judgement(None)
        (1, 0)
    """
    if verdict is None or verdict.score is None:
        return BETWEEN
    if verdict.status is Status.CORRECT:
        return RIGHT
    is_wrong = verdict.status not in (Status.PARTIAL, Status.SCORED, Status.SKIPPED)
    return WRONG if is_wrong else BETWEEN


def group_outcomes(
    rewards: npt.NDArray[np.floating],
    weights: npt.NDArray[np.floating],
    verdicts: Sequence[Verdict | None],
    groups: Sequence[Iterable[int]],
) -> tuple[GroupOutcome, ...]:
    """Classify each group, in order.

    TRL's `frac_reward_zero_std` cannot classify groups: with `scale_rewards="batch"` or `normalize_then_sum` it uses
    the standard deviation of the batch, not of each group.

    Args:
        rewards: (n, f) rewards of n samples by f functions; NaN where a function gave none.
        weights: (f,) the weights in force.
        verdicts: n primary verdicts; None for samples of unknown correctness.
        groups: The rows of each group.

    Examples:
        >>> rewards = np.array([[1.0, 0.5], [1.0, 0.0], [0.0, 0.5], [1.0, 0.5]])
        >>> verdicts = [Verdict(status=Status.CORRECT, score=1.0)] * 4
        >>> [str(outcome) for outcome in group_outcomes(rewards, np.array([1.0, 0.0]), verdicts, [[0, 1], [2, 3]])]
        ['all_right', 'live']
    """
    scored = (~np.isnan(rewards).all(axis=1)).tolist()
    # TRL counts a function's missing reward as 0 where another function gave one.
    in_force = np.nan_to_num(rewards[:, weights != 0], nan=0.0)
    counted = [tuple(row) for row in in_force.tolist()]
    outcomes = []
    for rows in groups:
        members = [row for row in rows if scored[row]]
        found = {judgement(verdicts[row]) for row in members}
        if not members:
            outcomes.append(GroupOutcome.VOID)
        elif len({counted[row] for row in members}) > 1:
            outcomes.append(GroupOutcome.LIVE)
        elif len(found) > 1:
            outcomes.append(GroupOutcome.TIED)
        else:
            outcomes.append(OF_EQUALS[found.pop()])
    return tuple(outcomes)
