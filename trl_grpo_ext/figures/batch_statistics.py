"""All figures of one generation batch, by the names in `docs/metrics.md`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trl_grpo_ext.figures.batch import Batch, batch_of
from trl_grpo_ext.figures.diversity import answered, distinct_answers
from trl_grpo_ext.figures.drivers import driver_shares
from trl_grpo_ext.figures.grader_time import verdict_seconds
from trl_grpo_ext.figures.lengths import length_correlation, mean_lengths
from trl_grpo_ext.figures.pass_at_k import ks_for, pass_rates
from trl_grpo_ext.figures.shadows import shadow_agreements
from trl_grpo_ext.figures.teaching_groups import effective_completions, secondary_only
from trl_grpo_ext.figures.verdict_mix import blame_shares, verdict_mix
from trl_grpo_ext.group_outcome import outcome_shares
from trl_grpo_ext.scorecard import Scorecard


def batch_statistics(card: Scorecard, settings: Mapping[str, Any]) -> dict[str, float]:
    """What a scorecard comes to; NaN for what is not known.

    Args:
        card: A whole batch, of all ranks, with advantages if they are known.
        settings: The run's, as `run_settings` or `RecordedRun.settings` give them. TRL's defaults stand in for those
            that are missing.

    Returns:
        A finite number or NaN by name. The names depend on the terms, the mode and the group size only, so that every
        step of a run has the same.

    Example:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> card = mix.score([Sample(text=text, group=0) for text in ("42", "7", "many", "1")])
        >>> figures = batch_statistics(card, {"num_generations": 4})
        >>> figures["verified/groups/live"], figures["verified/pass_at_1"], figures["verified/digits/driver_share"]
        (1.0, 0.75, 1.0)
    """
    # Whatever a hostile value does to the arithmetic ends as NaN below, not as a warning in the user's console.
    with np.errstate(all="ignore"):
        batch = batch_of(card)
        figures = verdict_mix(card) | _by_term(batch, settings) | _by_batch(batch, settings)
    return {name: float(value) if math.isfinite(value) else math.nan for name, value in figures.items()}


def _by_term(batch: Batch, settings: Mapping[str, Any]) -> dict[str, float]:
    shares = driver_shares(batch, settings)
    shadows = shadow_agreements(batch)
    figures = {}
    for term in batch.card.terms:
        shadow = shadows.get(term)
        median, high = verdict_seconds(batch.card, term)
        figures[f"verified/{term}/driver_share"] = shares[term]
        figures[f"verified/{term}/fails_where_primary_passes"] = (
            shadow.fails_where_primary_passes if shadow else math.nan
        )
        figures[f"verified/{term}/kappa"] = shadow.kappa if shadow else math.nan
        figures[f"verified/{term}/seconds_p50"] = median
        figures[f"verified/{term}/seconds_p95"] = high
    return figures | {"verified/drivers/others": _rest(shares, exact=not batch.has_others)}


def _rest(shares: Mapping[str, float], *, exact: bool) -> float:
    """What the terms lack of the whole."""
    rest = 1 - math.fsum(shares.values())
    return 0.0 if exact and not math.isnan(rest) else rest


def _by_batch(batch: Batch, settings: Mapping[str, Any]) -> dict[str, float]:
    card = batch.card
    median, high = verdict_seconds(card)
    return (
        {f"verified/blame/{blame}": share for blame, share in blame_shares(card).items()}
        | outcome_shares(batch.outcomes)
        | {
            "verified/groups/secondary_only": secondary_only(batch),
            "verified/effective_completions": effective_completions(batch),
        }
        | {f"verified/length/mean_{kind}": tokens for kind, tokens in mean_lengths(batch).items()}
        | {
            "verified/length/correlation": length_correlation(batch),
            "verified/answers/distinct": distinct_answers(batch),
            "verified/answers/given": answered(batch),
            "verified/grader/latency_p50": median,
            "verified/grader/latency_p95": high,
        }
        | {f"verified/pass_at_{k}": rate for k, rate in pass_rates(batch, ks_for(settings, card.mode)).items()}
    )
