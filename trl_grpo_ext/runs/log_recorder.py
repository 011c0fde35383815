"""TRL's logs to disk, beside the scorecards."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.support.files import plain


class LogRecorder(RunListener):
    """Appends the trainer's logs to `run_folder/scorecards/log.jsonl`, a line a logging step."""

    def __init__(self, run_folder: str | os.PathLike[str]) -> None:
        self.path = Path(run_folder) / "scorecards" / "log.jsonl"
        self._session: int | None = None
        self._step = 0  # of the latest log of training
        self._has_failed = False

    def on_log(self, step: int, logs: Mapping[str, Any]) -> None:
        """Append the figures of a step; what is no finite number becomes null. After an error, nothing more."""
        if self._has_failed:
            return
        try:
            self._append(step, logs)
        except Exception:
            self._has_failed = True
            raise

    def _append(self, step: int, logs: Mapping[str, Any]) -> None:
        begins_again = "loss" in logs and step <= self._step
        if self._session is None or begins_again:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._session = self._sessions_before()
        self._step = step if "loss" in logs else self._step
        entry = {"step": step, "session": self._session} | {key: plain(value) for key, value in logs.items()}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry, allow_nan=False, default=str) + "\n")

    def _sessions_before(self) -> int:
        if not self.path.exists():
            return 0
        text = self.path.read_text(encoding="utf-8", errors="replace")
        if text and not text.endswith("\n"):  # a line that was cut off must not swallow the next
            with open(self.path, "a", encoding="utf-8") as file:
                file.write("\n")
        return 1 + max((int(number) for number in re.findall(r'"session": (\d+)', text)), default=-1)
