"""Declines: fallen training or evaluation scores, and changes since their best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from trl_grpo_ext.diagnostics.levels import Levels, Period, fitted_rise
from trl_grpo_ext.diagnostics.progress import FLAT_BATCHES
from trl_grpo_ext.diagnostics.scale import Scale
from trl_grpo_ext.diagnostics.window import LATEST_LOGS, Window
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.support.estimate import NOTHING, Estimate

# Ours, tried in test_diagnosis_cases.py: runs that get worse, and healthy ones that go up and down.
LEAST_FALL = 0.1  # of the scale; less is not worth a finding
OF_BEST = 0.2  # of the best score's height on the scale: the least fall of a high one
ENOUGH_GROUPS = 32  # of the best part and of the recent batches
DOUBT_OF_EVALUATIONS = 3.0  # these are few
DOUBT = 4.5  # standard errors; more than SURE: the best of many parts is high by luck, and every batch is looked at
PARTS = (4, 8, 16)  # of the run, by number: the best one is looked for at these lengths
BACK = 0.5  # of the fall: if the latest batches have made up for more, it is over


@dataclass(frozen=True, slots=True)
class Decline:
    """Decline: a fallen score, and levels before and after."""

    best: Estimate  # the best level that it had
    now: Estimate  # the level that it has
    now_at: str  # where that was measured, in words
    scale: Scale  # of both
    steps: tuple[float, float]  # the optimizer steps of the best level, first and last
    before: Levels  # other figures at that time
    after: Levels  # the same figures now
    since: Mapping[str, float]  # the largest value of each logged figure since then

    @property
    def size(self) -> Estimate:
        return self.best - self.now

    def pair(self, of: Callable[[Levels], Estimate]) -> tuple[float, float] | None:
        """Pair of another figure before and now; None if either is unknown."""
        before, now = of(self.before), of(self.after)
        return (before.mean, now.mean) if before.count and now.count else None


def _matters(fall: Estimate, best: Estimate, scale: Scale) -> bool:
    """Test whether a fall is large enough to report."""
    return scale.part(fall).mean >= max(LEAST_FALL, OF_BEST * scale.unit(best).mean)


def training_decline(window: Window, term: str | None = None) -> Decline | None:
    """Fall of the training score from its best part to recent batches; None if unsure.

    It is looked for in the values of a term, or without one in the primary scores.
    """
    recent = [_level_now(batch, term) for batch in window.batches]
    now, parts = Estimate.together(recent), [(part.middle, _level(part, term)) for part in window.history]
    if len(recent) < FLAT_BATCHES or now.count < ENOUGH_GROUPS or not now.is_known:
        return None
    begin = window.batches[0].step
    earlier = [part for part in parts if part[1].count and (begin is None or part[0] < begin)]
    spread = _spread([level for _, level in parts])
    best = _best_part(earlier, spread)
    if best is None:
        return None
    first, last, level = best
    now = replace(now, error=max(now.error, spread / math.sqrt(now.count)))
    fall = level - now
    scale = window.scale if term is None else window.value_scale(term)
    if not _matters(fall, level, scale) or fall.mean <= DOUBT * fall.error or _is_coming_back(recent, now, fall):
        return None
    where = f"in the last {len(recent)} batches"
    return Decline(level, now, where, scale, (first, last), *_figures(window, first, last))


def _level(part: Period, term: str | None) -> Estimate:
    return part.scores if term is None else part.levels.values.get(term, NOTHING)


def _level_now(batch: BatchFigures, term: str | None) -> Estimate:
    if term is None:
        return batch.primary.scores.groups
    return batch.terms[term].values.groups if term in batch.terms else NOTHING


def evaluation_decline(window: Window) -> Decline | None:
    """Fall of the last two evaluations below the best one; None for no fall or too few evaluations."""
    known = [(step, level) for step, level in window.evaluations if step is not None]
    earlier, latest = known[:-2], [level for _, level in known[-2:]]
    if not earlier:
        return None
    step, best = max(earlier, key=lambda one: one[1].at_least)
    trend = fitted_rise([Period(when, level) for when, level in known if when >= step])
    now = Estimate.together(latest)
    fall = best - now
    falls_on = trend is not None and -trend.mean > DOUBT_OF_EVALUATIONS * trend.error
    is_sure = falls_on or fall.mean > DOUBT_OF_EVALUATIONS * fall.error
    each_is_lower = all(level.mean < best.mean - BACK * fall.mean for level in latest)
    if not (_matters(fall, best, window.scale) and is_sure and each_is_lower):
        return None
    where = "in the last two evaluations"
    return Decline(best, now, where, window.scale, (step, step), *_figures(window, step, step))


def _best_part(parts: Sequence[tuple[float, Estimate]], spread: float) -> tuple[float, float, Estimate] | None:
    """Find the surely highest part of the run: first step, last step, score.

    The error is that of the whole run's spread: a few groups alone may be alike by luck.
    """
    totals = [0.0, *accumulate(level.total for _, level in parts)]
    counts = [0.0, *accumulate(level.count for _, level in parts)]
    found = []
    for share in PARTS:
        width = max(FLAT_BATCHES, len(parts) // share)
        for start in range(len(parts) - width + 1):
            count, total = counts[start + width] - counts[start], totals[start + width] - totals[start]
            if count >= ENOUGH_GROUPS:
                level = Estimate(total / count, spread / math.sqrt(count), count)
                found.append((parts[start][0], parts[start + width - 1][0], level))
    return max(found, key=lambda one: (one[2].at_least, one[1]), default=None)


def _spread(levels: Sequence[Estimate]) -> float:
    """The deviation of group scores within periods."""
    freedom = sum(level.count - 1 for level in levels if level.count)
    return math.sqrt(sum(level.squared_deviations for level in levels) / freedom) if freedom > 0 else 0.0


def _is_coming_back(recent: Sequence[Estimate], now: Estimate, fall: Estimate) -> bool:
    """Test whether recent batches recover: half of the fall regained, or a sure rise."""
    half = len(recent) // 2
    before, after = Estimate.together(recent[:half]), Estimate.together(recent[half:])
    latest = Estimate.together(recent[-FLAT_BATCHES // 2 :])
    return latest.mean > now.mean + BACK * fall.mean or (after - before).is_sure


def _figures(window: Window, first: float, last: float) -> tuple[Levels, Levels, dict[str, float]]:
    """Collect other figures: at the best time, now, and logged maxima in between."""
    near = [part.levels for part in window.history if first <= part.middle <= last]
    logged = [part.levels for part in window.log_history if first <= part.middle <= last]
    if not logged and window.log_history:  # which may be of other steps
        logged = [min(window.log_history, key=lambda part: abs(part.middle - first)).levels]
    now = [*map(Levels.of_batch, window.batches), *map(Levels.of_logs, window.logs[-LATEST_LOGS:])]
    highest: dict[str, float] = {}
    for part in window.log_history:
        if part.middle <= last:
            continue
        for name, figure in part.levels.logged.items():
            highest[name] = max(figure.mean, highest.get(name, figure.mean))
    return sum([*near, *logged], start=Levels()), sum(now, start=Levels()), highest
