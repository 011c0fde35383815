"""Windows: data that checks read, kept while batches and logs arrive."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from trl_grpo_ext.diagnostics.finding import Finding, NotChecked
from trl_grpo_ext.diagnostics.levels import (
    OPENING_BATCHES,
    RECENT_BATCHES,
    History,
    Levels,
    Period,
    ends_of,
    score_level,
)
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
from trl_grpo_ext.support.estimate import NOTHING, Estimate, Grouped
from trl_grpo_ext.support.setting_checks import is_number

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


class Evaluation(NamedTuple):
    """An evaluation.

    Attributes:
        step: Its optimizer step; None if unknown.
        score: Its primary score.
        groups: Its number of judged groups.
        agreeing: Groups without a right answer whose completions mostly agree on a wrong one.
        wrong_answer: Such an answer with the gold; None if unknown.
    """

    step: int | None
    score: Estimate
    groups: int = 0
    agreeing: int = 0
    wrong_answer: tuple[str, str] | None = None


class WeightChange(NamedTuple):
    """A scheduled term that got or lost its weight, and the step; None for an unknown step."""

    term: str
    step: int | None


# Without slots: dozens of checks ask for the same figures of a window, which keeps what it has computed.
@dataclass(frozen=True, kw_only=True)
class Window:
    """Everything that checks read of a run.

    | of | field | reaches |
    |---|---|---|
    | a batch | `batches`, `opening` | the last 16 (`RECENT_BATCHES`), the first 4 (`OPENING_BATCHES`) |
    | a period | `history`, `log_history` | the whole run, in 64 periods at most; means only |
    | a log of TRL | `logs`, `opening_logs` | the last 32 (`RECENT_LOGS`), the first 4 (`OPENING_LOGS`) |
    | the run | `seen`, `evaluations`, `trained_on`, `faded` | the whole run |

    Batches and logs are oldest first. `step` is an optimizer step, which may have several batches or reuse one;
    `progress.steps_so_far` counts steps. A figure of TRL's logs is read by `logged`, `first_logged`, `last_logged` or
    `median_logged`, a numeric setting by `number`, and a term's verdicts in recent batches by `of_term`. `opening` is
    compared with `later`, which is empty while the run is too short for a comparison. A figure of more than 16 batches
    that no period holds is a field of its own, which `RunView` keeps: `add` adds a batch to the figure, `skip` resets a
    figure that a gap in the record interrupts, and `_begin_with_another_term` a figure of the former first term.
    `History.last` is the current step, also where batches have none.
    """

    # The last training batches, at most `RECENT_BATCHES`.
    batches: Sequence[BatchFigures] = ()
    # The first training batches of the run, at most `OPENING_BATCHES`.
    opening: Sequence[BatchFigures] = ()
    # The scores of the whole run, in few periods.
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
    # The first evaluation and the last, at most `EVALUATIONS`.
    evaluations: Sequence[Evaluation] = ()
    # The term that came first until a schedule took its weight.
    faded: WeightChange | None = None
    # The term that came first when it got weight for the first time, after other terms.
    begun: WeightChange | None = None
    # Number of evaluations without a judged completion.
    empty_evaluations: int = 0
    # The primary score of the training batches just before the first evaluation; `NOTHING` if it was not kept.
    trained_at_first_evaluation: Estimate = NOTHING
    # The last of TRL's logs of training steps, at most `RECENT_LOGS`; figures that were not finite are NaN, or None if
    # they come from disk.
    logs: Sequence[Mapping[str, Any]] = ()
    # The first of TRL's logs, at most `OPENING_LOGS`.
    opening_logs: Sequence[Mapping[str, Any]] = ()
    # The largest share of the first entropy that was lost within `CLIFF_STEPS` steps, or from one log to the next,
    # ever; None if it was not logged.
    entropy_cliff: float | None = None
    # The run's settings, from `run_settings` or `RecordedRun.settings`.
    settings: Mapping[str, Any]

    @cached_property
    def score(self) -> Estimate:
        """Primary score at the end of the run; `NOTHING` without judged samples."""
        _, last = self.ends
        return score_level(last)

    @cached_property
    def best(self) -> float:
        """Best score of the primary terms: of the range if it is known, else seen in this run."""
        if self.scale.is_known:
            return self.scale.high
        return max(self.seen[term].scores.high for term in self.primary_terms)

    @cached_property
    def is_solved(self) -> bool:
        """Whether the score has little room to rise; False for a scale without a best score, known or observed."""
        has_best = self.scale.is_known or self.scale.is_ceiled
        return has_best and self.scale.unit(self.score).mean >= CEILING

    @property
    def is_shuffled(self) -> bool:
        """Whether rows come in random order; False only if the settings turn it off."""
        return self.settings.get("shuffle_dataset") is not False

    @property
    def step(self) -> int | None:
        """Optimizer step of the latest batch, or of the latest log without a batch; None if unknown."""
        if self.batches:
            return self.batches[-1].step
        if self.logs:
            return self.logs[-1].get("step")
        return None

    @cached_property
    def kept_batches(self) -> tuple[BatchFigures, ...]:
        """Opening batches, then recent batches, without duplicates: a short run has batches that count as both."""
        batches = {id(batch): batch for batch in (*self.opening, *self.batches)}
        return tuple(batches.values())

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Checkpoint steps in the run folder, sorted. Lists the folder at each call."""
        if self.folder is None:
            return ()
        steps = []
        for path in Path(self.folder).glob("checkpoint-*"):
            step = path.name.removeprefix("checkpoint-")
            if step.isdecimal():
                steps.append(int(step))
        return tuple(sorted(steps))

    @property
    def evaluated_steps(self) -> list[tuple[int, Estimate]]:
        """Step and score of each evaluation whose step is known."""
        return [
            (each.step, each.score) for each in self.evaluations if each.step is not None
        ]

    @property
    def terms(self) -> tuple[str, ...]:
        """Terms of the latest batch, in the order of the mix."""
        if not self.batches:
            return ()
        return tuple(self.batches[-1].terms)

    @property
    def in_force(self) -> tuple[str, ...]:
        """Terms with weight in the latest batch, primary term first."""
        if not self.batches:
            return ()
        return self.batches[-1].in_force

    @cached_property
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

    @cached_property
    def ends(self) -> tuple[Sequence[BatchFigures], Sequence[BatchFigures]]:
        """Opening batches and last batches; a single batch counts as last."""
        known = {id(batch) for batch in self.opening}
        after = [batch for batch in self.batches if id(batch) not in known]
        return ends_of((*self.opening, *after))

    @property
    def later(self) -> Sequence[BatchFigures]:
        """Last batches of the run, or none until `OPENING_BATCHES` opening batches exist."""
        first, last = self.ends
        if len(first) < OPENING_BATCHES:
            return ()
        return last

    def of_term(self, term: str) -> TermTotals:
        """A term's figures in the recent batches together."""
        return TermTotals.of(term, self.batches)

    def has_read_answers(self, term: str) -> bool:
        """Test whether a term read an answer in the opening or in the recent batches.

        A policy that games its reward may at last give no answers.
        """
        return TermTotals.of(term, (*self.opening, *self.batches)).has_answers

    def value_scale(self, term: str) -> Scale:
        """Observed scale of a term's values, after shape and gate."""
        if term not in self.seen:
            return CORRECTNESS
        return observed_scale(self.seen[term].values)

    def number(self, setting: str) -> float | None:
        """A finite numeric setting; None for an unknown setting or another type."""
        value = self.settings.get(setting)
        return value if is_number(value) else None

    def logged(self, name: str) -> list[float]:
        """Finite values of a figure in recent logs."""
        return _finite(self.logs, name)

    def first_logged(self, name: str) -> float | None:
        """First finite value of a figure in the opening logs; None if unknown."""
        values = _finite(self.opening_logs, name)
        return values[0] if values else None

    def last_logged(self, name: str) -> float | None:
        """Latest finite value of a figure in recent logs; None if unknown."""
        values = self.logged(name)
        return values[-1] if values else None

    def median_logged(
        self, name: str, *, latest: int = LATEST_LOGS, least: int = 1
    ) -> float | None:
        """Median of the latest values, at most `latest` of them; None for fewer than `least`. Single logs are noisy."""
        values = self.logged(name)[-latest:]
        if len(values) < least:
            return None
        return median(values)


