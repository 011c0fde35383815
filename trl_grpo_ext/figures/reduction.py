"""The reduction: a scorecard in numbers, made once a batch. No text is kept, so that a window of batches stays small.

TRL's logs, the console, the checks, evaluations, the report's series and `summary.json` read it; nothing else reduces
a scorecard.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trl_grpo_ext.figures.advantages import AdvantageSettings, Shares, driver_shares
from trl_grpo_ext.figures.arrays import centred, ranks
from trl_grpo_ext.figures.primary import (
    Agreement,
    PrimaryFigures,
    agreement,
    ks_for,
    pass_rates,
    primary_figures,
    read_answer,
)
from trl_grpo_ext.figures.terms import TermFigures, grouped, quantiles, repeated_completions, term_figures
from trl_grpo_ext.figures.text import TextFigures, text_figures
from trl_grpo_ext.figures.voids import Cause, VoidFigures, void_figures
from trl_grpo_ext.group_outcome import WRONG, GroupOutcome, judgement
from trl_grpo_ext.sample import prompt_key
from trl_grpo_ext.scorecard import Flags, Floats, Mode, Scorecard
from trl_grpo_ext.support.estimate import NOTHING, Estimate, Grouped
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.verdict import Blame, Status

# TRL computes in single precision: the advantage of a sample at the mean of its group is this close to 0.
NO_ADVANTAGE = 1e-6
UNREAD = (Status.UNPARSEABLE, Status.TIMEOUT)  # verdicts that say nothing of the answer
MOST_ANSWER = 60  # characters of an answer, or of a gold, that is told; ours
TOTAL_DIGITS = 6  # after the point: totals that differ by less are equal


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFigures:
    """A batch in numbers."""

    step: int | None  # the optimizer step; None if it is unknown
    mode: Mode  # training or evaluation
    size: int  # the samples
    void: int  # those that are void
    rewards: Grouped  # the totals of the others
    tokens: Grouped  # the lengths of the completions in tokens
    cut_tokens: Estimate  # the lengths of the samples that were cut
    # Spearman's correlation of length and total within groups, in [-1, 1]: the mean over groups where both vary; None
    # if there is no such group.
    length_correlation: float | None
    terms: Mapping[str, TermFigures]  # by name, in the order of the mix
    others_share: float | None  # the share of reward functions beside the mix in the advantages; None if it is unknown
    primary: PrimaryFigures  # what the primary verdicts say
    blame: Mapping[Blame, int]  # how many verdicts of the terms in force are whose fault
    # Median and 95th percentile of a verdict's wall time; None for no verdicts.
    seconds: tuple[float | None, float | None]
    outcomes: Mapping[GroupOutcome, int]  # how many groups of each kind
    prompts: frozenset[int]  # the keys of the groups' prompts, those that are known
    # The all-wrong groups in which most members were cut, could not be read or timed out: whose fault is known
    # already.
    misread_groups: int
    wrong_groups: int  # the groups without a right member, even if a lesser term tells them apart
    # Those of them in which most answers are the same, as they are where it is the gold answer that is wrong.
    agreeing_wrong_groups: int
    # Of the group without a right member in which most members agree: their answer, and the gold; None if no verdict
    # tells the gold.
    wrong_answer: tuple[str, str] | None
    secondary_groups: int  # the live groups in which the primary term does not differ
    cancelled_groups: int  # the live groups in which terms differ and all totals are equal, so that nothing is taught
    # Their share of the sum of absolute advantages; None before advantages are known, or if all are 0.
    secondary_share: float | None
    effective: Estimate  # the share of completions with an advantage; `NOTHING` before advantages are known
    # pass@k by k, the mean over groups with at least k completions that could be judged; None where no group has as
    # many.
    pass_rates: Mapping[int, float | None]
    agreements: Mapping[str, Agreement]  # each shadow against the primary verdicts
    voids: Mapping[Cause, VoidFigures]  # by cause, the void rows beside siblings that could be judged
    text: TextFigures  # what the text of a few completions is like

    @property
    def in_force(self) -> tuple[str, ...]:
        """The terms with weight; the first is the primary one."""
        return tuple(term for term, figures in self.terms.items() if figures.weight != 0)

    @property
    def groups(self) -> int:
        """The groups that could be judged."""
        return sum(count for outcome, count in self.outcomes.items() if outcome is not GroupOutcome.VOID)


@np.errstate(all="ignore")  # what a hostile value does to the arithmetic ends as unknown, not as a warning
def reduce_card(card: Scorecard, settings: Mapping[str, Any]) -> BatchFigures:
    """The figures of a whole batch, of all ranks.

    Settings are the run's, as `run_settings` or `RecordedRun.settings` give them; TRL's defaults stand in for those
    that are missing.

    Examples:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> figures = reduce_card(mix.score([Sample(text=text, group=0) for text in ("42", "many")]), {})
        >>> figures.primary.right, figures.terms["digits"].flat_groups, figures.rewards.numbers.mean
        (1, 0, 0.5)
    """
    secondary = card.live & ~card.primary_differs
    shares, apart, others_share = _driver_shares(card, settings)
    repeats = repeated_completions(card)
    verdicts = [one for one in itertools.chain.from_iterable(card.verdicts.values()) if one is not None]
    secondary_share, effective = _of_advantages(card, secondary)
    totals, firsts = np.array(card.totals, dtype=float), [card.samples[rows[0]] for rows in card.members]
    return BatchFigures(
        step=card.step,
        mode=card.mode,
        size=len(card),
        void=sum(card.void),
        rewards=grouped(card, totals),
        tokens=grouped(card, card.tokens),
        cut_tokens=Estimate.of([sample.length for sample in card.samples if sample.truncated is True]),
        length_correlation=_length_correlation(card, totals),
        terms={term: term_figures(card, term, repeats, shares, apart) for term in card.terms},
        others_share=others_share,
        primary=primary_figures(card),
        blame=Counter(one.blame for term in card.in_force for one in card.verdicts[term] if one is not None),
        seconds=quantiles(verdicts),
        outcomes=Counter(card.outcomes),
        prompts=frozenset(prompt_key(one.prompt) for one in firsts if one.prompt is not None),
        secondary_groups=int(secondary.sum()),
        cancelled_groups=int((card.live & ~card.differs(np.round(totals, TOTAL_DIGITS))).sum()),
        secondary_share=secondary_share,
        effective=effective,
        pass_rates=pass_rates(card, ks_for(settings, card.mode)),
        agreements={term: agreement(card, term) for term, weight in card.weights.items() if weight == 0},
        voids=void_figures(card),
        text=text_figures(card.samples),
        **_wrong_groups(card),
    )


def _driver_shares(card: Scorecard, settings: Mapping[str, Any]) -> tuple[Shares, Shares, float | None]:
    """As `driver_shares`, with what the terms lack of the whole: 0, not rounding, where the mix is alone.

    There are none where TRL has a way to make advantages that is not known here.
    """
    try:
        shares, apart = driver_shares(card, AdvantageSettings.read(settings))
    except ValueError:
        shares, apart = {}, {}
    if not shares and card.terms:
        return shares, apart, None
    return shares, apart, 1 - math.fsum(shares.values()) if card.has_others else 0.0


def _length_correlation(card: Scorecard, totals: Floats) -> float | None:
    lengths, rewards = card.by_group(card.tokens), card.by_group(totals)
    both = ~np.isnan(lengths) & ~np.isnan(rewards)
    length_ranks, reward_ranks = (
        np.nan_to_num(centred(ranks(np.where(both, of, np.nan)))) for of in (lengths, rewards)
    )
    spread = np.sqrt((length_ranks**2).sum(axis=1) * (reward_ranks**2).sum(axis=1))
    varies = spread > 0
    found = (length_ranks * reward_ranks).sum(axis=1)[varies] / spread[varies]
    return float(found.mean()) if found.size else None


def _wrong_groups(card: Scorecard) -> dict[str, Any]:
    """How many groups nobody has solved, and what is known of why: the counts of `BatchFigures`, and an example."""
    counts = dict.fromkeys(("misread_groups", "wrong_groups", "agreeing_wrong_groups"), 0)
    beside_gold: Counter[tuple[str, str]] = Counter()  # how many of a group gave this answer instead of this gold
    for rows, outcome in zip(card.members, card.outcomes, strict=True):
        verdicts = [card.primary[row] for row in rows]
        if outcome is GroupOutcome.ALL_WRONG:
            told = zip([card.samples[row].truncated is True for row in rows], verdicts, strict=True)
            misread = sum(was_cut or verdict is None or verdict.status in UNREAD for was_cut, verdict in told)
            counts["misread_groups"] += 2 * misread > len(rows)
        if outcome is not GroupOutcome.VOID and all(judgement(verdict) == WRONG for verdict in verdicts):
            counts["wrong_groups"] += 1
            answers = Counter(answer for verdict in verdicts if (answer := read_answer(verdict)) is not None)
            # Members that were cut have no answer, and hide no majority of the others.
            given = answers.total()
            are_enough = given > 1 and 2 * given >= len(rows)
            counts["agreeing_wrong_groups"] += are_enough and 2 * max(answers.values()) > given
            golds = {one.details["gold"] for one in verdicts if one is not None and "gold" in one.details}
            beside_gold |= Counter({(answer, gold): count for answer, count in answers.items() for gold in golds})
    most = next((pair for pair, _ in beside_gold.most_common(1)), ())
    return {**counts, "wrong_answer": tuple(on_one_line(text, MOST_ANSWER) for text in most) or None}


def _of_advantages(card: Scorecard, chosen: Flags) -> tuple[float | None, Estimate]:
    """What some groups have of the sum of absolute advantages, and the share of completions that have an advantage.

    Only live groups count: in single precision, the advantages of a group of equals may be 3e-4 instead of 0.
    """
    if card.advantages is None:
        return None, NOTHING
    sizes = np.nan_to_num(np.abs(card.by_group(np.array(card.advantages, dtype=float))))
    whole, part = float(sizes[card.live].sum()), float(sizes[chosen].sum())
    effective = Estimate.share(int((sizes[card.live] > NO_ADVANTAGE).sum()), len(card))
    return part / whole if 0 < whole < math.inf else None, effective
