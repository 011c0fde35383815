"""Compare recorded batches with rescored batches: verdicts, totals, groups, driver shares and advantages."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from trl_grpo_ext.figures.advantages import (
    Advantages,
    AdvantageSettings,
    SingleArray,
    advantages_of,
)
from trl_grpo_ext.figures.batch_totals import BatchTotals
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.sample import last_message
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.text import shortened
from trl_grpo_ext.verdict import Verdict

# Stands for a term that does not apply to the row.
NO_VERDICT = "no verdict"
# Longest prompt or text of an example, in characters.
MAX_CHARS = 2000
# Largest accepted difference to a recorded advantage, on top of the formulas' own rounding: summing float32 numbers in
# another order changes their last digits.
REPRODUCED = 1e-5

Kind = tuple[str, str]


def _differs(before: float | None, after: float | None) -> bool:
    """Compare two totals or scores: True if they differ, or if only one is None."""
    if before is None or after is None:
        return before is not after
    return not math.isclose(before, after, rel_tol=1e-9, abs_tol=1e-9)


def is_other(before: Verdict | None, after: Verdict | None) -> bool:
    """Say whether two verdicts differ in status or score."""
    if before is None or after is None:
        return before is not after
    return before.status is not after.status or _differs(before.score, after.score)


def _lacks_score(*verdicts: Verdict | None) -> bool:
    return any(verdict is not None and verdict.score is None for verdict in verdicts)


@dataclass(slots=True)
class TermChanges:
    """Verdict changes of a term."""

    # Number of examples to keep per kind of change.
    examples_a_kind: int
    # Number of compared verdicts: samples in batches where both sides have the term.
    verdicts: int = 0
    # Number of changed verdicts by old and new status.
    kinds: Counter[Kind] = field(default_factory=Counter)
    # The first examples of each kind.
    examples: dict[Kind, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        return self.kinds.total()

    def add(self, term: str, old: Scorecard, new: Scorecard) -> None:
        if term not in old.verdicts or term not in new.verdicts:
            return
        self.verdicts += len(old)
        for index, (before, after) in enumerate(
            zip(old.verdicts[term], new.verdicts[term], strict=True)
        ):
            # In a row that is void anyway, a gate gives or takes no score.
            is_void = old.void[index] and new.void[index]
            if not is_other(before, after) or (is_void and _lacks_score(before, after)):
                continue
            kind = _kind(before, after)
            self.kinds[kind] += 1
            examples = self.examples.setdefault(kind, [])
            if len(examples) < self.examples_a_kind:
                example = _sample(old, index)
                example |= {"from": _told(before), "to": _told(after), "term": term}
                examples.append(example)

    def to_record(self) -> dict[str, Any]:
        kinds = []
        for kind, count in self.kinds.most_common():
            before, after = kind
            kinds.append(
                {
                    "from": before,
                    "to": after,
                    "count": count,
                    "examples": self.examples[kind],
                }
            )
        return {"verdicts": self.verdicts, "changed": self.changed, "kinds": kinds}


def _kind(before: Verdict | None, after: Verdict | None) -> Kind:
    old = _status(before)
    new = _status(after)
    if old == new:
        new += ", other score"
    return old, new


def _status(verdict: Verdict | None) -> str:
    if verdict is None:
        return NO_VERDICT
    return str(verdict.status)


def _told(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    record = verdict.to_record()
    return {name: record[name] for name in ("status", "score", "blame", "answer", "reason")}


def _sample(card: Scorecard, index: int) -> dict[str, Any]:
    sample = card.samples[index]
    return {
        "step": sample.step,
        "group": sample.group,
        "sample": index,
        "prompt": shortened(last_message(sample.prompt), MAX_CHARS),
        "text": shortened(sample.text, MAX_CHARS),
    }


@dataclass(slots=True)
class AdvantageChanges:
    """Changes of advantages between two sides.

    `sign_changes` counts completions whose advantage changes its sign; 0, within rounding or of a void completion, is a
    sign of its own. `examples` are those of these completions with the largest change of advantage, `most_examples` of
    them.
    """

    most_examples: int
    completions: int = 0
    sign_changes: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    _pairs: list[tuple[SingleArray, SingleArray]] = field(default_factory=list)

    def add(
        self, old: Scorecard, new: Scorecard, before: Advantages, after: Advantages
    ) -> None:
        """Add a batch: recorded scorecard, rescored scorecard, and both sides' advantages."""
        # A void completion has no advantage to correlate.
        kept = old.kept & new.kept
        self._pairs.append((before.settled[kept], after.settled[kept]))
        changed = np.flatnonzero(before.signs != after.signs)
        self.completions += len(old)
        self.sign_changes += len(changed)
        # The largest of a batch are enough; siblings may repeat each other.
        difference = np.abs(after.values - before.values)[changed]
        largest = changed[np.argsort(-difference, kind="stable")]
        for index in largest[: 8 * self.most_examples].tolist():
            example = _sample(old, index) | {
                "old_advantage": float(before.values[index]),
                "new_advantage": float(after.values[index]),
                "old_total": old.totals[index],
                "new_total": new.totals[index],
                "old_parts": _parts(old, index),
                "new_parts": _parts(new, index),
            }
            said = (example["group"], example["text"])
            said_before = [(one["group"], one["text"]) for one in self.examples]
            if said not in said_before:
                self.examples.append(example)
        self.examples.sort(key=_change, reverse=True)
        del self.examples[self.most_examples :]

    @property
    def correlation(self) -> float | None:
        """Compute Pearson's correlation of old and new advantages without void completions; None for a flat side."""
        if not self._pairs:
            return None
        old, new = (
            np.concatenate(side).astype(np.float64)
            for side in zip(*self._pairs, strict=True)
        )
        if not old.size:
            return None
        old -= old.mean()
        new -= new.mean()
        norm = math.sqrt(float(old @ old)) * math.sqrt(float(new @ new))
        is_known = norm > 0 and math.isfinite(norm)
        if not is_known:
            return None
        # Rounding may lead out of the range of a correlation.
        return max(-1.0, min(1.0, float(old @ new) / norm))

    def to_record(self) -> dict[str, Any]:
        return {
            "completions": self.completions,
            "sign_changes": self.sign_changes,
            "correlation": self.correlation,
            "examples": self.examples,
        }


