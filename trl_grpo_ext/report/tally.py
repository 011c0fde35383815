"""The figures of a batch as sums and counts, so that batches of one step add up to those of the step.

A figure's key is a tuple: what it is, then of which term, status or kind of group.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from trl_grpo_ext.figures.batch_figures import Mean
from trl_grpo_ext.figures.drivers import driver_shares
from trl_grpo_ext.report.judged_batch import GROUP_KINDS, JudgedBatch, passes
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Status

Key = tuple[str, ...]
Tally = dict[Key, Mean]
Figures = Iterator[tuple[Key, Mean]]


def tally(batch: JudgedBatch, settings: Mapping[str, Any] = MappingProxyType({})) -> Tally:
    """The figures of a batch.

    `settings` are the run's, as `RecordedRun.settings` has them.

    | key | is the mean, or the share |
    |---|---|
    | `reward` | total of the samples that are not void |
    | `value, <term>` | value after shape and gate, before the weight |
    | `weight, <term>` | weight in force |
    | `status, <term>, <status>` | of the term's verdicts with that status |
    | `void` | of all samples that are void |
    | `cut` | of all samples, as far as it is known, that were cut at the length limit |
    | `pass` | of all samples that the primary term has judged that it passes |
    | `group, <kind>` | of all groups of that kind |
    | `driver, <term>` | of the advantages that is due to the term, see `figures/drivers.py` |
    | `length, <status>` | tokens of the samples of which the primary term says so; `length, all` of all |
    | `fooled, <shadow>` | of the samples that the primary term passes, and the shadow has judged, that it fails |

    Example:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"), weight=2.0)])
        >>> card = mix.score([Sample(text="42"), Sample(text="many")])
        >>> tally(JudgedBatch(card))["status", "digits", "correct"].value
        0.5
    """
    card = batch.card
    found = dict(_batch_figures(batch))
    for term in card.terms:
        found |= dict(_term_figures(card, term))
    found |= dict(_group_figures(batch)) | dict(_driver_figures(batch, settings))
    return found | _lengths(batch) | dict(_fooled(batch))


def added(left: Mapping[Key, Mean], right: Mapping[Key, Mean]) -> Tally:
    """The figures of two batches together.

    Example:
        >>> added({("reward",): Mean(1.0, 1)}, {("reward",): Mean(2.0, 3)})["reward",].value
        0.75
    """
    together = dict(left)
    for key, mean in right.items():
        so_far = together.get(key, Mean(0.0, 0.0))
        together[key] = Mean(so_far.total + mean.total, so_far.count + mean.count)
    return together


def _batch_figures(batch: JudgedBatch) -> Figures:
    card = batch.card
    totals = [total for total in card.totals if total is not None]
    cut = [sample.truncated for sample in card.samples if sample.truncated is not None]
    passed = [verdict for verdict in map(passes, batch.primary) if verdict is not None]
    yield ("reward",), Mean(sum(totals), len(totals))
    yield ("void",), Mean(sum(card.void), len(card))
    yield ("cut",), Mean(sum(cut), len(cut))
    yield ("pass",), Mean(sum(passed), len(passed))


def _term_figures(card: Scorecard, term: str) -> Figures:
    values = [value for value in card.values[term] if value is not None]
    statuses = Counter(verdict.status for verdict in card.verdicts[term] if verdict is not None)
    yield ("value", term), Mean(sum(values), len(values))
    yield ("weight", term), Mean(card.weights[term], 1)
    for status in Status:
        yield ("status", term, str(status)), Mean(statuses[status], statuses.total())


def _group_figures(batch: JudgedBatch) -> Figures:
    kinds = Counter(kind for kind in batch.kinds if kind is not None)
    for kind in GROUP_KINDS:
        yield ("group", kind), Mean(kinds[kind], kinds.total())


def _driver_figures(batch: JudgedBatch, settings: Mapping[str, Any]) -> Figures:
    for term, share in driver_shares(batch.arrays, settings).items():
        yield ("driver", term), Mean(share, 1) if math.isfinite(share) else Mean(0.0, 0)


def _lengths(batch: JudgedBatch) -> Tally:
    lengths: dict[str, list[int]] = defaultdict(list)
    for sample, verdict in zip(batch.card.samples, batch.primary, strict=True):
        if sample.completion_ids is not None:
            lengths["all"].append(len(sample.completion_ids))
            if verdict is not None:
                lengths[str(verdict.status)].append(len(sample.completion_ids))
    return {("length", kind): Mean(sum(found), len(found)) for kind, found in lengths.items()}


def _fooled(batch: JudgedBatch) -> Figures:
    for shadow in batch.shadows:
        pairs = zip(batch.primary, batch.card.verdicts[shadow], strict=True)
        judged = [passes(second) for first, second in pairs if passes(first) and passes(second) is not None]
        yield ("fooled", shadow), Mean(judged.count(False), len(judged))
