"""The report of a run, made while it goes on and when it ends."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tqdm import tqdm

from trl_grpo_ext.runs.listener import RunListener

logger = logging.getLogger(__name__)

SHARE = 0.01  # of the run's time, at most, in which a report is being made: on one core, at the lowest priority
FIRST_AFTER = 60.0  # seconds

READING_SECONDS = 40.0  # for which a report reads batches, about; the command reads all
LAST_SECONDS = 120.0  # at most, that the end of a run waits for its report; other ranks wait too

# It ends with the trainer's process, however that ends, and not with the thread that trains.
_PROGRAM = """
import os, sys, threading, time
os.nice(19)
def end_with(trainer):
    while os.getppid() == trainer:
        time.sleep(0.5)
    os._exit(1)
threading.Thread(target=end_with, args=(int(sys.argv[2]),), daemon=True).start()
from trl_grpo_ext.report.write import write_report
write_report([sys.argv[1]], seconds=float(sys.argv[3]))
"""


class ReportListener(RunListener):
    """Keeps `report.html` of a run up to date, in a process of its own, and says once where it is.

    The last report is written when training ends, and anew after each evaluation that follows it. With `disable_tqdm`,
    which is for runs that other programs make, it does not say where it is. A report of a long run is made from as many
    batches as can be read in `READING_SECONDS`. Nothing here raises: a report that fails must not end the run.
    """

    def __init__(self, run_folder: str | os.PathLike[str], *, first_after: float = FIRST_AFTER) -> None:
        self.folder = Path(run_folder)
        self._first_after = first_after
        self._due = time.monotonic() + first_after
        self._started = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._is_put_off = False
        self._has_ended = False
        self._says_where = False

    def on_train_begin(self, *, quiet: bool) -> None:
        if self._has_ended:  # which has closed it
            self._due = time.monotonic() + self._first_after
        self._has_ended = False
        self._says_where = not quiet

    def on_log(self, step: int, logs: Mapping[str, Any]) -> None:
        if not self._has_ended:
            self.poke()

    def on_train_end(self) -> None:
        self._has_ended = True
        self._write_last()

    def on_evaluate(self) -> None:
        self._write_last()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Write the last report at the end of the `with` block, not when training ends; nothing if it has not."""
        self._is_put_off = True
        try:
            yield
        finally:
            self._is_put_off = False
            self._write_last()

    def _write_last(self) -> None:
        if not self._has_ended or self._is_put_off:
            return
        path = self.finish()
        if path is not None and self._says_where:
            self._says_where = False
            tqdm.write(f"Report: {path}", file=sys.stderr)

    def poke(self) -> None:
        """Begin to write a report if one is due and none is being written. Returns at once."""
        try:
            if self._process is not None and self._process.poll() is not None:
                took = time.monotonic() - self._started
                self._process, self._due = None, self._started + took / SHARE
            if self._process is None and time.monotonic() >= self._due:
                self._begin()
        except Exception as error:
            logger.warning("The report of %s is given up: %s", self.folder, error)
            self._due = float("inf")

    def close(self) -> None:
        """End what is being written; the report of before stays."""
        process, self._process = self._process, None
        self._due = float("inf")
        if process is not None:
            with suppress(OSError, subprocess.SubprocessError):
                process.terminate()
                process.wait(timeout=10)

    def finish(self, seconds: float = LAST_SECONDS) -> Path | None:
        """Write the last report, and say where it is.

        None, with a warning that says what to do, for one that cannot be written, or takes longer than this; the one of
        before stays.
        """
        self.close()
        try:
            self._begin()
            if self._process is not None and self._process.wait(timeout=seconds) == 0:
                return self.folder / "report.html"
            logger.warning("The report could not be written; to see why: trl-grpo-ext report %s", self.folder)
        except subprocess.TimeoutExpired:
            logger.warning("The report takes long; make it by: trl-grpo-ext report %s", self.folder)
        except Exception as error:
            logger.warning("The report of %s could not be written: %s", self.folder, error)
        finally:
            self.close()
        return None

    def _begin(self) -> None:
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, os.fspath(self.folder), str(os.getpid()), str(READING_SECONDS)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )


@contextmanager
def one_last_report(trainer: Any) -> Iterator[None]:
    """Training and the evaluation after it, with one report at the end of both.

    Examples:
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
