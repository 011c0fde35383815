"""Advantages of a batch, by TRL's formulas, from nothing but a scorecard. In single precision, as TRL has them.

| aggregation | `scale_rewards` | advantage |
|---|---|---|
| `sum_then_normalize` | `group` | `(R - mean_g R) / (std_g R + 1e-4)` |
| `sum_then_normalize` | `batch` | `(R - mean_g R) / (std R + 1e-4)` |
| `sum_then_normalize` | `none` | `R - mean_g R` |
| `normalize_then_sum` | any | `(S - mean S) / (std S + 1e-4)` |

R is a sample's total, g its group, and `S = sum_k w_k (v_k - mean_g v_k) / (std_g v_k + 1e-4)`, where v_k is its value
under term k. Deviations are those of samples (n - 1). Void samples are left out of means and deviations, and their
advantage is 0. Shapes are written with N for samples, K for terms, G for groups and M for members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.figures.batch import NO_SAMPLE, Batch
from trl_grpo_ext.support.names import did_you_mean

ScaleRewards = Literal["group", "batch", "none"]
Aggregation = Literal["sum_then_normalize", "normalize_then_sum"]

SingleArray = npt.NDArray[np.float32]

EPSILON = np.float32(1e-4)  # what TRL adds to a deviation
UNIT = np.float32(np.finfo(np.float32).eps)
ROUNDINGS = np.float32(8)  # a mean of a few members, and a difference to it, are off by a few units in the last place


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageSettings:
    """The trainer's settings that decide how rewards become advantages; the defaults are TRL's."""

    scale_rewards: ScaleRewards = "group"
    multi_objective_aggregation: Aggregation = "sum_then_normalize"

    @classmethod
    def read(cls, settings: Mapping[str, Any], otherwise: AdvantageSettings | None = None) -> AdvantageSettings:
        """The settings among those of a run or a recipe.

        Args:
            settings: Any mapping; TRL's `true` and `false` for `scale_rewards` are understood.
            otherwise: What holds where a key is missing or null.

        Raises:
            ValueError: for a value that TRL does not have.

        Example:
            >>> AdvantageSettings.read({"scale_rewards": False, "beta": 0.04}).scale_rewards
            'none'
        """
        default = otherwise or cls()
        scale = settings.get("scale_rewards")
        if isinstance(scale, bool):
            scale = "group" if scale else "none"
        aggregation = settings.get("multi_objective_aggregation")
        return cls(
            scale_rewards=_choice("scale_rewards", scale, get_args(ScaleRewards), default.scale_rewards),
            multi_objective_aggregation=_choice(
                "multi_objective_aggregation",
                aggregation,
                get_args(Aggregation),
                default.multi_objective_aggregation,
            ),
        )

    def __str__(self) -> str:
        if self.multi_objective_aggregation == "normalize_then_sum":
            return "normalize_then_sum"
        return f"sum_then_normalize, scale_rewards {self.scale_rewards}"


def _choice(name: str, value: Any, valid: tuple[Any, ...], default: Any) -> Any:
    if value is None:
        return default
    if value not in valid:
        raise ValueError(f"`{name}` has no value {value!r}. {did_you_mean(str(value), valid)}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Advantages:
    """The advantages of n samples.

    Attributes:
        values: (N,) the advantages; 0 for void samples, and for samples of which nobody knows the group.
        rounding: (N,) how far single precision may be off: in a group of equals TRL's advantages may be 1e-3.
    """

    values: SingleArray
    rounding: SingleArray

    @property
    def signs(self) -> npt.NDArray[np.int8]:
        """-1, 0 or 1; 0 for what is no more than rounding."""
        return np.where(np.abs(self.values) > self.rounding, np.sign(self.values), 0).astype(np.int8)


def advantages_of(batch: Batch, settings: AdvantageSettings) -> Advantages:
    """What TRL makes of a batch.

    What other reward functions than the mix's have added to the totals counts under `sum_then_normalize`. Under
    `normalize_then_sum` it is left out, since TRL normalises each of them and only their sum is recorded.

    Example:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.figures.batch import batch_of
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> card = mix.score([Sample(text=text, group=0) for text in ("42", "many", "few", "none")])
        >>> advantages_of(batch_of(card), AdvantageSettings(scale_rewards="none")).values.tolist()
        [0.75, -0.25, -0.25, -0.25]
    """
    with np.errstate(all="ignore"):  # nothing is left to take a mean of: NaN, which TRL too makes 0 of
        if settings.multi_objective_aggregation == "normalize_then_sum":
            values, rounding = _normalized_then_summed(batch)
        else:
            values, rounding = _summed_then_normalized(batch, settings.scale_rewards)
    return Advantages(values=_known(values), rounding=_known(rounding))


def _summed_then_normalized(batch: Batch, scale: ScaleRewards) -> tuple[SingleArray, SingleArray]:
    weighted = batch.values.astype(np.float32) * batch.weights.astype(np.float32)
    totals = np.nansum(weighted, axis=1, dtype=np.float32) + np.nan_to_num(batch.others).astype(np.float32)
    totals[~batch.kept] = np.nan
    grouped = _by_group(batch, totals)
    divisor = np.ones((len(grouped), 1), dtype=np.float32)
    if scale == "group":
        divisor = _deviation(grouped) + EPSILON
    elif scale == "batch":
        divisor = np.full_like(divisor, _deviation(totals[None, :])[0, 0] + EPSILON)
    rounding = ROUNDINGS * UNIT * _largest(grouped) / divisor
    return _by_sample(batch, (grouped - _mean(grouped)) / divisor), _by_sample(batch, rounding)


def _normalized_then_summed(batch: Batch) -> tuple[SingleArray, SingleArray]:
    sums, rounding = np.zeros(len(batch.card), dtype=np.float32), np.zeros(len(batch.card), dtype=np.float32)
    for column, weight in zip(batch.values.astype(np.float32).T, batch.weights.astype(np.float32), strict=True):
        grouped = _by_group(batch, column)
        divisor = _deviation(grouped) + EPSILON
        sums += weight * _known(_by_sample(batch, (grouped - _mean(grouped)) / divisor))
        rounding += np.abs(weight) * _known(_by_sample(batch, ROUNDINGS * UNIT * _largest(grouped) / divisor))
    sums[~batch.kept] = np.nan
    whole = sums[None, :]
    divisor = _deviation(whole) + EPSILON
    rounding += ROUNDINGS * UNIT * _largest(whole)[0]
    return ((whole - _mean(whole)) / divisor)[0], (rounding[None, :] / divisor)[0]


def _by_group(batch: Batch, column: SingleArray) -> SingleArray:
    """A column, (N,), as (G, M), NaN where there is no member."""
    return np.where(batch.rows == NO_SAMPLE, np.float32(np.nan), column[batch.rows])


def _by_sample(batch: Batch, grouped: SingleArray) -> SingleArray:
    """The inverse of `_by_group`; a (G, 1) array is the same for all members."""
    column = np.full(len(batch.card), np.nan, dtype=np.float32)
    there = batch.rows != NO_SAMPLE
    column[batch.rows[there]] = np.broadcast_to(grouped, batch.rows.shape)[there]
    return column


def _mean(values: SingleArray) -> SingleArray:
    """Means along the last axis, NaN left out, as (..., 1)."""
    counts = (~np.isnan(values)).sum(axis=-1, keepdims=True).astype(np.float32)
    means: SingleArray = np.nansum(values, axis=-1, keepdims=True, dtype=np.float32) / counts
    return means


def _deviation(values: SingleArray) -> SingleArray:
    """Sample deviations along the last axis, as (..., 1); NaN for fewer than two values."""
    counts = (~np.isnan(values)).sum(axis=-1, keepdims=True).astype(np.float32)
    variance = _mean((values - _mean(values)) ** 2)
    return np.sqrt(variance * np.where(counts > 1, counts / (counts - 1), np.float32(np.nan)))


def _largest(values: SingleArray) -> SingleArray:
    """The largest magnitude along the last axis, as (..., 1); 0 where there is none."""
    largest: SingleArray = np.abs(np.nan_to_num(values)).max(axis=-1, keepdims=True, initial=0)
    return largest


def _known(values: SingleArray) -> SingleArray:
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
