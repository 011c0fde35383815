"""Levels of isolation: which walls stand between a program under test and the machine."""

from __future__ import annotations

from enum import StrEnum


class Isolation(StrEnum):
    """From none to the most that one kernel can give, by the name in verdicts and logs; see docs/sandbox.md."""

    NONE = "none"
    """Limits of time and memory only: no sandbox."""
    LANDLOCK = "landlock+seccomp"
    """No other files, no network, no new processes."""
    NAMESPACES = "namespaces+seccomp"
    """A file system, a process tree and a network of its own."""
    FULL = "namespaces+landlock+seccomp"

    @property
    def namespaces(self) -> bool:
        """Whether a program has a file system, a process tree and a network of its own."""
        return "namespaces" in self

    @property
    def landlock(self) -> bool:
        """Whether Landlock says which files it may open."""
        return "landlock" in self


class IsolationError(ValueError):
    """This machine does not have the walls that were asked for."""
