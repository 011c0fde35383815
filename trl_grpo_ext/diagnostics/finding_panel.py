"""A finding on the console: a panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text
from tqdm import tqdm

from trl_grpo_ext.diagnostics.finding import Finding, Severity

COLOURS = {Severity.INFO: "blue", Severity.WARNING: "yellow", Severity.CRITICAL: "red"}


def show_finding(finding: Finding, console: Console | None = None) -> None:
    """Print a finding to stderr, or to `console`, without breaking a progress bar."""
    console = console or Console(stderr=True)
    with tqdm.external_write_mode(file=sys.stderr):
        if console.is_terminal:
            console.print(_panel(finding))
        else:  # a line each, for log files and those who search them
            for line in plain_lines(finding):
                console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)


def plain_lines(finding: Finding) -> list[str]:
    """The finding as two lines of text.

    Example:
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
