"""From run folders to a page on disk."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from trl_grpo_ext.report.kept_groups import MOST_CHARACTERS, MOST_COMPLETIONS, KeptGroups
from trl_grpo_ext.report.page import standalone_page
from trl_grpo_ext.report.reported_run import ReportedRun, findings_of
from trl_grpo_ext.report.two_runs import comparison
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import About
from trl_grpo_ext.support.files import write_text
from trl_grpo_ext.support.version import __version__

STYLES = ("uplot.min.css", "theme.css", "report.css")
SCRIPTS = ("uplot.min.js", "theme.js", "charts.js", "panels.js", "browser.js", "report.js")

DIAGNOSIS_SHARE = 0.5  # at most, of the time, that the answer may take; the figures have the rest


def write_report(
    folders: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    completions: int = MOST_COMPLETIONS,
    seconds: float = math.inf,
) -> Path:
    """Write a report of a run, or of two side by side.

    The run may be going on: what it has recorded so far is reported. The file is written whole or not at all.

    Args:
        folders: One or two run folders.
        output: Where to; by default `report.html` in the first folder, or `report-vs-<second>.html` for two.
        completions: At most about so many completions go into the page, those of two runs together.
        seconds: So long batches of a run are read, about: for at most half of it for the answer, then for the figures
            and the completions. These are of batches spread over the whole run, and the page says how many were left.

    Returns:
        Where it was written.

    Raises:
        FileNotFoundError: for a folder that holds no scorecards.
        OSError: when the disk does not take it.
        ValueError: for no folder, more than two, or fewer completions than one.
    """
    if completions < 1:
        raise ValueError(f"A report holds one completion or more, got {completions}.")
    if not 1 <= len(folders) <= 2:
        raise ValueError(f"A report is of one run, or of two side by side; got {len(folders)}.")
    runs = [RecordedRun(Path(folder)) for folder in folders]
    path = Path(output) if output is not None else _default_output(runs)
    text = report_page(runs, completions=completions, seconds=seconds)
    write_text(path, text)
    return path


def report_page(runs: Sequence[RecordedRun], *, completions: int = MOST_COMPLETIONS, seconds: float = math.inf) -> str:
    """The page of one run, or of two side by side."""
    room = Room(completions // len(runs), MOST_CHARACTERS // len(runs), seconds)
    names = _names(runs)
    data = {
        "version": __version__,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "comparison": comparison(runs, names) if len(runs) == 2 else None,
        "runs": [_run_data(run, name, room) for run, name in zip(runs, names, strict=True)],
    }
    return standalone_page(title=f"{' | '.join(names)} - report", data=data, scripts=SCRIPTS, styles=STYLES)


class Room(NamedTuple):
    """What a run may take: of the page, and of time."""

    completions: int
    characters: int
    seconds: float


def _run_data(run: RecordedRun, name: str, room: Room) -> dict[str, Any]:
    end = time.monotonic() + room.seconds
    findings = findings_of(run, seconds=room.seconds * DIAGNOSIS_SHARE)
    parts = run.parts()
    kept = KeptGroups(room.completions, room.characters, findings.steps)
    reported = ReportedRun(name, run.settings, findings, kept, weights=(about.weights for _, about in parts))
    left = deque(_reading_order(parts, findings.steps))
    unreadable = 0
    while left and (time.monotonic() < end or not reported.batches):
        number = left.popleft()
        card = run.readable(number)
        if card is None:
            unreadable += 1
        else:
            reported.add(card, number)
    return reported.page_data(run.iterate_logs()) | {"unreadable": unreadable, "unread": len(left)}


def _reading_order(parts: Sequence[tuple[int, About]], first_steps: Collection[int]) -> Iterator[int]:
    """The numbers of batches: those of some steps, then the others so that the first of them are spread over all."""
    yield from (number for number, about in parts if about.step in first_steps)
    yield from spread_out([number for number, about in parts if about.step not in first_steps])


def spread_out(items: Sequence[int]) -> Iterator[int]:
    """All of the items, in an order in which whatever comes first is spread over the whole.

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
    """What the runs are called: their folders' names, or with those of the folders above where they are the same."""
    paths = [run.folder.resolve() for run in runs]
    names = [path.name or "run" for path in paths]
    if len(set(names)) == len(names):
        return names
    longer = [f"{path.parent.name}/{path.name}" for path in paths]
    return (
        longer
        if len(set(longer)) == len(longer)
        else [f"{name} ({letter})" for name, letter in zip(longer, "AB", strict=True)]
    )


def _default_output(runs: Sequence[RecordedRun]) -> Path:
    first = runs[0].folder
    return first / "report.html" if len(runs) == 1 else first / f"report-vs-{runs[1].folder.resolve().name}.html"
