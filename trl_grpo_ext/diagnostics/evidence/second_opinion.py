"""Shadows that judge the same thing as the primary term: second opinions."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.evidence.primary_terms import names
from trl_grpo_ext.diagnostics.evidence.window import Window
from trl_grpo_ext.diagnostics.finding import NotChecked
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.terms import Agreement

SAME = 0.5  # of the answers that both have read: more, and they look at the same thing; ours


def second_opinions(window: Window) -> list[str]:
    """The terms of weight 0 that judge what the primary term judges: those that nothing says that of a shadow.

    A shadow for another question, such as the format beside an answer, may well disagree: it reads other answers, or
    none where the primary term reads some. A term that has had weight is none: it was trained on.
    """
    shadows = [term for term in window.terms if term not in window.trained_on] if window.in_force else []
    return [shadow for shadow in shadows if not _looks_elsewhere(window, shadow)]


def no_second_opinion(window: Window) -> NotChecked:
    """What to say where there is none: that a shadow is missing, or why those that are there do not count."""
    shadows = [term for term in window.terms if term not in window.trained_on]
    if not shadows:
        return NotChecked("a second opinion (another verifier of weight 0, best a stricter one)")
    primary = window.in_force[0] if window.in_force else ""
    return NotChecked(f"a second opinion: {names(shadows)} reads other answers than `{primary}`, or none")


def _looks_elsewhere(window: Window, shadow: str) -> bool:
    facts = window.of_term(shadow)
    compared, same = sum(one.compared for one in facts), sum(one.same for one in facts)
    if compared:
        return same < SAME * compared
    return _reads_answers(window, window.in_force[0]) and not _reads_answers(window, shadow)


def agreement(batches: Sequence[BatchFigures], shadow: str) -> Agreement:
    """A shadow against the primary verdicts, over several batches."""
    found = (batch.agreements[shadow] for batch in batches if shadow in batch.agreements)
    return sum(found, start=Agreement())


def _reads_answers(window: Window, term: str) -> bool:
    return any(facts.answers for facts in window.of_term(term))
