"""The figures of a batch by the names under which they are logged. `docs/metrics_reference.md` lists them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from trl_grpo_ext.figures.primary import Agreement
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.terms import TermFigures, term_figures
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Estimate, score_interval
from trl_grpo_ext.verdict import Blame, Status

Named = Iterator[tuple[str, float | None]]

# What the noise meter logs.
FALSE_REJECTS, FALSE_ACCEPTS = "verified/noise/false_rejects", "verified/noise/false_accepts"
SHARE_OF_STEP = "verified/grader/share_of_step"
NOISE_SECONDS = "verified/noise/seconds"


def logged_figures(figures: BatchFigures) -> dict[str, float]:
    """A finite number, or NaN for what is unknown, by name.

    The names depend on the terms, the mode and the group size only, so that every step of a run has the same.

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
    named: dict[str, float | None] = {}
    for term, found in figures.terms.items():
        own = {**dict(_verdicts(found, figures.size)), **dict(_advantages(found, figures.agreements.get(term)))}
        named |= {f"{term}/{name}": number for name, number in own.items()}
    named |= dict(_of_batch(figures))
    return {f"verified/{name}": _number(number) for name, number in named.items()}


def verdict_figures(card: Scorecard) -> dict[str, float]:
    """What a scorecard tells by itself, for plain TRL trainers, which know neither groups nor advantages.

    | name | is the share, or the mean |
    |---|---|
    | `verified/<term>/<status>` | of the term's verdicts with that status; those that a gate left out are not counted |
    | `verified/<term>/score` | raw score, before shape, gate and weight |
    | `verified/<term>/coverage` | of all samples that the term has a value for |
    | `verified/<term>/gated` | of the term's verdicts whose value a closed gate has set |
    | `verified/<term>/weight` | weight in force |
    | `verified/void` | of all samples that are void |
    """
    named = {
        f"verified/{term}/{name}": _number(number)
        for term in card.terms
        for name, number in _verdicts(term_figures(card, term), len(card))
    }
    return named | {"verified/void": _number(_share(sum(card.void), len(card)))}


def rate_figures(name: str, rate: Estimate) -> dict[str, float]:
    """A share of independent cases, and as `<name>_low` and `<name>_high` its 95 % interval; NaN for no cases.

    Examples:
        >>> rate_figures("wrong", Estimate.share(0, 100))
        {'wrong': 0.0, 'wrong_low': 0.0, 'wrong_high': 0.03699349820698566}
    """
    found = score_interval(rate, rate, in_unit=True)
    numbers = (math.nan,) * 3 if found is None else (found.mean, found.low, found.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), numbers, strict=True))


def _verdicts(found: TermFigures, size: int) -> Named:
    for status in Status:
        yield str(status), _share(found.statuses.get(status, 0), found.judged)
    yield "score", found.scores.mean
    yield "coverage", _share(found.covered, size)
    yield "gated", _share(found.gated, found.verdicts)
    yield "weight", found.weight


def _advantages(found: TermFigures, shadow: Agreement | None) -> Named:
    yield "driver_share", found.driver_share
    yield "fails_where_primary_passes", None if shadow is None else shadow.fails_where_primary_passes
    yield "kappa", None if shadow is None else shadow.kappa
    yield from zip(("seconds_p50", "seconds_p95"), found.seconds, strict=True)


def _of_batch(figures: BatchFigures) -> Named:
    yield "void", _share(figures.void, figures.size)
    yield "drivers/others", figures.others_share
    verdicts = sum(figures.blame.values())
    for blame in Blame:
        yield f"blame/{blame}", _share(figures.blame.get(blame, 0), verdicts)
    for status in (Status.CORRECT, Status.INCORRECT, Status.UNPARSEABLE):
        yield f"length/mean_{status}", figures.primary.lengths[status].mean
    yield "length/mean_truncated", figures.cut_tokens.mean
    yield "length/correlation", figures.length_correlation
    yield "answers/distinct", figures.primary.distinct_answers
    yield "answers/given", figures.primary.answered.mean
    yield from zip(("grader/latency_p50", "grader/latency_p95"), figures.seconds, strict=True)
    groups, live = sum(figures.outcomes.values()), figures.outcomes.get(GroupOutcome.LIVE, 0)
    for kind in GroupOutcome:
        yield f"groups/{kind}", _share(figures.outcomes.get(kind, 0), groups)
    yield "groups/secondary_only", _share(figures.secondary_groups, live)
    yield "effective_completions", figures.effective.mean
    for k, rate in figures.pass_rates.items():
        yield f"pass_at_{k}", rate


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _number(number: float | None) -> float:
    """The number; NaN, which TRL leaves out of its logs, for what is unknown or not finite."""
    return number if number is not None and math.isfinite(number) else math.nan
