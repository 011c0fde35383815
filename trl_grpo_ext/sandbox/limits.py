"""What a program under test may use."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run of a program may use; beyond it the run ends, and the verdict says so.

    Attributes:
        wall_seconds: Wall time for a whole suite of tests, from the moment the program may run.
        cpu_seconds: CPU time of each of its processes.
        memory_mb: Memory of each process, and of all of them together, in MiB.
        processes: Processes and threads at a time.
        output_kb: What one run may print, in KiB.
        disk_mb: What it may keep in its private temporary folder, in MiB.

    Raises:
        ValueError: for a limit that is not a finite number above 0.
    """

    wall_seconds: float = 5.0
    cpu_seconds: float = 5.0
    memory_mb: int = 512
    processes: int = 32
    output_kb: int = 256
    disk_mb: int = 16

    def __post_init__(self) -> None:
        for name, value in self.to_record().items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"The limit {name} is a finite number above 0, got {value!r}.")
        for name in ("memory_mb", "processes", "output_kb", "disk_mb"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"The limit {name} is a whole number, got {getattr(self, name)!r}.")

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values."""
        return {each.name: getattr(self, each.name) for each in fields(self)}
