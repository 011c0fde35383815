"""Driver changes: which terms the advantages come from, over all replayed batches, before and after."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from trl_grpo_ext.figures.advantages import AdvantageSettings, driver_shares
from trl_grpo_ext.scorecard import Scorecard


@dataclass(slots=True)
class Drivers:
    """One side: the mean of the batches' shares, as logs and reports have it, whatever the size of the advantages."""

    _sums: dict[str, float] = field(default_factory=dict)
    _batches: int = 0

    def add(self, batch: Scorecard, settings: AdvantageSettings) -> None:
        """Take in a batch; one that has no advantages, or of which nobody can tell, adds nothing but its terms."""
        shares = driver_shares(batch, settings)
        is_known = not any(map(math.isnan, shares.values()))
        self._batches += is_known
        for term, share in shares.items():
            self._sums[term] = self._sums.get(term, 0.0) + (share if is_known else 0.0)

    @property
    def shares(self) -> dict[str, float | None]:
        """The share of each term; None where there are no advantages, or nobody can tell."""
        return {term: total / self._batches if self._batches else None for term, total in self._sums.items()}

    @property
    def others(self) -> float | None:
        """The share of reward functions beside the mix: what the terms' lack of 1."""
        return 1 - math.fsum(self._sums.values()) / self._batches if self._batches else None

    def to_record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"terms": self.shares, "others": self.others}


@dataclass(frozen=True, slots=True)
class DriverChanges:
    """Both sides."""

    old: Drivers = field(default_factory=Drivers)
    new: Drivers = field(default_factory=Drivers)

    def to_record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"old": self.old.to_record(), "new": self.new.to_record()}
