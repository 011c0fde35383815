"""Groups of several batches together: how many, of which kind, and whether their members agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, LEAST_SAMPLES, Window
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.group_outcome import GroupOutcome


def judged(batches: Sequence[BatchFigures]) -> int:
    """The samples with a primary score."""
    return sum(batch.primary.judged for batch in batches)


def group_count(batches: Sequence[BatchFigures]) -> int:
    """The groups that could be judged."""
    return sum(batch.groups for batch in batches)


def are_enough(batches: Sequence[BatchFigures]) -> bool:
    """Whether shares of their completions and of their groups mean something."""
    return judged(batches) >= LEAST_SAMPLES and group_count(batches) >= LEAST_GROUPS


def groups_of(batches: Sequence[BatchFigures], outcome: GroupOutcome) -> int:
    """The groups of one kind."""
    return sum(batch.outcomes.get(outcome, 0) for batch in batches)


def group_share(batches: Sequence[BatchFigures], outcome: GroupOutcome) -> float:
    """The share of the groups of one kind, in [0, 1]; 0 for no groups."""
    return groups_of(batches, outcome) / max(1, group_count(batches))


def mean_of_known(figures: Iterable[float | None]) -> float | None:
    """The mean of the figures that are known; None if none is."""
    known = [figure for figure in figures if figure is not None]
    return fmean(known) if known else None


def most_common(counters: Sequence[Mapping[Any, int]]) -> list[tuple[Any, int]]:
    """The keys of several counters together, the most frequent first."""
    together: Counter[Any] = Counter()
    for counter in counters:
        together.update(counter)
    return together.most_common()


def percent(part: float) -> str:
    """A share as people read it; nearly all is not all.

    Examples:
        >>> percent(0.123), percent(0.0312), percent(1.0), percent(0), percent(0.9963)
        ('12 %', '3.1 %', '100 %', '0 %', '99.6 %')
    """
    return (f"{part:.1%}" if 0 < part < 0.1 or 0.99 < part < 1 else f"{part:.0%}").replace("%", " %")


# Different answers a group, a mean. Ours, tried in tests/test_healthy_runs.py (converged without beta, and going on).
ONE_ANSWER = 1.5


def distinct_answers(batches: Sequence[BatchFigures]) -> float | None:
    """Different answers a group, a mean over batches; None where no answer is extracted."""
    return mean_of_known(batch.primary.distinct_answers for batch in batches)


def is_one_answer(window: Window) -> bool:
    """Whether groups have come to give one answer only, having given more at first: an exploration that has ended.

    A dead group is its effect then, not the cause of trouble.
    """
    now, before = distinct_answers(window.batches), distinct_answers(window.opening)
    return now is not None and before is not None and now < ONE_ANSWER <= before


# Of the groups without a right answer. Ours, tried in tests/test_fault_injection.py (a third of the gold is wrong).
AGREEING = 0.3


def agreeing_share(batches: Sequence[BatchFigures]) -> float:
    """The share of the groups without a right answer in which most completions give the same answer; 0 for none."""
    wrong = sum(batch.wrong_groups for batch in batches)
    return sum(batch.agreeing_wrong_groups for batch in batches) / wrong if wrong else 0.0


def compare_with_gold(agreeing: float) -> str:
    """The advice to look at the gold answers first, where such a share of wrong groups agree; empty where fewer do."""
    if agreeing < AGREEING:
        return ""
    return (
        f"First compare answers and gold by hand: in {percent(agreeing)} of the groups without a right answer most "
        f"completions agree on one, as they do where gold answers are wrong, or stand in other rows."
    )


# Of the completions that could be. Ours, tried in tests/test_diagnosis_cases.py (temperature 0).
SAME_TEXT = 0.98


def never_explores(window: Window) -> bool:
    """Whether nearly all completions are what a sibling has written, in the first batches and in the latest."""
    if judged(window.batches) < LEAST_SAMPLES or window.opening[0].step:  # 0, or unknown, at the start of a run
        return False
    return all(repeated_share(batches) >= SAME_TEXT for batches in (window.opening, window.batches))


def repeated_share(batches: Sequence[BatchFigures]) -> float:
    """The share of completions that are word for word those of a sibling, of those that could be."""
    terms = [next(iter(batch.terms.values())) for batch in batches if batch.terms]
    possible = sum(one.verdicts - one.groups for one in terms)
    return sum(one.repeats for one in terms) / possible if possible > 0 else 0.0
