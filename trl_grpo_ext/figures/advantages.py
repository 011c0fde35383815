"""Compute a batch's advantages by TRL's formulas, and each term's driver share: its part of the advantages.

| aggregation | `scale_rewards` | advantage |
|---|---|---|
| `sum_then_normalize` | `group` | `(R - mean_g R) / (std_g R + 1e-4)` |
| `sum_then_normalize` | `batch` | `(R - mean_g R) / (std R + 1e-4)` |
| `sum_then_normalize` | `none` | `R - mean_g R` |
| `normalize_then_sum` | any | `(S - mean S) / (std S + 1e-4)` |

TRL's AsyncGRPO (`advantage_deviation: population`) divides a group's squares by n instead of n - 1, and adds 1e-8
instead of 1e-4.

R is a sample's total reward, g its group, and `S = sum_k w_k (v_k - mean_g v_k) / (std_g v_k + 1e-4)`, where v_k is the
sample's value under term k and w_k the term's weight. Deviations are sample deviations (n - 1). Means and deviations
leave void samples out; a void sample's advantage is 0.

An advantage is a sum over terms, `A_i = sum_k a_ki`, with

| setting | the part of term k |
|---|---|
| `sum_then_normalize`, `scale_rewards: group` | `a_ki = w_k (v_ki - mean_g v_k) / (std_g R + 1e-4)` |
| `sum_then_normalize`, `batch` or `none` | `a_ki = c w_k (v_ki - mean_g v_k)`, one c for the whole batch |
| `normalize_then_sum` | `a_ki = c w_k (v_ki - mean_g v_k) / (std_g v_k + 1e-4)` |

The share of term k is `sum_i a_ki A_i / sum_i A_i^2`. All shares add up to 1; the common factor c cancels. For groups
of equal size the share is `sum_g s_g w_k Cov_g(v_k, R) / sum_g s_g Var_g(R)`, with `s_g = 1 / (std_g R + 1e-4)^2` under
`group` and 1 under `batch` and `none`: under `group`, all live groups have equal weight. A term that works against the
total has a negative share, and the other terms' shares then exceed 1 in sum.

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
# Term name to driver share.
Shares = Mapping[str, float]

# TRL's GRPO adds this to a sample deviation before it divides.
EPSILON = np.float32(1e-4)
# TRL's AsyncGRPO adds this to a population deviation.
OF_POPULATION = np.float32(1e-8)
UNIT = np.float32(np.finfo(np.float32).eps)
# Rounding error, in units of the last place, of a group's mean and of a difference from it.
ROUNDINGS = np.float32(8)

# Parts that cancel leave only rounding error, whose shares would be noise. Relative to the sum of squared parts.
NOTHING_LEFT = 1e-20


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageSettings:
    """Trainer settings that turn rewards into advantages; the defaults are TRL's.

    Attributes:
        scale_rewards: Divide by the deviation of the group, of the batch, or by nothing.
        multi_objective_aggregation: Sum the terms before or after normalization.
        advantage_deviation: Divide a group's squares by n - 1 (`sample`) or by n (`population`).
    """

    scale_rewards: ScaleRewards = "group"
    multi_objective_aggregation: Aggregation = "sum_then_normalize"
    advantage_deviation: Deviation = "sample"

    @classmethod
    def read(
        cls,
        settings: Mapping[str, Any],
        otherwise: AdvantageSettings | None = None,
    ) -> AdvantageSettings:
        """Select the advantage settings from a run's or a recipe's settings.

        TRL's `true` and `false` for `scale_rewards` are accepted. If a key is missing or null, `otherwise` gives its
        value, else TRL's default.

        Raises:
            ValueError: TRL does not have this value.

        Examples:
            >>> AdvantageSettings.read({"scale_rewards": False, "beta": 0.04}).scale_rewards
            'none'
        """
        found = {}
        for name, choices in CHOICES.items():
            value = settings.get(name)
            if name == "scale_rewards" and isinstance(value, bool):
                value = "group" if value else "none"
            if value is None:
                continue
            if value not in choices:
                near = did_you_mean(str(value), choices)
                raise ValueError(f"`{name}` has no value {value!r}. {near}")
            found[name] = value
        return replace(otherwise or cls(), **found)

    @property
    def lost(self) -> int:
        """Degrees of freedom subtracted in a group's deviation: 1 (`sample`) or 0 (`population`)."""
        return int(self.advantage_deviation == "sample")

    @property
    def epsilon(self) -> np.float32:
        """Number that TRL adds to a group's deviation before dividing."""
        return EPSILON if self.lost else OF_POPULATION

    def __str__(self) -> str:
        if self.multi_objective_aggregation == "normalize_then_sum":
            return "normalize_then_sum"
        return f"sum_then_normalize, scale_rewards {self.scale_rewards}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Advantages:
    """Advantages of N samples, with rounding errors."""

    # (N,) the advantages; 0 for void samples and for samples without a known group.
    values: SingleArray
    # (N,) error bound of single precision: with equal rewards in a group, TRL's advantages may be 1e-3 instead of 0.
    rounding: SingleArray

    @property
    def settled(self) -> SingleArray:
        """The advantages, (N,), with 0 for values within rounding error of 0."""
        exceeds_rounding = np.abs(self.values) > self.rounding
        return np.where(exceeds_rounding, self.values, np.float32(0))

    @property
    def signs(self) -> npt.NDArray[np.int8]:
        """Sign of each advantage, (N,): -1, 0 or 1; 0 within rounding error."""
        return np.sign(self.settled).astype(np.int8)


