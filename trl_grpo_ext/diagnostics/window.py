"""A window: what a check may look at of a run, and what a check is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.diagnostics.finding import Finding, NotChecked
from trl_grpo_ext.diagnostics.levels import Stretch
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.terms import TermFigures
from trl_grpo_ext.runs.recorder import OPENING_BATCHES
from trl_grpo_ext.support.estimate import Estimate, is_finite

RECENT_LOGS = 32
OPENING_LOGS = 4
EVALUATIONS = 16
CLIFF_STEPS = 4  # optimizer steps

LEAST_SAMPLES = 32  # completions, for a share to mean anything; ours
LEAST_GROUPS = 8  # groups, for a share of them to mean anything; ours
CEILING = 0.95  # a score above has nowhere to go; ours

NO_LOGS = NotChecked("a first log of TRL (logging_steps)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What a check may look at.

    Attributes:
        batches: The last training batches, oldest first, at most `RECENT_BATCHES`.
        opening: The first training batches of the run, at most `OPENING_BATCHES`.
        history: The scores of the whole run, oldest first, in few stretches.
        trained_on: The terms that have had weight in a training batch, ever.
        evaluations: The first evaluation and the last, oldest first, at most `EVALUATIONS`: step and primary score.
        trained_at_first_evaluation: The primary score of the training batches just before the first evaluation; None
            if nobody kept it.
        logs: The last of TRL's logs of training steps, oldest first, at most `RECENT_LOGS`; figures that were not
            finite are NaN, or None if they come from disk.
        opening_logs: The first of them, at most `OPENING_LOGS`.
        entropy_cliff: The largest share of the first entropy that was lost within `CLIFF_STEPS` steps, or from one log
            to the next, ever; None if it was not logged.
        settings: The run's, as `run_settings` or `RecordedRun.settings` give them.
    """

    batches: Sequence[BatchFigures] = ()
    opening: Sequence[BatchFigures] = ()
    history: Sequence[Stretch] = ()
    trained_on: frozenset[str] = frozenset()
    evaluations: Sequence[tuple[int | None, Estimate]] = ()
    trained_at_first_evaluation: Estimate | None = None
    logs: Sequence[Mapping[str, Any]] = ()
    opening_logs: Sequence[Mapping[str, Any]] = ()
    entropy_cliff: float | None = None
    settings: Mapping[str, Any]

    @property
    def step(self) -> int | None:
        """The step of the latest batch, or log."""
        if self.batches:
            return self.batches[-1].step
        return self.logs[-1].get("step") if self.logs else None

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms of the latest batch."""
        return tuple(self.batches[-1].terms) if self.batches else ()

    @property
    def in_force(self) -> tuple[str, ...]:
        """Those with weight in the latest batch; the first is the primary term."""
        return self.batches[-1].in_force if self.batches else ()

    @property
    def later(self) -> tuple[BatchFigures, ...]:
        """The recent batches that are not among the opening ones; none until there are as many of them as of those."""
        known = {id(batch) for batch in self.opening}
        later = tuple(batch for batch in self.batches if id(batch) not in known)
        return later if len(later) >= OPENING_BATCHES else ()

    def of_term(self, term: str) -> list[TermFigures]:
        """A term's facts in the recent batches."""
        return [batch.terms[term] for batch in self.batches if term in batch.terms]

    def logged(self, name: str, *, opening: bool = False) -> list[float]:
        """The finite values of a figure in the recent logs, or in the first."""
        values = (entry.get(name) for entry in (self.opening_logs if opening else self.logs))
        return [value for value in values if is_finite(value)]


CheckResult = Finding | NotChecked | None

# A pure function of a window, which finds one kind of trouble or none.
Check = Callable[[Window], CheckResult]
