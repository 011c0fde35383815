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
FALSE_REJECTS, FALSE_ACCEPTS = "verified/noise/false_rejects", "verified/noise/false_accepts"
SHARE_OF_STEP = "verified/grader/share_of_step"
# Live groups of the rows that `learnable_rows` draws, and of all representative rows.
DRAWN_LIVE, FLOOR_LIVE = "verified/rows/drawn_live", "verified/groups/live"
# Expected success rates of the drawn rows: their mean, 10th and 90th percentile.
EXPECTED_RATES = tuple(f"verified/rows/expected_rate{bound}" for bound in ("", "_low", "_high"))
RETIRED, REVIVED = "verified/rows/retired", "verified/rows/revived"
NOISE_SECONDS = "verified/noise/seconds"


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
    for term, found in figures.terms.items():
        shadow = figures.agreements.get(term)
        own = _verdicts(found, figures.size) | {
            "driver_share": found.driver_share,
            "fails_where_primary_passes": None if shadow is None else shadow.fails_where_primary_passes,
            "kappa": None if shadow is None else shadow.kappa,
            "seconds_p50": found.seconds[0],
            "seconds_p95": found.seconds[1],
        }
        named |= {f"{term}/{name}": number for name, number in own.items()}
    return _logged(named | _of_batch(figures))


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
    named: Named = {
        f"{term}/{name}": number
        for term in card.terms
        for name, number in _verdicts(term_figures(card, term), len(card)).items()
    }
    return _logged(named | {"void": Estimate.share(sum(card.void), len(card)).mean})


def _verdicts(found: TermFigures, size: int) -> Named:
    shares: Named = {str(status): Estimate.share(found.statuses.get(status, 0), found.judged).mean for status in Status}
    return shares | {
        "score": found.scores.numbers.mean,
        "coverage": Estimate.share(found.covered, size).mean,
        "gated": Estimate.share(found.gated, found.verdicts).mean,
        "weight": found.weight,
    }


def _of_batch(figures: BatchFigures) -> Named:
    verdicts = sum(figures.blame.values())
    groups, live = sum(figures.outcomes.values()), figures.outcomes.get(GroupOutcome.LIVE, 0)
    lengths = figures.primary.lengths
    return {
        "void": Estimate.share(figures.void, figures.size).mean,
        "drivers/others": figures.others_share,
        **{f"blame/{blame}": Estimate.share(figures.blame.get(blame, 0), verdicts).mean for blame in Blame},
        **{f"length/mean_{status}": lengths[status].mean for status in STATUSES_OF_LENGTHS},
        "length/mean_truncated": figures.cut_tokens.mean,
        "length/correlation": figures.length_correlation,
        "answers/distinct": figures.primary.distinct_answers,
        "answers/given": figures.primary.answered.mean,
        "grader/latency_p50": figures.seconds[0],
        "grader/latency_p95": figures.seconds[1],
        **{f"groups/{kind}": Estimate.share(figures.outcomes.get(kind, 0), groups).mean for kind in GroupOutcome},
        "groups/secondary_only": Estimate.share(figures.secondary_groups, live).mean,
        "effective_completions": figures.effective.mean,
        **{f"pass_at_{k}": rate for k, rate in figures.pass_rates.items()},
    }


def _logged(named: Named) -> dict[str, float]:
    """Prefix names with `verified/`; replace unknown and infinite numbers by NaN, which TRL leaves out of its logs."""
    return {
        f"verified/{name}": number if number is not None and math.isfinite(number) else math.nan
        for name, number in named.items()
    }
