"""Judge a batch by one reward term: the term's column of the scorecard, with a verdict and a value per sample."""

from __future__ import annotations

import itertools
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
    if term.only not in (None, mode):
        nothing = (None,) * len(samples)
        return TermColumn(verdicts=nothing, values=nothing, gated=(False,) * len(samples))
    gating = columns[term.gate.term] if isinstance(term.gate, Gate) else None
    applies = [term.applies(sample.row) for sample in samples]
    if gating is not None:
        applies = [meant and verdict is not None for meant, verdict in zip(applies, gating.verdicts, strict=True)]
    if term.combine is not None:
        verdicts = _combined(term.combine, columns, applies)
    elif isinstance(term.verifier, GroupVerifier):
        verdicts = _compared(term, samples, applies, gating, gather)
    else:
        judged = iter(_judge(term, list(itertools.compress(samples, applies))))
        verdicts = [_applying(next(judged)) if meant else None for meant in applies]
    if term.score_range is not None:
        verdicts = [None if verdict is None else placed(verdict, term.score_range) for verdict in verdicts]
    verdicts, values = _shaped_column(term, verdicts)
    gated = [False] * len(samples)
    if gating is not None and isinstance(term.gate, Gate):
        values, gated = _gated(term.gate, values, gating.values)
        pairs = zip(verdicts, gating.verdicts, gating.values, strict=True)
        verdicts = [_waiting(term.gate, verdict, before, value) for verdict, before, value in pairs]
    if term.on_unscored == "zero":
        values = [0.0 if value is None and verdict else value for verdict, value in zip(verdicts, values, strict=True)]
    return TermColumn(verdicts=tuple(verdicts), values=tuple(values), gated=tuple(gated))


def _combined(
    combination: Combination, columns: Mapping[str, TermColumn], applies: Sequence[bool]
) -> list[Verdict | None]:
    parts = (zip(columns[name].verdicts, columns[name].values, strict=True) for name in combination.terms)
    rows = zip(*parts, strict=True)
    return [combination.verdict(row) if meant else None for meant, row in zip(applies, rows, strict=True)]


def _compared(
    term: RewardTerm, samples: Sequence[Sample], applies: Sequence[bool], gating: TermColumn | None, gather: Gather
) -> list[Verdict | None]:
    """Judge each open-gate completion against the other open-gate completions of its group, on all ranks.

    A completion behind a closed gate gets `GATE_CLOSED`; a completion whose gating term has no value is unscored.
    """
    # The verdicts of completions that are not compared.
    left_out: list[Verdict | None] = [None] * len(samples)
    compared = list(applies)
    if gating is not None and isinstance(term.gate, Gate):
        for index, value in enumerate(gating.values):
            if not applies[index]:
                continue
            verdict = gating.verdicts[index]
            if value is None and verdict:
                left_out[index] = unscored([(term.gate.term, verdict)])
            elif value is not None and not term.gate.is_open(value):
                left_out[index] = GATE_CLOSED
            compared[index] = left_out[index] is None
    everyone, first = gather(list(zip(samples, compared, strict=True)))
    groups = {sample.group for sample in samples}
    asked = [index for index, (sample, meant) in enumerate(everyone) if meant and sample.group in groups]
    verdicts = dict(zip(asked, _judge(term, [everyone[index][0] for index in asked]), strict=True))
    return [verdicts.get(first + index, verdict) for index, verdict in enumerate(left_out)]


def _applying(verdict: Verdict) -> Verdict | None:
    """Return a verdict; None where a plain function says that it does not apply to the row."""
    return None if verdict.reason == DOES_NOT_APPLY and verdict.score is None else verdict


def _judge(term: RewardTerm, samples: Sequence[Sample]) -> Sequence[Verdict]:
    """Return one verdict per sample, even if the verifier raises, miscounts or has no time budget left."""
    if not samples or term.verifier is None:
        return []
    if not seconds_left():
        return [grader_error(BUDGET_SPENT)] * len(samples)
    return term.verifier.guarded_batch(term.verifier.judge_samples, samples)


def _shaped_column(
    term: RewardTerm, verdicts: Sequence[Verdict | None]
) -> tuple[list[Verdict | None], list[float | None]]:
    """Apply the term's shapes to a column of verdicts; return the verdicts and the values."""
    shaped: list[Verdict | None] = []
    values: list[float | None] = []
    for verdict in verdicts:
        new_verdict, value = _shaped(term, verdict)
        shaped.append(new_verdict)
        values.append(value)
    return shaped, values


def _shaped(term: RewardTerm, verdict: Verdict | None) -> tuple[Verdict | None, float | None]:
    """Apply the term's shapes to a verdict's score; return the verdict and the value.

    A shape that raises, or returns a number that is not finite, gives a grader error and no value.
    """
    value = None if verdict is None else verdict.score
    if verdict is None or value is None or verdict.left_out:
        return verdict, value
    try:
        for shape in term.shapes:
            value = shape(value, verdict)
        if value is not None and math.isfinite(value):
            return verdict, float(value)
        what = f"returned {value}"
    except Exception as error:
        # A shape may be a user's function, and raise any exception.
        warn_once(f"shape of {term.name}", error)
        what = f"raised {error_text(error)}"
    details = {**verdict.details, "error": f"the shape of `{term.name}` {what}"}
    failed = replace(grader_error(SHAPE_FAILED), answer=verdict.answer, seconds=verdict.seconds, details=details)
    return failed, None


def _waiting(gate: Gate, verdict: Verdict | None, before: Verdict | None, value: float | None) -> Verdict | None:
    """Return a gated term's verdict; if the gating term has no value, one with that term's blame."""
    if verdict is None or before is None or value is not None or verdict.score is None:
        return verdict
    return unscored([(gate.term, before)])


def _gated(
    gate: Gate, values: Sequence[float | None], gating: Sequence[float | None]
) -> tuple[list[float | None], list[bool]]:
    """Apply a gate to a term's values; return the new values, and flags: True where the closed gate set the value.

    A sample has no value if the term or the gating term has none.
    """
    behind: list[float | None] = []
    closed: list[bool] = []
    for value, gating_value in zip(values, gating, strict=True):
        if value is None or gating_value is None:
            behind.append(None)
            closed.append(False)
        else:
            behind.append(float(gate.value(value, gating=gating_value)))
            closed.append(not gate.is_open(gating_value))
    return behind, closed
