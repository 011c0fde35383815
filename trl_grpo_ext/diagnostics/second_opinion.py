"""Shadows that judge the same thing as the primary term: second opinions."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.batch_facts import BatchFacts
from trl_grpo_ext.diagnostics.check import Window
from trl_grpo_ext.diagnostics.statistics.shadows import Agreement


def second_opinions(window: Window) -> list[str]:
    """The terms of weight 0 that look for an answer where the primary term does, and look for none where it does not.

    A shadow for another question, such as the format beside an answer, may well disagree.
    """
    if not window.in_force:
        return []
    reads = _reads_answers(window, window.in_force[0])
    return [term for term in window.terms if term not in window.in_force and _reads_answers(window, term) is reads]


def agreement(batches: Sequence[BatchFacts], shadow: str) -> Agreement:
    """A shadow against the primary verdicts, over several batches."""
    found = [batch.agreements[shadow] for batch in batches if shadow in batch.agreements]
    return Agreement(
        both=sum(one.both for one in found),
        primary_only=sum(one.primary_only for one in found),
        shadow_only=sum(one.shadow_only for one in found),
        neither=sum(one.neither for one in found),
    )


def _reads_answers(window: Window, term: str) -> bool:
    return any(facts.answers for facts in window.of_term(term))