def _finite(logs: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """List the finite values of a figure in some logs."""
    values = [entry[name] for entry in logs if name in entry]
    return [value for value in values if is_number(value)]


CheckResult = Finding | NotChecked | None

# A pure function of a window, which finds one kind of trouble or none.
Check = Callable[[Window], CheckResult]


def finds(window: Window, *checks: Check) -> bool:
    """Test whether a check returns a finding."""
    return any(isinstance(check(window), Finding) for check in checks)


# Optimizer steps between two logs whose entropies are compared. Ours: three times TRL's default of `logging_steps`, 10.
MOST_BETWEEN_LOGS = 32


class RunView:
    """Keeps what checks need of a run, bounded, whether it is live or read from disk."""

    def __init__(
        self, settings: Mapping[str, Any], folder: str | os.PathLike[str] | None = None
    ) -> None:
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
        # The batches of the current evaluation.
        self._evaluating: list[BatchFigures] = []

    def add(self, figures: BatchFigures) -> bool:
        """Add a batch; return True for a training batch, after which checks run."""
        if not figures.size:
            return False
        if figures.mode == "eval":
            self._add_evaluated(figures)
            return False
        self._end_evaluation()
        if self._kept.batches and figures.in_force[:1] != self._kept.in_force[:1]:
            self._begin_with_another_term(figures)
        self._keep(
            opening=(*self._kept.opening, figures)[:OPENING_BATCHES],
            batches=(*self._kept.batches, figures)[-RECENT_BATCHES:],
            trained_on=self._kept.trained_on.union(figures.in_force),
        )
        self._history.add(
            figures.step, figures.primary.scores.groups, Levels.of_batch(figures)
        )
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
        entropy = logs.get("entropy")
        if is_number(entropy):
            self._watch_entropy(step, entropy)

    @property
    def window(self) -> Window:
        """What checks may look at now."""
        is_empty = bool(self._evaluating) and not self._latest_evaluation()
        return replace(
            self._kept,
            history=self._history.periods,
            log_history=self._log_history.periods,
            scale=common_scale(self._seen, self._kept.primary_terms, self._declared),
            reward_scale=observed_scale(self._totals),
            seen=dict(self._seen),
            evaluations=self._evaluations(),
            empty_evaluations=self._empty_evaluations + is_empty,
        )

    def _keep(self, **parts: Any) -> None:
        self._kept = replace(self._kept, **parts)

    def _begin_with_another_term(self, figures: BatchFigures) -> None:
        """Forget earlier scores: a schedule has put another term first, so they measure another thing."""
        faded = begun = None
        for before in self._kept.in_force[:1]:
            if before not in figures.in_force:
                faded = WeightChange(before, figures.step)
        for first in figures.in_force[:1]:
            if first not in self._kept.trained_on:
                begun = WeightChange(first, figures.step)
        self._history = History()
        self._keep(
            opening=(),
            batches=(),
            evaluations=(),
            trained_at_first_evaluation=NOTHING,
            faded=faded,
            begun=begun,
        )

    def _watch_entropy(self, step: int, entropy: float) -> None:
        """Keep the largest loss of entropy between two logs, or within few steps."""
        self._first_entropy = self._first_entropy or entropy
        # The log before may be many steps ago: TRL logs every 10.
        latest = len(self._entropies) - 1
        fallen = []
        for place, (when, before) in enumerate(self._entropies):
            most = CLIFF_STEPS if place < latest else MOST_BETWEEN_LOGS
            if step - when <= most:
                fallen.append(before - entropy)
        self._entropies.append((step, entropy))
        if fallen and self._first_entropy > 0:
            cliff = max(fallen) / self._first_entropy
            self._keep(entropy_cliff=max(self._kept.entropy_cliff or 0.0, cliff))

    def _add_evaluated(self, figures: BatchFigures) -> None:
        """Add a batch of an evaluation; a batch of another step, or after all others, begins another evaluation."""
        batches = self._kept.batches
        is_first = not (self._evaluating or self._kept.evaluations)
        if batches and is_first:
            self._keep(trained_at_first_evaluation=score_level(batches[-OPENING_BATCHES:]))
        if self._is_whole() or (
            self._evaluating and self._evaluating[-1].step != figures.step
        ):
            self._end_evaluation()
        self._evaluating.append(figures)

    def _end_evaluation(self) -> None:
        if not self._evaluating:
            return
        if not self._latest_evaluation():
            self._empty_evaluations += 1
        found = self._evaluations()
        # The others are compared with the first.
        self._keep(evaluations=found[:1] + found[1:][1 - EVALUATIONS :])
        self._evaluating = []

    def _is_whole(self) -> bool:
        """Test whether the current evaluation has all completions; False where their number is unknown."""
        wanted = self.settings.get("evaluated_completions")
        if not wanted:
            return False
        size = sum(batch.size for batch in self._evaluating)
        return size >= int(wanted)

    def _evaluations(self) -> tuple[Evaluation, ...]:
        """Return all evaluations; the current one replaces an earlier one of its step, but never the first.

        After its last step, a run may be evaluated twice. The summary has the latter.
        """
        kept = self._kept.evaluations
        latest = self._latest_evaluation()
        if latest and len(kept) > 1 and kept[-1].step == latest[0].step is not None:
            kept = kept[:-1]
        return (*kept, *latest)

    def _latest_evaluation(self) -> list[Evaluation]:
        """Join the batches of the current evaluation to one score; empty without a judged completion."""
        score = score_level(self._evaluating)
        if not score.count:
            return []
        wrong = [batch.wrong_answer for batch in self._evaluating if batch.wrong_answer]
        evaluation = Evaluation(
            step=self._evaluating[-1].step,
            score=score,
            groups=sum(batch.groups for batch in self._evaluating),
            agreeing=sum(batch.agreeing_wrong_groups for batch in self._evaluating),
            wrong_answer=wrong[-1] if wrong else None,
        )
        return [evaluation]
