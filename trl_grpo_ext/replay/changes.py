"""Compare recorded batches with rescored batches: totals, groups, driver shares and advantages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from trl_grpo_ext.figures.advantages import AdvantageSettings, advantages_of
from trl_grpo_ext.figures.reduction import BatchFigures, reduce_card
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.replay.completion_changes import AdvantageChanges, CardWithAdvantages, VerdictChanges
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import NOTHING, Estimate


@dataclass(slots=True)
class Side:
    """Sums over a replay's recorded batches, or over its rescored batches."""

    # Number of completions, void ones included.
    completions: int = 0
    void: int = 0
    # Totals of completions that are not void.
    rewards: Estimate = NOTHING
    # Values per term, over completions that are not void.
    values: dict[str, Estimate] = field(default_factory=dict)
    # Weights per term, in each batch with the term.
    weights: dict[str, list[float]] = field(default_factory=dict)
    # Shares of each batch's advantages per term, as in logs and reports.
    drivers: dict[str, Estimate] = field(default_factory=dict)
    # Shares of reward functions outside the mix.
    other_drivers: Estimate = NOTHING

    def add(self, figures: BatchFigures) -> None:
        """Add a batch; if a driver share is unknown, the share of functions outside the mix is left out."""
        self.completions += figures.size
        self.void += figures.void
        self.rewards += figures.rewards.numbers
        if figures.others_share is not None and all(one.driver_share is not None for one in figures.terms.values()):
            self.other_drivers += Estimate.of([figures.others_share])
        for term, found in figures.terms.items():
            self.drivers[term] = self.drivers.get(term, NOTHING) + Estimate.of([found.driver_share])
            self.values[term] = self.values.get(term, NOTHING) + found.values.numbers
            self.weights.setdefault(term, []).append(found.weight)

    @property
    def shares(self) -> dict[str, float | None]:
        """Return each term's mean driver share; None if unknown, or without advantages."""
        return {term: mean_of(share) for term, share in self.drivers.items()}

    def weight_moves(self, term: str) -> bool:
        """Say whether a term's weight differs between batches."""
        return len(set(self.weights.get(term, ()))) > 1

    def term_record(self, term: str) -> dict[str, Any] | None:
        """Return a term's mean value with its first and last weight; None for a term without batches."""
        weights = self.weights.get(term)
        if not weights:
            return None
        return {"mean_value": mean_of(self.values[term]), "first_weight": weights[0], "last_weight": weights[-1]}


def mean_of(estimate: Estimate) -> float | None:
    """Return the mean; None without numbers."""
    return estimate.mean if estimate.count else None


def _differs(before: float | None, after: float | None) -> bool:
    """Compare two totals: True if they differ, or if only one is void (None)."""
    if before is None or after is None:
        return before is not after
    return not math.isclose(before, after, rel_tol=1e-9, abs_tol=1e-9)


@dataclass(slots=True)
class _GroupChanges:
    """Counts of groups by outcome before and after rescoring."""

    # Number of groups by their old and new outcome.
    outcomes: Counter[tuple[GroupOutcome, GroupOutcome]] = field(default_factory=Counter)
    # Groups with a changed outcome: step, group, old and new outcome.
    changes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, old: Scorecard, new: Scorecard) -> None:
        for rows, before, after in zip(old.rows, old.outcomes, new.outcomes, strict=True):
            self.outcomes[before, after] += 1
            if before is not after:
                sample = old.samples[int(rows[0])]
                self.changes.append({"step": sample.step, "group": sample.group, "from": str(before), "to": str(after)})

    @property
    def groups(self) -> int:
        return self.outcomes.total()

    @property
    def come_alive(self) -> int:
        """Count groups that become live: only live groups have advantages to learn from."""
        return sum(self.outcomes[kind, GroupOutcome.LIVE] for kind in GroupOutcome if kind is not GroupOutcome.LIVE)

    @property
    def die(self) -> int:
        """Count live groups that lose their advantages."""
        return sum(self.outcomes[GroupOutcome.LIVE, kind] for kind in GroupOutcome if kind is not GroupOutcome.LIVE)

    def shares(self) -> dict[str, tuple[float | None, float | None]]:
        """Compute each outcome's share of groups, before and after; None without groups."""
        found: dict[str, tuple[float | None, float | None]] = {}
        for kind in GroupOutcome:
            before = sum(self.outcomes[kind, other] for other in GroupOutcome)
            after = sum(self.outcomes[other, kind] for other in GroupOutcome)
            size = self.groups
            found[str(kind)] = (before / size, after / size) if size else (None, None)
        return found

    def to_record(self) -> dict[str, Any]:
        return {
            "groups": self.groups,
            "come_alive": self.come_alive,
            "die": self.die,
            "shares": {kind: {"old": old, "new": new} for kind, (old, new) in self.shares().items()},
            "changes": self.changes,
        }


