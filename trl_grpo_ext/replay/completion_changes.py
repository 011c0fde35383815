"""What becomes of completions: which verdicts differ, and which advantages have the other sign."""

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

NO_VERDICT = "no verdict"  # the term did not apply to the row

Kind = tuple[str, str]


@dataclass(slots=True)
class TermChanges:
    """What becomes of one term."""

    examples_a_kind: int  # how many examples to keep of each kind of change
    verdicts: int = 0  # verdicts that were compared: samples of batches in which both sides have the term
    kinds: Counter[Kind] = field(default_factory=Counter)  # how many changed, by status before and after
    examples: dict[Kind, list[dict[str, Any]]] = field(default_factory=dict)  # the first few of each kind

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
    """The changes of all terms, by name: first those of the new mix, in order, then those that are gone."""

    def __init__(self, new_terms: Sequence[str], examples_a_kind: int) -> None:
        self._examples_a_kind = examples_a_kind
        self.terms = {term: TermChanges(examples_a_kind) for term in new_terms}

    def add(self, old: Scorecard, new: Scorecard) -> None:
        for term in dict.fromkeys((*new.terms, *old.terms)):
            self.terms.setdefault(term, TermChanges(self._examples_a_kind)).add(term, old, new)


def is_other(before: Verdict | None, after: Verdict | None) -> bool:
    """Whether two verdicts differ in what counts: status and score."""
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
    """Step, group, place in the batch, the last message of the prompt, and the text; long ones cut in the middle."""
    sample = card.samples[index]
    return {
        "step": sample.step,
        "group": sample.group,
        "sample": index,
        "prompt": shortened(last_message(sample.prompt), MAX_CHARS),
        "text": shortened(sample.text, MAX_CHARS),
    }


UP, NONE, DOWN, VOID = "up", "none", "down", "void"

Turn = tuple[str, str]


class Pull(NamedTuple):
    """One side of a batch: its card, and where the advantages that were made of it pull the completions."""

    card: Scorecard
    made: Advantages

    @property
    def directions(self) -> list[str]:
        """Where each completion is pulled: nowhere by an advantage within rounding error."""
        pulled = [(NONE, UP, DOWN)[sign] for sign in self.made.signs.tolist()]  # -1 is the last
        return [VOID if out else direction for out, direction in zip(self.card.void, pulled, strict=True)]

    @property
    def settled(self) -> SingleArray:
        """The advantages without what is only rounding."""
        return np.where(self.made.signs == 0, np.float32(0), self.made.values)


@dataclass(slots=True)
class AdvantageChanges:
    """How the advantages change.

    So many examples are kept: of the completions that turn, those whose advantage moves most. `turns` counts
    completions by direction before and after.
    """

    examples_kept: int
    completions: int = 0
    turns: Counter[Turn] = field(default_factory=Counter)
    _pairs: list[tuple[SingleArray, SingleArray]] = field(default_factory=list)
    _examples: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)

    def add(self, old: Pull, new: Pull) -> None:
        kept = old.card.kept & new.card.kept
        self._pairs.append((old.settled[kept], new.settled[kept]))
        for index, turn in enumerate(zip(old.directions, new.directions, strict=True)):
            self.turns[turn] += 1
            self.completions += 1
            if turn[0] != turn[1]:
                self._keep(old, new, index, turn)

    def _keep(self, old: Pull, new: Pull, index: int, turn: Turn) -> None:
        before, after = float(old.made.values[index]), float(new.made.values[index])
        # The count breaks ties, and keeps the first of equals.
        entry = (abs(after - before), -self.completions)
        if len(self._examples) >= self.examples_kept and (not self._examples or entry <= self._examples[0][:2]):
            return
        example = sample_record(old.card, index)
        if any(other["group"] == example["group"] and other["text"] == example["text"] for *_, other in self._examples):
            return
        example |= {
            "from": turn[0],
            "to": turn[1],
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
    def turned(self) -> int:
        """How many completions are pulled in another direction than before, or no longer, or for the first time."""
        return sum(count for (before, after), count in self.turns.items() if before != after)

    @property
    def reversed(self) -> int:
        """How many were pushed up and would be pushed down, or the other way round."""
        return self.turns[UP, DOWN] + self.turns[DOWN, UP]

    @property
    def correlation(self) -> float | None:
        """Pearson's correlation of old and new advantages over what is void on neither side; None where one is flat."""
        if not self._pairs:
            return None
        old, new = (np.concatenate(side).astype(np.float64) for side in zip(*self._pairs, strict=True))
        old, new = old - old.mean() if old.size else old, new - new.mean() if new.size else new
        norm = math.sqrt(float(old @ old)) * math.sqrt(float(new @ new))
        return max(-1.0, min(1.0, float(old @ new) / norm)) if norm > 0 and math.isfinite(norm) else None

    @property
    def examples(self) -> list[dict[str, Any]]:
        """Those whose advantage moves most, first."""
        return [example for _, _, example in sorted(self._examples, key=lambda entry: entry[:2], reverse=True)]

    def to_record(self) -> dict[str, Any]:
        return {
            "completions": self.completions,
            "turned": self.turned,
            "reversed": self.reversed,
            "correlation": self.correlation,
            "turns": [{"from": turn[0], "to": turn[1], "count": count} for turn, count in self.turns.most_common()],
            "examples": self.examples,
        }


def _parts(card: Scorecard, index: int) -> dict[str, float]:
    """What each term in force adds to the total of a sample; those without a value add nothing."""
    values = {term: card.values[term][index] for term in card.in_force}
    return {term: card.weights[term] * value for term, value in values.items() if value is not None}
