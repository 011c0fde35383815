"""Advantages of a batch by TRL's formulas, and how much of them comes from each term: the driver shares.

| aggregation | `scale_rewards` | advantage |
|---|---|---|
| `sum_then_normalize` | `group` | `(R - mean_g R) / (std_g R + 1e-4)` |
| `sum_then_normalize` | `batch` | `(R - mean_g R) / (std R + 1e-4)` |
| `sum_then_normalize` | `none` | `R - mean_g R` |
| `normalize_then_sum` | any | `(S - mean S) / (std S + 1e-4)` |

In TRL's AsyncGRPO, whose settings say `advantage_deviation: population`, the deviation of a group has n in the place of
n - 1, and 1e-8 is added to it.

R is a sample's total, g its group, and `S = sum_k w_k (v_k - mean_g v_k) / (std_g v_k + 1e-4)`, where v_k is its value
under term k. Deviations are those of samples (n - 1). Void samples are left out of means and deviations, and their
advantage is 0.

An advantage is a sum over the terms, `A_i = sum_k a_ki`, with

| setting | the part of term k |
|---|---|
| `sum_then_normalize`, `scale_rewards: group` | `a_ki = w_k (v_ki - mean_g v_k) / (std_g R + 1e-4)` |
| `sum_then_normalize`, `batch` or `none` | `a_ki = c w_k (v_ki - mean_g v_k)`, one c for the whole batch |
| `normalize_then_sum` | `a_ki = c w_k (v_ki - mean_g v_k) / (std_g v_k + 1e-4)` |

The share of term k is `sum_i a_ki A_i / sum_i A_i^2`, and the shares add up to 1; one c for all cancels. With groups of
one size this is `sum_g s_g w_k Cov_g(v_k, R) / sum_g s_g Var_g(R)`, with `s_g = 1 / (std_g R + 1e-4)^2` under `group`
and 1 under `batch` and `none`: scaled to one spread, each live group weighs as much as another. A term that pulls
against the total has a share below 0, and then another one above 1.

Shapes: N samples, K terms, G groups of M members. The contract test holds the formulas against TRL's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.figures.arrays import centred, deviation, mean
from trl_grpo_ext.scorecard import NO_SAMPLE, Flags, Floats, Scorecard
from trl_grpo_ext.support.text import did_you_mean

ScaleRewards = Literal["group", "batch", "none"]
Aggregation = Literal["sum_then_normalize", "normalize_then_sum"]
Deviation = Literal["sample", "population"]
CHOICES = {
    "scale_rewards": get_args(ScaleRewards),
    "multi_objective_aggregation": get_args(Aggregation),
    "advantage_deviation": get_args(Deviation),
}

SingleArray = npt.NDArray[np.float32]
Shares = Mapping[str, float]  # by term

EPSILON, OF_POPULATION = np.float32(1e-4), np.float32(1e-8)  # what TRL adds to a deviation before it divides by it
UNIT = np.float32(np.finfo(np.float32).eps)
ROUNDINGS = np.float32(8)  # a mean of a few members, and a difference to it, are off by a few units in the last place

# Parts that cancel leave rounding, whose shares would be noise; relative to the parts' own squares.
NOTHING_LEFT = 1e-20


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageSettings:
    """The trainer's settings that decide how rewards become advantages; the defaults are TRL's."""

    scale_rewards: ScaleRewards = "group"
    multi_objective_aggregation: Aggregation = "sum_then_normalize"
    advantage_deviation: Deviation = "sample"

    @classmethod
    def read(cls, settings: Mapping[str, Any], otherwise: AdvantageSettings | None = None) -> AdvantageSettings:
        """The settings among those of a run or a recipe.

        TRL's `true` and `false` for `scale_rewards` are understood, and `otherwise` holds where a key is missing or
        null.

        Raises:
            ValueError: for a value that TRL does not have.

        Examples:
            >>> AdvantageSettings.read({"scale_rewards": False, "beta": 0.04}).scale_rewards
            'none'
        """
        found = {name: settings[name] for name in CHOICES if settings.get(name) is not None}
        if isinstance(scale := found.get("scale_rewards"), bool):
            found["scale_rewards"] = "group" if scale else "none"
        for name, value in found.items():
            if value not in CHOICES[name]:
                raise ValueError(f"`{name}` has no value {value!r}. {did_you_mean(str(value), CHOICES[name])}")
        return replace(otherwise or cls(), **found)

    @property
    def lost(self) -> int:
        """The degrees of freedom that the deviation of a group loses."""
        return int(self.advantage_deviation == "sample")

    @property
    def epsilon(self) -> np.float32:
        """The number that TRL adds to the deviation of a group."""
        return EPSILON if self.lost else OF_POPULATION

    def __str__(self) -> str:
        if self.multi_objective_aggregation == "normalize_then_sum":
            return "normalize_then_sum"
        return f"sum_then_normalize, scale_rewards {self.scale_rewards}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Advantages:
    """The advantages of n samples."""

    values: SingleArray  # (N,) the advantages; 0 for void samples, and for samples whose group is unknown
    rounding: SingleArray  # (N,) how far single precision may be off: in a group of equals TRL's advantages may be 1e-3

    @property
    def signs(self) -> npt.NDArray[np.int8]:
        """-1, 0 or 1; 0 if the advantage is within rounding error."""
        return np.where(np.abs(self.values) > self.rounding, np.sign(self.values), 0).astype(np.int8)


def advantages_of(card: Scorecard, settings: AdvantageSettings) -> Advantages:
    """What TRL makes of a batch.

    What other reward functions than the mix's have added to the totals counts under `sum_then_normalize`. Under
    `normalize_then_sum` it is left out, since TRL normalises each of them and only their sum is recorded.

    Examples:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> card = mix.score([Sample(text=text, group=0) for text in ("42", "many", "few", "none")])
        >>> advantages_of(card, AdvantageSettings(scale_rewards="none")).values.tolist()
        [0.75, -0.25, -0.25, -0.25]
    """
    with np.errstate(all="ignore"):  # nothing is left to take a mean of: NaN, which TRL too makes 0 of
        if settings.multi_objective_aggregation == "normalize_then_sum":
            values, rounding = _normalized_then_summed(card)
        else:
            values, rounding = _summed_then_normalized(card, settings)
    return Advantages(values=_known(values), rounding=_known(rounding))


def _summed_then_normalized(card: Scorecard, settings: AdvantageSettings) -> tuple[SingleArray, SingleArray]:
    weighted = card.value_matrix.astype(np.float32) * card.weight_row.astype(np.float32)
    totals = np.nansum(weighted, axis=1, dtype=np.float32) + np.nan_to_num(card.other_column).astype(np.float32)
    totals[~card.kept] = np.nan
    grouped = card.by_group(totals)
    divisor = np.ones((len(grouped), 1), dtype=np.float32)
    if settings.scale_rewards == "group":
        divisor = deviation(grouped, settings.lost) + settings.epsilon
    elif settings.scale_rewards == "batch":
        divisor = np.full_like(divisor, deviation(totals[None, :])[0, 0] + EPSILON)
    rounding: SingleArray = ROUNDINGS * UNIT * _largest(grouped) / divisor
    return _by_sample(card, (grouped - mean(grouped)) / divisor), _by_sample(card, rounding)


def _normalized_then_summed(card: Scorecard) -> tuple[SingleArray, SingleArray]:
    sums, rounding = np.zeros(len(card), dtype=np.float32), np.zeros(len(card), dtype=np.float32)
    for column, weight in zip(card.value_matrix.astype(np.float32).T, card.weight_row.astype(np.float32), strict=True):
        grouped = card.by_group(column)
        divisor: SingleArray = deviation(grouped) + EPSILON
        sums += weight * _known(_by_sample(card, (grouped - mean(grouped)) / divisor))
        rounding += np.abs(weight) * _known(_by_sample(card, ROUNDINGS * UNIT * _largest(grouped) / divisor))
    sums[~card.kept] = np.nan
    whole = sums[None, :]
    divisor = deviation(whole) + EPSILON
    rounding += ROUNDINGS * UNIT * _largest(whole)[0]
    return ((whole - mean(whole)) / divisor)[0], (rounding[None, :] / divisor)[0]


def _by_sample(card: Scorecard, grouped: npt.NDArray[Any]) -> SingleArray:
    """The inverse of `Scorecard.by_group`; a (G, 1) array is the same for all members."""
    column = np.full(len(card), np.nan, dtype=np.float32)
    there = card.rows != NO_SAMPLE
    column[card.rows[there]] = np.broadcast_to(grouped, card.rows.shape)[there]
    return column


def _largest(values: SingleArray) -> SingleArray:
    """The largest magnitude along the last axis, as (..., 1); 0 where there is none."""
    largest: SingleArray = np.abs(np.nan_to_num(values)).max(axis=-1, keepdims=True, initial=0)
    return largest


def _known(values: SingleArray) -> SingleArray:
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def driver_shares(card: Scorecard, settings: AdvantageSettings) -> tuple[Shares, Shares]:
    """Each term's share of the advantages; what the shares lack of 1 is due to reward functions beside the mix.

    Returns:
        The shares over all groups, and over those in which the primary term differs. There are none if none of these
        groups is live, or if it cannot be told. A shadow's is 0.
    """
    if not card.live.any():
        return {}, {}
    with np.errstate(all="ignore"):  # of rewards too large to be squared nothing can be told
        if settings.multi_objective_aggregation == "normalize_then_sum":
            parts, whole = _normalized_columns(card)
        else:
            parts, whole = _summed(card, settings)
        everywhere = np.ones_like(card.live)
        return _shares(card, parts, whole, everywhere), _shares(card, parts, whole, card.primary_differs)


def _shares(card: Scorecard, parts: Floats, whole: Floats, groups: Flags) -> Shares:
    """The shares over some groups, (G,), of the parts, (K, G, M), that make up the whole, (G, M)."""
    parts, whole = parts[:, groups].reshape(len(parts), -1), whole[groups].ravel()
    squares = whole @ whole
    if not card.live[groups].any() or not squares > NOTHING_LEFT * (parts**2).sum():
        return {}
    shares = parts @ whole / squares
    return dict(zip(card.terms, shares.tolist(), strict=True)) if np.isfinite(shares).all() else {}


def _summed(card: Scorecard, settings: AdvantageSettings) -> tuple[Floats, Floats]:
    """The terms' parts of the advantages, (K, G, M), and their sum with that of other functions, (G, M)."""
    # TRL counts a missing value as 0 in the sum.
    counted = np.where(card.kept[:, None], np.nan_to_num(card.value_matrix) * card.weight_row, np.nan)
    others = card.by_group(card.other_column)
    own = centred(_columns_by_group(card, counted))
    whole = np.nan_to_num(own).sum(axis=0) + np.nan_to_num(centred(others))
    if settings.scale_rewards == "group":
        present = np.where(np.isnan(others), np.nan, whole)
        scale = 1 / (np.nan_to_num(deviation(present, settings.lost)) + float(settings.epsilon))
        own, whole = own * scale, whole * scale
    return np.nan_to_num(own), whole


