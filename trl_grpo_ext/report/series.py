"""Figures over the steps of a run, as a chart takes them, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trl_grpo_ext.diagnostics.batches import percent
from trl_grpo_ext.diagnostics.levels import ends_of, together
from trl_grpo_ext.diagnostics.progress import Ends, score_text
from trl_grpo_ext.figures.logged import FALSE_ACCEPTS, FALSE_REJECTS
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.report.page import rounded
from trl_grpo_ext.runs.recorded_run import FIGURES
from trl_grpo_ext.support.estimate import NOTHING, Estimate, Interval, Z
from trl_grpo_ext.verdict import Status

MOST_POINTS = 1000  # no screen shows more

# Live groups are told apart by what differs in them: a primary term, or only others.
GROUP_KINDS = ("live", "secondary_only", "all_right", "tied", "all_wrong", "void")

LOGGED = (
    "entropy",
    "kl",
    "grad_norm",
    "learning_rate",
    "clip_ratio/region_mean",
    "clip_ratio/low_mean",
    "clip_ratio/high_mean",
    *(f"{rate}{bound}" for rate in (FALSE_REJECTS, FALSE_ACCEPTS) for bound in ("", "_low", "_high")),
)

Key = tuple[str, ...]  # what a figure is, then of which term, status or kind of group
PROMPT_REWARD: Key = ("prompt_reward",)
Figures = Mapping[Key, Estimate]


def series_figures(figures: BatchFigures) -> Figures:
    """What the page's charts show of a batch; batches of one step add up to those of the step.

    | key | is the mean, or the share |
    |---|---|
    | `reward` | total of the samples that are not void |
    | `prompt_reward` | mean total of a prompt's samples: its error is that of the reward, as they are alike |
    | `value, <term>` | value after shape and gate, before the weight |
    | `weight, <term>` | weight in force |
    | `status, <term>, <status>` | of the term's verdicts with that status |
    | `void` | of all samples that are void |
    | `cut` | of all samples, as far as it is known, that were cut at the length limit |
    | `pass` | of all samples that the primary term has judged that it passes |
    | `group, <kind>` | of all groups of that kind |
    | `driver, <term>` | of the advantages that is due to the term |
    | `length, <status>` | tokens of the samples of which the primary term says so; `length, all` of all |
    | `fooled, <shadow>` | of the samples that the primary term passes, and the shadow has judged, that it fails |
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
    """The figures of one step, or of several in a row, and the last of them."""

    step: int
    figures: dict[Key, Estimate] = field(default_factory=dict)

    def add(self, step: int, figures: Figures) -> None:
        """Take more figures in; the order does not matter."""
        self.step = max(self.step, step)
        self.figures = together((self.figures, figures))


class Timeline:
    """Adds up figures by step; of a run of many steps, several in a row as one point.

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
        """Add a batch's figures to those of its step. Batches may come in any order."""
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
        """`steps`, and `figures` nested by their keys: lists as long, null where there is nothing."""
        points = self.points
        keys = dict.fromkeys(key for point in points for key in point.figures)
        nested: dict[str, Any] = {}
        for key in keys:
            *path, last = key
            place = nested
            for part in path:
                place = place.setdefault(part, {})
            place[last] = [rounded(point.figures[key].mean) if key in point.figures else None for point in points]
        return {"steps": [point.step for point in points], "figures": nested}


def reward_margins(timeline: Timeline) -> list[float | None]:
    """How far the 95 % interval of the reward reaches to either side: a number a point, null for one prompt.

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
# Of each figure at the head of the page beside the scores: the keys of what it adds up, and how it is shown.
BESIDE_SCORES: dict[str, tuple[tuple[Key, ...], Callable[[float], str]]] = {
    "Reward": ((("reward",),), score_text),
    "Live groups": ((("group", "live"), ("group", "secondary_only")), percent),
    "Tokens": ((("length", "all"),), "{:.0f}".format),
    "Void": ((("void",),), percent),
}


def key_figures(score: Mapping[str, Ends], main: Timeline, mode: str) -> dict[str, Any]:
    """The figures at the head of the page: `tiles` of a label, start and end in words, and `notes` on where they are.

    The scores are those of the headline. The others are means over the steps of the same batches, or of the first and
    the last evaluation of a run without training.
    """
    tiles = [[f"Score, {where}", *ends.shown] for where, ends in score.items()]
    points = main.points
    parts = ends_of(points) if mode == "train" else (points[:-1][:1], points[-1:])
    texts = [_texts(part) for part in parts]
    tiles += [[label, *(text.get(label, "") for text in texts)] for label in BESIDE_SCORES if label in texts[1]]
    notes = [
        f"{where.capitalize()}: {ends.places} ({ends.end.count:,.0f} completions){ends.gain_told}."
        for where, ends in score.items()
    ]
    notes += [SCORE] if score else []
    return {"tiles": tiles, "notes": notes}


EVALUATED = ("model", "dataset", "split", "prompts", "samples", "temperature", "max_completion_length", "seed")
JUDGES = ("reward_functions", "verifiers", "rewards")


def evaluated_settings(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """What was evaluated and how, of an `evaluation.json`."""
    return {name: evaluation[name] for name in EVALUATED if name in evaluation}


def evaluation_head(evaluation: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The head of the page of an evaluation, of what its `evaluation.json` says.

    Of the trainer's settings, only those that say who judged are left: nothing was trained.
    """
    rates = {name: one for name, one in evaluation[FIGURES].items() if name.startswith(("pass@", "maj@")) and one}
    told = {name: str(Interval(one["mean"], one["low"], one["high"])) for name, one in rates.items()}
    over = f"{evaluation['prompts']:,} prompts, {evaluation['samples']} completions each"
    return {
        "evaluated": True,
        "sentence": f"pass@1 is {told.get('pass@1', 'unknown')}, over {over}.",
        "key_figures": {
            "tiles": [[name, "", interval] for name, interval in told.items()],
            "notes": [f"Data: {evaluation['dataset']} ({evaluation['split']})."],
        },
        "settings": evaluated_settings(evaluation) | {name: settings[name] for name in JUDGES if name in settings},
    }


def _texts(points: Sequence[Point]) -> dict[str, str]:
    whole = together(point.figures for point in points)
    known = {
        label: [figure.mean for key in keys if (figure := whole.get(key, NOTHING)).count]
        for label, (keys, _) in BESIDE_SCORES.items()
    }
    return {label: BESIDE_SCORES[label][1](sum(means)) for label, means in known.items() if means}


def log_columns(logs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What TRL logged of the policy and its updates: `steps`, and in `figures` a list as long for each of `LOGGED`.

    Null stands where a figure is missing. The logs are read once, in bounded memory.

    Examples:
        >>> log_columns([{"step": 5, "entropy": 0.5, "loss": 0.1}, {"step": 5, "eval_entropy": 0.4}])
        {'steps': [5], 'figures': {'entropy': [0.5]}}
    """
    timeline = Timeline()
    for entry in logs:
        found = {name: entry[name] for name in LOGGED if name in entry}
        if found and isinstance(entry.get("step"), int):
            numbers = {name: value for name, value in found.items() if isinstance(value, int | float)}
            timeline.add(entry["step"], {(name,): Estimate.of([float(value)]) for name, value in numbers.items()})
    return timeline.columns()
