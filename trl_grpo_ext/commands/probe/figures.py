"""Predict what a recipe's data teaches its model, by completions of sampled prompts, before an expensive run."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trl_grpo_ext.commands.tally import told_range
from trl_grpo_ext.diagnostics.batches import percent
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.checks.dead_groups import LEAST_LIVE
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.window import RunView
from trl_grpo_ext.figures.batch_totals import BatchTotals
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.figures.success_rates import (
    Floats,
    expected_live_share,
    fitted_beta,
    group_successes,
)
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.successes import RATES, successes_of, write_rates
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Grouped, Interval
from trl_grpo_ext.support.files import write_json
from trl_grpo_ext.support.printer import print_json
from trl_grpo_ext.verdict import Status

# Group sizes that are compared; the recipe's own is added.
GROUP_SIZES = (4, 8, 16, 32)
# Success rates below this may as well come of wrong golds or a wrong verifier.
HARDLY = 0.02
# Kinds of prompts by the share of right completions, up to and with the bound.
KINDS = (
    ("never", 0.0),
    ("up to a quarter", 0.25),
    ("up to three quarters", 0.75),
    ("mostly", 0.999),
    ("always", 1.0),
)
# What a finding of each check says is in the way of the score.
OBSTACLES = {
    "mixed_groups": "The data is the obstacle",
    "grader_trouble": "The verifier is the obstacle",
    "bad_data": "The data is the obstacle",
    "truncation": "The length limit is the obstacle",
    "unparseable_flood": "The format is the obstacle",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The completions of P prompts, counted."""

    # (P,) successes, and judged completions.
    right: Floats
    judged: Floats
    # For each prompt, how many completions share each combination of rewards.
    alike: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """The median number of judged completions per prompt."""
        return int(np.median(self.judged)) if len(self.judged) else 0


def attempts_of(cards: Sequence[Scorecard]) -> Attempts:
    """Count the completions of each prompt; prompts with less than two judged completions are left out."""
    counts = [group_successes(card) for card in cards]
    right, judged = (np.concatenate(parts) for parts in zip(*counts, strict=True))
    known = judged > 1
    alike = []
    for card in cards:
        alike += [_alike(card, members) for members in card.members]
    return Attempts(
        right=right[known],
        judged=judged[known],
        alike=tuple(itertools.compress(alike, known)),
    )


def _alike(card: Scorecard, members: Sequence[int]) -> tuple[int, ...]:
    """Count the completions of a group that share each combination of rewards."""
    columns = [card.values[term] for term in card.in_force]
    others = card.other_column
    combinations: Counter[tuple[float | None, ...]] = Counter()
    for row in members:
        if not card.void[row]:
            rewards = [column[row] for column in columns]
            combinations[*rewards, float(others[row])] += 1
    return tuple(combinations.values())


def live_share(attempts: Attempts, group_size: int) -> Interval | None:
    """Predict the share of groups of a size in which a reward differs; None if unknown.

    Up to the number of completions a prompt, the share is counted over all groups that these make. Beyond, the share
    of dead groups shrinks as a beta-binomial distribution says that is fitted to the prompts' successes. The 95 %
    interval is of the share that a run meets in as many groups as the probe had prompts. Beyond, it begins at the share
    of the largest groups that were counted: no completion tells whether a prompt that was never solved ever is.
    """
    if not attempts.size:
        return None
    counted = min(group_size, attempts.size)
    # A prompt with fewer judged completions makes no group of this size.
    live = [
        1 - _dead(counts, counted) for counts in attempts.alike if sum(counts) >= counted
    ]
    near = float(np.mean(live))
    mean = 1 - (1 - near) * _shrinks_by(attempts, counted, group_size)
    return Interval(mean, _predicted(near, len(live)).low, _predicted(mean, len(live)).high)


def _predicted(share: float, prompts: int) -> Interval:
    """Return the interval of the share among `prompts` other groups; counts of groups are whole numbers.

    It is as wide as that of half as many groups, since the other groups vary as much as the groups of the probe.
    """
    interval = Grouped.share(share * prompts / 2, prompts / 2, prompts / 2).interval
    assert interval is not None
    low = math.floor(interval.low * prompts) / prompts
    high = math.ceil(interval.high * prompts) / prompts
    return Interval(share, low, high)


