"""Plain REINFORCE on TRL's loop: the rewards themselves are the advantages. TRL always takes a baseline off."""

from __future__ import annotations

from typing import Any

import torch

from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.trainer.verified_grpo import VerifiedGRPOTrainer


class PlainReinforceTrainer(VerifiedGRPOTrainer):
    """The trainer with each completion's total in the place of its advantage; 0 for a void one.

    The scorecard says what was trained on. For one process, and for training only: it is the lab's.
    """

    _totals: tuple[float, ...] = ()

    def _publish(self, card: Scorecard) -> None:
        self._totals = tuple(0.0 if total is None else total for total in card.totals)
        super()._publish(card.with_advantages(self._totals))

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        output["advantages"] = torch.tensor(self._totals, device=output["advantages"].device)
        return output