def advantages_of(card: Scorecard, settings: AdvantageSettings) -> Advantages:
    """Compute a batch's advantages as TRL does.

    Under `sum_then_normalize`, rewards from functions beside the mix count. Under `normalize_then_sum` they are left
    out: TRL normalizes each function separately, but only their sum is recorded.

    Examples:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> card = mix.score([Sample(text=text, group=0) for text in ("42", "many", "few", "none")])
        >>> advantages_of(card, AdvantageSettings(scale_rewards="none")).values.tolist()
        [0.75, -0.25, -0.25, -0.25]
    """
    # A group without values gives NaN, which becomes 0 as in TRL.
    with np.errstate(all="ignore"):
        if settings.multi_objective_aggregation == "normalize_then_sum":
            values, rounding = _normalized_then_summed(card)
        else:
            values, rounding = _summed_then_normalized(card, settings)
    return Advantages(values=_known(values), rounding=_known(rounding))


def _summed_then_normalized(
    card: Scorecard, settings: AdvantageSettings
) -> tuple[SingleArray, SingleArray]:
    values = card.value_matrix.astype(np.float32)
    weights = card.weight_row.astype(np.float32)
    others = np.nan_to_num(card.other_column).astype(np.float32)
    # TRL counts a missing value as 0 in the sum.
    of_terms = np.nansum(values * weights, axis=1, dtype=np.float32)
    totals = of_terms + others
    totals[~card.kept] = np.nan
    grouped = card.by_group(totals)
    divisor = np.ones((len(grouped), 1), dtype=np.float32)
    if settings.scale_rewards == "group":
        divisor = deviation(grouped, settings.lost) + settings.epsilon
    elif settings.scale_rewards == "batch":
        batch_deviation = deviation(totals[None, :])[0, 0]
        divisor = np.full_like(divisor, batch_deviation + EPSILON)
    advantages = (grouped - mean(grouped)) / divisor
    rounding = _rounding(grouped) / divisor
    return _by_sample(card, advantages), _by_sample(card, rounding)


def _normalized_then_summed(card: Scorecard) -> tuple[SingleArray, SingleArray]:
    values = card.value_matrix.astype(np.float32)
    weights = card.weight_row.astype(np.float32)
    sums = np.zeros(len(card), dtype=np.float32)
    rounding = np.zeros(len(card), dtype=np.float32)
    for column, weight in zip(values.T, weights, strict=True):
        grouped = card.by_group(column)
        divisor = deviation(grouped) + EPSILON
        normalized = _by_sample(card, (grouped - mean(grouped)) / divisor)
        column_rounding = _by_sample(card, _rounding(grouped) / divisor)
        sums += weight * _known(normalized)
        rounding += np.abs(weight) * _known(column_rounding)
    sums[~card.kept] = np.nan
    # One row of all samples: the second normalization is over the batch.
    whole = sums[None, :]
    divisor = deviation(whole) + EPSILON
    advantages = (whole - mean(whole)) / divisor
    rounding = (rounding + _rounding(whole)) / divisor
    return advantages[0], rounding[0]


def _by_sample(card: Scorecard, grouped: npt.NDArray[Any]) -> SingleArray:
    """Invert `Scorecard.by_group`: (G, M) to (N,); a (G, 1) array is broadcast to all members."""
    column = np.full(len(card), np.nan, dtype=np.float32)
    there = card.rows != NO_SAMPLE
    members = np.broadcast_to(grouped, card.rows.shape)
    column[card.rows[there]] = members[there]
    return column


