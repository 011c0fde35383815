"""The policy over a run: probabilities, entropy, KL and ratios, computed exactly from recorded logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.lab.landscape import ACTIONS, action_of
from trl_grpo_ext.scorecard import Scorecard

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PolicyHistory:
    """Logits of the policy over u updates; logarithms are natural, so entropy and KL are in nats.

    `logits` has shape (u + 1, 10): row i is the policy before update i, the last row is the trained policy.

    Raises:
        ValueError: for an array of another shape, or without rows.

    Examples:
        >>> history = PolicyHistory(np.zeros((1, 10)))
        >>> round(history.entropy[0], 4), history.kl[0]
        (np.float64(2.3026), np.float64(0.0))
    """

    logits: Floats

    def __post_init__(self) -> None:
        logits = np.asarray(self.logits, dtype=np.float64)
        is_table = logits.ndim == 2 and logits.shape[1] == len(ACTIONS)
        if not is_table or not len(logits):
            raise ValueError(
                f"The logits of a run are a table of {len(ACTIONS)} columns, got shape {logits.shape}."
            )
        object.__setattr__(self, "logits", logits)

    @property
    def log_probabilities(self) -> Floats:
        """(u + 1, 10) log probabilities of the actions."""
        shifted: Floats = self.logits - self.logits.max(axis=1, keepdims=True)
        normalised: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return normalised

    @property
    def probabilities(self) -> Floats:
        """Return the action probabilities, shape (u + 1, 10), in [0, 1]."""
        probabilities: Floats = np.exp(self.log_probabilities)
        return probabilities

    @property
    def entropy(self) -> Floats:
        """Return the entropy, shape (u + 1,), from ln 10 (uniform policy) down to 0."""
        entropy: Floats = -np.sum(self.probabilities * self.log_probabilities, axis=1)
        return entropy

    @property
    def kl(self) -> Floats:
        """Return the KL divergence from row 0, the reference: shape (u + 1,), at least 0.

        It is exact, while TRL logs an estimate.
        """
        # For equal policies, rounding may give a value slightly below 0.
        difference = self.log_probabilities - self.log_probabilities[0]
        sums = np.sum(self.probabilities * difference, axis=1)
        divergence: Floats = np.maximum(0.0, sums)
        return divergence

    @property
    def max_probability(self) -> Floats:
        """Return the probability of the most likely action, shape (u + 1,)."""
        largest: Floats = self.probabilities.max(axis=1)
        return largest

    def expected_reward(self, rewards: tuple[float, ...]) -> Floats:
        """Return the policy's expected reward, shape (u + 1,); action i earns `rewards[i - 1]`."""
        expected: Floats = self.probabilities @ np.asarray(rewards)
        return expected

    def ratio(self, action: int, *, update: int, generated: int) -> float:
        """Divide an action's probability at `update` by its probability at `generated`, the update of its sampling."""
        logs = self.log_probabilities[:, ACTIONS.index(action)]
        return float(np.exp(logs[update] - logs[generated]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAction:
    """A sampled completion at a given update.

    `ratio` is the action's current probability divided by its probability when sampled. Unknown values are None: no
    action in the completion, a void row, no advantage yet.
    """

    action: int | None
    group: int | None
    reward: float | None
    advantage: float | None
    ratio: float | None

    def is_clipped(self, low: float, high: float) -> bool:
        """Say whether the loss clips this sample: the ratio left [1 - low, 1 + high] in the advantage's direction.

        Examples:
            >>> SampledAction(action=7, group=0, reward=1.0, advantage=1.5, ratio=1.3).is_clipped(0.2, 0.2)
            True
        """
        if self.ratio is None or not self.advantage:
            return False
        if self.advantage > 0:
            return self.ratio > 1 + high
        return self.ratio < 1 - low


def batches_by_update(cards: Sequence[Scorecard], updates: int) -> list[int | None]:
    """Return, per update, the position in `cards` of its training batch; None before the first batch."""
    positions = {}
    for position, card in enumerate(cards):
        if card.mode == "train":
            positions[card.step] = position
    used: list[int | None] = []
    current: int | None = None
    for update in range(updates):
        current = positions.get(update, current)
        used.append(current)
    return used


def sampled_actions(
    card: Scorecard, history: PolicyHistory, update: int
) -> list[SampledAction]:
    """Return the completions of batch `card`, with ratios at update number `update`."""
    advantages = card.advantages or [None] * len(card)
    found = []
    for sample, total, advantage in zip(card.samples, card.totals, advantages, strict=True):
        action = action_of(sample.text)
        sampled = SampledAction(
            action=action,
            group=sample.group,
            reward=total,
            advantage=advantage,
            ratio=_ratio(history, action, update, card.step),
        )
        found.append(sampled)
    return found


def _ratio(
    history: PolicyHistory,
    action: int | None,
    update: int,
    generated: int | None,
) -> float | None:
    if action is None or generated is None:
        return None
    return history.ratio(action, update=update, generated=generated)
