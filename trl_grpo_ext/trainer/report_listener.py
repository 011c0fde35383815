"""The report of a run, made while it goes on and when it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.trainer.background_report import BackgroundReport


class ReportListener(RunListener):
    """Keeps `report.html` of a run up to date, and says once where it is.

    The last report is written when training ends, and anew after each evaluation that follows it. With `disable_tqdm`,
    which is for runs that other programs make, it does not say where it is.
    """

    def __init__(self, run_folder: str | os.PathLike[str]) -> None:
        self.report = BackgroundReport(run_folder)
        self._is_put_off = False
        self._has_ended = False
        self._says_where = False

    def on_train_begin(self, *, quiet: bool) -> None:
        if self._has_ended:  # which has closed it
            self.report = BackgroundReport(self.report.folder)
        self._has_ended = False
        self._says_where = not quiet

    def on_log(self, step: int, logs: Mapping[str, Any]) -> None:
        if not self._has_ended:
            self.report.poke()

    def on_train_end(self) -> None:
        self._has_ended = True
        self._finish()

    def on_evaluate(self) -> None:
        self._finish()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Write the last report at the end of the `with` block, not when training ends; nothing if it has not."""
        self._is_put_off = True
        try:
            yield
        finally:
            self._is_put_off = False
            self._finish()

    def _finish(self) -> None:
        if not self._has_ended or self._is_put_off:
            return
        path = self.report.finish()
        if path is not None and self._says_where:
            self._says_where = False
            tqdm.write(f"Report: {path}", file=sys.stderr)


@contextmanager
def one_last_report(trainer: Any) -> Iterator[None]:
    """Training and the evaluation after it, with one report at the end of both.

    Example:
        >>> def train_and_measure(trainer):
        ...     with one_last_report(trainer):
        ...         trainer.train()
        ...         return trainer.evaluate()
    """
    report = next((one for one in trainer.run_callback.listeners if isinstance(one, ReportListener)), None)
    if report is None or not trainer.run_callback.is_main:
        yield
        return
    with report.put_off():
        yield
