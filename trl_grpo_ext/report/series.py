"""Figures by step for charts, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trl_grpo_ext.diagnostics.batches import percent
from trl_grpo_ext.diagnostics.levels import ends_of, together
from trl_grpo_ext.diagnostics.progress import Ends, score_text
from trl_grpo_ext.figures.logged import (
    DRAWN_LIVE,
    EXPECTED_RATES,
    FALSE_ACCEPTS,
    FALSE_REJECTS,
    FLOOR_LIVE,
)
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.report.page import rounded
from trl_grpo_ext.runs.recorded_run import FIGURES
from trl_grpo_ext.support.estimate import NOTHING, Estimate, Interval, Z
from trl_grpo_ext.verdict import Status

# Largest number of points per chart; no screen shows more.
MOST_POINTS = 1000

# A live group whose primary term differs is `live`; if only other terms differ, it is `secondary_only`.
GROUP_KINDS = ("live", "secondary_only", "all_right", "tied", "all_wrong", "void")

LOGGED = (
    "entropy",
    "kl",
    "grad_norm",
    "learning_rate",
    "clip_ratio/region_mean",
    "clip_ratio/low_mean",
    "clip_ratio/high_mean",
    FLOOR_LIVE,
    DRAWN_LIVE,
    *EXPECTED_RATES,
    FALSE_REJECTS,
    f"{FALSE_REJECTS}_low",
    f"{FALSE_REJECTS}_high",
    FALSE_ACCEPTS,
    f"{FALSE_ACCEPTS}_low",
    f"{FALSE_ACCEPTS}_high",
)

# A figure's name, then its term, status or kind of group.
Key = tuple[str, ...]
PROMPT_REWARD: Key = ("prompt_reward",)
Figures = Mapping[Key, Estimate]


def series_figures(figures: BatchFigures) -> Figures:
    """Return a batch's figures for the charts; figures of batches at the same step add up.

    | key | mean or share |
    |---|---|
    | `reward` | mean total of samples that are not void |
    | `prompt_reward` | mean total per prompt; its standard error is the reward's, since samples of a prompt are alike |
    | `value, <term>` | mean value after shape and gate, before the weight |
    | `weight, <term>` | weight in force |
    | `status, <term>, <status>` | share of the term's verdicts with this status |
    | `void` | share of void samples |
    | `cut` | share of samples truncated at the length limit, among samples whose end is known |
    | `pass` | share of passing samples, among samples judged by the primary term |
    | `group, <kind>` | share of groups of this kind |
    | `driver, <term>` | share of the advantages due to the term |
    | `length, <status>` | mean tokens of samples with this primary status; `length, all` of all samples |
    | `fooled, <shadow>` | share failed by the shadow, among samples it judged and the primary term passed |
    """
    return _of_batch(figures) | _of_terms(figures) | _of_groups(figures)


def _of_batch(figures: BatchFigures) -> dict[Key, Estimate]:
    primary = figures.primary
    found: dict[Key, Estimate] = {
        ("reward",): figures.rewards.numbers,
        PROMPT_REWARD: figures.rewards.groups,
        ("void",): Estimate.share(figures.void, figures.size),
        ("cut",): primary.cut_share,
        ("pass",): Estimate.share(primary.right, primary.judged),
        ("length", "all"): figures.tokens.numbers,
    }
    for status, length in primary.lengths.items():
        if length.count:
            found["length", str(status)] = length
    for shadow, agreement in figures.agreements.items():
        passed = agreement.both + agreement.primary_only
        found["fooled", shadow] = Estimate.share(agreement.primary_only, passed)
    return found


def _of_terms(figures: BatchFigures) -> dict[Key, Estimate]:
    found: dict[Key, Estimate] = {}
    for term, of_term in figures.terms.items():
        found["value", term] = of_term.values.numbers
        found["weight", term] = Estimate.of([of_term.weight])
        found["driver", term] = Estimate.of([of_term.driver_share])
        for status in Status:
            count = of_term.statuses.get(status, 0)
            found["status", term, str(status)] = Estimate.share(count, of_term.judged)
    return found


def _of_groups(figures: BatchFigures) -> dict[Key, Estimate]:
    counts = {str(outcome): count for outcome, count in figures.outcomes.items()}
    groups = sum(counts.values())
    live = counts.get(GroupOutcome.LIVE, 0)
    counts["secondary_only"] = figures.secondary_groups
    # Groups that live by secondary terms alone are a kind of their own, and count once.
    counts["live"] = live - figures.secondary_groups
    found: dict[Key, Estimate] = {}
    for kind in GROUP_KINDS:
        found["group", kind] = Estimate.share(counts.get(kind, 0), groups)
    return found


@dataclass(slots=True)
class Point:
    """Figures at a step, or over several consecutive steps; `step` is the last."""

    step: int
    figures: dict[Key, Estimate] = field(default_factory=dict)

    def add(self, step: int, figures: Figures) -> None:
        """Add figures; their order does not matter."""
        self.step = max(self.step, step)
        self.figures = together((self.figures, figures))


class Timeline:
    """Sums of figures by step; in a long run, several consecutive steps share a point.

    Examples:
        >>> timeline = Timeline()
        >>> for step in range(3):
        ...     timeline.add(step, {("loss",): Estimate.of([float(step)])})
        >>> timeline.columns()
        {'steps': [0, 1, 2], 'figures': {'loss': [0.0, 1.0, 2.0]}}
    """

    def __init__(self) -> None:
        self._steps_a_point = 1
        self._points: dict[int, Point] = {}

    def __len__(self) -> int:
        return len(self._points)

    def add(self, step: int, figures: Figures) -> None:
        """Add a batch's figures to its step. Batches may come in any order."""
        self._put(step, figures)
        while len(self._points) > MOST_POINTS:
            # Neighbouring points are merged, so that memory is bounded in a run of any length.
            self._steps_a_point *= 2
            points = list(self._points.values())
            self._points.clear()
            for point in points:
                self._put(point.step, point.figures)

    def _put(self, step: int, figures: Figures) -> None:
        place = step // self._steps_a_point
        point = self._points.setdefault(place, Point(step))
        point.add(step, figures)

    @property
    def points(self) -> list[Point]:
        return [point for _, point in sorted(self._points.items())]

    def columns(self) -> dict[str, Any]:
        """Return `steps`, and `figures` nested by their keys: lists of equal length, null for missing values."""
        points = self.points
        # A dict instead of a set keeps the keys in order.
        keys: dict[Key, None] = {}
        for point in points:
            keys.update(dict.fromkeys(point.figures))
        nested: dict[str, Any] = {}
        for key in keys:
            *path, last = key
            place = nested
            for part in path:
                place = place.setdefault(part, {})
            # `NOTHING` has the mean NaN, which becomes null.
            figures = [point.figures.get(key, NOTHING) for point in points]
            place[last] = [rounded(figure.mean) for figure in figures]
        return {"steps": [point.step for point in points], "figures": nested}