def _change(example: dict[str, Any]) -> float:
    return abs(float(example["new_advantage"] - example["old_advantage"]))


def _parts(card: Scorecard, index: int) -> dict[str, float]:
    """Return each term's contribution to a sample's total; terms without a value are missing."""
    parts = {}
    for term in card.in_force:
        value = card.values[term][index]
        if value is not None:
            parts[term] = card.weights[term] * value
    return parts


@dataclass(slots=True)
class GroupChanges:
    """Counts of groups by outcome before and after rescoring."""

    # Number of groups by their old and new outcome.
    outcomes: Counter[tuple[GroupOutcome, GroupOutcome]] = field(default_factory=Counter)
    # Groups with a changed outcome: step, group, old and new outcome.
    changes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, old: Scorecard, new: Scorecard) -> None:
        for rows, before, after in zip(old.rows, old.outcomes, new.outcomes, strict=True):
            self.outcomes[before, after] += 1
            if before is after:
                continue
            sample = old.samples[int(rows[0])]
            change = {
                "step": sample.step,
                "group": sample.group,
                "from": str(before),
                "to": str(after),
            }
            self.changes.append(change)

    @property
    def groups(self) -> int:
        return self.outcomes.total()

    @property
    def come_alive(self) -> int:
        """Count groups that become live: only live groups have advantages to learn from."""
        return sum(change["to"] == GroupOutcome.LIVE for change in self.changes)

    @property
    def die(self) -> int:
        """Count live groups that lose their advantages."""
        return sum(change["from"] == GroupOutcome.LIVE for change in self.changes)

    def shares(self) -> dict[str, tuple[float | None, float | None]]:
        """Compute each outcome's share of groups, before and after; None without groups."""
        size = self.groups
        if not size:
            return {str(kind): (None, None) for kind in GroupOutcome}
        before: Counter[str] = Counter()
        after: Counter[str] = Counter()
        for (old, new), count in self.outcomes.items():
            before[old] += count
            after[new] += count
        return {
            str(kind): (before[kind] / size, after[kind] / size) for kind in GroupOutcome
        }

    def to_record(self) -> dict[str, Any]:
        shares = {}
        for kind, (old, new) in self.shares().items():
            shares[kind] = {"old": old, "new": new}
        return {
            "groups": self.groups,
            "come_alive": self.come_alive,
            "die": self.die,
            "shares": shares,
            "changes": self.changes,
        }