# Largest accepted difference to a recorded advantage, on top of the formulas' own rounding: summing float32 numbers in
# another order changes their last digits.
REPRODUCED = 1e-5


class Comparison:
    """Sums of a comparison between recorded and rescored batches.

    Both sides' advantages come from the same formulas, applied to recorded and to new values, so that only the rewards
    make a difference; the formulas are checked against recorded advantages.

    `examples` is the number of examples to keep per kind of verdict change, and of advantages that change their sign.
    `changed` counts completions with another total, or void on one side only. `not_reproduced` counts batches whose
    recorded advantages differ from the computed ones, and `largest_difference` is the largest such difference:
    something besides the recorded values entered them. `without_advantages` counts batches without recorded advantages.
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
        self.old, self.new = Side(), Side()
        self.changed = 0
        self.advantages = AdvantageChanges(examples)
        self.groups = _GroupChanges()
        self.batches = 0
        self.not_reproduced = 0
        self.without_advantages = 0
        self.largest_difference = 0.0

    def add(self, old: Scorecard, new: Scorecard) -> None:
        """Add a recorded batch and its rescored copy."""
        self.batches += 1
        self.verdicts.add(old, new)
        self.changed += sum(map(_differs, old.totals, new.totals))
        self.groups.add(old, new)
        before = CardWithAdvantages(old, advantages_of(old, self.settings[0]))
        after = CardWithAdvantages(new, advantages_of(new, self.settings[1]))
        self.advantages.add(before, after)
        self.old.add(reduce_card(old, asdict(self.settings[0])))
        self.new.add(reduce_card(new, asdict(self.settings[1])))
        self._check(before)

    def _check(self, old: CardWithAdvantages) -> None:
        if old.card.advantages is None:
            self.without_advantages += 1
            return
        difference = np.abs(np.array(old.card.advantages, dtype=np.float32) - old.advantages.values)
        self.largest_difference = max(self.largest_difference, float(difference.max(initial=0)))
        self.not_reproduced += bool((difference > REPRODUCED + old.advantages.rounding).any())

    def weight_moves(self, term: str) -> bool:
        """Say whether a term's weight changes during the run, in a different way on each side."""
        moves = self.old.weight_moves(term) or self.new.weight_moves(term)
        return moves and self.old.weights.get(term) != self.new.weights.get(term)

    def to_record(self) -> dict[str, Any]:
        return {
            "batches": self.batches,
            "terms": {
                name: {"old": self.old.term_record(name), "new": self.new.term_record(name), **term.to_record()}
                for name, term in self.verdicts.terms.items()
            },
            "totals": {
                "completions": self.old.completions,
                "changed": self.changed,
                "void": {"old": self.old.void, "new": self.new.void},
                "mean": {"old": mean_of(self.old.rewards), "new": mean_of(self.new.rewards)},
            },
            "drivers": {
                "old": {"terms": self.old.shares, "others": mean_of(self.old.other_drivers)},
                "new": {"terms": self.new.shares, "others": mean_of(self.new.other_drivers)},
            },
            "advantages": self.advantages.to_record(),
            "groups": self.groups.to_record(),
        }
