"""What checks keep of a generation batch: counts and means, no text, so that a window of batches stays small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trl_grpo_ext.figures.batch import NO_SAMPLE, Batch, BoolArray, batch_of
from trl_grpo_ext.figures.diversity import read_answer
from trl_grpo_ext.figures.drivers import driver_shares
from trl_grpo_ext.figures.moments import Moments, group_moments, known
from trl_grpo_ext.figures.primary_facts import PrimaryFacts, primary_facts
from trl_grpo_ext.figures.shadows import Agreement, shadow_agreements
from trl_grpo_ext.figures.term_facts import TermFacts, repeated_completions, term_facts
from trl_grpo_ext.figures.text_facts import TextFacts, text_facts
from trl_grpo_ext.group_outcome import WRONG, GroupOutcome, judgements
from trl_grpo_ext.scorecard import Mode, Scorecard
from trl_grpo_ext.verdict import Status


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
        wrong_groups: The groups without a right member, even if a lesser term tells them apart.
        agreeing_wrong_groups: Those of them in which most members give the same answer, as they do where it is the gold
            answer that is wrong.
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
    wrong_groups: int
    agreeing_wrong_groups: int
    secondary_groups: int
    secondary_share: float | None
    agreements: Mapping[str, Agreement]
    text: TextFacts

    @property
    def in_force(self) -> tuple[str, ...]:
        """The terms with weight; the first is the primary one."""
        return tuple(term for term, facts in self.terms.items() if facts.in_force)

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
        differs = batch.primary_differs
        live = batch.live
        repeats = repeated_completions(card)
        wrong = _wrong_groups(batch)
        shares = driver_shares(_only_groups(batch, differs), settings)
        return BatchFacts(
            step=card.step,
            mode=card.mode,
            size=len(card),
            void=sum(card.void),
            rewards=Moments.of([total for total in card.totals if total is not None]),
            group_rewards=group_moments(card.samples, card.totals),
            tokens=known(float(np.nanmean(batch.tokens))) if np.isfinite(batch.tokens).any() else None,
            group_tokens=group_moments(card.samples, [known(float(length)) for length in batch.tokens]),
            terms={term: term_facts(batch, term, known(shares[term]), repeats) for term in card.terms},
            primary=primary_facts(batch),
            outcomes=Counter(batch.outcomes),
            misread_groups=sum(_is_misread(batch, members) for members in _members(batch, GroupOutcome.ALL_WRONG)),
            wrong_groups=len(wrong),
            agreeing_wrong_groups=sum(_is_agreed(batch, members) for members in wrong),
            secondary_groups=int((live & ~differs).sum()),
            secondary_share=_share_of_advantages(batch, live & ~differs),
            agreements=shadow_agreements(batch),
            text=text_facts(card.samples),
        )


def _members(batch: Batch, *kinds: GroupOutcome) -> list[list[int]]:
    """The rows of the members of each group of these kinds."""
    groups = zip(batch.rows, batch.outcomes, strict=True)
    return [[int(row) for row in rows if row != NO_SAMPLE] for rows, kind in groups if kind in kinds]


def _wrong_groups(batch: Batch) -> list[list[int]]:
    """The rows of the members of each group in which the primary term finds nothing right."""
    judged = judgements(batch.card)
    groups = _members(batch, GroupOutcome.ALL_WRONG, GroupOutcome.LIVE)
    return [members for members in groups if all(judged[row] == WRONG for row in members)]


def _is_misread(batch: Batch, members: list[int]) -> bool:
    """Whether most members were not understood."""
    return 2 * sum(_misread(batch, row) for row in members) > len(members)


def _is_agreed(batch: Batch, members: list[int]) -> bool:
    """Whether most members give one answer."""
    answers = Counter(answer for row in members if (answer := read_answer(batch.primary[row])) is not None)
    return len(members) > 1 and 2 * max(answers.values(), default=0) > len(members)


def _misread(batch: Batch, row: int) -> bool:
    verdict = batch.primary[row]
    unread = verdict is None or verdict.status in (Status.UNPARSEABLE, Status.TIMEOUT)
    return unread or batch.card.samples[row].truncated is True


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
