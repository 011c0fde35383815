"""A comparison: what was recorded against what the new rewards make of it, batch after batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trl_grpo_ext.figures.advantages import AdvantageSettings, advantages_of
from trl_grpo_ext.replay.advantage_changes import AdvantageChanges, Pull
from trl_grpo_ext.replay.driver_changes import DriverChanges
from trl_grpo_ext.replay.group_changes import GroupChanges
from trl_grpo_ext.replay.total_changes import TotalChanges
from trl_grpo_ext.replay.verdict_changes import VerdictChanges
from trl_grpo_ext.scorecard import Scorecard

REPRODUCED = 1e-5  # single precision in another order, beyond the rounding that the formulas make themselves


class Comparison:
    """Adds batches up.

    Both sides' advantages are computed by the same formulas, the old ones from the recorded values, so that nothing but
    the rewards tells them apart; they are checked against the recorded ones.

    Args:
        new_terms: The terms of the new mix, in order.
        old_settings: How the run made advantages of rewards.
        new_settings: How the new one would.
        examples: How many examples to keep of each kind of verdict change, and of turned advantages.

    Attributes:
        settings: The old settings and the new.
        batches: How many batches there are.
        not_reproduced: In how many of them the recorded advantages are others than those computed from the recorded
            values: something else went into them.
        largest_difference: The largest difference between the two.
        without_advantages: In how many none were recorded.
    """

    def __init__(
        self,
        new_terms: Sequence[str],
        old_settings: AdvantageSettings,
        new_settings: AdvantageSettings,
        *,
        examples: int = 2,
    ) -> None:
        self.settings = (old_settings, new_settings)
        self.verdicts = VerdictChanges(new_terms, examples)
        self.totals = TotalChanges()
        self.advantages = AdvantageChanges(examples)
        self.drivers = DriverChanges()
        self.groups = GroupChanges()
        self.batches = 0
        self.not_reproduced = 0
        self.without_advantages = 0
        self.largest_difference = 0.0

    def add(self, old: Scorecard, new: Scorecard) -> None:
        """Take in a batch: the recorded one, and what the new rewards make of it."""
        self.batches += 1
        self.verdicts.add(old, new)
        self.totals.add(old, new)
        self.groups.add(old, new)
        sides = zip((old, new), self.settings, strict=True)
        before, after = (Pull(card=batch, made=advantages_of(batch, settings)) for batch, settings in sides)
        self.advantages.add(before, after)
        self.drivers.old.add(old, self.settings[0])
        self.drivers.new.add(new, self.settings[1])
        self._check(before)

    def _check(self, old: Pull) -> None:
        if old.card.advantages is None:
            self.without_advantages += 1
            return
        difference = np.abs(np.array(old.card.advantages, dtype=np.float32) - old.made.values)
        self.largest_difference = max(self.largest_difference, float(difference.max(initial=0)))
        self.not_reproduced += bool((difference > REPRODUCED + old.made.rounding).any())

    def to_record(self) -> dict[str, Any]:
        """Plain values, for JSON; null for what is not known."""
        return {
            "batches": self.batches,
            "terms": self.verdicts.to_record(),
            "totals": self.totals.to_record(),
            "drivers": self.drivers.to_record(),
            "advantages": self.advantages.to_record(),
            "groups": self.groups.to_record(),
        }
