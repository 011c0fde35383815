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
LEAST_SPREAD = 0.05
MOST_SPREAD = 0.9
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
        self.right = np.zeros(self.size)
        self.wrong = np.zeros(self.size)
        self.at = np.zeros(self.size)
        self.unjudged = np.zeros(self.size, dtype=bool)
        self.retired = np.zeros(self.size, dtype=bool)
        buckets = int(self.buckets.max(initial=0)) + 1
        self.rates = np.ones((buckets, 2))
        self.spread = np.array(SPREAD)

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.buckets)

    @property
    def strength(self) -> float:
        """The prior's worth in completions: 0.1 where rows are all or nothing, 19 where rows hardly differ."""
        squares, most = self.spread
        correlation = float(np.clip(squares / most, LEAST_SPREAD, MOST_SPREAD))
        return 1 / correlation - 1

    def learn(self, rows: Sequence[int], *, right: Floats, judged: Floats) -> None:
        """Learn the verdicts of different rows: successes and judged completions of each; partial ones are fractions.

        A row without a judged completion keeps its posterior.
        """
        numbers = np.asarray(rows, dtype=np.int64)
        is_judged = judged > 0
        self.unjudged[numbers] = ~is_judged
        numbers = numbers[is_judged]
        right = right[is_judged]
        judged = judged[is_judged]
        wrong = judged - right
        # One batch has passed since the rates and the spread were learned.
        keep = 0.5 ** (1 / HALF_LIFE)
        self.rates = 1 + (self.rates - 1) * keep
        self._learn_spread(numbers, right, judged, keep)
        earlier_right, earlier_wrong = self._faded(numbers)
        self.right[numbers] = earlier_right + right
        self.wrong[numbers] = earlier_wrong + wrong
        self.at[numbers] = self.batch
        # `np.add.at` adds all rows of a bucket; `+=` would add one of them.
        np.add.at(self.rates, self.buckets[numbers], np.stack([right, wrong], axis=1))

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
        """Return successes and failures of rows, with their present weights."""
        batches_since = self.batch - self.at[rows]
        keep = 0.5 ** (batches_since / HALF_LIFE)
        return self.right[rows] * keep, self.wrong[rows] * keep

    def _learn_spread(
        self, rows: Integers, right: Floats, judged: Floats, keep: float
    ) -> None:
        """Learn how far rates differ within buckets, by the moments of the beta-binomial distribution."""
        self.spread = SPREAD + (self.spread - SPREAD) * keep
        # A single completion tells nothing of a row's own rate.
        several = judged > 1
        right = right[several]
        judged = judged[several]
        mean = self._bucket_means()[self.buckets[rows[several]]]
        # The variance of the rates if each were 0 or 1.
        most = mean * (1 - mean)
        squares = (right / judged - mean) ** 2
        # Chance alone spreads the observed rates by this much.
        by_chance = most / judged
        self.spread[0] += float((squares - by_chance).sum())
        self.spread[1] += float((most * (1 - 1 / judged)).sum())

    def _bucket_means(self) -> Floats:
        """Return the success rate of each bucket, (buckets,)."""
        means: Floats = self.rates[:, 0] / self.rates.sum(axis=1)
        return means

    def _floor_of(self, groups: int) -> int:
        """Count the floor's groups among the next groups: the floor's share holds over all batches.

        It is rounded up, so that the first batch has a floor.
        """
        before = self._floor_up_to(self.groups)
        self.groups += groups
        return self._floor_up_to(self.groups) - before

    def _floor_up_to(self, groups: int) -> int:
        # 25 groups at a floor of 0.28 are 7.000000000000001.
        return math.ceil(round(groups * self.floor, 6))

    def _walk(self, count: int) -> list[int]:
        """Return the next `count` rows of endless walks over all rows, each walk in another order."""
        found: list[int] = []
        order = np.empty(0, dtype=np.int64)
        walk = None
        while len(found) < count:
            current_walk, place = divmod(self.walked, self.size)
            if current_walk != walk:
                walk = current_walk
                order = np.random.default_rng([self.seed, 1, walk]).permutation(self.size)
            row = int(order[place])
            # A row may end one walk and begin the next: then this batch has it once.
            if row not in found:
                found.append(row)
            self.walked += 1
        return found

    def _retire(self) -> int:
        """Note the rows whose next group is hardly live; return the number of rows that no longer are."""
        seen = np.flatnonzero(self.right + self.wrong)
        right, wrong = self._posterior(seen)
        before = self.retired.copy()
        self.retired[seen] = expected_live_share(right, wrong, self.group_size) < RETIRED
        revived = before & ~self.retired
        return int(revived.sum())

    def _posterior(
        self, rows: Integers, prior: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return the two parameters of rows' Beta posteriors; by default with the mean of each prior."""
        right, wrong = self._faded(rows)
        if prior is None:
            prior = self._bucket_means()[self.buckets[rows]]
        right = right + self.strength * prior + TINY
        wrong = wrong + self.strength * (1 - prior) + TINY
        return right, wrong

    def _best(
        self,
        generator: np.random.Generator,
        count: int,
        *,
        besides: Sequence[int],
    ) -> tuple[Integers, Floats]:
        """Draw a success rate for each candidate; return the rows with the most live groups, and expected rates."""
        rows = self._candidates(generator, count + len(besides))
        buckets = self.buckets[rows]
        # The rate of a bucket that is little known is drawn too: else its rows would look known.
        prior = generator.beta(self.rates[buckets, 0], self.rates[buckets, 1])
        right, wrong = self._posterior(rows, prior)
        rates = generator.beta(right, wrong)
        chance = live_share(rates, self.group_size)
        # Behind all other rows, and taken only if there are too few: rows without verdict, then rows of the floor.
        chance[self.unjudged[rows]] = -1
        chance[np.isin(rows, besides)] = -2
        order = np.argsort(-chance, kind="stable")
        best = rows[order[:count]]
        right, wrong = self._posterior(best)
        return best, right / (right + wrong)

    def _candidates(self, generator: np.random.Generator, needed: int) -> Integers:
        """Return the rows that a draw compares, in order: all rows, or a random part of many rows."""
        if self.size <= CANDIDATES:
            return np.arange(self.size)
        most = min(self.size, max(CANDIDATES, 2 * needed))
        return np.sort(generator.choice(self.size, most, replace=False, shuffle=False))

    def state(self) -> dict[str, Any]:
        """Return the state as arrays, for `restore`; rows that were never met take no place."""
        is_judged = self.right + self.wrong > 0
        met = np.flatnonzero(is_judged | self.unjudged)
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
        size, batch, groups, walked = map(int, state["counts"])
        if size != self.size or len(state["rates"]) != len(self.rates):
            raise ValueError(
                f"The checkpoint knows {size} rows in {len(state['rates'])} buckets, and train_dataset has {self.size} "
                f"rows in {len(self.rates)}: resume with the data and the rows_by of the run, or begin a new run."
            )
        self.batch = batch
        self.groups = groups
        self.walked = walked
        rows = state["rows"]
        for name in ("right", "wrong", "at", "unjudged", "retired"):
            column = np.zeros_like(getattr(self, name))
            column[rows] = state[name]
            setattr(self, name, column)
        self.rates = np.array(state["rates"])
        self.spread = np.array(state["spread"])
