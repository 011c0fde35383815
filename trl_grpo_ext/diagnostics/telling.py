"""Delivery of findings: console, tracker alerts."""

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
        else:  # a line each, for log files and those who search them
            for line in plain_lines(finding):
                console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)


def plain_lines(finding: Finding) -> list[str]:
    """The finding as two lines of text.

    Examples:
        >>> finding = Finding(code="bad_data", step=3, severity="warning", sentence="So it is.", action="Mend it.")
        >>> print(*plain_lines(finding), sep="\\n")
        [warning] bad_data at step 3: So it is.
          Mend it. (trl-grpo-ext docs findings#bad_data)
    """
    at = "" if finding.step is None else f" at step {finding.step}"
    return [
        f"[{finding.severity}] {finding.code}{at}: {finding.sentence}",
        f"  {finding.action} ({finding.docs})",
    ]


def _panel(finding: Finding) -> Panel:
    at = "" if finding.step is None else f" at step {finding.step}"
    return Panel(
        Group(Text(finding.sentence), Text(finding.action, style="bold"), Text(finding.docs, style="dim")),
        title=Text(f"{finding.code}{at}"),
        title_align="left",
        border_style=COLOURS[finding.severity],
    )


# Alert levels of trackio and wandb.
ALERTS = {Severity.INFO: "INFO", Severity.WARNING: "WARN", Severity.CRITICAL: "ERROR"}


# Whether a run is active in a tracker that is loaded.
HAS_RUN: Mapping[str, Callable[[Any], bool]] = {
    "wandb": lambda wandb: getattr(wandb, "run", None) is not None,
    "trackio": lambda trackio: hasattr(trackio, "alert") and trackio.context_vars.current_run.get() is not None,
}


def alert_trackers(finding: Finding) -> None:
    """Raise an alert in wandb and trackio where they are loaded and a run is active; never raises."""
    for name, has_run in HAS_RUN.items():
        tracker: Any = sys.modules.get(name)
        try:
            if tracker is not None and has_run(tracker):
                text, level = f"{finding.sentence} {finding.action} ({finding.docs})", ALERTS[finding.severity]
                tracker.alert(title=finding.code, text=text, level=getattr(tracker.AlertLevel, level))
        except Exception as error:
            logger.debug("No alert in %s for %s: %s", name, finding.code, error)
