"""Judge a batch by one reward term: the term's column of the scorecard, with a verdict and a value per sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix.combination import Combination, unscored
from trl_grpo_ext.mix.gate import Gate
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import warn_once
from trl_grpo_ext.rewards.function import DOES_NOT_APPLY
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Mode
from trl_grpo_ext.support.budget import BUDGET_SPENT, seconds_left
from trl_grpo_ext.support.text import error_text
from trl_grpo_ext.verdict import SHAPE_FAILED, Status, Verdict, grader_error, placed

# Collects the items of all ranks: the full list in rank order, and the index of this rank's first item in the list.
Gather = Callable[[list[Any]], tuple[list[Any], int]]

GATE_CLOSED = Verdict(status=Status.SKIPPED, score=0.0, reason="gate_closed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TermColumn:
    """The verdicts, values and gate flags that one term gives n samples."""

    # n verdicts; None where the term does not apply.
    verdicts: tuple[Verdict | None, ...]
    # n values, the scores after shape and gate; None where the term does not apply or the verdict has no score.
    values: tuple[float | None, ...]
    # n flags: True where a closed gate has set the value.
    gated: tuple[bool, ...]


def no_other_ranks(items: list[Any]) -> tuple[list[Any], int]:
    """Return the items unchanged, with offset 0: the `Gather` of a run with a single rank."""
    return items, 0


def judge_term(
    term: RewardTerm,
    samples: Sequence[Sample],
    columns: Mapping[str, TermColumn],
    gather: Gather = no_other_ranks,
    mode: Mode = "train",
) -> TermColumn:
    """Judge samples by one term, given the columns of the terms it needs; a failing verifier gives error verdicts.

    A term that compares the completions of a group calls `gather`, so all ranks must judge terms in the same order.
    """
    # The verifier is not called at all: `only: eval` is for terms that are too slow for training.
    if term.only not in (None, mode):
        return _empty_column(len(samples))
    gating = _gating(term, columns)
    applies = _applies(term, samples, gating)
    if term.combine is not None:
        verdicts = _combined(term.combine, columns, applies)
    elif isinstance(term.verifier, GroupVerifier):
        verdicts = _compared(term, samples, applies, gating, gather)
    else:
        verdicts = _judged_alone(term, samples, applies)
    # Shapes before the gate: a gate's floor is the value as it is, and is not shaped again.
    column = _shaped_column(term, verdicts)
    if gating is not None:
        column = _gated(column, gating)
    # Last: a value that a shape or the gate has taken away counts as 0, too.
    if term.on_unscored == "zero":
        column = _zero_where_unscored(column)
    return column


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gating:
    """A term's gate, with the column of the gating term."""

    gate: Gate
    column: TermColumn


def _gating(term: RewardTerm, columns: Mapping[str, TermColumn]) -> _Gating | None:
    if not isinstance(term.gate, Gate):
        return None
    return _Gating(gate=term.gate, column=columns[term.gate.term])


def _empty_column(size: int) -> TermColumn:
    nothing = (None,) * size
    return TermColumn(verdicts=nothing, values=nothing, gated=(False,) * size)


def _applies(
    term: RewardTerm, samples: Sequence[Sample], gating: _Gating | None
) -> list[bool]:
    """Mark samples to which the term applies, n flags; a gated term applies only where its gating term does."""
    applies = [term.applies(sample.row) for sample in samples]
    if gating is not None:
        for index, verdict in enumerate(gating.column.verdicts):
            if verdict is None:
                applies[index] = False
    return applies


def _judged_alone(
    term: RewardTerm,
    samples: Sequence[Sample],
    applies: Sequence[bool],
) -> list[Verdict | None]:
    """Judge each sample to which the term applies by itself."""
    verdicts: list[Verdict | None] = [None] * len(samples)
    asked = [index for index, meant in enumerate(applies) if meant]
    judged = _judge(term, [samples[index] for index in asked])
    for index, verdict in zip(asked, judged, strict=True):
        # A plain function may say itself that it does not apply to the row.
        does_not_apply = verdict.reason == DOES_NOT_APPLY and verdict.score is None
        if not does_not_apply:
            verdicts[index] = verdict
    return verdicts


def _combined(
    combination: Combination,
    columns: Mapping[str, TermColumn],
    applies: Sequence[bool],
) -> list[Verdict | None]:
    verdicts: list[Verdict | None] = []
    parts = [columns[name] for name in combination.terms]
    for index, meant in enumerate(applies):
        verdict = None
        if meant:
            verdict = combination.verdict(
                [(part.verdicts[index], part.values[index]) for part in parts]
            )
        verdicts.append(verdict)
    return verdicts


