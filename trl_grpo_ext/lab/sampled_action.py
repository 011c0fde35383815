"""A sampled action as one update saw it. A batch is used for several updates; only the ratio differs between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trl_grpo_ext.lab.action import action_of
from trl_grpo_ext.lab.policy_history import PolicyHistory
from trl_grpo_ext.scorecard import Scorecard


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAction:
    """One completion of a batch, in one update.

    Attributes:
        action: The action; None if the completion names none.
        group: The number of its group.
        reward: Its total; None if it is void.
        advantage: Its advantage; None if nobody has computed it.
        ratio: Its probability now over that when it was sampled; None for no action.
    """

    action: int | None
    group: int | None
    reward: float | None
    advantage: float | None
    ratio: float | None

    def is_clipped(self, low: float, high: float) -> bool:
        """Whether the ratio has left [1 - low, 1 + high] on the side that the advantage pushes to.

        Example:
            >>> SampledAction(action=7, group=0, reward=1.0, advantage=1.5, ratio=1.3).is_clipped(0.2, 0.2)
            True
        """
        if self.ratio is None or not self.advantage:
            return False
        return self.ratio > 1 + high if self.advantage > 0 else self.ratio < 1 - low


def batches_by_update(cards: Sequence[Scorecard], updates: int) -> list[int | None]:
    """By update, the position in `cards` of the training batch that it used; None if there was none yet."""
    positions = {card.step: position for position, card in enumerate(cards) if card.mode == "train"}
    used: list[int | None] = []
    current: int | None = None
    for update in range(updates):
        current = positions.get(update, current)
        used.append(current)
    return used


def sampled_actions(card: Scorecard, history: PolicyHistory, update: int) -> list[SampledAction]:
    """The completions of the batch `card` as update number `update` saw them."""
    advantages = card.advantages or [None] * len(card)
    return [
        SampledAction(
            action=(action := action_of(sample.text)),
            group=sample.group,
            reward=total,
            advantage=advantage,
            ratio=_ratio(history, action, update, card.step),
        )
        for sample, total, advantage in zip(card.samples, card.totals, advantages, strict=True)
    ]


def _ratio(history: PolicyHistory, action: int | None, update: int, generated: int | None) -> float | None:
    if action is None or generated is None:
        return None
    return history.ratio(action, update=update, generated=generated)
