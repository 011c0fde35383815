"""Write a report from run folders; for two runs, say which is ahead, by how much, and which settings differ."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trl_grpo_ext.diagnostics.levels import ends_of, score_level
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.report.kept_groups import MOST_CHARACTERS, MOST_COMPLETIONS, KeptGroups
from trl_grpo_ext.report.page import standalone_page
from trl_grpo_ext.report.reported_run import ReportedRun, findings_of
from trl_grpo_ext.report.series import evaluated_settings, evaluation_head
from trl_grpo_ext.runs.recorded_run import FIGURES, RecordedRun
from trl_grpo_ext.runs.resumed import KEY
from trl_grpo_ext.runs.run_settings import conditions_of
from trl_grpo_ext.runs.schema import About
from trl_grpo_ext.scorecard import Mode
from trl_grpo_ext.support.estimate import SURE, Estimate
from trl_grpo_ext.support.files import write_text
from trl_grpo_ext.support.text import sentence, shortened
from trl_grpo_ext.support.version import __version__

STYLES = ("uplot.min.css", "theme.css", "report.css")
SCRIPTS = ("uplot.min.js", "theme.js", "charts.js", "panels.js", "browser.js", "report.js")

# Largest share of the time limit for the diagnosis; the rest is for figures.
DIAGNOSIS_SHARE = 0.5


def write_report(
    folders: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    completions: int = MOST_COMPLETIONS,
    seconds: float = math.inf,
    ahead: str | None = None,
) -> Path:
    """Write a report of a run, or of two runs side by side.

    A run may still be going on; the report shows its records so far. A report of two runs has no completions: each
    run's own report has them. The file is written whole or not at all.

    Args:
        folders: One or two run folders.
        output: The file to write; by default `report.html` in the first folder, or `report-vs-<second>.html` for two.
        completions: Approximate limit on completions in the page of one run.
        seconds: Approximate time limit for reading a run's batches: at most half for the diagnosis, the rest for
            figures and completions. Batches are read spread over the run, and the page tells how many were not read.
        ahead: A sentence on which of two runs is ahead; by default it is computed.

    Returns:
        The path of the report.

    Raises:
        FileNotFoundError: for a folder without scorecards.
        OSError: if the file cannot be written.
        ValueError: for no folder, more than two folders, or fewer than one completion.
    """
    if completions < 1:
        raise ValueError(f"A report holds one completion or more, got {completions}.")
    if not 1 <= len(folders) <= 2:
        raise ValueError(
            f"A report is of one run, or of two side by side; got {len(folders)}."
        )
    runs = [RecordedRun(Path(folder)) for folder in folders]
    names = _names(runs)
    told = None
    if len(runs) == 2:
        told = comparison(runs, names, ahead)
        # Each run's own report has its completions.
        completions = 0
    data = {
        "version": __version__,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "comparison": told,
        "runs": [
            _run_data(run, name, seconds, completions)
            for run, name in zip(runs, names, strict=True)
        ],
    }
    page = standalone_page(
        title=f"{' | '.join(names)} - report",
        data=data,
        scripts=SCRIPTS,
        styles=STYLES,
    )
    path = _path(runs) if output is None else Path(output)
    write_text(path, page)
    return path


def _path(runs: Sequence[RecordedRun]) -> Path:
    name = "report"
    for other in runs[1:]:
        name += f"-vs-{other.folder.resolve().name}"
    return runs[0].folder / f"{name}.html"


def _run_data(
    run: RecordedRun, name: str, seconds: float, completions: int
) -> dict[str, Any]:
    """Return the page's data for a run; with 0 completions, its figures only."""
    end = time.monotonic() + seconds
    findings = findings_of(run, seconds=seconds * DIAGNOSIS_SHARE)
    kept = None
    if completions:
        kept = KeptGroups(completions, MOST_CHARACTERS, findings.steps)
    parts = run.parts()
    weights = (about.weights for _, about in parts)
    reported = ReportedRun(name, run.settings, findings, kept, weights)
    left = _in_reading_order(parts, findings.steps)
    unreadable = 0
    # One batch at least is read, so that the page of a slow disk is not empty.
    while left and (time.monotonic() < end or not reported.batches):
        number = left.popleft()
        card = run.readable(number)
        if card is None:
            unreadable += 1
        else:
            reported.add(card, number)
    data = reported.page_data(run.iterate_logs())
    data["unreadable"] = unreadable
    data["unread"] = len(left)
    if FIGURES in run.evaluation:
        data |= evaluation_head(run.evaluation, data["settings"])
    return data


def _in_reading_order(
    parts: Sequence[tuple[int, About]], cited: Collection[int]
) -> deque[int]:
    """Order the numbers of a run's batches: batches at cited steps first, other batches spread over the run."""
    first = []
    others = []
    for number, about in parts:
        if about.step in cited:
            first.append(number)
        else:
            others.append(number)
    return deque([*first, *spread_out(others)])


