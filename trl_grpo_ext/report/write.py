"""Write a report from run folders; for two runs, say which is ahead, by how much, and which settings differ."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
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
from trl_grpo_ext.runs.settings import conditions_of
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
        raise ValueError(f"A report is of one run, or of two side by side; got {len(folders)}.")
    runs = [RecordedRun(Path(folder)) for folder in folders]
    second = f"-vs-{runs[1].folder.resolve().name}" if len(runs) == 2 else ""
    path = Path(output) if output is not None else runs[0].folder / f"report{second}.html"
    names = _names(runs)
    data = {
        "version": __version__,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "comparison": comparison(runs, names, ahead) if len(runs) == 2 else None,
        "runs": [
            _run_data(run, name, seconds, completions if len(runs) == 1 else 0)
            for run, name in zip(runs, names, strict=True)
        ],
    }
    title = f"{' | '.join(names)} - report"
    write_text(path, standalone_page(title=title, data=data, scripts=SCRIPTS, styles=STYLES))
    return path


def _run_data(run: RecordedRun, name: str, seconds: float, completions: int) -> dict[str, Any]:
    """Return the page's data for a run; with 0 completions, its figures only."""
    end = time.monotonic() + seconds
    findings = findings_of(run, seconds=seconds * DIAGNOSIS_SHARE)
    parts = run.parts()
    kept = KeptGroups(completions, MOST_CHARACTERS, findings.steps) if completions else None
    reported = ReportedRun(name, run.settings, findings, kept, weights=(about.weights for _, about in parts))
    left = deque(number for number, about in parts if about.step in findings.steps)
    left += spread_out([number for number, about in parts if about.step not in findings.steps])
    unreadable = 0
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


def spread_out(items: Sequence[int]) -> Iterator[int]:
    """Reorder items so that every prefix is spread evenly over the whole.

    Examples:
        >>> list(spread_out(range(10)))
        [0, 8, 4, 2, 6, 1, 3, 5, 7, 9]
    """
    distance = 1 << max(len(items) - 1, 0).bit_length() >> 1
    yield from items[:: distance or 1]
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


def comparison(runs: Sequence[RecordedRun], names: Sequence[str], ahead: str | None = None) -> str:
    """Say which run is ahead, and which settings differ.

    Scores are compared in the last evaluation, or at the end of training if a run has no evaluation. They are computed
    like the scores at the head of the page; the interval is the 95 % interval of the difference.
    """
    mode: Mode = "eval" if all(run.parts("eval") for run in runs) else "train"
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
    if mode == "eval":
        last_step = parts[-1][1].step
        last: Sequence[tuple[int, Any]] = [part for part in parts if part[1].step == last_step]
    else:
        _, last = ends_of(parts)
    cards = [run.readable(number) for number, _ in last]
    return score_level([reduce_card(card, run.settings) for card in cards if card is not None])


def _ahead(first: Estimate, second: Estimate, names: Sequence[str], mode: str) -> str:
    where = "in the last evaluation" if mode == "eval" else "at the end of training"
    if not (first.is_known and second.is_known):
        return f"Which run is ahead {where} is unknown: not both have scores."
    gap = first - second
    ahead, behind = names if gap.mean >= 0 else reversed(names)
    high, low = max(first.mean, second.mean), min(first.mean, second.mean)
    interval = replace(gap, mean=abs(gap.mean)).interval
    if interval.mean <= SURE * gap.error or not gap.mean:
        return f"{sentence(where)} the two are equal as far as can be told: the difference is {interval}."
    return f"{ahead} beats {behind} by {interval} {where}: {high:.3f} against {low:.3f}."


def _differences(runs: Sequence[RecordedRun]) -> Iterator[str]:
    """List differing settings, verifiers and last weights, with both values."""
    one, other = map(_compared_settings, runs)
    rewards = [{reward["name"]: reward for reward in each.pop("rewards", ())} for each in (one, other)]
    found: list[str] = []
    for name in {**one, **other}:
        found += _difference(name, one.get(name), other.get(name), rewards)
    yield from found[:MOST_NAMED]
    if len(found) > MOST_NAMED:
        yield f"{len(found) - MOST_NAMED} more (see Settings)"


def _compared_settings(run: RecordedRun) -> dict[str, Any]:
    """Collect a run's settings and its last weights."""
    parts = run.parts()
    weights = parts[-1][1].weights if parts else {}
    settings = {name: value for name, value in run.settings.items() if name != KEY}
    return {**evaluated_settings(run.evaluation), **settings, "weight": weights}


def _difference(name: str, one: Any, other: Any, rewards: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        if one != other:
            yield f"{name} ({_shown(one)}, {_shown(other)})"
        return
    for term in {**one, **other}:
        if name == "verifiers" and term in one and term in other:
            has_changed = one[term] != other[term]
            yield from _of_term(term, *(each.get(term, {}) for each in rewards), has_changed=has_changed)
        elif name == "weight" and one.get(term) != other.get(term):
            yield f"the weight of {term} ({_shown(one.get(term))}, {_shown(other.get(term))})"


def _of_term(term: str, one: Mapping[str, Any], other: Mapping[str, Any], *, has_changed: bool) -> Iterator[str]:
    """List differences between two descriptions of a term; runs recorded by an earlier version have no descriptions.

    `has_changed` says that the verifiers' identities differ. Identities are digests, which mean nothing to a reader.
    """
    if has_changed and one.get("verifier") == other.get("verifier") and one.get("settings") != other.get("settings"):
        yield from _changed(term, one["settings"], other["settings"])
    elif has_changed:
        classes = [each["verifier"].rpartition(".")[2] for each in (one, other) if "verifier" in each]
        are_two = len(set(classes)) == 2
        yield f"the verifier of {term} ({', '.join(classes)})" if are_two else f"the verifier of {term}"
    if one and other:
        yield from _changed(term, conditions_of(one), conditions_of(other))


def _changed(term: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for key in {**one, **other}:
        if one.get(key) != other.get(key):
            yield f"{key} of {term} ({_shown(one.get(key))}, {_shown(other.get(key))})"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return shortened(str(value), MOST_CHARS)
