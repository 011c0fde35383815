"""TRL's logs to disk, beside the scorecards."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from trl_grpo_ext.diagnostics.recorder import LogRecorder


class LogCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Writes what the trainer logs, on the main process."""

    def __init__(self, recorder: LogRecorder) -> None:
        self.recorder = recorder

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        if state.is_world_process_zero and logs:
            self.recorder.write(state.global_step, logs)