def _normalized_columns(card: Scorecard) -> tuple[Floats, Floats]:
    """As `_summed`, where each column is brought to one spread before it is weighed."""
    columns = _columns_by_group(card, card.value_matrix)
    # A column with one value in a group has no deviation: NaN, which TRL's sum leaves out.
    own = np.nan_to_num(centred(columns) / (deviation(columns) + float(EPSILON)))
    parts = own * card.weight_row[:, None, None]
    return parts, _whole_by_advantages(card) if card.has_others else parts.sum(axis=0)


def _columns_by_group(card: Scorecard, columns: Floats) -> Floats:
    """The columns, (N, K), as (K, G, M); no terms are no columns."""
    return np.array([card.by_group(column) for column in columns.T]).reshape(-1, *card.rows.shape)


def _whole_by_advantages(card: Scorecard) -> Floats:
    """The sum of all normalised columns, those of other functions too, which only the advantages know.

    They are `A = S / (std S + 1e-4)`, so that `std A = std S / (std S + 1e-4)`, and 1 - std A tells the divisor.
    """
    if card.advantages is None:
        return np.full(card.rows.shape, np.nan)
    advantages = np.where(card.kept, np.array(card.advantages, dtype=float), np.nan)
    divisor = float(EPSILON) / (1 - deviation(advantages)[0])
    whole: Floats = np.nan_to_num(card.by_group(advantages * divisor))
    return whole
