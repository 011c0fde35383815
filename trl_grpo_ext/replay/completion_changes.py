"""Compare completions before and after rescoring: verdicts that differ, and advantages that change."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from trl_grpo_ext.figures.advantages import Advantages, SingleArray
from trl_grpo_ext.sample import last_message
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.text import shortened
from trl_grpo_ext.verdict import Verdict

# Stands for a term that does not apply to the row.
NO_VERDICT = "no verdict"

Kind = tuple[str, str]


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
        pairs = zip(old.verdicts[term], new.verdicts[term], strict=True)
        for index, (before, after) in enumerate(pairs):
            if is_other(before, after):
                kind = _kind(before, after)
                self.kinds[kind] += 1
                examples = self.examples.setdefault(kind, [])
                if len(examples) < self.examples_a_kind:
                    examples.append(
                        sample_record(old, index) | {"from": _told(before), "to": _told(after), "term": term}
                    )

    def to_record(self) -> dict[str, Any]:
        return {
            "verdicts": self.verdicts,
            "changed": self.changed,
            "kinds": [
                {"from": kind[0], "to": kind[1], "count": count, "examples": self.examples[kind]}
                for kind, count in self.kinds.most_common()
            ],
        }


class VerdictChanges:
    """Verdict changes of all terms by name: first terms of the new mix, in order, then removed terms."""

    def __init__(self, new_terms: Sequence[str], examples_a_kind: int) -> None:
        self._examples_a_kind = examples_a_kind
        self.terms = {term: TermChanges(examples_a_kind) for term in new_terms}

    def add(self, old: Scorecard, new: Scorecard) -> None:
        for term in dict.fromkeys((*new.terms, *old.terms)):
            self.terms.setdefault(term, TermChanges(self._examples_a_kind)).add(term, old, new)


def is_other(before: Verdict | None, after: Verdict | None) -> bool:
    """Say whether two verdicts differ in status or score."""
    if before is None or after is None:
        return before is not after
    if before.status is not after.status or (before.score is None) != (after.score is None):
        return True
    return before.score is not None and not math.isclose(before.score, after.score or 0.0, rel_tol=1e-9, abs_tol=1e-12)


def _kind(before: Verdict | None, after: Verdict | None) -> Kind:
    kinds = tuple(NO_VERDICT if verdict is None else str(verdict.status) for verdict in (before, after))
    return (kinds[0], kinds[1] if kinds[0] != kinds[1] else f"{kinds[1]}, other score")


def _told(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "status": str(verdict.status),
        "score": verdict.score,
        "blame": str(verdict.blame),
        "answer": verdict.answer,
        "reason": verdict.reason,
    }


MAX_CHARS = 2000


def sample_record(card: Scorecard, index: int) -> dict[str, Any]:
    """Describe a sample: step, group, index in the batch, the prompt's last message and the text, both shortened."""
    sample = card.samples[index]
    return {
        "step": sample.step,
        "group": sample.group,
        "sample": index,
        "prompt": shortened(last_message(sample.prompt), MAX_CHARS),
        "text": shortened(sample.text, MAX_CHARS),
    }


class CardWithAdvantages(NamedTuple):
    """A scorecard and its computed advantages, for the old or the new side of a batch."""

    card: Scorecard
    advantages: Advantages


@dataclass(slots=True)
class AdvantageChanges:
    """Changes of advantages between two sides.

    `sign_changes` counts completions whose advantage changes its sign; 0, within rounding or of a void completion, is a
    sign of its own. `examples_kept` is the number of examples: among these completions, those with the largest change
    of advantage.
    """

    examples_kept: int
    completions: int = 0
    sign_changes: int = 0
    _pairs: list[tuple[SingleArray, SingleArray]] = field(default_factory=list)
    _examples: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)

    def add(self, old: CardWithAdvantages, new: CardWithAdvantages) -> None:
        """Add a batch, before and after rescoring."""
        kept = old.card.kept & new.card.kept
        self._pairs.append((old.advantages.settled[kept], new.advantages.settled[kept]))
        changed = np.flatnonzero(old.advantages.signs != new.advantages.signs)
        self.sign_changes += len(changed)
        for index in changed.tolist():
            self._keep(old, new, index)
        self.completions += len(old.card)

    def _keep(self, old: CardWithAdvantages, new: CardWithAdvantages, index: int) -> None:
        before = float(old.advantages.values[index])
        after = float(new.advantages.values[index])
        # The negative count breaks ties in favour of the earlier completion.
        entry = (abs(after - before), -(self.completions + index))
        if len(self._examples) >= self.examples_kept and (not self._examples or entry <= self._examples[0][:2]):
            return
        example = sample_record(old.card, index)
        if any(other["group"] == example["group"] and other["text"] == example["text"] for *_, other in self._examples):
            return
        example |= {
            "old_advantage": before,
            "new_advantage": after,
            "old_total": old.card.totals[index],
            "new_total": new.card.totals[index],
            "old_parts": _parts(old.card, index),
            "new_parts": _parts(new.card, index),
        }
        heapq.heappush(self._examples, (*entry, example))
        if len(self._examples) > self.examples_kept:
            heapq.heappop(self._examples)

    @property
    def correlation(self) -> float | None:
        """Compute Pearson's correlation of old and new advantages without void completions; None for a flat side."""
        if not self._pairs:
            return None
        old, new = (np.concatenate(side).astype(np.float64) for side in zip(*self._pairs, strict=True))
        old, new = old - old.mean() if old.size else old, new - new.mean() if new.size else new
        norm = math.sqrt(float(old @ old)) * math.sqrt(float(new @ new))
        return max(-1.0, min(1.0, float(old @ new) / norm)) if norm > 0 and math.isfinite(norm) else None

    @property
    def examples(self) -> list[dict[str, Any]]:
        """Return the examples, largest change of advantage first."""
        return [example for _, _, example in sorted(self._examples, key=lambda entry: entry[:2], reverse=True)]

    def to_record(self) -> dict[str, Any]:
        return {
            "completions": self.completions,
            "sign_changes": self.sign_changes,
            "correlation": self.correlation,
            "examples": self.examples,
        }


def _parts(card: Scorecard, index: int) -> dict[str, float]:
    """Return each term's contribution to a sample's total; terms without a value are missing."""
    values = {term: card.values[term][index] for term in card.in_force}
    return {term: card.weights[term] * value for term, value in values.items() if value is not None}
