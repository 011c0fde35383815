"""Name a batch's figures for logging; `docs/metrics_reference.md` lists the names."""

from __future__ import annotations

import math

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.terms import TermFigures, term_figures
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Estimate
from trl_grpo_ext.verdict import Blame, Status

Named = dict[str, float | None]

STATUSES_OF_LENGTHS = (Status.CORRECT, Status.INCORRECT, Status.UNPARSEABLE)

# Names of the noise meter's figures.
FALSE_REJECTS = "verified/noise/false_rejects"
FALSE_ACCEPTS = "verified/noise/false_accepts"
NOISE_SECONDS = "verified/noise/seconds"
SHARE_OF_STEP = "verified/grader/share_of_step"
# Of the sampled trained values with a gradient: the share that an optimizer step changes, a mean over steps.
WEIGHTS_CHANGED = "verified/weights/changed"
# The sampled values' distance from where this session found them, as a part of their norm.
WEIGHTS_MOVED = "verified/weights/moved"
# Live groups of the rows that `learnable_rows` draws, and of all representative rows.
DRAWN_LIVE = "verified/rows/drawn_live"
FLOOR_LIVE = "verified/groups/live"
# Expected success rates of the drawn rows: their mean, 10th and 90th percentile.
EXPECTED_RATES = (
    "verified/rows/expected_rate",
    "verified/rows/expected_rate_low",
    "verified/rows/expected_rate_high",
)
RETIRED = "verified/rows/retired"
REVIVED = "verified/rows/revived"


def logged_figures(figures: BatchFigures) -> dict[str, float]:
    """Convert figures to named numbers for TRL's logs; unknown or infinite figures become NaN.

    Names depend only on terms, mode and group size, so all steps of a run log equal names.

    Examples:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.figures.reduction import reduce_card
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> card = mix.score([Sample(text=text, group=0) for text in ("42", "7", "many", "1")])
        >>> logged = logged_figures(reduce_card(card, {"num_generations": 4}))
        >>> logged["verified/groups/live"], logged["verified/pass_at_1"], logged["verified/digits/driver_share"]
        (1.0, 0.75, 1.0)
    """
    named: Named = {}
    for term in figures.terms:
        for name, number in _of_term(figures, term).items():
            named[f"{term}/{name}"] = number
    named.update(_of_batch(figures))
    return _logged(named)


def _of_term(figures: BatchFigures, term: str) -> Named:
    found = figures.terms[term]
    named = _of_verdicts(found, figures.size)
    named["driver_share"] = found.driver_share
    # Every step logs every name: the agreement of a term in force is unknown.
    named["fails_where_primary_passes"] = None
    named["kappa"] = None
    shadow = figures.agreements.get(term)
    if shadow is not None:
        named["fails_where_primary_passes"] = shadow.fails_where_primary_passes
        named["kappa"] = shadow.kappa
    named["seconds_p50"], named["seconds_p95"] = found.seconds
    return named


def verdict_figures(card: Scorecard) -> dict[str, float]:
    """Compute figures from verdicts alone, for plain TRL trainers, which know neither groups nor advantages.

    | name | is the share, or the mean |
    |---|---|
    | `verified/<term>/<status>` | of the term's verdicts with that status; those that a gate left out are not counted |
    | `verified/<term>/score` | raw score, before shape, gate and weight |
    | `verified/<term>/coverage` | of all samples that the term has a value for |
    | `verified/<term>/gated` | of the term's verdicts whose value a closed gate has set |
    | `verified/<term>/weight` | weight in force |
    | `verified/void` | of all samples that are void |
    """
    named: Named = {}
    for term in card.terms:
        found = _of_verdicts(term_figures(card, term), len(card))
        for name, number in found.items():
            named[f"{term}/{name}"] = number
    named["void"] = _share(sum(card.void), len(card))
    return _logged(named)


def _of_verdicts(found: TermFigures, size: int) -> Named:
    named: Named = {}
    for status in Status:
        named[str(status)] = _share(found.statuses.get(status, 0), found.judged)
    named["score"] = found.scores.numbers.mean
    named["coverage"] = _share(found.covered, size)
    named["gated"] = _share(found.gated, found.verdicts)
    named["weight"] = found.weight
    return named


def _of_batch(figures: BatchFigures) -> Named:
    primary = figures.primary
    verdicts = sum(figures.blame.values())
    groups = sum(figures.outcomes.values())
    live = figures.outcomes.get(GroupOutcome.LIVE, 0)
    named: Named = {
        "void": _share(figures.void, figures.size),
        "drivers/others": figures.others_share,
        "length/mean_truncated": figures.cut_tokens.mean,
        "length/correlation": figures.length_correlation,
        "answers/distinct": primary.distinct_answers,
        "answers/given": primary.answered.mean,
        "grader/latency_p50": figures.seconds[0],
        "grader/latency_p95": figures.seconds[1],
        "groups/secondary_only": _share(figures.secondary_groups, live),
        "effective_completions": figures.effective.mean,
    }
    for blame in Blame:
        named[f"blame/{blame}"] = _share(figures.blame.get(blame, 0), verdicts)
    for status in STATUSES_OF_LENGTHS:
        named[f"length/mean_{status}"] = primary.lengths[status].mean
    for outcome in GroupOutcome:
        named[f"groups/{outcome}"] = _share(figures.outcomes.get(outcome, 0), groups)
    for k, rate in figures.pass_rates.items():
        named[f"pass_at_{k}"] = rate
    return named


def _share(part: int, whole: int) -> float | None:
    return Estimate.share(part, whole).mean


def _logged(named: Named) -> dict[str, float]:
    """Prefix names with `verified/`; replace unknown and infinite numbers by NaN, which TRL leaves out of its logs."""
    logged = {}
    for name, number in named.items():
        known = math.nan
        if number is not None and math.isfinite(number):
            known = number
        logged[f"verified/{name}"] = known
    return logged
