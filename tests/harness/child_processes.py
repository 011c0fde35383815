"""Inspect child processes, which may end at any time."""

from __future__ import annotations

import psutil


def command_of(process: psutil.Process) -> str:
    """Return the command line of a process; empty for an ended process."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
