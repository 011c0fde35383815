"""What a group of completions has to teach: nothing, if no term with weight tells its members apart."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import torch

from trl_grpo_ext.scorecard import Scorecard
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
    """Nothing differs, and members are partly right, or nobody knows whether they are right."""
    VOID = "void"
    """No member could be judged."""


RIGHT, BETWEEN, WRONG = 1, 0, -1


def judgements(card: Scorecard) -> list[int]:
    """One of RIGHT, BETWEEN and WRONG a sample, by the first term in force that applies to it."""
    columns = [card.verdicts[term] for term in card.in_force]
    return [_judgement(next((v for v in row if v is not None), None)) for row in zip(*columns, strict=True)] or [
        BETWEEN
    ] * len(card)


def _judgement(verdict: Verdict | None) -> int:
    if verdict is None or verdict.score is None:
        return BETWEEN
    if verdict.status is Status.CORRECT:
        return RIGHT
    return WRONG if verdict.score <= 0 else BETWEEN


def group_outcomes(
    rewards: torch.Tensor, weights: torch.Tensor, judgements: Sequence[int], group_size: int
) -> list[GroupOutcome]:
    """The outcome of each group, in order.

    TRL's `frac_reward_zero_std` cannot tell: it looks at the batch's deviation, not the groups', under
    `scale_rewards="batch"` and under `normalize_then_sum`.

    Args:
        rewards: (n, f) rewards, NaN where a function gave none; n samples in whole groups, f functions.
        weights: (f,) the weights in force.
        judgements: n of RIGHT, BETWEEN, WRONG.
        group_size: Samples a group.

    Example:
        >>> rewards = torch.tensor([[1.0, 0.5], [1.0, 0.0], [0.0, 0.5], [1.0, 0.5]])
        >>> [str(outcome) for outcome in group_outcomes(rewards, torch.tensor([1.0, 0.0]), [1, 1, -1, 1], 2)]
        ['all_right', 'live']
    """
    scored = ~torch.isnan(rewards).all(dim=1)
    # TRL counts a function's missing reward as 0 where another function gave one.
    counted = torch.nan_to_num(rewards[:, weights.to(rewards.device) != 0], nan=0.0)
    outcomes = []
    for start in range(0, len(rewards), group_size):
        members = [index for index in range(start, start + group_size) if scored[index]]
        differs = bool((counted[members] != counted[members[:1]]).any()) if members else False
        outcomes.append(_outcome([judgements[index] for index in members], differs))
    return outcomes


def _outcome(members: Sequence[int], differs: bool) -> GroupOutcome:
    if not members:
        return GroupOutcome.VOID
    if differs:
        return GroupOutcome.LIVE
    if all(member == RIGHT for member in members):
        return GroupOutcome.ALL_RIGHT
    return GroupOutcome.ALL_WRONG if all(member == WRONG for member in members) else GroupOutcome.TIED
