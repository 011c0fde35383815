"""What checks keep of a generation batch: counts and means, no text, so that a window of batches stays small."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trl_grpo_ext.diagnostics.statistics.batch import NO_SAMPLE, Batch, BoolArray, batch_of
from trl_grpo_ext.diagnostics.statistics.diversity import distinct_answers
from trl_grpo_ext.diagnostics.statistics.drivers import driver_shares
from trl_grpo_ext.diagnostics.statistics.grader_time import verdict_seconds
from trl_grpo_ext.diagnostics.statistics.shadows import Agreement, shadow_agreements
from trl_grpo_ext.diagnostics.text_facts import TextFacts, text_facts
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.scorecard import Mode, Scorecard
from trl_grpo_ext.verdict import Blame, Status, Verdict

FOOLED = "passes_naively"  # the reason that `UnitTestVerifier` gives with `second_opinion`


@dataclass(frozen=True, slots=True, kw_only=True)
class TermFacts:
    """What a term has found in a batch.

    Attributes:
        weight: The weight in force.
        verdicts: How many it gave.
        statuses: How many of each status.
        failures: Of the verdicts that are not the policy's fault, or that timed out, how many of each
            `(blame, status, reason)`.
        unread: Of the unparseable verdicts, how many of each reason.
        answers: The verdicts with an extracted answer.
        compared: Those of them where the primary verdict has one too.
        same: Those of them where it is the same one.
        fooled: The completions that it failed and a naive grader would have passed.
        gated: The values that a closed gate has set.
        value_sum: The sum of its values, over `valued` samples.
        valued: The samples with a value that are not void.
        groups: The groups with two or more values.
        flat_groups: Those of them in which all values are the same.
        seconds_p95: The 95th percentile of the wall time of a verdict; None for no verdicts.
        driver_share: Its share of the advantages in groups where the primary term differs; None if there are none.
    """

    weight: float
    verdicts: int
    statuses: Mapping[Status, int]
    failures: Mapping[tuple[Blame, Status, str], int]
    unread: Mapping[str, int]
    answers: int
    compared: int
    same: int
    fooled: int
    gated: int
    value_sum: float
    valued: int
    groups: int
    flat_groups: int
    seconds_p95: float | None
    driver_share: float | None

    @property
    def in_force(self) -> bool:
        """Whether it counts towards the reward now."""
        return self.weight != 0


@dataclass(frozen=True, slots=True)
class Moments:
    """What the mean of some numbers, and how sure it is, can be told from; those of batches add up.

    Attributes:
        count: How many there are.
        total: Their sum.
        squares: The sum of their squares.
    """

    count: int
    total: float
    squares: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryFacts:
    """What the primary verdicts say: of each sample, that of the first term in force that applies to it.

    Attributes:
        judged: The samples with a score.
        right: Those of them that are correct.
        scores: Their scores.
        group_scores: The mean scores of the groups: siblings are alike, so these are what chance is told from.
        cut, cut_right: The completions that were cut at the length limit, and those of them that are right.
        ended, ended_right: The same of those that came to an end. Samples of which nobody knows are in neither.
        unread_ended: The unparseable ones among those that were not cut.
        distinct_answers: Different answers a group, a mean; None where no answer is extracted.
    """

    judged: int
    right: int
    scores: Moments
    group_scores: Moments
    cut: int
    cut_right: int
    ended: int
    ended_right: int
    unread_ended: int
    distinct_answers: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """What checks keep of a batch.

    Attributes:
        step: The optimizer step; None if nobody knows it.
        mode: Training or evaluation.
        size: The samples.
        void: Those that are void.
        rewards: The totals of the others.
        group_rewards: Their means by group.
        tokens: The mean length in tokens; None if nobody knows.
        group_tokens: The mean lengths of the groups.
        terms: By name, in the order of the mix.
        primary: What the primary verdicts say.
        outcomes: How many groups of each kind.
        misread_groups: The all-wrong groups in which most members were cut, could not be read or timed out: whose
            fault is known already.
        secondary_groups: The live groups in which the primary term does not differ.
        secondary_share: Their share of the sum of absolute advantages; None before advantages are known, or if all
            are 0.
        agreements: Each shadow against the primary verdicts.
        text: What the text of a few completions is like.
    """

    step: int | None
    mode: Mode
    size: int
    void: int
    rewards: Moments
    group_rewards: Moments
    tokens: float | None
    group_tokens: Moments
    terms: Mapping[str, TermFacts]
    primary: PrimaryFacts
    outcomes: Mapping[GroupOutcome, int]
    misread_groups: int
    secondary_groups: int
    secondary_share: float | None
    agreements: Mapping[str, Agreement]
    text: TextFacts

    @property
    def groups(self) -> int:
        """The groups that could be judged."""
        return sum(count for outcome, count in self.outcomes.items() if outcome is not GroupOutcome.VOID)


def batch_facts(card: Scorecard, settings: Mapping[str, Any]) -> BatchFacts:
    """The facts of a scorecard, of all ranks.

    Args:
        card: A scorecard, with advantages if they are known.
        settings: The run's, as `run_settings` or `RecordedRun.settings` give them.

    Example:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> facts = batch_facts(mix.score([Sample(text=text, group=0) for text in ("42", "many")]), {})
        >>> facts.primary.right, facts.terms["digits"].flat_groups, facts.tokens
        (1, 0, None)
    """
    with np.errstate(all="ignore"):
        batch = batch_of(card)
        differs = _primary_differs(batch)
        live = batch.live
        shares = driver_shares(_only_groups(batch, differs), settings)
        return BatchFacts(
            step=card.step,
            mode=card.mode,
            size=len(card),
            void=sum(card.void),
            rewards=_moments([total for total in card.totals if total is not None]),
            group_rewards=_group_moments(card, card.totals),
            tokens=_known(float(np.nanmean(batch.tokens))) if np.isfinite(batch.tokens).any() else None,
            group_tokens=_group_moments(card, [_known(float(length)) for length in batch.tokens]),
            terms={term: _term_facts(batch, term, _known(shares[term])) for term in card.terms},
            primary=_primary_facts(batch),
            outcomes=Counter(batch.outcomes),
            misread_groups=_misread_groups(batch),
            secondary_groups=int((live & ~differs).sum()),
            secondary_share=_share_of_advantages(batch, live & ~differs),
            agreements=shadow_agreements(batch),
            text=text_facts(card.samples),
        )


def _term_facts(batch: Batch, term: str, driver_share: float | None) -> TermFacts:
    card = batch.card
    column = card.terms.index(term)
    verdicts = [verdict for verdict in card.verdicts[term] if verdict is not None]
    pairs = [
        (own.answer, primary.answer)
        for own, primary in zip(card.verdicts[term], batch.primary, strict=True)
        if own is not None and primary is not None and own.answer is not None and primary.answer is not None
    ]
    values = batch.values[:, column]
    by_group = batch.by_group(values)
    several = np.isfinite(by_group).sum(axis=1) > 1
    flat = _spread(by_group) <= 0
    return TermFacts(
        weight=card.weights[term],
        verdicts=len(verdicts),
        statuses=Counter(verdict.status for verdict in verdicts),
        failures=Counter(
            (verdict.blame, verdict.status, verdict.reason)
            for verdict in verdicts
            if verdict.score is None or verdict.status is Status.TIMEOUT
        ),
        unread=Counter(verdict.reason for verdict in verdicts if verdict.status is Status.UNPARSEABLE),
        answers=sum(verdict.answer is not None for verdict in verdicts),
        compared=len(pairs),
        same=sum(own == primary for own, primary in pairs),
        fooled=sum(would_fool(verdict) for verdict in verdicts),
        gated=sum(card.gated[term]),
        value_sum=float(np.nansum(values)),
        valued=int(np.isfinite(values).sum()),
        groups=int(several.sum()),
        flat_groups=int((several & flat).sum()),
        seconds_p95=_known(verdict_seconds(card, term)[1]),
        driver_share=driver_share,
    )


def _primary_facts(batch: Batch) -> PrimaryFacts:
    counts: Counter[str] = Counter()
    scores: list[float] = []
    for sample, verdict in zip(batch.card.samples, batch.primary, strict=True):
        if verdict is None or verdict.score is None:
            continue
        right = verdict.status is Status.CORRECT
        ending = {True: "cut", False: "ended", None: "unknown"}[sample.truncated]
        counts.update({"judged": 1, "right": right, ending: 1, f"{ending}_right": right})
        counts["unread_ended"] += verdict.status is Status.UNPARSEABLE and sample.truncated is not True
        scores.append(verdict.score)
    names = ("judged", "right", "cut", "cut_right", "ended", "ended_right", "unread_ended")
    return PrimaryFacts(
        scores=_moments(scores),
        group_scores=_group_moments(batch.card, [None if one is None else one.score for one in batch.primary]),
        distinct_answers=_known(distinct_answers(batch)),
        **{name: counts[name] for name in names},
    )


def would_fool(verdict: Verdict) -> bool:
    """Whether the completion failed, but a naive grader would have passed it.

    Example:
        >>> would_fool(Verdict(status=Status.INCORRECT, score=0.0, reason="passes_naively"))
        True
    """
    if verdict.status is Status.CORRECT:
        return False
    return verdict.reason == FOOLED or verdict.details.get("naive_grader") == "passed"


def _misread_groups(batch: Batch) -> int:
    """The all-wrong groups whose members were mostly not understood."""
    count = 0
    for rows, outcome in zip(batch.rows, batch.outcomes, strict=True):
        members = [int(row) for row in rows if row != NO_SAMPLE]
        count += outcome is GroupOutcome.ALL_WRONG and 2 * sum(_misread(batch, row) for row in members) > len(members)
    return count


def _misread(batch: Batch, row: int) -> bool:
    verdict = batch.primary[row]
    unread = verdict is None or verdict.status in (Status.UNPARSEABLE, Status.TIMEOUT)
    return unread or batch.card.samples[row].truncated is True


def _primary_differs(batch: Batch) -> BoolArray:
    """Which groups have two members that the primary term gives different values."""
    values = np.full(len(batch.card), np.nan)
    for column, (term, weight) in reversed(list(enumerate(batch.card.weights.items()))):
        if weight != 0:
            applies = np.array([verdict is not None for verdict in batch.card.verdicts[term]], dtype=bool)
            values = np.where(applies, batch.values[:, column], values)
    differs: BoolArray = _spread(batch.by_group(values)) > 0
    return differs


def _spread(values: Any) -> Any:
    """The highest less the lowest value of each group; 0 where there are none."""
    present = np.isfinite(values)
    highest = np.where(present, values, -np.inf).max(axis=1, initial=-np.inf)
    lowest = np.where(present, values, np.inf).min(axis=1, initial=np.inf)
    return np.where(present.any(axis=1), highest - lowest, 0.0)


def _only_groups(batch: Batch, chosen: BoolArray) -> Batch:
    """The batch with some of its groups."""
    outcomes = tuple(outcome for outcome, chosen in zip(batch.outcomes, chosen, strict=True) if chosen)
    return replace(batch, rows=batch.rows[chosen], outcomes=outcomes)


def _share_of_advantages(batch: Batch, chosen: BoolArray) -> float | None:
    """What some groups have of the sum of absolute advantages of the live groups."""
    if batch.card.advantages is None:
        return None
    sizes = np.nan_to_num(np.abs(batch.by_group(np.array(batch.card.advantages, dtype=float)))).sum(axis=1)
    whole = float(sizes[batch.live].sum())
    return float(sizes[chosen].sum()) / whole if whole > 0 else None


def _moments(numbers: Sequence[float]) -> Moments:
    # Not fsum, which raises where numbers are so large that their sum is infinite.
    return Moments(len(numbers), sum(numbers), sum(number * number for number in numbers))


def _group_moments(card: Scorecard, column: Sequence[float | None]) -> Moments:
    """The moments of the means of the groups; a sample of no group is one by itself."""
    members: dict[object, list[float]] = {}
    for row, (sample, value) in enumerate(zip(card.samples, column, strict=True)):
        if value is not None:
            members.setdefault(("row", row) if sample.group is None else sample.group, []).append(value)
    return _moments([sum(values) / len(values) for values in members.values()])


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None
