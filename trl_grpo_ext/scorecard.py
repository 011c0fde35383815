"""Scorecards: tables of one generation batch, samples by terms, the only input of checks, reports and replays.

A scorecard is a value, not a live object: adding other rewards or advantages makes a new scorecard. Derived columns,
such as void samples, primary verdicts, groups and group outcomes, are computed here only, once, on first access.

Shapes: N samples, K terms, G groups of at most M members.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress
from operator import is_
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.group_outcome import GroupOutcome, group_outcomes
from trl_grpo_ext.sample import Sample, without_pictures
from trl_grpo_ext.verdict import Verdict

Mode = Literal["train", "eval"]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

T = TypeVar("T")

NO_SAMPLE = -1


@dataclass(frozen=True, kw_only=True)
class Scorecard:
    """The verdicts and values of one batch: N samples under K terms.

    Attributes:
        samples: The N samples.
        weights: The weight in force of each of the K terms, by name, in the order of the mix.
        verdicts: By term, N verdicts; None where the term does not apply to the sample.
        values: By term, N values, the scores after shape and gate; None where there is no score.
        gated: By term, N flags: True if a closed gate has set the value.
        others: N weighted sums of the rewards of functions beside the mix: None where no function has scored the
            sample, NaN where the sample failed outside of the mix. None if there are no such functions or failures.
        advantages: N advantages computed by TRL; None before.
        mode: Whether the batch was made for training or for evaluation.
        drawn: N flags: True if the row was drawn for its expected learning signal (`learnable_rows`), so that its
            group says nothing of the data. None if no row was.

    Examples:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"), weight=2.0)])
        >>> card = mix.score([Sample(text="42", group=0), Sample(text="many", group=0)])
        >>> card.totals, card.void, [str(outcome) for outcome in card.outcomes]
        ((2.0, 0.0), (False, False), ['live'])
    """

    samples: tuple[Sample, ...]
    weights: Mapping[str, float]
    verdicts: Mapping[str, tuple[Verdict | None, ...]]
    values: Mapping[str, tuple[float | None, ...]]
    gated: Mapping[str, tuple[bool, ...]]
    others: tuple[float | None, ...] | None = None
    advantages: tuple[float, ...] | None = None
    mode: Mode = "train"
    drawn: tuple[bool, ...] | None = None

    @classmethod
    def without_terms(cls, samples: Sequence[Sample], mode: Mode) -> Scorecard:
        """Make the scorecard of samples that no term has judged yet."""
        return cls(
            samples=tuple(samples), weights={}, verdicts={}, values={}, gated={}, mode=mode
        )

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Term names, in mix order."""
        return tuple(self.weights)

    @property
    def step(self) -> int | None:
        """The optimizer step; None if unknown."""
        return self.samples[0].step if self.samples else None

    @cached_property
    def in_force(self) -> tuple[str, ...]:
        """Names of terms with nonzero weight."""
        return tuple(term for term, weight in self.weights.items() if weight != 0)

    @cached_property
    def void(self) -> tuple[bool, ...]:
        """N flags: True excludes the sample from training. Only this property makes that decision.

        A sample is void if a term in force applies to it and has no value, by the grader's or the data's fault; if it
        failed outside of the mix; or if nothing scored it: no term in force applies, and no other function gave a
        reward.
        """
        is_void = list(self.failed)
        for term in self.in_force:
            for row in self.unscored(term):
                is_void[row] = True
        others = self.others or (None,) * len(self)
        for row, (other, first) in enumerate(zip(others, self.primary_terms, strict=True)):
            if other is None and first is None:
                is_void[row] = True
        return tuple(is_void)

    @property
    def failed(self) -> tuple[bool, ...]:
        """N flags: True for a failure outside of the mix, such as an environment's or a function's NaN."""
        return tuple(
            other is not None and math.isnan(other)
            for other in self.others or (None,) * len(self)
        )

    def unscored(self, term: str) -> list[int]:
        """List the rows to which a term applies without having a value."""
        cells = zip(self.verdicts[term], self.values[term], strict=True)
        return [
            row
            for row, (verdict, value) in enumerate(cells)
            if verdict is not None and value is None
        ]

    @cached_property
    def totals(self) -> tuple[float | None, ...]:
        """N weighted sums, other reward functions included; None for void samples."""
        totals = [
            0.0 if other is None else other for other in self.others or (0.0,) * len(self)
        ]
        for term in self.in_force:
            weight = self.weights[term]
            for row, value in enumerate(self.values[term]):
                if value is not None:
                    totals[row] += weight * value
        return tuple(self._without_void(totals))

    def rewards(self, term: str) -> list[float | None]:
        """Return the term's values for TRL, with None for every void sample."""
        return self._without_void(self.values[term])

    def _without_void(self, column: Sequence[float | None]) -> list[float | None]:
        """Replace the numbers of void samples by None."""
        return [
            None if out else number for out, number in zip(self.void, column, strict=True)
        ]

    @cached_property
    def primary_terms(self) -> tuple[str | None, ...]:
        """N names of primary terms: the first term in force that applies to the sample; None if no term does."""
        first: list[str | None] = [None] * len(self)
        for term in reversed(self.in_force):
            for row, verdict in enumerate(self.verdicts[term]):
                if verdict is not None:
                    first[row] = term
        return tuple(first)

    @cached_property
    def primary(self) -> tuple[Verdict | None, ...]:
        """N verdicts of the primary terms."""
        return tuple(
            None if term is None else self.verdicts[term][row]
            for row, term in enumerate(self.primary_terms)
        )

    @cached_property
    def kept(self) -> Flags:
        """(N,) flags: True for samples that are not void."""
        return ~np.array(self.void, dtype=bool)

    @cached_property
    def value_matrix(self) -> Floats:
        """(N, K) values; NaN where there is no value, and for void samples."""
        # numpy converts None to NaN.
        columns = np.array([self.values[term] for term in self.terms], dtype=float)
        values = columns.reshape(len(self.terms), len(self)).T
        values[~self.kept] = np.nan
        return values

    @cached_property
    def weight_row(self) -> Floats:
        """(K,) weights in force."""
        return np.array(list(self.weights.values()), dtype=float)

    @cached_property
    def other_column(self) -> Floats:
        """(N,) rewards that functions beside the mix added to the totals; NaN for void samples."""
        others = np.nan_to_num(np.array(self.others or (None,) * len(self), dtype=float))
        return np.where(self.kept, others, np.nan)

    @cached_property
    def has_others(self) -> bool:
        """Whether a reward function beside the mix added anything."""
        return bool(np.nan_to_num(self.other_column).any())

    @cached_property
    def tokens(self) -> Floats:
        """(N,) completion lengths in tokens; NaN where unknown."""
        return np.array([sample.length for sample in self.samples], dtype=float)

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """G tuples with the rows of each group, in the order of the groups' first members.

        Samples of unknown group are in no tuple.
        """
        found: dict[int, list[int]] = {}
        for row, sample in enumerate(self.samples):
            if sample.group is not None:
                found.setdefault(sample.group, []).append(row)
        return tuple(map(tuple, found.values()))

    @cached_property
    def is_alone(self) -> Flags:
        """(N,) flags: True for samples of unknown group."""
        return np.array([sample.group is None for sample in self.samples], dtype=bool)

    @cached_property
    def rows(self) -> Rows:
        """(G, M) rows of each group's members, padded with `NO_SAMPLE`."""
        size = max(map(len, self.members), default=0)
        padded = [(*rows, *[NO_SAMPLE] * (size - len(rows))) for rows in self.members]
        return np.array(padded, dtype=np.intp).reshape(len(padded), size)

    @cached_property
    def outcomes(self) -> tuple[GroupOutcome, ...]:
        """G group outcomes: live, or why the group gives no learning signal."""
        rewards, weights = (
            np.column_stack([self.value_matrix, self.other_column]),
            np.append(self.weight_row, 1.0),
        )
        return group_outcomes(rewards, weights, self.primary, self.members)

    @cached_property
    def live(self) -> Flags:
        """(G,) flags: True for groups with a learning signal."""
        return np.array(
            [outcome is GroupOutcome.LIVE for outcome in self.outcomes], dtype=bool
        )

    @cached_property
    def primary_differs(self) -> Flags:
        """(G,) flags: True for groups whose members' primary values differ."""
        columns = {term: place for place, term in enumerate(self.terms)}
        values = self.value_matrix
        chosen = [
            np.nan if term is None else values[row, columns[term]]
            for row, term in enumerate(self.primary_terms)
        ]
        return self.differs(np.array(chosen, dtype=float))

    def differs(self, column: Floats) -> Flags:
        """Return (G,) flags: True for groups in which a column, (N,), has two different values."""
        values = self.by_group(column)
        highest = np.where(np.isnan(values), -np.inf, values).max(axis=1, initial=-np.inf)
        lowest = np.where(np.isnan(values), np.inf, values).min(axis=1, initial=np.inf)
        return np.asarray(highest > lowest)

    def by_group(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Arrange a float column, (N,), as (G, M); NaN where a group has fewer members than the largest."""
        if not len(self):
            return np.empty(self.rows.shape, dtype=column.dtype)
        return np.where(
            self.rows == NO_SAMPLE, column.dtype.type(np.nan), column[self.rows]
        )

    @cached_property
    def representative(self) -> Scorecard:
        """Leave out groups of drawn rows, so that groups represent the data; return this card if no row was drawn."""
        if self.drawn is None:
            return self
        kept = [not drawn for drawn in self.drawn]
        return _with_columns([self], lambda parts: tuple(compress(parts[0], kept)))

    def first(self, size: int) -> Scorecard:
        """Return a scorecard of the first `size` samples, or fewer if there are fewer."""
        return _with_columns([self], lambda parts: parts[0][:size])

    def without_pictures(self) -> Scorecard:
        """Replace pictures by short texts; return the same object if there is no picture."""
        samples = tuple(map(without_pictures, self.samples))
        return (
            self if all(map(is_, samples, self.samples)) else replace(self, samples=samples)
        )

    def with_advantages(self, advantages: Sequence[float]) -> Scorecard:
        """Return this scorecard with TRL's advantages, one per sample.

        Raises:
            ValueError: for a wrong number of advantages.
        """
        if len(advantages) != len(self):
            raise ValueError(
                f"{len(self)} samples need as many advantages, got {len(advantages)}."
            )
        return replace(self, advantages=tuple(advantages))

    def with_drawn(self, drawn: Sequence[bool] | None) -> Scorecard:
        """Return this scorecard with N flags of drawn rows; None for a batch without drawn rows."""
        return replace(
            self, drawn=tuple(drawn) if drawn is not None and any(drawn) else None
        )

    def with_others(self, others: Sequence[float | None]) -> Scorecard:
        """Return this scorecard with rewards of functions beside the mix, a weighted sum per sample (see `others`)."""
        return replace(self, others=tuple(others))

    def with_terms_as_others(self, names: Collection[str]) -> Scorecard:
        """Return this scorecard with some of its terms moved into `others`, the rewards beside the mix."""
        moved = [term for term in self.in_force if term in names]
        others: list[float | None] = [None] * len(self)
        for term in moved:
            for row, verdict in enumerate(self.verdicts[term]):
                if verdict is None:
                    continue
                value = self.values[term][row]
                reward = math.nan if value is None else self.weights[term] * value
                others[row] = (others[row] or 0.0) + reward
        kept = [term for term in self.terms if term not in names]
        return replace(
            self,
            weights=_of_terms(kept, self.weights),
            verdicts=_of_terms(kept, self.verdicts),
            values=_of_terms(kept, self.values),
            gated=_of_terms(kept, self.gated),
            others=tuple(others),
        ).with_failed(self.failed)

    def with_failed(self, failed: Sequence[bool]) -> Scorecard:
        """Return this scorecard with samples marked as failed outside of the mix, by N flags; empty for none."""
        if not any(failed):
            return self
        others = self.others or (None,) * len(self)
        return self.with_others(
            [math.nan if out else other for out, other in zip(failed, others, strict=True)]
        )


def _of_terms(terms: Iterable[str], columns: Mapping[str, T]) -> dict[str, T]:
    """Keep the columns of some terms."""
    return {term: columns[term] for term in terms}


def concatenate(cards: Sequence[Scorecard]) -> Scorecard:
    """Concatenate scorecards with equal terms, such as every rank's scorecard, in order."""
    return _with_columns(cards, lambda parts: tuple(chain.from_iterable(parts)))


def _with_columns(
    cards: Sequence[Scorecard], made_of: Callable[[list[Any]], tuple[Any, ...]]
) -> Scorecard:
    """Make a scorecard whose columns `made_of` computes from the columns of several cards with the same terms."""
    first = cards[0]
    made: dict[str, Any] = {}
    for name in ("samples", "others", "advantages", "drawn"):
        if getattr(first, name) is not None:
            made[name] = made_of([getattr(card, name) for card in cards])
    for name in ("verdicts", "values", "gated"):
        by_term = [getattr(card, name) for card in cards]
        made[name] = {}
        for term in first.terms:
            made[name][term] = made_of([columns[term] for columns in by_term])
    return replace(first, **made)
