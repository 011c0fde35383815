"""One term's column of a scorecard: its verdicts on a batch, and the values that they come to."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.protocol import warn_once
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.terms.gate import Gate
from trl_grpo_ext.terms.term import RewardTerm
from trl_grpo_ext.verdict import Status, Verdict, grader_error

logger = logging.getLogger(__name__)

# Every rank's items, in the order of the ranks, and the place where this rank's begin.
Gather = Callable[[list[Any]], tuple[list[Any], int]]

GATE_CLOSED = Verdict(status=Status.SKIPPED, score=0.0, reason="gate_closed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TermColumn:
    """What a term says of n samples.

    Attributes:
        verdicts: n verdicts; None where the term does not apply.
        values: n values, the scores after shape and gate; None where the term does not apply or could not be judged.
        gated: n flags: whether a closed gate has set the value.
    """

    verdicts: tuple[Verdict | None, ...]
    values: tuple[float | None, ...]
    gated: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A sample before a term."""

    sample: Sample
    applies: bool
    gating: float | None  # the gating term's value, None if that could not be judged, infinity if there is no gate


def no_other_ranks(items: list[Any]) -> tuple[list[Any], int]:
    """The `Gather` of a process that has no others."""
    return items, 0


def judge_term(
    term: RewardTerm, samples: Sequence[Sample], columns: Mapping[str, TermColumn], gather: Gather = no_other_ranks
) -> TermColumn:
    """Judge samples by one term, given the columns of the terms that it needs. A verifier that fails is a verdict.

    A term that compares the completions of a group calls `gather`, so all ranks must judge terms in the same order.
    """
    entries = _entries(term, samples, columns)
    if term.combine is not None:
        verdicts = _combined(term, entries, columns)
    elif isinstance(term.verifier, GroupVerifier):
        verdicts = _compared(term, entries, gather)
    else:
        judged = iter(_judge(term, [entry.sample for entry in entries if entry.applies]))
        verdicts = [next(judged) if entry.applies else None for entry in entries]
    cells = [_cell(term, verdict, entry.gating) for verdict, entry in zip(verdicts, entries, strict=True)]
    return TermColumn(
        verdicts=tuple(verdicts),
        values=tuple(value for value, _ in cells),
        gated=tuple(gated for _, gated in cells),
    )


def _entries(term: RewardTerm, samples: Sequence[Sample], columns: Mapping[str, TermColumn]) -> list[_Entry]:
    if not isinstance(term.gate, Gate):
        return [_Entry(sample, term.applies(sample.row), math.inf) for sample in samples]
    gating = columns[term.gate.term]
    return [
        _Entry(sample, term.applies(sample.row) and verdict is not None, value)
        for sample, verdict, value in zip(samples, gating.verdicts, gating.values, strict=True)
    ]


def _combined(term: RewardTerm, entries: Sequence[_Entry], columns: Mapping[str, TermColumn]) -> list[Verdict | None]:
    assert term.combine is not None
    parts = [columns[name] for name in term.combine.terms]
    return [
        term.combine.verdict([(part.verdicts[index], part.values[index]) for part in parts]) if entry.applies else None
        for index, entry in enumerate(entries)
    ]


def _compared(term: RewardTerm, entries: Sequence[_Entry], gather: Gather) -> list[Verdict | None]:
    """Verdicts on the completions that the gate lets through, compared with those of their group on other ranks too."""
    everyone, first = gather(list(entries))
    groups = {entry.sample.group for entry in entries}
    asked = [
        index
        for index, entry in enumerate(everyone)
        if entry.sample.group in groups and entry.applies and _is_open(term, entry)
    ]
    verdicts = dict(zip(asked, _judge(term, [everyone[index].sample for index in asked]), strict=True))
    return [verdicts.get(first + index) or _left_out(entry) for index, entry in enumerate(entries)]


def _is_open(term: RewardTerm, entry: _Entry) -> bool:
    return not isinstance(term.gate, Gate) or (entry.gating is not None and term.gate.is_open(entry.gating))


def _left_out(entry: _Entry) -> Verdict | None:
    """The verdict on a completion that was not compared with its siblings."""
    if not entry.applies:
        return None
    return grader_error("gate_unscored") if entry.gating is None else GATE_CLOSED


def _judge(term: RewardTerm, samples: Sequence[Sample]) -> Sequence[Verdict]:
    """One verdict a sample, whatever the verifier does."""
    if not samples or term.verifier is None:
        return []
    verdicts = term.verifier.guarded(term.verifier.judge_samples, samples)
    if isinstance(verdicts, Verdict):
        return [verdicts] * len(samples)
    if len(verdicts) != len(samples):
        logger.error("The verifier of term %r gave %d verdicts for %d.", term.name, len(verdicts), len(samples))
        return [grader_error("wrong_number_of_verdicts")] * len(samples)
    return verdicts


def _cell(term: RewardTerm, verdict: Verdict | None, gating: float | None) -> tuple[float | None, bool]:
    """The value of a verdict, and whether a closed gate has set it."""
    if verdict is None:
        return None, False
    shaped = None if gating is None or verdict.score is None else _shaped(term, verdict, verdict.score)
    if shaped is None:
        return (0.0 if term.on_unscored == "zero" else None), False
    if isinstance(term.gate, Gate) and gating is not None and not term.gate.is_open(gating):
        return float(term.gate.value(shaped, gating=gating)), True
    return shaped, False


def _shaped(term: RewardTerm, verdict: Verdict, value: float) -> float | None:
    try:
        for shape in term.shapes:
            value = shape(value, verdict)
        return float(value) if math.isfinite(value) else None
    except Exception as error:  # a shape may be anybody's function
        warn_once(f"shape of {term.name}", error)
        return None
