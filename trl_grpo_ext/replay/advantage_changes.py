"""Advantage changes: which completions get an advantage of the other sign."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.figures.advantages import Advantages, SingleArray
from trl_grpo_ext.replay.verdict_changes import sample_record
from trl_grpo_ext.scorecard import Scorecard

UP, NONE, DOWN, VOID = "up", "none", "down", "void"

Turn = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pull:
    """One side of a batch: its card, and where its advantages pull the completions.

    Attributes:
        card: The scorecard of n samples.
        made: Their advantages.
        signs: Their signs; 0 if an advantage is within rounding error.
    """

    card: Scorecard
    made: Advantages
    signs: npt.NDArray[np.int8] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signs", self.made.signs)

    def direction(self, index: int) -> str:
        """Where a completion is pulled."""
        if self.card.void[index]:
            return VOID
        return (NONE, UP, DOWN)[int(self.signs[index])]  # -1 is the last

    @property
    def settled(self) -> SingleArray:
        """The advantages without what is only rounding."""
        return np.where(self.signs == 0, np.float32(0), self.made.values)


@dataclass(slots=True)
class AdvantageChanges:
    """How the advantages change.

    Attributes:
        examples_kept: How many examples to keep: the completions whose advantage moves most among those that turn.
        completions: How many were compared.
        turns: How many by direction before and after: `up`, `down`, `none` or `void`.
    """

    examples_kept: int
    completions: int = 0
    turns: Counter[Turn] = field(default_factory=Counter)
    _pairs: list[tuple[SingleArray, SingleArray]] = field(default_factory=list)
    _examples: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)

    def add(self, old: Pull, new: Pull) -> None:
        """Take in a batch."""
        kept = ~(np.array(old.card.void, dtype=bool) | np.array(new.card.void, dtype=bool))
        self._pairs.append((old.settled[kept], new.settled[kept]))
        for index in range(len(old.card)):
            turn = (old.direction(index), new.direction(index))
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
        """Plain values, for JSON."""
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