def _dead(counts: Sequence[int], group_size: int) -> float:
    """Return the share of groups with equal rewards, among all groups of this size that the completions form."""
    dead = sum(math.comb(count, group_size) for count in counts)
    return dead / math.comb(sum(counts), group_size)


def _shrinks_by(attempts: Attempts, counted: int, group_size: int) -> float:
    """Return dead groups of one size over dead groups of a smaller size, by the fitted distribution, in [0, 1]."""
    right, wrong = fitted_beta(attempts.right, attempts.judged)
    dead_before = 1 - float(expected_live_share(right, wrong, counted))
    dead_after = 1 - float(expected_live_share(right, wrong, group_size))
    if dead_before <= 0:
        return 1.0
    return dead_after / dead_before


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A recipe's figures before its run. Intervals are 95 %; unknown figures are None."""

    # The answer.
    sentence: str
    prompts: int
    samples: int
    # The recipe's group size.
    num_generations: int
    # Mean success rate, by the primary verdicts.
    rate: Interval | None
    # Share of prompts by how often they are solved.
    kinds: Mapping[str, Interval | None]
    # Share of live groups by group size.
    live: Mapping[int, Interval | None]
    # The group size with the most live groups for given completions.
    best_size: int | None
    # Shares of completions: cut at the length limit; ended, and not readable; without a verdict.
    cut: Interval | None
    unparsed: Interval | None
    void: Interval | None
    # Share of the groups in which each term's value differs.
    differs: Mapping[str, float]
    # Seconds of judging a completion took, all terms together.
    seconds: float

    def to_record(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        record = asdict(self)
        # The keys of JSON are texts.
        record["live"] = {str(size): share for size, share in record["live"].items()}
        return record


def probe(cards: Sequence[Scorecard], settings: Mapping[str, Any]) -> Probe:
    """Reduce the recorded batches of a probe to its figures; `settings` are the run's, as in `RecordedRun.settings`."""
    attempts = attempts_of(cards)
    # TRL's default is 8.
    own = int(settings.get("num_generations") or GROUP_SIZES[1])
    sizes = sorted({*GROUP_SIZES, own})
    live = {size: live_share(attempts, size) for size in sizes}
    rate = Grouped.alone((attempts.right / attempts.judged).tolist()).interval
    totals = BatchTotals([reduce_card(card, settings) for card in cards])
    size = totals.completions
    unread = sum(batch.primary.unread_ended for batch in totals.batches)
    groups = sum(len(card.members) for card in cards)
    terms = cards[0].terms if cards else ()
    return Probe(
        sentence=_sentence(
            _obstacle(cards, settings), rate, live[own], own, unknown=_without_range(cards)
        ),
        prompts=groups,
        samples=attempts.size,
        num_generations=own,
        rate=rate,
        kinds=_kinds(attempts),
        live=live,
        best_size=_best_size(live),
        cut=Grouped.share(totals.cut.total, totals.cut.count, groups).interval,
        unparsed=Grouped.share(unread, size - totals.void, groups).interval,
        void=Grouped.share(totals.void, size, groups).interval,
        differs={term: _differs(cards, term) for term in terms},
        seconds=sum(_seconds(card) for card in cards) / max(1, size),
    )


def _best_size(live: Mapping[int, Interval | None]) -> int | None:
    """Return the group size with the most live groups for given completions; None if no share is known."""
    per_completion = {
        size: share.mean / size for size, share in live.items() if share is not None
    }
    return max(per_completion, key=per_completion.__getitem__, default=None)


def _kinds(attempts: Attempts) -> dict[str, Interval | None]:
    """Return the share of prompts of each kind."""
    rates = attempts.right / attempts.judged
    size = len(rates)
    shares = {}
    above = -math.inf
    for name, bound in KINDS:
        count = int(((rates > above) & (rates <= bound)).sum())
        shares[name] = Grouped.share(count, size, size).interval
        above = bound
    return shares


def _differs(cards: Sequence[Scorecard], term: str) -> float:
    """Return the share of groups in which a term's value differs."""
    flags = []
    for card in cards:
        values = np.array(card.values[term], dtype=float)
        # A void completion has no part in its group: NaN is left out of the comparison.
        flags.append(card.differs(np.where(card.kept, values, np.nan)))
    return float(np.concatenate(flags).mean())


def _seconds(card: Scorecard) -> float:
    seconds = 0.0
    for verdicts in card.verdicts.values():
        seconds += sum(verdict.seconds for verdict in verdicts if verdict is not None)
    return seconds


def _obstacle(cards: Sequence[Scorecard], settings: Mapping[str, Any]) -> Finding | None:
    """Return the first finding of an obstacle, treating the probe's batches as a run's first batches."""
    view = RunView(settings)
    for step, card in enumerate(cards):
        samples = tuple(replace(sample, step=step) for sample in card.samples)
        view.add(reduce_card(replace(card, samples=samples, mode="train"), settings))
    for code in OBSTACLES:
        found = CHECKS[code](view.window)
        if isinstance(found, Finding) and found.severity is not Severity.INFO:
            return found
    return None


def _without_range(cards: Sequence[Scorecard]) -> str:
    """Return the primary term if all its verdicts are scores without a range; empty otherwise."""
    term = ""
    for card in cards:
        for name, verdict in zip(card.primary_terms, card.primary, strict=True):
            if verdict is None or name is None:
                continue
            if verdict.status is not Status.SCORED:
                return ""
            term = name
    return term


def _sentence(
    obstacle: Finding | None,
    rate: Interval | None,
    live: Interval | None,
    size: int,
    *,
    unknown: str,
) -> str:
    if obstacle is not None:
        return f"{OBSTACLES[obstacle.code]}: {obstacle.sentence} {obstacle.action}"
    if unknown:
        return told_range(unknown)
    if rate is None or live is None:
        return (
            "There is nothing to go by: no prompt has two completions that could be judged."
        )
    teaches = (
        f"{interval_text(live)} of the groups of {size} have something to teach, at a success rate of "
        f"{interval_text(rate)}"
    )
    if live.mean >= LEAST_LIVE:
        return f"Go: {teaches}."
    if rate.mean > 1 / 2:
        return f"Too easy: {teaches}. Take harder data, or more completions a group."
    if rate.mean < HARDLY:
        return (
            f"Too hard, or right answers are turned down: {teaches}. Read some completions first "
            "(`trl-grpo-ext report` of the probe's folder). If right ones are among them, the golds or the "
            "verifier are wrong; else take easier data."
        )
    return f"Too hard: {teaches}. Take easier data, or more completions a group."


def interval_text(one: Interval | None) -> str:
    """Format a share with its interval: `43 % [35 %, 51 %]`; `-` if it is unknown."""
    if one is None:
        return "-"
    return f"{percent(one.mean)} [{percent(one.low)}, {percent(one.high)}]"


def show_probe(folder: Path, *, as_json: bool) -> None:
    """Write a recorded probe's figures and row rates to its folder; print the figures."""
    recorded = RecordedRun(folder)
    cards = list(recorded.cards("eval"))
    found = probe(cards, recorded.settings)
    write_rates(folder / RATES, successes_of(cards))
    write_json(folder / "probe.json", found.to_record())
    if as_json:
        print_json(found.to_record())
    else:
        print(
            "\n".join(
                [*_lines(found), f"The rate of each row, for rows_from: {folder / RATES}"]
            )
        )


def _lines(found: Probe) -> list[str]:
    kinds = ", ".join(
        f"{name} {interval_text(share)}" for name, share in found.kinds.items()
    )
    differs = ", ".join(f"{term} {percent(share)}" for term, share in found.differs.items())
    lines = [
        found.sentence,
        f"{found.prompts} prompts, {found.samples} completions each; in brackets, 95 % intervals.",
        f"success rate     {interval_text(found.rate)}",
        f"prompts solved   {kinds}",
    ]
    for size, share in found.live.items():
        line = f"groups of {size:<7}{interval_text(share)} live"
        if share is not None:
            line += f", {1000 * share.mean / size:.0f} live groups per 1,000 completions"
        if size == found.best_size:
            line += " (the most)"
        lines.append(line)
    return [
        *lines,
        f"cut              {interval_text(found.cut)}",
        f"not readable     {interval_text(found.unparsed)}",
        f"no verdict       {interval_text(found.void)}",
        f"differ in groups {differs}",
        f"judging          {1e3 * found.seconds:.2g} ms a completion",
    ]
