"""Driver changes: which terms the advantages come from, over all replayed batches, before and after."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from trl_grpo_ext.diagnostics.statistics.batch import Batch
from trl_grpo_ext.diagnostics.statistics.drivers import driver_shares
from trl_grpo_ext.replay.advantages import AdvantageSettings, SingleArray


@dataclass(slots=True)
class Drivers:
    """One side, added up.

    Each batch counts by the sum of its squared advantages, so that the share of term k, whose part of the advantage
    A_i is a_ki, is `sum a_ki A_i / sum A_i^2` over the whole run, as it is within a batch (see `driver_shares`).
    """

    _parts: dict[str, float] = field(default_factory=dict)
    _squares: float = 0.0

    def add(self, batch: Batch, advantages: SingleArray, settings: AdvantageSettings) -> None:
        """Take in a batch and its (N,) advantages; one that has none, or of which nobody can tell, adds nothing."""
        shares = driver_shares(batch, asdict(settings))
        known = not any(map(math.isnan, shares.values()))
        squares = float((advantages.astype(np.float64) ** 2).sum()) if known else 0.0
        self._squares += squares
        for term, share in shares.items():
            self._parts[term] = self._parts.get(term, 0.0) + (share * squares if known else 0.0)

    @property
    def shares(self) -> dict[str, float | None]:
        """The share of each term; None where there are no advantages, or nobody can tell."""
        return {term: part / self._squares if self._squares else None for term, part in self._parts.items()}

    @property
    def others(self) -> float | None:
        """The share of reward functions beside the mix: what the terms' lack of 1."""
        return 1 - math.fsum(self._parts.values()) / self._squares if self._squares else None

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
