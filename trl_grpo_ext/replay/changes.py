"""What changes in a replay: totals, groups, drivers and advantages, the recorded batches against the new ones."""

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
from trl_grpo_ext.replay.completion_changes import AdvantageChanges, Pull, VerdictChanges
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import NOTHING, Estimate


@dataclass(slots=True)
class Side:
    """One side of a replay: the recorded batches, or the new ones, in numbers that add up."""

    completions: int = 0  # how many there are
    void: int = 0  # how many of them are void
    rewards: Estimate = NOTHING  # the totals of the others
    values: dict[str, Estimate] = field(default_factory=dict)  # by term, the values of the samples that are not void
    # By term, the weight in force in each batch that had the term.
    weights: dict[str, list[float]] = field(default_factory=dict)
    # By term, the shares of the batches' advantages, as logs and reports have them.
    drivers: dict[str, Estimate] = field(default_factory=dict)
    other_drivers: Estimate = NOTHING  # the shares of reward functions beside the mix

    def add(self, figures: BatchFigures) -> None:
        """Take in a batch; one whose driver shares are unknown adds nothing to them but its terms."""
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
        """The driver share of each term; None where there are no advantages, or it is unknown."""
        return {term: mean_of(share) for term, share in self.drivers.items()}

    def weight_moves(self, term: str) -> bool:
        """Whether the weight of a term was not the same in all batches."""
        return len(set(self.weights.get(term, ()))) > 1

    def term_record(self, term: str) -> dict[str, Any] | None:
        """The mean of a term's values, and its first and its last weight; None if the term was never there."""
        weights = self.weights.get(term)
        if not weights:
            return None
        return {"mean_value": mean_of(self.values[term]), "first_weight": weights[0], "last_weight": weights[-1]}


def mean_of(estimate: Estimate) -> float | None:
    """The mean; None where there is none."""
    return estimate.mean if estimate.count else None


def _differs(before: float | None, after: float | None) -> bool:
    """Whether a completion earns another total, or is void on one side only."""
    if before is None or after is None:
        return before is not after
    return not math.isclose(before, after, rel_tol=1e-9, abs_tol=1e-9)


@dataclass(slots=True)
class _GroupChanges:
    """How the outcomes of groups change."""

    # How many groups by outcome before and after.
    outcomes: Counter[tuple[GroupOutcome, GroupOutcome]] = field(default_factory=Counter)
    # Each group whose outcome changes: step, group, before and after.
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
        return {
            "groups": self.groups,
            "come_alive": self.come_alive,
            "die": self.die,
            "shares": {kind: {"old": old, "new": new} for kind, (old, new) in self.shares().items()},
            "changes": self.changes,
        }


REPRODUCED = 1e-5  # single precision in another order, beyond the rounding that the formulas make themselves


class Comparison:
    """Adds batches up.

    Both sides' advantages are computed by the same formulas, the old ones from the recorded values, so that nothing but
    the rewards tells them apart; they are checked against the recorded ones.

    `examples` are kept of each kind of verdict change, and of turned advantages. `changed` completions have another
    total, or are void on one side only. In `not_reproduced` batches the recorded advantages are others than those
    computed from the recorded values: something else went into them. `largest_difference` is the largest between the
    two, and in `without_advantages` batches none were recorded.
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
        """Take in a batch: the recorded one, and what the new rewards make of it."""
        self.batches += 1
        self.verdicts.add(old, new)
        self.changed += sum(map(_differs, old.totals, new.totals))
        self.groups.add(old, new)
        sides = zip((old, new), self.settings, strict=True)
        before, after = (Pull(card=batch, made=advantages_of(batch, settings)) for batch, settings in sides)
        self.advantages.add(before, after)
        self.old.add(reduce_card(old, asdict(self.settings[0])))
        self.new.add(reduce_card(new, asdict(self.settings[1])))
        self._check(before)

    def _check(self, old: Pull) -> None:
        if old.card.advantages is None:
            self.without_advantages += 1
            return
        difference = np.abs(np.array(old.card.advantages, dtype=np.float32) - old.made.values)
        self.largest_difference = max(self.largest_difference, float(difference.max(initial=0)))
        self.not_reproduced += bool((difference > REPRODUCED + old.made.rounding).any())

    def weight_moves(self, term: str) -> bool:
        """Whether the weight of a term moved on a side, and not in the same way on the other."""
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
