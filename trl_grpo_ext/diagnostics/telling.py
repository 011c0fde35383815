"""Findings on the console, and as alerts of trackers."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text
from tqdm import tqdm

from trl_grpo_ext.diagnostics.finding import Finding, Severity

logger = logging.getLogger(__name__)

COLOURS = {Severity.INFO: "blue", Severity.WARNING: "yellow", Severity.CRITICAL: "red"}


def show_finding(finding: Finding) -> None:
    """Print a finding to stderr, without breaking a progress bar."""
    console = Console(stderr=True)
    with tqdm.external_write_mode(file=sys.stderr):
        if console.is_terminal:
            console.print(_panel(finding))
            return
        # A line each, for log files and for a search in them.
        for line in plain_lines(finding):
            console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)


def plain_lines(finding: Finding) -> list[str]:
    """Write a finding as two lines of text: sentence, action.

    Examples:
        >>> finding = Finding(code="bad_data", step=3, severity="warning", sentence="So it is.", action="Mend it.")
        >>> print(*plain_lines(finding), sep="\\n")
        [warning] bad_data at step 3: So it is.
          Mend it. (trl-grpo-ext docs findings#bad_data)
    """
    return [
        f"[{finding.severity}] {_title(finding)}: {finding.sentence}",
        f"  {finding.action} ({finding.docs})",
    ]


def _title(finding: Finding) -> str:
    if finding.step is None:
        return finding.code
    return f"{finding.code} at step {finding.step}"


def _panel(finding: Finding) -> Panel:
    lines = Group(
        Text(finding.sentence),
        Text(finding.action, style="bold"),
        Text(finding.docs, style="dim"),
    )
    return Panel(
        lines,
        title=Text(_title(finding)),
        title_align="left",
        border_style=COLOURS[finding.severity],
    )


# Alert levels of trackio and wandb.
ALERTS = {Severity.INFO: "INFO", Severity.WARNING: "WARN", Severity.CRITICAL: "ERROR"}


def _has_wandb_run(wandb: Any) -> bool:
    return getattr(wandb, "run", None) is not None


def _has_trackio_run(trackio: Any) -> bool:
    # Older versions of trackio have no alerts.
    return hasattr(trackio, "alert") and trackio.context_vars.current_run.get() is not None


# Trackers by module name, each with a test for an active run.
HAS_RUN: Mapping[str, Callable[[Any], bool]] = {
    "wandb": _has_wandb_run,
    "trackio": _has_trackio_run,
}


def alert_trackers(finding: Finding) -> None:
    """Raise an alert in wandb and trackio where they are loaded and a run is active; never raises."""
    for name, has_run in HAS_RUN.items():
        tracker: Any = sys.modules.get(name)
        # A tracker of any version must not end a training.
        try:
            if tracker is not None and has_run(tracker):
                _alert(tracker, finding)
        except Exception as error:
            logger.debug("No alert in %s for %s: %s", name, finding.code, error)


def _alert(tracker: Any, finding: Finding) -> None:
    level = getattr(tracker.AlertLevel, ALERTS[finding.severity])
    text = f"{finding.sentence} {finding.action} ({finding.docs})"
    tracker.alert(title=finding.code, text=text, level=level)
