"""The run's clock: how much of training was done at a step, which weights on a schedule depend on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_grpo_ext.runs.recorded_run import RecordedRun


@dataclass(frozen=True, slots=True)
class RunClock:
    """When a run ends.

    Attributes:
        last_step: The optimizer steps of the whole run, 1 or more; None if nobody knows.
        ended: Whether training has come to its end.
    """

    last_step: int | None
    ended: bool

    @classmethod
    def of(cls, run: RecordedRun, settings: Mapping[str, Any]) -> RunClock:
        """Read it from the settings; of a run that counted epochs, from its checkpoints or its last log.

        Example:
            >>> RunClock(last_step=200, ended=True).progress(50)
            0.25
        """
        logs = _last_session(run)
        ended = any("train_runtime" in entry for entry in logs)
        steps = settings.get("max_steps")
        if not isinstance(steps, int) or steps <= 0:
            steps = _checkpoints_last_step(run.folder)
        if steps is None and ended:
            steps = max(int(entry["step"]) for entry in logs) or None
        return cls(last_step=steps, ended=ended)

    def progress(self, step: int | None) -> float:
        """The share of training that was done at a step, in [0, 1]; 0 where nobody knows."""
        if step is None or self.last_step is None:
            return 0.0
        return min(1.0, step / self.last_step)


def _last_session(run: RecordedRun) -> list[dict[str, Any]]:
    """The logs since training was last started; an earlier session may have come to an end of its own."""
    try:
        logs = run.logs
    except OSError:
        return []
    last = max((entry["session"] for entry in logs if {"loss", "train_runtime"} & entry.keys()), default=0)
    return [entry for entry in logs if entry["session"] == last]


def _checkpoints_last_step(folder: Path) -> int | None:
    """What transformers' own state in the latest checkpoint says."""
    states = sorted(folder.glob("checkpoint-*/trainer_state.json"), key=lambda path: path.stat().st_mtime)
    for path in reversed(states):
        try:
            steps = json.loads(path.read_text(encoding="utf-8"))["max_steps"]
        except (ValueError, KeyError, OSError):
            continue
        if isinstance(steps, int) and steps > 0:
            return steps
    return None
