"""What a group of completions has to teach: nothing, if no reward with weight tells its members apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.verdict import Status, Verdict


class GroupOutcome(StrEnum):
    """Whether a group is live, or why it is dead."""

    LIVE = "live"
    """A reward with weight differs between two members."""
    ALL_RIGHT = "all_right"
    """Nothing differs, and every member is correct."""
    ALL_WRONG = "all_wrong"
    """Nothing differs, and no member has earned anything."""
    TIED = "tied"
    """Nothing differs, and members are partly right, or it is unknown whether they are right."""
    VOID = "void"
    """No member could be judged."""


RIGHT, BETWEEN, WRONG = 1, 0, -1


def judgement(verdict: Verdict | None) -> int:
    """One of RIGHT, BETWEEN and WRONG.

    Examples:
        >>> judgement(Verdict(status=Status.CORRECT, score=1.0)), judgement(None)
        (1, 0)
    """
    if verdict is None or verdict.score is None:
        return BETWEEN
    if verdict.status is Status.CORRECT:
        return RIGHT
    return WRONG if verdict.score <= 0 else BETWEEN


def group_outcomes(
    rewards: npt.NDArray[np.floating],
    weights: npt.NDArray[np.floating],
    judgements: Sequence[int],
    groups: Sequence[Iterable[int]],
) -> tuple[GroupOutcome, ...]:
    """The outcome of each group, in order.

    TRL's `frac_reward_zero_std` cannot tell: it looks at the batch's deviation, not the groups', under
    `scale_rewards="batch"` and under `normalize_then_sum`.

    Args:
        rewards: (n, f) rewards, NaN where a function gave none; n samples, f functions.
        weights: (f,) the weights in force.
        judgements: n of RIGHT, BETWEEN, WRONG.
        groups: The rows of each group.

    Examples:
        >>> rewards = np.array([[1.0, 0.5], [1.0, 0.0], [0.0, 0.5], [1.0, 0.5]])
        >>> groups = [np.array([0, 1]), np.array([2, 3])]
        >>> [str(outcome) for outcome in group_outcomes(rewards, np.array([1.0, 0.0]), [1, 1, -1, 1], groups)]
        ['all_right', 'live']
    """
    scored = (~np.isnan(rewards).all(axis=1)).tolist()
    # TRL counts a function's missing reward as 0 where another function gave one.
    counted = list(map(tuple, np.nan_to_num(rewards[:, weights != 0], nan=0.0).tolist()))
    outcomes = []
    for rows in groups:
        members = [row for row in rows if scored[row]]
        differs = len({counted[row] for row in members}) > 1
        outcomes.append(_outcome([judgements[row] for row in members], differs))
    return tuple(outcomes)


def _outcome(members: Sequence[int], differs: bool) -> GroupOutcome:
    if not members:
        return GroupOutcome.VOID
    if differs:
        return GroupOutcome.LIVE
    if all(member == RIGHT for member in members):
        return GroupOutcome.ALL_RIGHT
    return GroupOutcome.ALL_WRONG if all(member == WRONG for member in members) else GroupOutcome.TIED


def outcome_shares(outcomes: Sequence[GroupOutcome]) -> dict[str, float]:
    """The share of each outcome by name, `verified/groups/...`; NaN where there are no groups."""
    size = len(outcomes) or float("nan")
    return {f"verified/groups/{kind}": outcomes.count(kind) / size for kind in GroupOutcome}