def reward_margins(timeline: Timeline) -> list[float | None]:
    """Return half the width of the reward's 95 % interval at each point; None with fewer than two prompts.

    Examples:
        >>> timeline = Timeline()
        >>> timeline.add(0, {PROMPT_REWARD: Estimate.of([0.0, 0.5, 1.0])})
        >>> reward_margins(timeline)
        [0.565793]
    """
    margins = []
    for point in timeline.points:
        reward = point.figures.get(PROMPT_REWARD, NOTHING)
        margin = None
        if reward.count > 1:
            margin = rounded(Z * reward.error)
        margins.append(margin)
    return margins


SCORE = (
    "A score is a mean of verdicts, before weights, gates and shapes. A verifier of correctness gives 1 for right and "
    "0 for wrong."
)


class Tile(NamedTuple):
    """A headline figure beside the scores: a sum of several keys' means, formatted."""

    label: str
    keys: tuple[Key, ...]
    to_text: Callable[[float], str]


BESIDE_SCORES = (
    Tile("Reward", (("reward",),), score_text),
    Tile("Live groups", (("group", "live"), ("group", "secondary_only")), percent),
    Tile("Tokens", (("length", "all"),), "{:.0f}".format),
    Tile("Void", (("void",),), percent),
)


def key_figures(score: Mapping[str, Ends], main: Timeline, mode: str) -> dict[str, Any]:
    """Return the figures at the head of the page: `tiles` (label, start, end) and `notes` about their steps.

    Scores are the diagnosis's. Other figures are means over the same batches; in a run without training, they come from
    the first and the last evaluation.
    """
    tiles = []
    notes = []
    for where, ends in score.items():
        tiles.append([f"Score, {where}", *ends.score_texts])
        completions = f"{ends.end.count:,.0f} completions"
        notes.append(
            f"{where.capitalize()}: {ends.places} ({completions}){ends.gain_told}."
        )
    if score:
        notes.append(SCORE)
    first, last = _ends(main.points, mode)
    before = _texts(first)
    for label, text in _texts(last).items():
        tiles.append([label, before.get(label, ""), text])
    return {"tiles": tiles, "notes": notes}


