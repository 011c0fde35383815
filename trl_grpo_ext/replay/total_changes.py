"""Total changes: which completions earn another reward."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.scorecard import Scorecard


@dataclass(slots=True)
class TotalChanges:
    """How the totals change.

    Attributes:
        completions: How many were compared.
        changed: How many have another total, or are void on one side only.
        old_void: How many were void.
        new_void: How many would be.
        old_sum: The old totals of those that were not void, added up.
        new_sum: The new ones.
    """

    completions: int = 0
    changed: int = 0
    old_void: int = 0
    new_void: int = 0
    old_sum: float = 0.0
    new_sum: float = 0.0

    def add(self, old: Scorecard, new: Scorecard) -> None:
        """Take in a batch."""
        for before, after in zip(old.totals, new.totals, strict=True):
            self.completions += 1
            self.old_void += before is None
            self.new_void += after is None
            self.old_sum += before or 0.0
            self.new_sum += after or 0.0
            if before is None or after is None:
                self.changed += before is not after
            else:
                self.changed += not math.isclose(before, after, rel_tol=1e-9, abs_tol=1e-9)

    @property
    def means(self) -> tuple[float | None, float | None]:
        """The mean of the old and of the new totals; None where all are void."""
        old, new = self.completions - self.old_void, self.completions - self.new_void
        return (self.old_sum / old if old else None, self.new_sum / new if new else None)

    def to_record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "completions": self.completions,
            "changed": self.changed,
            "void": {"old": self.old_void, "new": self.new_void},
            "mean": dict(zip(("old", "new"), self.means, strict=True)),
        }