def _compared(
    term: RewardTerm,
    samples: Sequence[Sample],
    applies: Sequence[bool],
    gating: _Gating | None,
    gather: Gather,
) -> list[Verdict | None]:
    """Judge each open-gate completion against the other open-gate completions of its group, on all ranks.

    A completion behind a closed gate gets `GATE_CLOSED`; a completion whose gating term has no value is unscored.
    """
    # The verdicts of completions that are not compared.
    left_out: list[Verdict | None] = [None] * len(samples)
    compared = list(applies)
    if gating is not None:
        for index, meant in enumerate(applies):
            if meant:
                left_out[index] = _behind_gate(gating, index)
                compared[index] = left_out[index] is None
    # Called on every rank, also without a completion to compare: the other ranks wait for this one.
    everyone, first = gather(list(zip(samples, compared, strict=True)))
    # A rank judges all completions of its own groups, also those of other ranks: each is compared with all.
    groups = {sample.group for sample in samples}
    asked = []
    for index, (sample, is_compared) in enumerate(everyone):
        if is_compared and sample.group in groups:
            asked.append(index)
    judged = _judge(term, [everyone[index][0] for index in asked])
    verdicts = dict(zip(asked, judged, strict=True))
    # This rank's samples begin at `first` in the list of all ranks.
    return [verdicts.get(first + index, verdict) for index, verdict in enumerate(left_out)]


def _behind_gate(gating: _Gating, index: int) -> Verdict | None:
    """Return the verdict of a completion behind a closed gate; None for an open gate."""
    verdict = gating.column.verdicts[index]
    value = gating.column.values[index]
    if value is None and verdict is not None:
        return unscored([(gating.gate.term, verdict)])
    if value is not None and not gating.gate.is_open(value):
        return GATE_CLOSED
    return None


def _judge(term: RewardTerm, samples: Sequence[Sample]) -> Sequence[Verdict]:
    """Return one verdict per sample, even if the verifier raises, miscounts or has no time budget left."""
    if not samples or term.verifier is None:
        return []
    if not seconds_left():
        return [grader_error(BUDGET_SPENT)] * len(samples)
    return term.verifier.guarded_batch(term.verifier.judge_samples, samples)


def _shaped_column(term: RewardTerm, verdicts: Sequence[Verdict | None]) -> TermColumn:
    """Make a term's column of its verdicts, by `_shaped`, with no value gated yet."""
    shaped: list[Verdict | None] = []
    values: list[float | None] = []
    for verdict in verdicts:
        new_verdict = value = None
        if verdict is not None:
            new_verdict, value = _shaped(term, verdict)
        shaped.append(new_verdict)
        values.append(value)
    return TermColumn(
        verdicts=tuple(shaped),
        values=tuple(values),
        gated=(False,) * len(values),
    )


def _shaped(term: RewardTerm, verdict: Verdict) -> tuple[Verdict, float | None]:
    """Place a verdict in the term's score range, and apply the term's shapes; return the verdict and the value.

    A shape that raises, or returns a number that is not finite, gives a grader error and no value.
    """
    # Before the shapes: a shape may look at the status, such as PARTIAL, which the range gives.
    if term.score_range is not None:
        verdict = placed(verdict, term.score_range)
    value = verdict.score
    # A gate has left the completion out, so its 0 is no score to shape.
    if value is None or verdict.left_out:
        return verdict, value
    try:
        for shape in term.shapes:
            value = shape(value, verdict)
        # `isfinite` raises a TypeError for a text, which is handled as an error of the shape.
        if value is not None and math.isfinite(value):
            return verdict, float(value)
        what = f"returned {value}"
    except Exception as error:
        # A shape may be a user's function, and raise any exception.
        warn_once(f"shape of {term.name}", error)
        what = f"raised {error_text(error)}"
    failed = replace(
        grader_error(SHAPE_FAILED),
        answer=verdict.answer,
        seconds=verdict.seconds,
        details={**verdict.details, "error": f"the shape of `{term.name}` {what}"},
    )
    return failed, None


def _gated(column: TermColumn, gating: _Gating) -> TermColumn:
    """Apply a gate to a term's column.

    A sample has no value if the term or the gating term has none. If only the gating term has none, the verdict takes
    over that term's blame.
    """
    gate = gating.gate
    verdicts = list(column.verdicts)
    values = list(column.values)
    gated = list(column.gated)
    for index, gating_value in enumerate(gating.column.values):
        verdict = verdicts[index]
        value = values[index]
        gating_verdict = gating.column.verdicts[index]
        if value is not None and gating_value is not None:
            values[index] = float(gate.value(value, gating=gating_value))
            gated[index] = not gate.is_open(gating_value)
            continue
        values[index] = None
        # A sample that failed under this term as well keeps its own reason and blame.
        has_score = verdict is not None and verdict.score is not None
        if has_score and gating_verdict is not None:
            verdicts[index] = unscored([(gate.term, gating_verdict)])
    return TermColumn(
        verdicts=tuple(verdicts),
        values=tuple(values),
        gated=tuple(gated),
    )


def _zero_where_unscored(column: TermColumn) -> TermColumn:
    values = list(column.values)
    for index, verdict in enumerate(column.verdicts):
        # Where the term does not apply there is nothing to judge, so nothing counts as 0.
        if verdict is not None and values[index] is None:
            values[index] = 0.0
    return replace(column, values=tuple(values))
