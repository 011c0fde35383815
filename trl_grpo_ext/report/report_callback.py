"""The report of a run, made while it goes on and when it ends."""

from __future__ import annotations

import os
from typing import Any

from transformers import TrainerCallback

from trl_grpo_ext.report.background_report import BackgroundReport


class ReportCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Keeps `report.html` of a run up to date, on the main process."""

    def __init__(self, run_folder: str | os.PathLike[str]) -> None:
        self.report = BackgroundReport(run_folder)

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.report.poke()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.report.finish()
