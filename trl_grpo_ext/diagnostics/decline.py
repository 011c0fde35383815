"""Declines: fallen training or evaluation scores, and changes since their best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from trl_grpo_ext.diagnostics.levels import Levels, Period, fitted_rise
from trl_grpo_ext.diagnostics.progress import FLAT_BATCHES
from trl_grpo_ext.diagnostics.scale import Scale
from trl_grpo_ext.diagnostics.window import LATEST_LOGS, Window
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.support.estimate import NOTHING, Estimate

# Ours, tried in test_diagnosis_cases.py: runs that get worse, and healthy ones that go up and down.
# Of the scale; less is not worth a finding.
LEAST_FALL = 0.1
# Of the best score's height on the scale: the least fall of a high one.
OF_BEST = 0.2
# Of the best part and of the recent batches.
ENOUGH_GROUPS = 32
# Standard errors of a fall between evaluations, which are few.
DOUBT_OF_EVALUATIONS = 3.0
# Standard errors; more than SURE: the best of many parts is high by luck, and every batch is looked at.
DOUBT = 4.5
# Of the run, by number: the best one is looked for at these lengths.
PARTS = (4, 8, 16)
# Of the fall: if the latest batches have made up for more, it is over.
BACK = 0.5


@dataclass(frozen=True, slots=True)
class Decline:
    """Decline: a fallen score, with levels of other figures at its best and now."""

    # The best level that it had.
    best: Estimate
    # The level that it has.
    now: Estimate
    # Where that was measured, in words.
    now_at: str
    # The scale of both levels.
    scale: Scale
    # The optimizer steps of the best level, first and last.
    steps: tuple[float, float]
    # Other figures at that time.
    before: Levels
    # The same figures now.
    after: Levels
    # The largest value of each logged figure since then.
    since: Mapping[str, float]

    @property
    def size(self) -> Estimate:
        return self.best - self.now

    def pair(self, of: Callable[[Levels], Estimate]) -> tuple[float, float] | None:
        """Read another figure at the best time and now; None for an unknown figure."""
        before = of(self.before)
        now = of(self.after)
        if not before.count or not now.count:
            return None
        return before.mean, now.mean


def _matters(fall: Estimate, best: Estimate, scale: Scale) -> bool:
    """Test whether a fall is large enough to report."""
    return scale.part(fall).mean >= max(LEAST_FALL, OF_BEST * scale.unit(best).mean)


def training_decline(window: Window, term: str | None = None) -> Decline | None:
    """Fall of the training score from its best part to recent batches; None if unsure.

    It is looked for in the values of a term, or without one in the primary scores.
    """
    recent = [_level_now(batch, term) for batch in window.batches]
    now = Estimate.together(recent)
    if len(recent) < FLAT_BATCHES or now.count < ENOUGH_GROUPS or not now.is_known:
        return None
    begin = window.batches[0].step
    earlier = []
    levels = []
    for period in window.history:
        level = _level(period, term)
        levels.append(level)
        if level.count and (begin is None or period.middle < begin):
            earlier.append((period.middle, level))
    spread = _spread(levels)
    best = _best_part(earlier, spread)
    if best is None:
        return None
    now = replace(now, error=max(now.error, spread / math.sqrt(now.count)))
    fall = best.score - now
    scale = window.scale if term is None else window.value_scale(term)
    is_sure = fall.mean > DOUBT * fall.error
    if (
        not is_sure
        or not _matters(fall, best.score, scale)
        or _is_coming_back(recent, now, fall)
    ):
        return None
    before, after, since = _figures(window, best.first, best.last)
    return Decline(
        best=best.score,
        now=now,
        now_at=f"in the last {len(recent)} batches",
        scale=scale,
        steps=(best.first, best.last),
        before=before,
        after=after,
        since=since,
    )


def _level(part: Period, term: str | None) -> Estimate:
    return part.scores if term is None else part.levels.values.get(term, NOTHING)


def _level_now(batch: BatchFigures, term: str | None) -> Estimate:
    if term is None:
        return batch.primary.scores.groups
    return batch.terms[term].values.groups if term in batch.terms else NOTHING


def evaluation_decline(window: Window) -> Decline | None:
    """Fall of the last two evaluations below the best one; None for no fall or too few evaluations."""
    known = window.evaluated_steps
    earlier = known[:-2]
    latest = [level for _, level in known[-2:]]
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
    before, after, since = _figures(window, step, step)
    return Decline(
        best=best,
        now=now,
        now_at="in the last two evaluations",
        scale=window.scale,
        steps=(step, step),
        before=before,
        after=after,
        since=since,
    )


class BestPart(NamedTuple):
    """Part of a run: first and last optimizer step, and its score."""

    first: float
    last: float
    score: Estimate


def _best_part(parts: Sequence[tuple[float, Estimate]], spread: float) -> BestPart | None:
    """Find the surely highest part of the run.

    The error is that of the whole run's spread: a few groups alone may be alike by luck.
    """
    totals = [0.0, *accumulate(level.total for _, level in parts)]
    counts = [0.0, *accumulate(level.count for _, level in parts)]
    found = []
    for share in PARTS:
        width = max(FLAT_BATCHES, len(parts) // share)
        for start in range(len(parts) - width + 1):
            end = start + width
            count = counts[end] - counts[start]
            if count >= ENOUGH_GROUPS:
                mean = (totals[end] - totals[start]) / count
                level = Estimate(mean, spread / math.sqrt(count), count)
                found.append(BestPart(parts[start][0], parts[end - 1][0], level))
    return max(found, key=lambda part: (part.score.at_least, part.last), default=None)


def _spread(levels: Sequence[Estimate]) -> float:
    """The deviation of group scores within periods."""
    freedom = squares = 0.0
    for level in levels:
        squares += level.squared_deviations
        if level.count:
            freedom += level.count - 1
    return math.sqrt(squares / freedom) if freedom > 0 else 0.0


def _is_coming_back(recent: Sequence[Estimate], now: Estimate, fall: Estimate) -> bool:
    """Test whether recent batches recover: half of the fall regained, or a sure rise."""
    half = len(recent) // 2
    rise = Estimate.together(recent[half:]) - Estimate.together(recent[:half])
    latest = Estimate.together(recent[-FLAT_BATCHES // 2 :])
    return latest.mean > now.mean + BACK * fall.mean or rise.is_sure


def _figures(
    window: Window, first: float, last: float
) -> tuple[Levels, Levels, dict[str, float]]:
    """Collect other figures: at the best time, now, and logged maxima in between."""
    near = [part.levels for part in window.history if first <= part.middle <= last]
    logged = [part.levels for part in window.log_history if first <= part.middle <= last]
    # Logs may be of other steps than batches: then the nearest log counts.
    if not logged and window.log_history:
        nearest = min(window.log_history, key=lambda part: abs(part.middle - first))
        logged = [nearest.levels]
    now = [
        *map(Levels.of_batch, window.batches),
        *map(Levels.of_logs, window.logs[-LATEST_LOGS:]),
    ]
    highest: dict[str, float] = {}
    for part in window.log_history:
        if part.middle <= last:
            continue
        for name, figure in part.levels.logged.items():
            highest[name] = max(figure.mean, highest.get(name, figure.mean))
    return sum([*near, *logged], start=Levels()), sum(now, start=Levels()), highest
