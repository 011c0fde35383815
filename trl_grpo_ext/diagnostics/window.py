"""Windows: data that checks read, kept while batches and logs arrive."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from trl_grpo_ext.diagnostics.finding import Finding, NotChecked
from trl_grpo_ext.diagnostics.levels import History, Levels, Period, ends_of, score_level
from trl_grpo_ext.diagnostics.scale import (
    CORRECTNESS,
    Scale,
    Seen,
    common_scale,
    declared_ranges,
    observed_scale,
)
from trl_grpo_ext.diagnostics.term_totals import TermTotals
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.protocol import is_number
from trl_grpo_ext.runs.recorder import OPENING_BATCHES, RECENT_BATCHES
from trl_grpo_ext.support.estimate import NOTHING, Estimate, Grouped

# Ours, for bounded memory: as many as the checks need.
RECENT_LOGS = 32
OPENING_LOGS = 4
# Logs whose median is the level of a logged figure.
LATEST_LOGS = 5
EVALUATIONS = 16
# Optimizer steps: a loss of entropy within so few is sudden.
CLIFF_STEPS = 4

# Ours: a share of 32 completions, or of 8 groups, has a standard error of at most 0.09, or 0.18.
LEAST_SAMPLES = 32
LEAST_GROUPS = 8
# Of the scale: a higher score has little room to rise. Ours, tried in test_healthy_runs.py (right nearly always).
CEILING = 0.95

NO_LOGS = NotChecked("a first log of TRL (logging_steps)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Everything that checks read of a run.

    | of | field | reaches |
    |---|---|---|
    | a batch | `batches`, `opening` | the last `RECENT_BATCHES`, the first `OPENING_BATCHES` |
    | a period | `history`, `log_history` | the whole run, in few periods; means only |
    | a log of TRL | `logs` | the last `RECENT_LOGS` |
    | the run | `seen`, `evaluations`, `trained_on`, `faded` | the whole run |
    """

    # The last training batches, oldest first, at most `RECENT_BATCHES`.
    batches: Sequence[BatchFigures] = ()
    # The first training batches of the run, at most `OPENING_BATCHES`.
    opening: Sequence[BatchFigures] = ()
    # The scores of the whole run, oldest first, in few periods.
    history: Sequence[Period] = ()
    # The figures of TRL's logs over the whole run, in periods as well.
    log_history: Sequence[Period] = ()
    # The scale of the primary scores.
    scale: Scale = CORRECTNESS
    # The scale of the totals.
    reward_scale: Scale = CORRECTNESS
    # Scores and values over the whole run, by term.
    seen: Mapping[str, Seen] = field(default_factory=dict)
    # The run's folder; None without a folder.
    folder: str | os.PathLike[str] | None = None
    # Terms with weight in any training batch so far.
    trained_on: frozenset[str] = frozenset()
    # The first evaluation and the last, oldest first, at most `EVALUATIONS`: step and primary score.
    evaluations: Sequence[tuple[int | None, Estimate]] = ()
    # The term that came first until a schedule took its weight, and the step since which it has none.
    faded: tuple[str, int | None] | None = None
    # The term that came first when it got weight for the first time, after other terms, and the step.
    begun: tuple[str, int | None] | None = None
    # Number of evaluations without a judged completion.
    empty_evaluations: int = 0
    # The primary score of the training batches just before the first evaluation; `NOTHING` if it was not kept.
    trained_at_first_evaluation: Estimate = NOTHING
    # The last of TRL's logs of training steps, oldest first, at most `RECENT_LOGS`; figures that were not finite are
    # NaN, or None if they come from disk.
    logs: Sequence[Mapping[str, Any]] = ()
    # The first of TRL's logs, at most `OPENING_LOGS`.
    opening_logs: Sequence[Mapping[str, Any]] = ()
    # The largest share of the first entropy that was lost within `CLIFF_STEPS` steps, or from one log to the next,
    # ever; None if it was not logged.
    entropy_cliff: float | None = None
    # The run's settings, from `run_settings` or `RecordedRun.settings`.
    settings: Mapping[str, Any]

    @property
    def score(self) -> Estimate:
        """Primary score at the end of the run; `NOTHING` without judged samples."""
        return score_level(self.ends[1])

    @property
    def best(self) -> float:
        """Best score of the primary terms: of the range if it is known, else seen in this run."""
        if self.scale.is_known:
            return self.scale.high
        return max(self.seen[term].scores.high for term in self.primary_terms)

    @property
    def is_solved(self) -> bool:
        """Whether that leaves little room to rise; False where nobody knows which score is the best."""
        return self.scale.is_known and self.scale.unit(self.score).mean >= CEILING

    @property
    def step(self) -> int | None:
        if self.batches:
            return self.batches[-1].step
        return self.logs[-1].get("step") if self.logs else None

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Checkpoint steps in the run folder, sorted. Lists the folder at each call."""
        names = [] if self.folder is None else [path.name for path in Path(self.folder).glob("checkpoint-*")]
        steps = [name.partition("-")[2] for name in names]
        return tuple(sorted(int(step) for step in steps if step.isdecimal()))

    @property
    def terms(self) -> tuple[str, ...]:
        return tuple(self.batches[-1].terms) if self.batches else ()

    @property
    def in_force(self) -> tuple[str, ...]:
        """Terms with weight in the latest batch, primary term first."""
        return self.batches[-1].in_force if self.batches else ()

    @property
    def primary_terms(self) -> list[str]:
        """Primary terms: the first term in force, then further terms while rows lack a verdict."""
        terms: list[str] = []
        left = sum(batch.size for batch in self.batches)
        for term in self.in_force:
            if left <= 0:
                break
            terms.append(term)
            left -= self.of_term(term).verdicts
        return terms

    def value_scale(self, term: str) -> Scale:
        """Observed scale of a term's values, after shape and gate."""
        return observed_scale(self.seen[term].values) if term in self.seen else CORRECTNESS

    @property
    def ends(self) -> tuple[Sequence[BatchFigures], Sequence[BatchFigures]]:
        """Opening batches and last batches; a single batch counts as last."""
        known = {id(batch) for batch in self.opening}
        return ends_of((*self.opening, *(batch for batch in self.batches if id(batch) not in known)))

    @property
    def later(self) -> Sequence[BatchFigures]:
        """Last batches of the run, or none until `OPENING_BATCHES` opening batches exist."""
        first, last = self.ends
        return last if len(first) == OPENING_BATCHES else ()

    def of_term(self, term: str) -> TermTotals:
        """A term's figures in the recent batches together."""
        return TermTotals([batch.terms[term] for batch in self.batches if term in batch.terms])

    def logged(self, name: str, *, opening: bool = False) -> list[float]:
        """Finite values of a figure in recent logs, or opening logs."""
        values = (entry.get(name) for entry in (self.opening_logs if opening else self.logs))
        return [value for value in values if is_number(value)]

    def logged_level(self, name: str, whole: int = 0) -> float | None:
        """Median of the latest logged values; None if unknown. Single logs are noisy.

        With `whole`, it is of so many values, and None for fewer.
        """
        values = self.logged(name)[-(whole or LATEST_LOGS) :]
        return median(values) if values and len(values) >= whole else None


