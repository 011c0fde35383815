"""Levels of isolation: walls between a program under test and the machine."""

from __future__ import annotations

from enum import StrEnum


class Isolation(StrEnum):
    """Isolation levels, from none to all walls of a kernel, named as in verdicts and logs; see docs/sandbox.md."""

    NONE = "none"
    """Time and memory limits only: not a sandbox."""
    LANDLOCK = "landlock+seccomp"
    """No access to other files, no network, no new processes."""
    NAMESPACES = "namespaces+seccomp"
    """A private file system, process tree and network."""
    FULL = "namespaces+landlock+seccomp"

    @property
    def namespaces(self) -> bool:
        """Whether programs get a private file system, process tree and network."""
        return "namespaces" in self

    @property
    def landlock(self) -> bool:
        """Whether Landlock restricts the files that programs can open."""
        return "landlock" in self


class IsolationError(ValueError):
    """The machine lacks a wall that the caller requested."""
