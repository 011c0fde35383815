"""How many different answers a group comes to."""

from __future__ import annotations

import math

from trl_grpo_ext.figures.batch import NO_SAMPLE, Batch
from trl_grpo_ext.verdict import Status, Verdict


def distinct_answers(batch: Batch) -> float:
    """Different answers a group, by what the primary verdicts have extracted: the mean over groups with an answer.

    NaN if no completion has one, as under verifiers that extract nothing. Having none is not one more answer, nor is a
    text that could not be read as one; how many have one is `answered`.
    """
    answers = [read_answer(verdict) for verdict in batch.primary]
    found = [{answers[row] for row in rows if row != NO_SAMPLE} - {None} for rows in batch.rows]
    counts = [len(group) for group in found if group]
    return sum(counts) / len(counts) if counts else math.nan


def answered(batch: Batch) -> float:
    """The share of primary verdicts with an answer that could be read; NaN if there are no verdicts."""
    verdicts = [verdict for verdict in batch.primary if verdict is not None]
    return sum(read_answer(verdict) is not None for verdict in verdicts) / len(verdicts) if verdicts else math.nan


def read_answer(verdict: Verdict | None) -> str | None:
    """A verdict's answer; None for what a verifier has put there to show what it could not read."""
    return None if verdict is None or verdict.status is Status.UNPARSEABLE else verdict.answer