def _rounding(values: SingleArray) -> SingleArray:
    """Bound the rounding error of differences from the mean along the last axis, as (..., 1); 0 without values."""
    sizes = np.abs(np.nan_to_num(values))
    largest: SingleArray = sizes.max(axis=-1, keepdims=True, initial=0)
    return ROUNDINGS * UNIT * largest


def _known(values: SingleArray) -> SingleArray:
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def driver_shares(card: Scorecard, settings: AdvantageSettings) -> tuple[Shares, Shares]:
    """Compute each term's share of the advantages; reward functions beside the mix account for the rest to 1.

    Returns:
        Shares over all groups, and shares over groups in which the primary term differs. A mapping is empty if none of
        its groups is live, or if the shares are unknown. A shadow term's share is 0.
    """
    if not card.live.any():
        return {}, {}
    # Rewards whose squares overflow give no shares.
    with np.errstate(all="ignore"):
        if settings.multi_objective_aggregation == "normalize_then_sum":
            parts, whole = _normalized_columns(card)
        else:
            parts, whole = _summed(card, settings)
        everywhere = np.ones_like(card.live)
        shares = _shares(card, parts, whole, everywhere)
        apart = _shares(card, parts, whole, card.primary_differs)
        return shares, apart


def _shares(card: Scorecard, parts: Floats, whole: Floats, groups: Flags) -> Shares:
    """Compute shares over the groups marked in `groups`, (G,), from parts, (K, G, M), and their whole, (G, M)."""
    if not card.live[groups].any():
        return {}
    parts = parts[:, groups].reshape(len(parts), -1)
    whole = whole[groups].ravel()
    squares = whole @ whole
    something_left = squares > NOTHING_LEFT * (parts**2).sum()
    if not something_left:
        return {}
    shares = parts @ whole / squares
    if not np.isfinite(shares).all():
        return {}
    return dict(zip(card.terms, shares.tolist(), strict=True))


def _summed(card: Scorecard, settings: AdvantageSettings) -> tuple[Floats, Floats]:
    """Compute the terms' parts of the advantages, (K, G, M), and the whole with other functions' rewards, (G, M)."""
    # TRL counts a missing value as 0 in the sum.
    weighted = np.nan_to_num(card.value_matrix) * card.weight_row
    counted = np.where(card.kept[:, None], weighted, np.nan)
    others = card.by_group(card.other_column)
    own = centred(_columns_by_group(card, counted))
    of_terms = np.nan_to_num(own).sum(axis=0)
    of_others = np.nan_to_num(centred(others))
    whole = of_terms + of_others
    if settings.scale_rewards == "group":
        present = np.where(np.isnan(others), np.nan, whole)
        spread = np.nan_to_num(deviation(present, settings.lost))
        scale = 1 / (spread + float(settings.epsilon))
        own = own * scale
        whole = whole * scale
    return np.nan_to_num(own), whole


def _normalized_columns(card: Scorecard) -> tuple[Floats, Floats]:
    """Compute parts and whole as `_summed` does, with each column normalized by group before weighting."""
    columns = _columns_by_group(card, card.value_matrix)
    divisor = deviation(columns) + float(EPSILON)
    # A column with one value in a group has no deviation: NaN, which TRL's sum leaves out.
    normalized = np.nan_to_num(centred(columns) / divisor)
    parts = normalized * card.weight_row[:, None, None]
    if card.has_others:
        return parts, _whole_by_advantages(card)
    return parts, parts.sum(axis=0)


def _columns_by_group(card: Scorecard, columns: Floats) -> Floats:
    """Rearrange columns, (N, K), by group: (K, G, M); without terms, K is 0."""
    grouped = np.array([card.by_group(column) for column in columns.T])
    # Without terms the array has no group axes yet.
    return grouped.reshape(-1, *card.rows.shape)


def _whole_by_advantages(card: Scorecard) -> Floats:
    """Recover the sum of all normalized columns, other functions' included, from the recorded advantages.

    The advantages are `A = S / (std S + 1e-4)`, so `std A = std S / (std S + 1e-4)`, and 1 - std A gives the divisor.
    """
    if card.advantages is None:
        return np.full(card.rows.shape, np.nan)
    recorded = np.array(card.advantages, dtype=float)
    advantages = np.where(card.kept, recorded, np.nan)
    spread = deviation(advantages)[0]
    divisor = float(EPSILON) / (1 - spread)
    whole: Floats = np.nan_to_num(card.by_group(advantages * divisor))
    return whole
