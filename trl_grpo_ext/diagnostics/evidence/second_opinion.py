"""Shadows that judge the same thing as the primary term: second opinions."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.evidence.window import Window
from trl_grpo_ext.diagnostics.facts.batch_facts import BatchFacts
from trl_grpo_ext.diagnostics.statistics.shadows import Agreement

SAME = 0.5  # of the answers that both have read: more, and they look at the same thing; ours


def second_opinions(window: Window) -> list[str]:
    """The terms of weight 0 that read the same answers as the primary verdicts, or none where those read none.

    A shadow for another question, such as the format beside an answer, may well disagree. A term that had weight when
    the run began is none: it was trained on.
    """
    trained_on = {term for batch in window.opening for term, facts in batch.terms.items() if facts.in_force}
    shadows = [term for term in window.terms if term not in trained_on.union(window.in_force)]
    if not window.in_force:
        return []
    return [shadow for shadow in shadows if _looks_at_the_same(window, shadow)]


def _looks_at_the_same(window: Window, shadow: str) -> bool:
    facts = window.of_term(shadow)
    compared, same = sum(one.compared for one in facts), sum(one.same for one in facts)
    if compared:
        return same >= SAME * compared
    return not _reads_answers(window, shadow) and not _reads_answers(window, window.in_force[0])


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
