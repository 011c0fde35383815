"""Group changes: which groups come alive under the new rewards, and which die."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.scorecard import Scorecard


@dataclass(slots=True)
class GroupChanges:
    """How the outcomes of groups change.

    Attributes:
        outcomes: How many groups by outcome before and after.
        changes: Each group whose outcome changes: step, group, before and after.
    """

    outcomes: Counter[tuple[GroupOutcome, GroupOutcome]] = field(default_factory=Counter)
    changes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, old: Scorecard, new: Scorecard) -> None:
        """Take in a batch."""
        for rows, before, after in zip(old.rows, old.outcomes, new.outcomes, strict=True):
            self.outcomes[before, after] += 1
            if before is not after:
                sample = old.samples[int(rows[0])]
                self.changes.append({"step": sample.step, "group": sample.group, "from": str(before), "to": str(after)})

    @property
    def groups(self) -> int:
        """How many groups were compared."""
        return self.outcomes.total()

    @property
    def come_alive(self) -> int:
        """How many had nothing to teach, and now have."""
        return sum(self.outcomes[kind, GroupOutcome.LIVE] for kind in GroupOutcome if kind is not GroupOutcome.LIVE)

    @property
    def die(self) -> int:
        """How many had something to teach, and now have nothing."""
        return sum(self.outcomes[GroupOutcome.LIVE, kind] for kind in GroupOutcome if kind is not GroupOutcome.LIVE)

    def shares(self) -> dict[str, tuple[float | None, float | None]]:
        """The share of each outcome before and after; None where there are no groups."""
        found: dict[str, tuple[float | None, float | None]] = {}
        for kind in GroupOutcome:
            before = sum(self.outcomes[kind, other] for other in GroupOutcome)
            after = sum(self.outcomes[other, kind] for other in GroupOutcome)
            size = self.groups
            found[str(kind)] = (before / size, after / size) if size else (None, None)
        return found

    def to_record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "groups": self.groups,
            "come_alive": self.come_alive,
            "die": self.die,
            "shares": {kind: {"old": old, "new": new} for kind, (old, new) in self.shares().items()},
            "changes": self.changes,
        }
