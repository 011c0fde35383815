"""TRL's logs to disk, beside the scorecards."""

from __future__ import annotations

import logging
from typing import Any

from transformers import TrainerCallback

from trl_grpo_ext.runs.recorder import LogRecorder

logger = logging.getLogger(__name__)


class LogCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Writes what the trainer logs, on the main process."""

    def __init__(self, recorder: LogRecorder) -> None:
        self.recorder = recorder
        self.has_failed = False

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        if not (state.is_world_process_zero and logs) or self.has_failed:
            return
        try:
            self.recorder.write(state.global_step, logs)
        except Exception:  # a full disk is no reason to end the run
            self.has_failed = True
            logger.exception("%s cannot be written; the run goes on without it.", self.recorder.path)
