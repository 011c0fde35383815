"""Whether the policy still tries different answers."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.figures.reduction import BatchFigures

ONE_ANSWER = 1.5  # different answers a group, a mean; ours


def distinct_answers(batches: Sequence[BatchFigures]) -> float | None:
    """Different answers a group, a mean over batches; None where no answer is extracted."""
    known = [batch.primary.distinct_answers for batch in batches if batch.primary.distinct_answers is not None]
    return sum(known) / len(known) if known else None


def is_one_answer(batches: Sequence[BatchFigures], opening: Sequence[BatchFigures]) -> bool:
    """Whether groups have come to give one answer only, having given more at first: an exploration that has ended.

    A dead group is its effect then, not the cause of trouble.
    """
    now, before = distinct_answers(batches), distinct_answers(opening)
    return now is not None and before is not None and now < ONE_ANSWER <= before
