"""Beta posteriors of success rates, one a row, and the draw of rows whose groups are likely to be live.

A row's prior is the rate of its bucket, worth `strength` completions. The strength is fitted to the spread of rates
within buckets: where rows are all or nothing, one group tells nearly all of a row. Source: Qu et al. 2025 (MoPPS,
arXiv 2507.04632), which samples from Beta posteriors with a constant prior.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.figures.success_rates import Floats, expected_live_share, live_share

# Generation batches in which verdicts lose half of their weight, as the policy moves; ours.
HALF_LIFE = 30.0
# Rows that a draw compares at most: beyond, a draw would take seconds. Ours; benchmarks/learnable_rows.py has times.
CANDIDATES = 20_000
# The spread of rates before verdicts: a correlation of 1/3 within a row, counted as three groups. Ours.
SPREAD = (1.0, 3.0)
# Bounds of the fitted correlation within a row; ours. At 0 a prior would be worth infinitely many completions.
LEAST_SPREAD, MOST_SPREAD = 0.05, 0.9
# A seen row is retired if its next group is live with a smaller chance; ours.
RETIRED = 0.25
# Keeps Beta distributions proper.
TINY = 1e-3

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """The rows of a generation batch, a row per group."""

    # G different row numbers: first the rows of the floor, then the drawn rows.
    rows: tuple[int, ...]
    # Number of rows of the floor.
    floor: int
    # The expected success rates of the drawn rows, in [0, 1].
    expected: tuple[float, ...]
    # Number of seen rows whose next group is hardly live.
    retired: int
    # Number of rows that were retired at the draw before, and are no more.
    revived: int

    @property
    def is_drawn(self) -> tuple[bool, ...]:
        """G flags: False for rows of the floor."""
        return tuple(place >= self.floor for place in range(len(self.rows)))


@dataclass(kw_only=True)
class Posteriors:
    """What is known of each row's success rate.

    Equal states draw equal rows: a draw depends on the state and the seed alone.

    Attributes:
        buckets: (size,) the bucket of each row, counted from 0.
        group_size: The number of completions per group.
        floor: The share of groups that walk over all rows in turn, in (0, 1].
        seed: The seed of all draws.

    Examples:
        >>> posteriors = Posteriors(buckets=np.zeros(100, dtype=int), group_size=8, floor=0.25, seed=0)
        >>> draw = posteriors.draw(8)
        >>> len(set(draw.rows)), draw.floor
        (8, 2)
        >>> posteriors.learn(draw.rows, right=np.full(8, 4.0), judged=np.full(8, 8.0))
    """

    buckets: Integers
    group_size: int
    floor: float
    seed: int
    # Generation batches so far, and groups so far.
    batch: int = 0
    groups: int = 0
    # Rows of the floor so far.
    walked: int = 0
    # (size,) successes and failures, as they stood at batch `at`.
    right: Floats = field(init=False)
    wrong: Floats = field(init=False)
    at: Floats = field(init=False)
    # (size,) rows whose latest group had no verdict: only the floor meets them.
    unjudged: Flags = field(init=False)
    # (size,) rows that were retired at the latest draw.
    retired: Flags = field(init=False)
    # (buckets, 2) successes and failures by bucket.
    rates: Floats = field(init=False)
    # (2,) spread of the rates within buckets: squared deviations, and their maximum.
    spread: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.right, self.wrong, self.at = np.zeros(self.size), np.zeros(self.size), np.zeros(self.size)
        self.unjudged, self.retired = np.zeros(self.size, dtype=bool), np.zeros(self.size, dtype=bool)
        self.rates = np.ones((int(self.buckets.max(initial=0)) + 1, 2))
        self.spread = np.array(SPREAD)

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.buckets)

    @property
    def strength(self) -> float:
        """How many completions the prior is worth: 0.1 where rows are all or nothing, 19 where they hardly differ."""
        within = float(np.clip(self.spread[0] / self.spread[1], LEAST_SPREAD, MOST_SPREAD))
        return 1 / within - 1

    def learn(self, rows: Sequence[int], *, right: Floats, judged: Floats) -> None:
        """Learn the verdicts of different rows: successes and judged completions of each; partial ones are fractions.

        A row without a judged completion keeps its posterior.
        """
        numbers = np.asarray(rows, dtype=np.int64)
        self.unjudged[numbers] = judged == 0
        numbers, right, judged = numbers[judged > 0], right[judged > 0], judged[judged > 0]
        keep = 0.5 ** (1 / HALF_LIFE)
        self.rates = 1 + (self.rates - 1) * keep
        self._learn_spread(numbers, right, judged, keep)
        self.right[numbers], self.wrong[numbers] = self._faded(numbers)
        self.right[numbers] += right
        self.wrong[numbers] += judged - right
        self.at[numbers] = self.batch
        np.add.at(self.rates, self.buckets[numbers], np.stack([right, judged - right], axis=1))

    def learn_earlier(self, rows: Sequence[int], *, right: Floats, judged: Floats) -> None:
        """Learn the verdicts of an earlier run, or of a probe: they weigh half."""
        self.learn(rows, right=right, judged=judged)
        self.at[np.asarray(rows, dtype=np.int64)] -= HALF_LIFE

    def draw(self, groups: int) -> Draw:
        """Choose different rows for so many groups, at most `size`: rows of the floor, then rows likely to be live."""
        self.batch += 1
        floor = self._walk(self._floor_of(groups))
        revived = self._retire()
        generator = np.random.default_rng([self.seed, self.batch])
        best, expected = self._best(generator, groups - len(floor), besides=floor)
        return Draw(
            rows=(*floor, *best.tolist()),
            floor=len(floor),
            expected=tuple(expected.tolist()),
            retired=int(self.retired.sum()),
            revived=revived,
        )

    def _faded(self, rows: Integers) -> tuple[Floats, Floats]:
        """Return successes and failures of rows, with the weight that they have now."""
        keep = 0.5 ** ((self.batch - self.at[rows]) / HALF_LIFE)
        return self.right[rows] * keep, self.wrong[rows] * keep

    def _learn_spread(self, rows: Integers, right: Floats, judged: Floats, keep: float) -> None:
        """Learn how far rates differ within buckets, by the moments of the beta-binomial distribution."""
        self.spread = SPREAD + (self.spread - SPREAD) * keep
        several = judged > 1
        right, judged = right[several], judged[several]
        mean = (self.rates[:, 0] / self.rates.sum(axis=1))[self.buckets[rows[several]]]
        most = mean * (1 - mean)
        self.spread[0] += float(((right / judged - mean) ** 2 - most / judged).sum())
        self.spread[1] += float((most * (1 - 1 / judged)).sum())

    def _floor_of(self, groups: int) -> int:
        """Return how many of the next groups belong to the floor, so that its share holds over all batches.

        It is rounded up, so that the first batch has a floor.
        """
        before, self.groups = self.groups, self.groups + groups
        return self._floor_up_to(self.groups) - self._floor_up_to(before)

    def _floor_up_to(self, groups: int) -> int:
        # 25 groups at a floor of 0.28 are 7.000000000000001.
        return math.ceil(round(groups * self.floor, 6))

    def _walk(self, count: int) -> list[int]:
        """Take the next rows of the walk over all rows; each walk has an order of its own."""
        found: dict[int, None] = {}
        order, walk = np.empty(0, dtype=np.int64), -1
        while len(found) < count:
            if self.walked // self.size != walk:
                walk = self.walked // self.size
                order = np.random.default_rng([self.seed, 1, walk]).permutation(self.size)
            # A row may end one walk and begin the next: then this batch has it once.
            found.setdefault(int(order[self.walked % self.size]))
            self.walked += 1
        return list(found)

    def _retire(self) -> int:
        """Note the rows whose next group is hardly live; return the number of rows that no longer are."""
        seen = np.flatnonzero(self.right + self.wrong)
        right, wrong, _ = self._posterior(seen)
        before = self.retired.copy()
        self.retired[seen] = expected_live_share(right, wrong, self.group_size) < RETIRED
        return int((before & ~self.retired).sum())

    def _posterior(self, rows: Integers, prior: Floats | None = None) -> tuple[Floats, Floats, Floats]:
        """Return the parameters of rows' Beta posteriors, and their means; by default with the mean of each prior."""
        right, wrong = self._faded(rows)
        if prior is None:
            prior = (self.rates[:, 0] / self.rates.sum(axis=1))[self.buckets[rows]]
        right = right + self.strength * prior + TINY
        wrong = wrong + self.strength * (1 - prior) + TINY
        return right, wrong, right / (right + wrong)

    def _best(self, generator: np.random.Generator, count: int, *, besides: Sequence[int]) -> tuple[Integers, Floats]:
        """Draw a success rate for each candidate; return the rows with the most live groups, and expected rates."""
        rows = np.arange(self.size)
        if self.size > CANDIDATES:
            most = min(self.size, max(CANDIDATES, 2 * (count + len(besides))))
            rows = np.sort(generator.choice(self.size, most, replace=False, shuffle=False))
        bucket = self.buckets[rows]
        # The rate of a bucket that is little known is drawn too: else its rows would look known.
        right, wrong, _ = self._posterior(rows, generator.beta(self.rates[bucket, 0], self.rates[bucket, 1]))
        chance = live_share(generator.beta(right, wrong), self.group_size)
        chance[self.unjudged[rows]] = -1
        chance[np.isin(rows, besides)] = -2
        best = rows[np.argsort(-chance, kind="stable")[:count]]
        return best, self._posterior(best)[2]

    def state(self) -> dict[str, Any]:
        """Return the state as arrays, for `restore`; rows that were never met take no place."""
        met = np.flatnonzero((self.right + self.wrong > 0) | self.unjudged)
        return {
            "counts": np.array([self.size, self.batch, self.groups, self.walked]),
            "rows": met,
            "right": self.right[met],
            "wrong": self.wrong[met],
            "at": self.at[met],
            "unjudged": self.unjudged[met],
            "retired": self.retired[met],
            "rates": self.rates,
            "spread": self.spread,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state.

        Raises:
            ValueError: the state is of other data, or of other buckets.
        """
        size, *counts = (int(count) for count in state["counts"])
        if size != self.size or len(state["rates"]) != len(self.rates):
            raise ValueError(
                f"The checkpoint knows {size} rows in {len(state['rates'])} buckets, and train_dataset has {self.size} "
                f"rows in {len(self.rates)}: resume with the data and the rows_by of the run, or begin a new run."
            )
        self.batch, self.groups, self.walked = counts
        rows = state["rows"]
        for name in ("right", "wrong", "at", "unjudged", "retired"):
            column = np.zeros_like(getattr(self, name))
            column[rows] = state[name]
            setattr(self, name, column)
        self.rates, self.spread = np.array(state["rates"]), np.array(state["spread"])