def spread_out(items: Sequence[int]) -> Iterator[int]:
    """Reorder items so that every prefix is spread evenly over the whole.

    Examples:
        >>> list(spread_out(range(10)))
        [0, 8, 4, 2, 6, 1, 3, 5, 7, 9]
    """
    # The largest power of two below the number of items.
    distance = 1
    while 2 * distance < len(items):
        distance *= 2
    yield from items[::distance]
    while distance > 1:
        yield from items[distance // 2 :: distance]
        distance //= 2


def _names(runs: Sequence[RecordedRun]) -> list[str]:
    """Name each run by its folder; if the names are equal, add the parent folder, then a letter."""
    paths = [run.folder.resolve() for run in runs]
    names = [path.name or "run" for path in paths]
    if len(set(names)) == len(names):
        return names
    longer = [f"{path.parent.name}/{path.name}" for path in paths]
    if len(set(longer)) == len(longer):
        return longer
    return [f"{name} ({letter})" for name, letter in zip(longer, "AB", strict=True)]


# Largest number of differing settings to list.
MOST_NAMED = 6
# Longest value of a setting, in characters.
MOST_CHARS = 80


def comparison(
    runs: Sequence[RecordedRun], names: Sequence[str], ahead: str | None = None
) -> str:
    """Say which run is ahead, and which settings differ.

    Scores are compared in the last evaluation, or at the end of training if a run has no evaluation. They are computed
    like the scores at the head of the page; the interval is the 95 % interval of the difference.
    """
    mode: Mode = "train"
    if all(run.parts("eval") for run in runs):
        mode = "eval"
    if ahead is None:
        first, second = (_last_score(run, mode) for run in runs)
        ahead = _ahead(first, second, names, mode)
    differences = ", ".join(_differences(runs))
    if not differences:
        return f"{ahead} No setting differs."
    return f"{ahead} They differ in {differences}."


def _last_score(run: RecordedRun, mode: Mode) -> Estimate:
    """Return the score of the last evaluation, or of the last training batches."""
    parts = run.parts(mode)
    last: Sequence[tuple[int, About]]
    if mode == "eval":
        _, newest = parts[-1]
        last = [(number, about) for number, about in parts if about.step == newest.step]
    else:
        _, last = ends_of(parts)
    figures = []
    for number, _ in last:
        card = run.readable(number)
        if card is not None:
            figures.append(reduce_card(card, run.settings))
    return score_level(figures)


def _ahead(first: Estimate, second: Estimate, names: Sequence[str], mode: str) -> str:
    where = "in the last evaluation" if mode == "eval" else "at the end of training"
    if not (first.is_known and second.is_known):
        return f"Which run is ahead {where} is unknown: not both have scores."
    gap = first - second
    interval = replace(gap, mean=abs(gap.mean)).interval
    if interval.mean <= SURE * gap.error or not gap.mean:
        return f"{sentence(where)} the two are equal as far as can be told: the difference is {interval}."
    ahead, behind = names
    high = first.mean
    low = second.mean
    if gap.mean < 0:
        ahead, behind = behind, ahead
        high, low = low, high
    return f"{ahead} beats {behind} by {interval} {where}: {high:.3f} against {low:.3f}."


def _differences(runs: Sequence[RecordedRun]) -> Iterator[str]:
    """List differing settings, verifiers and last weights, with both values."""
    one, other = map(_compared_settings, runs)
    rewards = [_rewards_by_name(one), _rewards_by_name(other)]
    found: list[str] = []
    for name in {**one, **other}:
        if name != "rewards":
            found += _difference(name, one.get(name), other.get(name), rewards)
    yield from found[:MOST_NAMED]
    if len(found) > MOST_NAMED:
        yield f"{len(found) - MOST_NAMED} more (see Settings)"


def _rewards_by_name(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {reward["name"]: reward for reward in settings.get("rewards", ())}


def _compared_settings(run: RecordedRun) -> dict[str, Any]:
    """Collect a run's settings and its last weights."""
    parts = run.parts()
    weights = parts[-1][1].weights if parts else {}
    settings = {name: value for name, value in run.settings.items() if name != KEY}
    return {**evaluated_settings(run.evaluation), **settings, "weight": weights}


def _difference(
    name: str,
    one: Any,
    other: Any,
    rewards: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        if one != other:
            yield f"{name} ({_both(one, other)})"
        return
    for term in {**one, **other}:
        has_changed = one.get(term) != other.get(term)
        if name == "verifiers" and term in one and term in other:
            first, second = (each.get(term, {}) for each in rewards)
            yield from _of_term(term, first, second, has_changed=has_changed)
        elif name == "weight" and has_changed:
            yield f"the weight of {term} ({_both(one.get(term), other.get(term))})"


def _of_term(
    term: str,
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    *,
    has_changed: bool,
) -> Iterator[str]:
    """List differences between two descriptions of a term; runs recorded by an earlier version have no descriptions.

    `has_changed` says that the verifiers' identities differ. Identities are digests, which mean nothing to a reader.
    """
    is_same_class = one.get("verifier") == other.get("verifier")
    settings_differ = one.get("settings") != other.get("settings")
    if has_changed and is_same_class and settings_differ:
        yield from _changed(term, one["settings"], other["settings"])
    elif has_changed:
        first = _class_name(one)
        second = _class_name(other)
        if first and second and first != second:
            yield f"the verifier of {term} ({first}, {second})"
        else:
            yield f"the verifier of {term}"
    if one and other:
        yield from _changed(term, conditions_of(one), conditions_of(other))


def _class_name(described: Mapping[str, Any]) -> str:
    path: str = described.get("verifier", "")
    _, _, name = path.rpartition(".")
    return name


def _changed(term: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for key in {**one, **other}:
        if one.get(key) != other.get(key):
            yield f"{key} of {term} ({_both(one.get(key), other.get(key))})"


def _both(one: Any, other: Any) -> str:
    return f"{_shown(one)}, {_shown(other)}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return shortened(str(value), MOST_CHARS)