def _ends(points: Sequence[Point], mode: str) -> tuple[Sequence[Point], Sequence[Point]]:
    if mode == "train":
        return ends_of(points)
    # A single evaluation has no start to compare with.
    first = points[:1] if len(points) > 1 else []
    return first, points[-1:]


EVALUATED = (
    "model",
    "dataset",
    "split",
    "prompts",
    "samples",
    "temperature",
    "max_completion_length",
    "seed",
)
JUDGES = ("reward_functions", "verifiers", "rewards")


def evaluated_settings(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of an evaluation from its `evaluation.json`."""
    return {name: evaluation[name] for name in EVALUATED if name in evaluation}


def evaluation_head(
    evaluation: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the head of an evaluation's page, from its `evaluation.json`.

    Of the trainer's settings, only rewards and verifiers remain, since no training took place.
    """
    tiles = []
    pass_at_1 = "unknown"
    for name, rate in evaluation[FIGURES].items():
        if not rate or not name.startswith(("pass@", "maj@")):
            continue
        interval = str(Interval(rate["mean"], rate["low"], rate["high"]))
        tiles.append([name, "", interval])
        if name == "pass@1":
            pass_at_1 = interval
    over = f"{evaluation['prompts']:,} prompts, {evaluation['samples']} completions each"
    shown = evaluated_settings(evaluation)
    for name in JUDGES:
        if name in settings:
            shown[name] = settings[name]
    return {
        "evaluated": True,
        "sentence": f"pass@1 is {pass_at_1}, over {over}.",
        "key_figures": {
            "tiles": tiles,
            "notes": [f"Data: {evaluation['dataset']} ({evaluation['split']})."],
        },
        "settings": shown,
    }


def _texts(points: Sequence[Point]) -> dict[str, str]:
    """Format known figures of `BESIDE_SCORES`, by label."""
    whole = together(point.figures for point in points)
    texts = {}
    for tile in BESIDE_SCORES:
        figures = [whole.get(key, NOTHING) for key in tile.keys]
        known = [figure.mean for figure in figures if figure.count]
        if known:
            texts[tile.label] = tile.to_text(sum(known))
    return texts


def log_columns(logs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return logged figures of policy and updates: `steps`, and in `figures` a list per figure of `LOGGED`.

    Missing values are null. The logs are read once, in bounded memory.

    Examples:
        >>> log_columns([{"step": 5, "entropy": 0.5, "loss": 0.1}, {"step": 5, "eval_entropy": 0.4}])
        {'steps': [5], 'figures': {'entropy': [0.5]}}
    """
    timeline = Timeline()
    for entry in logs:
        logged = [name for name in LOGGED if name in entry]
        step = entry.get("step")
        if not logged or not isinstance(step, int):
            continue
        figures: dict[Key, Estimate] = {}
        for name in logged:
            number = entry[name]
            if isinstance(number, int | float):
                figures[(name,)] = Estimate.of([float(number)])
        timeline.add(step, figures)
    return timeline.columns()