class Comparison:
    """Sums of a comparison between recorded and rescored batches.

    Both sides' advantages come from the same formulas, applied to recorded and to new values, so that only the rewards
    make a difference; the formulas are checked against recorded advantages.

    Attributes:
        settings: TRL's settings for computing advantages, of the old and of the new side.
        terms: Verdict changes by term: first terms of the new mix, in order, then removed terms.
        changed: Number of completions with another total, or void on one side only.
        void: Number of completions that are void on both sides; a verdict without a score is no change there.
        not_reproduced: Number of batches whose recorded advantages differ from the computed ones: something besides
            the recorded values entered them.
        largest_difference: The largest such difference.
        without_advantages: Number of batches without recorded advantages.
    """

    def __init__(
        self,
        new_terms: Sequence[str],
        old: AdvantageSettings,
        new: AdvantageSettings,
        *,
        examples: int = 2,
    ) -> None:
        self.settings = (old, new)
        self.examples = examples
        self.terms = {term: TermChanges(examples) for term in new_terms}
        self.old = BatchTotals()
        self.new = BatchTotals()
        self.changed = 0
        self.void = 0
        self.advantages = AdvantageChanges(examples)
        self.groups = GroupChanges()
        self.not_reproduced = 0
        self.without_advantages = 0
        self.largest_difference = 0.0

    @property
    def batches(self) -> int:
        """Number of compared batches."""
        return len(self.old.batches)

    def add(self, old: Scorecard, new: Scorecard) -> None:
        """Add a recorded batch and its rescored copy."""
        for term in dict.fromkeys((*new.terms, *old.terms)):
            self.terms.setdefault(term, TermChanges(self.examples)).add(term, old, new)
        self.changed += sum(map(_differs, old.totals, new.totals))
        self.void += sum(map(operator.and_, old.void, new.void))
        self.groups.add(old, new)
        old_settings, new_settings = self.settings
        before = advantages_of(old, old_settings)
        after = advantages_of(new, new_settings)
        self.advantages.add(old, new, before, after)
        self.old.batches.append(reduce_card(old, asdict(old_settings)))
        self.new.batches.append(reduce_card(new, asdict(new_settings)))
        self._check(old, before)

    def _check(self, card: Scorecard, computed: Advantages) -> None:
        if card.advantages is None:
            self.without_advantages += 1
            return
        # TRL computes advantages in float32.
        recorded = np.array(card.advantages, dtype=np.float32)
        difference = np.abs(recorded - computed.values)
        self.largest_difference = max(
            self.largest_difference, float(difference.max(initial=0))
        )
        self.not_reproduced += bool((difference > REPRODUCED + computed.rounding).any())

    def to_record(self) -> dict[str, Any]:
        terms = {}
        for name, term in self.terms.items():
            terms[name] = {
                "old": _term(self.old, name),
                "new": _term(self.new, name),
                **term.to_record(),
            }
        return {
            "batches": self.batches,
            "terms": terms,
            "totals": {
                "completions": self.old.completions,
                "changed": self.changed,
                "void": {"old": self.old.void, "new": self.new.void, "both": self.void},
                "mean": {"old": self.old.reward, "new": self.new.reward},
            },
            "drivers": {"old": _drivers(self.old), "new": _drivers(self.new)},
            "advantages": self.advantages.to_record(),
            "groups": self.groups.to_record(),
        }


def _term(side: BatchTotals, term: str) -> dict[str, Any] | None:
    """Return a term's mean value with its first and last weight; None for a term without batches."""
    weights = side.weights(term)
    if not weights:
        return None
    return {
        "mean_value": side.value(term),
        "first_weight": weights[0],
        "last_weight": weights[-1],
    }


def _drivers(side: BatchTotals) -> dict[str, Any]:
    return {"terms": side.shares, "others": side.others_share}
