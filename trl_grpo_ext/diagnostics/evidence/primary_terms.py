"""The terms whose verdicts are the primary ones: one, or one a kind of row where terms are for some rows only."""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.evidence.window import Window


def primary_terms(window: Window) -> list[str]:
    """The first term in force, and those after it while some rows have a verdict of none of them."""
    terms: list[str] = []
    left = sum(batch.size for batch in window.batches)
    for term in window.in_force:
        if left <= 0:
            break
        terms.append(term)
        left -= sum(facts.verdicts for facts in window.of_term(term))
    return terms


def other_terms(window: Window) -> list[str]:
    """The terms in force that are not primary for any row."""
    primary = primary_terms(window)
    return [term for term in window.in_force if term not in primary]


def names(terms: Sequence[str], last: str = "and") -> str:
    """Terms in a sentence.

    Example:
        >>> names(["math"]), names(["math", "code", "chat"]), names(["math", "code"], "or")
        ('`math`', '`math`, `code` and `chat`', '`math` or `code`')
    """
    quoted = [f"`{term}`" for term in terms]
    return f" {last} ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1]))) if quoted else ""
