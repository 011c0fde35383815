"""Total changes: which completions earn another reward."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trl_grpo_ext.figures.advantages import AdvantageSettings, advantages_of, driver_shares
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.replay.advantage_changes import AdvantageChanges, Pull
from trl_grpo_ext.replay.verdict_changes import VerdictChanges
from trl_grpo_ext.scorecard import Scorecard


@dataclass(slots=True)
class _TotalChanges:
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


@dataclass(slots=True)
class _GroupChanges:
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


@dataclass(slots=True)
class _Drivers:
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
class _DriverChanges:
    """Both sides."""

    old: _Drivers = field(default_factory=_Drivers)
    new: _Drivers = field(default_factory=_Drivers)

    def to_record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"old": self.old.to_record(), "new": self.new.to_record()}


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
        self.totals = _TotalChanges()
        self.advantages = AdvantageChanges(examples)
        self.drivers = _DriverChanges()
        self.groups = _GroupChanges()
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
