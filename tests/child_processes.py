"""Processes that a test looks at, and that may end meanwhile."""

from __future__ import annotations

import psutil


def command_of(process: psutil.Process) -> str:
    """The command line of a process; empty for one that has ended, of which psutil knows none."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