CheckResult = Finding | NotChecked | None

# A pure function of a window, which finds one kind of trouble or none.
Check = Callable[[Window], CheckResult]


def finds(window: Window, *checks: Check) -> bool:
    """Test whether any of these checks returns a finding."""
    return any(isinstance(check(window), Finding) for check in checks)


# Optimizer steps between two logs whose entropies are compared. Ours: three times TRL's default of `logging_steps`, 10.
MOST_BETWEEN_LOGS = 32


class RunView:
    """Keeps what checks need of a run, bounded, whether it is live or read from disk."""

    def __init__(self, settings: Mapping[str, Any], folder: str | os.PathLike[str] | None = None) -> None:
        self.settings = dict(settings)
        self._kept = Window(settings=self.settings, folder=folder)
        self._history = History()
        self._log_history = History()
        self._entropies: deque[tuple[int, float]] = deque(maxlen=CLIFF_STEPS + 1)
        self._first_entropy = 0.0
        self._declared = declared_ranges(self.settings)
        self._seen: dict[str, Seen] = {}
        self._totals = Grouped()
        self._empty_evaluations = 0
        self._evaluating: list[BatchFigures] = []

    def _keep(self, **parts: Any) -> None:
        self._kept = replace(self._kept, **parts)

    def add(self, figures: BatchFigures) -> bool:
        """Add a batch; return True for a training batch, after which checks run."""
        if not figures.size:
            return False
        if figures.mode == "eval":
            batches = self._kept.batches
            if batches and not (self._evaluating or self._kept.evaluations):
                self._keep(trained_at_first_evaluation=score_level(batches[-OPENING_BATCHES:]))
            if self._evaluating and self._evaluating[-1].step != figures.step:
                self._end_evaluation()
            self._evaluating.append(figures)
            return False
        self._end_evaluation()
        if self._kept.batches and figures.in_force[:1] != self._kept.in_force[:1]:
            before = self._kept.in_force[0] if self._kept.in_force else ""
            # Where a schedule puts another term first, scores of before and after are of two things.
            self._history = History()
            self._keep(opening=(), batches=(), evaluations=(), trained_at_first_evaluation=NOTHING)
            self._keep(faded=(before, figures.step) if before not in figures.in_force else None)
            first = figures.in_force[0] if figures.in_force else ""
            is_new = first not in self._kept.trained_on
            self._keep(begun=(first, figures.step) if first and is_new else None)
        self._keep(
            opening=(*self._kept.opening, figures)[:OPENING_BATCHES],
            batches=(*self._kept.batches, figures)[-RECENT_BATCHES:],
            trained_on=self._kept.trained_on.union(figures.in_force),
        )
        self._history.add(figures.step, figures.primary.scores.groups, Levels.of_batch(figures))
        self._totals += figures.rewards
        for term, found in figures.terms.items():
            self._seen[term] = self._seen.get(term, Seen()) + Seen.of(found)
        return True

    def skip(self) -> None:
        """Forget recent batches before a gap in the record; keep the opening."""
        self._end_evaluation()
        self._keep(batches=())

    def add_logs(self, step: int, logs: Mapping[str, Any]) -> None:
        """Add TRL's logs of a training step; skip logs of evaluations and of the run's end."""
        if "loss" not in logs:
            return
        entry = {**logs, "step": step}
        self._keep(
            opening_logs=(*self._kept.opening_logs, entry)[:OPENING_LOGS],
            logs=(*self._kept.logs, entry)[-RECENT_LOGS:],
        )
        self._log_history.add(step, NOTHING, Levels.of_logs(entry))
        self._watch_entropy(step, logs.get("entropy"))

    @property
    def window(self) -> Window:
        """What checks may look at now."""
        latest = self._last_evaluation()
        return replace(
            self._kept,
            history=self._history.periods,
            log_history=self._log_history.periods,
            scale=common_scale(self._seen, self._kept.primary_terms, self._declared),
            reward_scale=observed_scale(self._totals),
            seen=dict(self._seen),
            evaluations=(*self._kept.evaluations, *latest),
            empty_evaluations=self._empty_evaluations + (bool(self._evaluating) and not latest),
        )

    def _watch_entropy(self, step: int, entropy: object) -> None:
        if not is_number(entropy):
            return
        self._first_entropy = self._first_entropy or entropy
        # The log before, which may be many steps ago: TRL logs every 10.
        latest = len(self._entropies) - 1
        fallen = [
            before - entropy
            for place, (when, before) in enumerate(self._entropies)
            if step - when <= (CLIFF_STEPS if place < latest else MOST_BETWEEN_LOGS)
        ]
        self._entropies.append((step, entropy))
        if fallen and self._first_entropy > 0:
            self._keep(entropy_cliff=max(self._kept.entropy_cliff or 0.0, max(fallen) / self._first_entropy))

    def _end_evaluation(self) -> None:
        latest = self._last_evaluation()
        found = (*self._kept.evaluations, *latest)
        self._empty_evaluations += bool(self._evaluating) and not latest
        # The others are compared with the first.
        self._keep(evaluations=found[:1] + found[1:][1 - EVALUATIONS :])
        self._evaluating = []

    def _last_evaluation(self) -> list[tuple[int | None, Estimate]]:
        """Join the batches of the current evaluation to one level."""
        level = score_level(self._evaluating)
        return [(self._evaluating[-1].step, level)] if level.count else []
