"""A batch: a scorecard as arrays. Shapes: N samples, K terms, G groups of at most M members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.group_outcome import GroupOutcome, group_outcomes, judgements, primary_verdicts
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Verdict

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
RowArray = npt.NDArray[np.intp]

NO_SAMPLE = -1

# Sums in another order differ by this much and no more, relative to what was summed.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """A scorecard's columns.

    Attributes:
        card: The scorecard, of all ranks.
        weights: (K,) the weights in force.
        values: (N, K) the values after shape and gate; NaN where there is none, and for void samples.
        others: (N,) what reward functions beside the mix have added to the totals; NaN for void samples.
        kept: (N,) which samples are not void.
        tokens: (N,) the completions' lengths; NaN where nobody knows.
        rows: (G, M) the rows of each group's members, `NO_SAMPLE` after the last; samples without a group's number are
            in none.
        primary: N verdicts, each of the first term in force that applies to the sample.
        outcomes: G, what each group has to teach.

    Example:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> batch = batch_of(mix.score([Sample(text=text, group=0) for text in ("42", "many")]))
        >>> batch.by_group(batch.values[:, 0]).tolist(), str(batch.outcomes[0])
        ([[1.0, 0.0]], 'live')
    """

    card: Scorecard
    weights: FloatArray
    values: FloatArray
    others: FloatArray
    kept: BoolArray
    tokens: FloatArray
    rows: RowArray
    primary: tuple[Verdict | None, ...]
    outcomes: tuple[GroupOutcome, ...]

    @property
    def has_others(self) -> bool:
        """Whether reward functions beside the mix have added anything."""
        return bool(np.nan_to_num(self.others).any())

    @property
    def totals(self) -> FloatArray:
        """(N,) the weighted sums; NaN for void samples."""
        return _floats(self.card.totals)

    @property
    def live(self) -> BoolArray:
        """(G,) which groups have something to teach."""
        return np.array([outcome is GroupOutcome.LIVE for outcome in self.outcomes], dtype=bool)

    @property
    def primary_differs(self) -> BoolArray:
        """(G,) which groups have two members that the primary term gives different values.

        The primary term of a sample is the first in force that applies to it.
        """
        values = np.full(len(self.card), np.nan)
        for column, (term, weight) in reversed(list(enumerate(self.card.weights.items()))):
            if weight != 0:
                applies = np.array([verdict is not None for verdict in self.card.verdicts[term]], dtype=bool)
                values = np.where(applies, self.values[:, column], values)
        return self.differs(values)

    def differs(self, column: FloatArray) -> BoolArray:
        """(G,) in which groups a column with one value a sample has two different ones."""
        values = self.by_group(column)
        highest = np.where(np.isnan(values), -np.inf, values).max(axis=1, initial=-np.inf)
        lowest = np.where(np.isnan(values), np.inf, values).min(axis=1, initial=np.inf)
        return np.asarray(highest > lowest)

    def by_group(self, column: FloatArray) -> FloatArray:
        """A column with one value a sample, as (G, M); NaN where a group has fewer members than the largest."""
        return np.where(self.rows == NO_SAMPLE, np.nan, column[self.rows])


def batch_of(card: Scorecard) -> Batch:
    """The scorecard as arrays."""
    kept = ~np.array(card.void, dtype=bool)
    weights = np.array(list(card.weights.values()), dtype=float)
    values = np.array([_floats(card.values[term]) for term in card.terms]).reshape(len(card.terms), len(card)).T
    values[~kept] = np.nan
    others = _others(_floats(card.totals), np.nan_to_num(values) @ weights, kept)
    rows = _rows_by_group([sample.group for sample in card.samples])
    members = [group[group != NO_SAMPLE] for group in rows]
    rewards = np.column_stack([values, others])
    return Batch(
        card=card,
        weights=weights,
        values=values,
        others=others,
        kept=kept,
        tokens=_floats([None if s.completion_ids is None else len(s.completion_ids) for s in card.samples]),
        rows=rows,
        primary=tuple(primary_verdicts(card)),
        outcomes=tuple(group_outcomes(rewards, np.append(weights, 1.0), judgements(card), members)),
    )


def _floats(column: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in column], dtype=float)


def _others(totals: FloatArray, own: FloatArray, kept: BoolArray) -> FloatArray:
    """What is left of the totals without the mix's own part; 0, not rounding, where the mix is alone."""
    rest = totals - own
    rounding = np.abs(rest) <= ROUNDING * (1 + np.abs(own))
    return np.where(kept, np.where(rounding, 0.0, np.nan_to_num(rest)), np.nan)


def _rows_by_group(groups: Sequence[int | None]) -> RowArray:
    """The rows of each group, in the order of the groups' first members."""
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        if group is not None:
            members.setdefault(group, []).append(row)
    size = max(map(len, members.values()), default=0)
    padded = [rows + [NO_SAMPLE] * (size - len(rows)) for rows in members.values()]
    return np.array(padded, dtype=np.intp).reshape(len(padded), size)
