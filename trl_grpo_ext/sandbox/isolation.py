"""Levels of isolation: which walls stand between a program under test and the machine."""

from __future__ import annotations

from enum import IntEnum


class Isolation(IntEnum):
    """From none to the most that one kernel can give. What each holds is on the page docs/sandbox.md."""

    NONE = 0
    """Limits of time and memory only: no sandbox."""
    LANDLOCK = 1
    """Landlock and seccomp: no other files, no network, no new processes."""
    NAMESPACES = 2
    """Namespaces and seccomp: a file system, a process tree and a network of its own."""
    FULL = 3
    """Namespaces, Landlock and seccomp."""

    @property
    def label(self) -> str:
        """As it is named in verdicts and logs."""
        return _LABELS[self]

    @property
    def namespaces(self) -> bool:
        """Whether a program has a file system, a process tree and a network of its own."""
        return self >= Isolation.NAMESPACES

    @property
    def landlock(self) -> bool:
        """Whether Landlock says which files it may open."""
        return self in (Isolation.LANDLOCK, Isolation.FULL)


_LABELS = {
    Isolation.NONE: "none",
    Isolation.LANDLOCK: "landlock+seccomp",
    Isolation.NAMESPACES: "namespaces+seccomp",
    Isolation.FULL: "namespaces+landlock+seccomp",
}


class IsolationError(ValueError):
    """This machine does not have the walls that were asked for."""
