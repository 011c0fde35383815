"""Figures by step for charts, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trl_grpo_ext.diagnostics.batches import percent
from trl_grpo_ext.diagnostics.levels import ends_of, together
from trl_grpo_ext.diagnostics.progress import Ends, score_text
from trl_grpo_ext.figures.logged import DRAWN_LIVE, EXPECTED_RATES, FALSE_ACCEPTS, FALSE_REJECTS, FLOOR_LIVE
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
    *(f"{rate}{bound}" for rate in (FALSE_REJECTS, FALSE_ACCEPTS) for bound in ("", "_low", "_high")),
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
    return dict((*_of_batch(figures), *_of_terms(figures), *_of_groups(figures)))


def _of_batch(figures: BatchFigures) -> Iterator[tuple[Key, Estimate]]:
    primary = figures.primary
    yield ("reward",), figures.rewards.numbers
    yield PROMPT_REWARD, figures.rewards.groups
    yield ("void",), Estimate.share(figures.void, figures.size)
    yield ("cut",), primary.cut_share
    yield ("pass",), Estimate.share(primary.right, primary.judged)
    yield ("length", "all"), figures.tokens.numbers
    for status, length in primary.lengths.items():
        if length.count:
            yield ("length", str(status)), length
    for shadow, found in figures.agreements.items():
        yield ("fooled", shadow), Estimate.share(found.primary_only, found.both + found.primary_only)


def _of_terms(figures: BatchFigures) -> Iterator[tuple[Key, Estimate]]:
    for term, found in figures.terms.items():
        yield ("value", term), found.values.numbers
        yield ("weight", term), Estimate.of([found.weight])
        yield ("driver", term), Estimate.of([found.driver_share])
        for status in Status:
            yield ("status", term, str(status)), Estimate.share(found.statuses.get(status, 0), found.judged)


def _of_groups(figures: BatchFigures) -> Iterator[tuple[Key, Estimate]]:
    counts = {str(kind): count for kind, count in figures.outcomes.items()}
    counts["secondary_only"] = figures.secondary_groups
    counts[GroupOutcome.LIVE] = counts.get(GroupOutcome.LIVE, 0) - figures.secondary_groups
    for kind in GROUP_KINDS:
        yield ("group", kind), Estimate.share(counts.get(kind, 0), sum(counts.values()))


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
            self._steps_a_point *= 2
            points, self._points = self._points, {}
            for point in points.values():
                self._put(point.step, point.figures)

    def _put(self, step: int, figures: Figures) -> None:
        self._points.setdefault(step // self._steps_a_point, Point(step)).add(step, figures)

    @property
    def points(self) -> list[Point]:
        return [point for _, point in sorted(self._points.items())]

    def columns(self) -> dict[str, Any]:
        """Return `steps`, and `figures` nested by their keys: lists of equal length, null for missing values."""
        points = self.points
        keys = dict.fromkeys(key for point in points for key in point.figures)
        nested: dict[str, Any] = {}
        for key in keys:
            *path, last = key
            place = nested
            for part in path:
                place = place.setdefault(part, {})
            figures = [point.figures.get(key) for point in points]
            place[last] = [None if figure is None else rounded(figure.mean) for figure in figures]
        return {"steps": [point.step for point in points], "figures": nested}


def reward_margins(timeline: Timeline) -> list[float | None]:
    """Return half the width of the reward's 95 % interval at each point; None with fewer than two prompts.

    Examples:
        >>> timeline = Timeline()
        >>> timeline.add(0, {PROMPT_REWARD: Estimate.of([0.0, 0.5, 1.0])})
        >>> reward_margins(timeline)
        [0.565793]
    """
    known = [point.figures.get(PROMPT_REWARD, NOTHING) for point in timeline.points]
    return [rounded(Z * one.error) if one.count > 1 else None for one in known]


SCORE = (
    "A score is a mean of verdicts, before weights, gates and shapes. A verifier of correctness gives 1 for right and "
    "0 for wrong."
)
# Figures at the head of the page, after the scores: the keys to add up, and the number format.
BESIDE_SCORES: dict[str, tuple[tuple[Key, ...], Callable[[float], str]]] = {
    "Reward": ((("reward",),), score_text),
    "Live groups": ((("group", "live"), ("group", "secondary_only")), percent),
    "Tokens": ((("length", "all"),), "{:.0f}".format),
    "Void": ((("void",),), percent),
}


def key_figures(score: Mapping[str, Ends], main: Timeline, mode: str) -> dict[str, Any]:
    """Return the figures at the head of the page: `tiles` (label, start, end) and `notes` about their steps.

    Scores are the diagnosis's. Other figures are means over the same batches; in a run without training, they come from
    the first and the last evaluation.
    """
    tiles = [[f"Score, {where}", *ends.shown] for where, ends in score.items()]
    points = main.points
    first, last = ends_of(points) if mode == "train" else (points[:-1][:1], points[-1:])
    before, after = _texts(first), _texts(last)
    for label, text in after.items():
        tiles.append([label, before.get(label, ""), text])
    notes = []
    for where, ends in score.items():
        notes.append(f"{where.capitalize()}: {ends.places} ({ends.end.count:,.0f} completions){ends.gain_told}.")
    if score:
        notes.append(SCORE)
    return {"tiles": tiles, "notes": notes}


EVALUATED = ("model", "dataset", "split", "prompts", "samples", "temperature", "max_completion_length", "seed")
JUDGES = ("reward_functions", "verifiers", "rewards")


def evaluated_settings(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of an evaluation from its `evaluation.json`."""
    return {name: evaluation[name] for name in EVALUATED if name in evaluation}


def evaluation_head(evaluation: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head of an evaluation's page, from its `evaluation.json`.

    Of the trainer's settings, only rewards and verifiers remain, since no training took place.
    """
    rates = {}
    for name, rate in evaluation[FIGURES].items():
        if rate and name.startswith(("pass@", "maj@")):
            rates[name] = str(Interval(rate["mean"], rate["low"], rate["high"]))
    over = f"{evaluation['prompts']:,} prompts, {evaluation['samples']} completions each"
    return {
        "evaluated": True,
        "sentence": f"pass@1 is {rates.get('pass@1', 'unknown')}, over {over}.",
        "key_figures": {
            "tiles": [[name, "", interval] for name, interval in rates.items()],
            "notes": [f"Data: {evaluation['dataset']} ({evaluation['split']})."],
        },
        "settings": evaluated_settings(evaluation) | {name: settings[name] for name in JUDGES if name in settings},
    }


def _texts(points: Sequence[Point]) -> dict[str, str]:
    """Format known figures of `BESIDE_SCORES`, by label."""
    whole = together(point.figures for point in points)
    texts = {}
    for label, (keys, to_text) in BESIDE_SCORES.items():
        figures = [whole[key] for key in keys if key in whole]
        known = [figure.mean for figure in figures if figure.count]
        if known:
            texts[label] = to_text(sum(known))
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
        if not logged or not isinstance(entry.get("step"), int):
            continue
        figures: dict[Key, Estimate] = {}
        for name in logged:
            if isinstance(entry[name], int | float):
                figures[(name,)] = Estimate.of([float(entry[name])])
        timeline.add(entry["step"], figures)
    return timeline.columns()
