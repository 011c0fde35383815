"""Reduce a scorecard to numbers, once a batch. Figures keep no full text, so a window of batches stays small.

TRL's logs, the console, checks, evaluations, the report's series and `summary.json` read these figures; no other module
reduces a scorecard.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from trl_grpo_ext.figures.advantages import AdvantageSettings, Shares, driver_shares
from trl_grpo_ext.figures.arrays import centred, ranks
from trl_grpo_ext.figures.gold import (
    GoldEndings,
    gold_endings,
    number_beside_gold,
    tool_answers,
    void_golds,
)
from trl_grpo_ext.figures.primary import (
    Agreement,
    PrimaryFigures,
    agreement,
    ks_for,
    pass_rates,
    primary_figures,
    read_answer,
)
from trl_grpo_ext.figures.repeated_and_foreign import (
    TextFigures,
    is_silent,
    text_figures,
    written_call,
)
from trl_grpo_ext.figures.terms import (
    TermFigures,
    grouped,
    quantiles,
    repeated_completions,
    term_figures,
)
from trl_grpo_ext.figures.voids import Cause, VoidFigures, void_figures
from trl_grpo_ext.group_outcome import WRONG, GroupOutcome, judgement
from trl_grpo_ext.sample import (
    Prompt,
    Sample,
    content_text,
    last_message,
    prompt_key,
    tools_left_out,
)
from trl_grpo_ext.scorecard import Flags, Floats, Mode, Scorecard
from trl_grpo_ext.support.estimate import NOTHING, Estimate, Grouped
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.verdict import Blame, Status

# TRL computes in single precision: a sample at its group's mean has an advantage up to this size instead of 0.
NO_ADVANTAGE = 1e-6
# Statuses that tell nothing about the answer.
UNREAD = (Status.UNPARSEABLE, Status.TIMEOUT)
# Characters of an answer or a gold that a figure keeps; our choice.
MOST_ANSWER = 60
# Characters of a tool's error.
MOST_ERROR = 120
# Characters that begin no text, and of a prompt's beginning.
INNER = "+=*,;:.!?)]}%"
# Characters that end no text. A bracket may end the beginning of a program.
JOINING = "+*/,&"
MOST_BEGINNING = 30
# Results of a tool that hold nothing.
NOTHING_RETURNED = ("", "None", "null", "[]", "{}")
# TRL's message of a failed call, and the error in it.
# A tool that catches its own exception: "Error: service unavailable".
_TOLD_ERROR = re.compile(
    r"\W{0,3}(?:\w*(?:error|exception)|traceback|failed|failure)\b", re.IGNORECASE
)
_SAID = re.compile(r"""\{'error': ['"](.*)['"]\}""", re.DOTALL)
# Decimal places to which totals are rounded before they are compared.
TOTAL_DIGITS = 6


class ToolError(NamedTuple):
    """A failed tool call: the tool and its error, class first if it is known."""

    tool: str
    error: str


# Without slots: dozens of checks ask for the terms and groups of a batch, which keeps what it has computed.
@dataclass(frozen=True, kw_only=True)
class BatchFigures:
    """A generation batch reduced to numbers."""

    # Optimizer step; None if unknown.
    step: int | None
    # Training or evaluation.
    mode: Mode
    # Number of samples.
    size: int
    # Number of void samples.
    void: int
    # Totals of the samples that are not void.
    rewards: Grouped
    # Completion lengths in tokens.
    tokens: Grouped
    # Lengths of completions that were cut at the length limit.
    cut_tokens: Estimate
    # Spearman's correlation of length and total within groups, in [-1, 1]: the mean over groups in which both vary;
    # None without such a group.
    length_correlation: float | None
    # Figures by term, in the order of the mix.
    terms: Mapping[str, TermFigures]
    # Share of the advantages due to reward functions beside the mix; None if unknown.
    others_share: float | None
    # Figures of the primary verdicts.
    primary: PrimaryFigures
    # Number of verdicts of terms in force, by blame.
    blame: Mapping[Blame, int]
    # Median and 95th percentile of a verdict's wall time, in seconds; None without verdicts.
    seconds: tuple[float | None, float | None]
    # Number of groups by outcome.
    outcomes: Mapping[GroupOutcome, int]
    # Keys of the groups' known prompts.
    prompts: frozenset[int]
    # Groups whose members answer different rows.
    mixed_groups: int
    # All-wrong groups in which most members were cut, unparseable or timed out, so that the cause is already known.
    misread_groups: int
    # Groups without a correct member, even if a lesser term tells members apart.
    wrong_groups: int
    # Wrong groups in which most answers are equal, as happens with a wrong gold answer.
    agreeing_wrong_groups: int
    # Most frequent wrong answer of a wrong group with that group's gold; None if it is unknown. Where no verdict tells
    # an answer, it is `number_beside_gold`.
    wrong_answer: tuple[str, str] | None
    # Completions that end on their gold, whatever the verifier reads.
    gold_endings: GoldEndings
    # Live groups in which the primary term does not differ.
    secondary_groups: int
    # Live groups in which terms differ but all totals are equal, so that the model learns nothing.
    cancelled_groups: int
    # Secondary groups' share of the sum of absolute advantages; None before advantages are known, or if all are 0.
    secondary_share: float | None
    # Share of completions with a nonzero advantage; `NOTHING` before advantages are known.
    effective: Estimate
    # pass@k by k: the mean over groups with at least k judged completions; None without such a group.
    pass_rates: Mapping[int, float | None]
    # Each shadow term's agreement with the primary verdicts.
    agreements: Mapping[str, Agreement]
    # By cause, void rows beside judged siblings.
    voids: Mapping[Cause, VoidFigures]
    # Figures of the text of a few completions.
    text: TextFigures
    # Completions that have tokens and no text.
    silent: int
    # Completions that are not right and hold a tool call in their text, by the call's beginning.
    written_calls: Mapping[str, int]
    # Failed tool calls, by tool and error.
    tool_errors: Mapping[ToolError, int]
    # Results of tool calls whose text tells an error, by tool and text.
    told_errors: Mapping[ToolError, int]
    # Results of tool calls, by tool and whether the result is an empty text, or a word for nothing.
    tool_results: Mapping[tuple[str, bool], int]
    # Completions that end on the last result of a tool, by tool and whether they are right.
    tool_answers: Mapping[tuple[str, bool], int]
    # Samples that ended since results of tools did not fit in the length limit, by the tools of these results.
    left_out: Mapping[tuple[str, ...], int]
    # Beginnings of the groups' prompts that begin inside a text; empty for an empty prompt.
    cut_prompts: tuple[str, ...]
    # The ends of prompts whose last character can end no text.
    cut_ends: tuple[str, ...]
    # Golds of the groups without a judged member.
    void_golds: Mapping[str, int]
    # Samples that no term with weight is for, by column of the first term's `when` and the row's value.
    unmatched: Mapping[tuple[str, str], int]

    @cached_property
    def in_force(self) -> tuple[str, ...]:
        """Terms with nonzero weight; the first is the primary term."""
        return tuple(term for term, figures in self.terms.items() if figures.weight != 0)

    @cached_property
    def groups(self) -> int:
        """Number of judged groups; void groups do not count."""
        return sum(self.outcomes.values()) - self.outcomes.get(GroupOutcome.VOID, 0)


# Extreme values may overflow: the figure becomes unknown, without a warning.
@np.errstate(all="ignore")
def reduce_card(card: Scorecard, settings: Mapping[str, Any]) -> BatchFigures:
    """Compute the figures of a whole generation batch, with the samples of all ranks.

    Figures of the policy on the data are of `card.representative`, without drawn rows. Figures of the advantages are of
    the whole batch, since all of it is trained on. Only this function makes the difference.

    Pass the run's settings from `run_settings` or `RecordedRun.settings`; missing settings take TRL's defaults.

    Examples:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> figures = reduce_card(mix.score([Sample(text=text, group=0) for text in ("42", "many")]), {})
        >>> figures.primary.right, figures.terms["digits"].flat_groups, figures.rewards.numbers.mean
        (1, 0, 0.5)
    """
    drivers = _drivers(card, settings)
    secondary_share, effective = _of_advantages(card)
    step = card.step
    card = card.representative
    repeats = repeated_completions(card)
    return BatchFigures(
        step=step,
        mode=card.mode,
        terms={
            term: term_figures(card, term, repeats, drivers.shares, drivers.apart)
            for term in card.terms
        },
        others_share=drivers.others,
        secondary_share=secondary_share,
        effective=effective,
        pass_rates=pass_rates(card, ks_for(settings, card.mode)),
        unmatched=_unmatched(card, settings),
        **_wrong_groups(card),
        **{name: figure(card) for name, figure in FIGURES.items()},
    )


def _void(card: Scorecard) -> int:
    return sum(card.void)


def _totals(card: Scorecard) -> Floats:
    return np.array(card.totals, dtype=float)


def _rewards(card: Scorecard) -> Grouped:
    return grouped(card, _totals(card))


def _tokens(card: Scorecard) -> Grouped:
    return grouped(card, card.tokens)


def _outcomes(card: Scorecard) -> Counter[GroupOutcome]:
    return Counter(card.outcomes)


def _secondary_groups(card: Scorecard) -> int:
    return int((card.live & ~card.primary_differs).sum())


def _cancelled_groups(card: Scorecard) -> int:
    rounded = np.round(_totals(card), TOTAL_DIGITS)
    return int((card.live & ~card.differs(rounded)).sum())


def _text(card: Scorecard) -> TextFigures:
    return text_figures(card.samples)


def _cut_tokens(card: Scorecard) -> Estimate:
    lengths = [sample.length for sample in card.samples if sample.truncated is True]
    return Estimate.of(lengths)


def _seconds(card: Scorecard) -> tuple[float | None, float | None]:
    """Compute `quantiles` over the verdicts of all terms."""
    cells = itertools.chain.from_iterable(card.verdicts.values())
    return quantiles([verdict for verdict in cells if verdict is not None])


def _agreements(card: Scorecard) -> dict[str, Agreement]:
    found = {}
    for term, weight in card.weights.items():
        if weight == 0:
            found[term] = agreement(card, term)
    return found


def _blame(card: Scorecard) -> Counter[Blame]:
    """Count the verdicts of terms in force by blame."""
    counts: Counter[Blame] = Counter()
    for term in card.in_force:
        verdicts = card.verdicts[term]
        counts.update(verdict.blame for verdict in verdicts if verdict is not None)
    return counts


def _prompts(card: Scorecard) -> frozenset[int]:
    """Return the keys of the groups' known prompts."""
    keys = set()
    for rows in card.members:
        # All members of a group have its prompt.
        prompt = card.samples[rows[0]].prompt
        if prompt is not None:
            keys.add(prompt_key(prompt))
    return frozenset(keys)


def _cut_prompts(card: Scorecard) -> tuple[str, ...]:
    """Return the beginnings of the groups' prompts that are empty, or whose first character can begin no text."""
    found = []
    for rows in card.members:
        prompt = card.samples[rows[0]].prompt
        start = last_message(prompt)[:MOST_BEGINNING].lstrip()
        if start[:1] in INNER and (start or _is_blank(prompt)):
            found.append(start)
    return tuple(found)


def _cut_ends(card: Scorecard) -> tuple[str, ...]:
    """Return the ends of the groups' prompts whose last character can end no text."""
    found = []
    for rows in card.members:
        end = last_message(card.samples[rows[0]].prompt)[-MOST_BEGINNING:].rstrip()
        if end[-1:] in JOINING and end:
            found.append(end)
    return tuple(found)


def _is_blank(prompt: Prompt | None) -> bool:
    """Check whether a prompt ends with a text of white space; a list of parts may hold a picture."""
    content = prompt if isinstance(prompt, str) or not prompt else prompt[-1].get("content")
    return isinstance(content, str) and not content.strip()


def _unmatched(card: Scorecard, settings: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    """Count samples that no term with weight is for, by column and value that the first term's `when` does not want."""
    found: Counter[tuple[str, str]] = Counter()
    if card.has_others:
        return found
    when = first_when(settings, card.in_force)
    for first, sample in zip(card.primary_terms, card.samples, strict=True):
        if first is not None:
            continue
        for column, wanted in when.items():
            # The text tells 1 from "1"; arrays have no single truth value.
            value = repr((sample.row or {}).get(column))
            if value not in map(repr, wanted):
                found[column, on_one_line(value, MOST_ANSWER)] += 1
                break
    return found


def first_when(
    settings: Mapping[str, Any], terms: Sequence[str]
) -> Mapping[str, Sequence[Any]]:
    """Return the `when` of the first term that has a condition, as values by column; empty without conditions."""
    for reward in settings.get("rewards") or ():
        if reward.get("name") in terms and reward.get("when"):
            when: Mapping[str, Sequence[Any]] = reward["when"]
            return when
    return {}


def _silent(card: Scorecard) -> int:
    return sum(map(is_silent, card.samples))


def _written_calls(card: Scorecard) -> Counter[str]:
    """Count completions that are not right, by the beginning of the tool call in their text."""
    found: Counter[str] = Counter()
    for sample, verdict in zip(card.samples, card.primary, strict=True):
        call = written_call(sample)
        if call and (verdict is None or verdict.status is not Status.CORRECT):
            found[call] += 1
    return found


def _tool_results(card: Scorecard) -> Counter[tuple[str, bool]]:
    """Count the results of tool calls by tool and whether they hold nothing; a picture is no empty text."""
    found: Counter[tuple[str, bool]] = Counter()
    for sample in card.samples:
        for message in sample.messages or ():
            if message.get("role") == "tool":
                content = message.get("content")
                is_empty = isinstance(content, str) and content.strip() in NOTHING_RETURNED
                found[str(message.get("name", "")), is_empty] += 1
    return found


def _told_errors(card: Scorecard) -> Counter[ToolError]:
    """Count results of tools that begin with the word for an error, by tool and text; exceptions are left out."""
    found: Counter[ToolError] = Counter()
    for sample in card.samples:
        for message in sample.messages or ():
            text = content_text(message.get("content"))
            if (
                message.get("role") == "tool"
                and not _error_of(message)
                and _TOLD_ERROR.match(text)
            ):
                found[
                    ToolError(str(message.get("name", "")), on_one_line(text, MOST_ERROR))
                ] += 1
    return found


def _left_out(card: Scorecard) -> Counter[tuple[str, ...]]:
    """Count the samples that ended since results of tools did not fit, by the tools."""
    conversations = [sample.messages for sample in card.samples if sample.messages]
    found = Counter(map(tools_left_out, conversations))
    del found[()]
    return found


def _tool_errors(card: Scorecard) -> Counter[ToolError]:
    """Count failed tool calls of a batch by tool and error."""
    found: Counter[ToolError] = Counter()
    for sample in card.samples:
        for message in sample.messages or ():
            error = _error_of(message)
            if error:
                found[
                    ToolError(str(message.get("name", "")), on_one_line(error, MOST_ERROR))
                ] += 1
    return found


def _error_of(message: Mapping[str, Any]) -> str:
    """Return the error of a tool's result; empty for a result without one."""
    if message.get("role") != "tool":
        return ""
    said = _SAID.fullmatch(content_text(message.get("content")))
    # TRL itself turns a call of an unknown tool down.
    return str(message.get("error") or (said[1] if said else ""))


class _Drivers(NamedTuple):
    """Shares of the advantages: each term's, and the reward functions' beside the mix."""

    # Over all groups; empty if no group is live, or if TRL computes advantages in a way unknown here.
    shares: Shares
    # Over groups in which the primary term differs.
    apart: Shares
    # Exactly 0 if the mix is the only reward function; None if the terms' shares are unknown.
    others: float | None


def _drivers(card: Scorecard, settings: Mapping[str, Any]) -> _Drivers:
    try:
        shares, apart = driver_shares(card, AdvantageSettings.read(settings))
    except ValueError:
        shares = {}
        apart = {}
    others: float | None = 0.0
    if not shares and card.terms:
        others = None
    elif card.has_others:
        others = 1 - math.fsum(shares.values())
    return _Drivers(shares=shares, apart=apart, others=others)


def _mixed_groups(card: Scorecard) -> int:
    count = 0
    for rows in card.members:
        count += _is_mixed([card.samples[row] for row in rows])
    return count


def _is_mixed(samples: Sequence[Sample]) -> bool:
    """Check whether the members of a group answer different rows.

    Equal rows may have different prompts, to which an environment's `reset` has added, and equal prompts may have
    different rows, to which a `rollout_func` has added. Without columns, and without an environment, the prompt is the
    row.
    """
    first, *others = samples
    prompt_is_row = not first.row and first.outcome is None
    for one in others:
        has_other_row = prompt_is_row or one.row != first.row
        if one.prompt != first.prompt and has_other_row:
            return True
    return False


def _length_correlation(card: Scorecard) -> float | None:
    lengths = card.by_group(card.tokens)
    rewards = card.by_group(_totals(card))
    # A rank counts only samples of which both numbers are known.
    unknown = np.isnan(lengths) | np.isnan(rewards)
    length_ranks = _centred_ranks(lengths, unknown)
    reward_ranks = _centred_ranks(rewards, unknown)
    products = (length_ranks * reward_ranks).sum(axis=1)
    length_squares = (length_ranks**2).sum(axis=1)
    reward_squares = (reward_ranks**2).sum(axis=1)
    spread = np.sqrt(length_squares * reward_squares)
    varies = spread > 0
    if not varies.any():
        return None
    correlations = products[varies] / spread[varies]
    return float(correlations.mean())


def _centred_ranks(values: Floats, unknown: Flags) -> Floats:
    """Rank values in each group, (G, M), and subtract the group's mean rank; 0 for unknown values."""
    known = np.where(unknown, np.nan, values)
    ranked: Floats = np.nan_to_num(centred(ranks(known)))
    return ranked


def _wrong_groups(card: Scorecard) -> dict[str, Any]:
    """Count groups without a correct member by cause, for `BatchFigures`, and pick an example of a wrong answer."""
    misread = wrong = agreeing = 0
    # For each answer and gold: the most members of a group that gave this answer instead of this gold.
    beside_gold: Counter[tuple[str, str]] = Counter()
    for rows, outcome in zip(card.members, card.outcomes, strict=True):
        if outcome is GroupOutcome.ALL_WRONG:
            misread += _is_misread_group(card, rows)
        verdicts = [card.primary[row] for row in rows]
        are_wrong = all(judgement(verdict) == WRONG for verdict in verdicts)
        if outcome is GroupOutcome.VOID or not are_wrong:
            continue
        wrong += 1
        read = [read_answer(verdict) for verdict in verdicts]
        answers = Counter(answer for answer in read if answer is not None)
        agreeing += _agree(answers, len(rows))
        golds = {
            verdict.details["gold"]
            for verdict in verdicts
            if verdict and "gold" in verdict.details
        }
        for gold, (answer, count) in itertools.product(golds, answers.items()):
            beside_gold[answer, gold] = max(count, beside_gold[answer, gold])
    return {
        "misread_groups": misread,
        "wrong_groups": wrong,
        "agreeing_wrong_groups": agreeing,
        "wrong_answer": _most_frequent(beside_gold) or _without_answers(card),
    }


def _is_misread_group(card: Scorecard, rows: Sequence[int]) -> bool:
    """Check whether most members were cut, unparseable or timed out."""
    misread = sum(_is_misread(card, row) for row in rows)
    return 2 * misread > len(rows)


def _agree(answers: Counter[str], size: int) -> bool:
    """Check whether a group of `size` members mostly gave one answer.

    The majority is of members with an answer, at least half of the group: cut members must not hide an agreement.
    """
    given = answers.total()
    are_enough = given > 1 and 2 * given >= size
    return are_enough and 2 * max(answers.values()) > given


def _most_frequent(beside_gold: Counter[tuple[str, str]]) -> tuple[str, str] | None:
    if not beside_gold:
        return None
    [((answer, gold), _)] = beside_gold.most_common(1)
    return on_one_line(answer, MOST_ANSWER), on_one_line(gold, MOST_ANSWER)


def _without_answers(card: Scorecard) -> tuple[str, str] | None:
    if any(verdict is not None and verdict.answer is not None for verdict in card.primary):
        return None
    return number_beside_gold(card)


def _is_misread(card: Scorecard, row: int) -> bool:
    """Check whether a completion was cut, unparseable or timed out."""
    if card.samples[row].truncated is True:
        return True
    verdict = card.primary[row]
    return verdict is None or verdict.status in UNREAD


def _of_advantages(card: Scorecard) -> tuple[float | None, Estimate]:
    """Compute secondary groups' share of the sum of absolute advantages, and the share of effective completions.

    A completion is effective if it has an advantage. Only live groups count: in single precision, a group of equal
    totals may have advantages of 3e-4 instead of 0.
    """
    if card.advantages is None:
        return None, NOTHING
    advantages = np.array(card.advantages, dtype=float)
    sizes = np.nan_to_num(np.abs(card.by_group(advantages)))
    live_sizes = sizes[card.live]
    with_advantage = int((live_sizes > NO_ADVANTAGE).sum())
    effective = Estimate.share(with_advantage, len(card))
    whole = float(live_sizes.sum())
    if not 0 < whole < math.inf:
        return None, effective
    secondary = float(sizes[card.live & ~card.primary_differs].sum())
    return secondary / whole, effective


# The figures that a card of representative samples tells by itself, each a field of `BatchFigures`. A new one is a line
# here; `reduce_card` has those that need the settings, the drawn rows, or several figures at once.
FIGURES: Mapping[str, Callable[[Scorecard], Any]] = {
    "size": len,
    "void": _void,
    "rewards": _rewards,
    "tokens": _tokens,
    "cut_tokens": _cut_tokens,
    "length_correlation": _length_correlation,
    "primary": primary_figures,
    "blame": _blame,
    "seconds": _seconds,
    "outcomes": _outcomes,
    "prompts": _prompts,
    "mixed_groups": _mixed_groups,
    "gold_endings": gold_endings,
    "secondary_groups": _secondary_groups,
    "cancelled_groups": _cancelled_groups,
    "agreements": _agreements,
    "voids": void_figures,
    "text": _text,
    "silent": _silent,
    "written_calls": _written_calls,
    "tool_errors": _tool_errors,
    "told_errors": _told_errors,
    "tool_results": _tool_results,
    "tool_answers": tool_answers,
    "left_out": _left_out,
    "cut_prompts": _cut_prompts,
    "cut_ends": _cut_ends,
    "void_golds": void_golds,
}
