"""From run folders to a page on disk."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from trl_grpo_ext import __version__
from trl_grpo_ext.diagnostics.recorded_run import RecordedRun
from trl_grpo_ext.report.kept_groups import MOST_CHARACTERS, MOST_COMPLETIONS, KeptGroups
from trl_grpo_ext.report.page import standalone_page
from trl_grpo_ext.report.reported_findings import findings_of
from trl_grpo_ext.report.reported_run import ReportedRun
from trl_grpo_ext.scorecard import Scorecard

logger = logging.getLogger(__name__)

STYLES = ("uplot.min.css", "theme.css", "report.css")
SCRIPTS = ("uplot.min.js", "theme.js", "charts.js", "panels.js", "browser.js", "report.js")


def write_report(
    folders: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    completions: int = MOST_COMPLETIONS,
) -> Path:
    """Write a report of a run, or of two side by side.

    The run may be going on: what it has recorded so far is reported. The file is written whole or not at all.

    Args:
        folders: One or two run folders.
        output: Where to; by default `report.html` in the first folder, or `report-vs-<second>.html` for two.
        completions: At most about so many completions go into the page, those of two runs together.

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
    text = report_page(runs, completions=completions)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    unfinished.write_text(text, encoding="ascii")
    unfinished.replace(path)
    return path


def write_report_safely(folder: str | os.PathLike[str]) -> Path | None:
    """As `write_report` for one run, for use in training: whatever goes wrong is logged, and None returned."""
    try:
        return write_report([folder])
    except Exception as error:  # a report is worth no run
        logger.warning("The report of %s could not be written: %s", os.fspath(folder), error)
        return None


def report_page(runs: Sequence[RecordedRun], *, completions: int = MOST_COMPLETIONS) -> str:
    """The page of one run, or of two side by side."""
    names = _names(runs)
    data = {
        "version": __version__,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "runs": [
            _run_data(run, name, completions // len(runs), len(runs)) for run, name in zip(runs, names, strict=True)
        ],
    }
    return standalone_page(title=f"{' | '.join(names)} - report", data=data, scripts=SCRIPTS, styles=STYLES)


def _run_data(run: RecordedRun, name: str, completions: int, share: int) -> dict[str, Any]:
    findings = findings_of(run)
    kept = KeptGroups(completions, MOST_CHARACTERS // share, findings.steps)
    reported = ReportedRun(name, run.settings, findings, kept)
    unreadable = 0
    for card in _cards(run):
        if card is None:
            unreadable += 1
        else:
            reported.add(card)
    return reported.page_data(run.logs) | {"unreadable": unreadable}


def _cards(run: RecordedRun) -> Iterator[Scorecard | None]:
    """The run's scorecards; None for a batch that cannot be read, such as one that has just been thinned out."""
    for number, _ in run.parts():
        try:
            yield run.card(number)
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            logger.warning("Batch %d cannot be read: %s", number, error)
            yield None


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
