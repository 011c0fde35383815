"""Write a run's report, during training and after it."""

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

# The maximum share of the run's time during which a report is written, on one core, at the lowest priority.
SHARE = 0.01
# Seconds before the first report.
FIRST_AFTER = 60.0

# The priority of a report beside training is the lowest; of the last report, for which the end of the run waits, the
# trainer's own: TRL's AsyncGRPO ends its child after 15 seconds.
BESIDE_TRAINING, LAST = 19, 0

# About how long a report reads batches; the command `report` reads all batches.
READING_SECONDS = 40.0
# The maximum time that the end of a run waits for its report; other ranks wait too.
LAST_SECONDS = 120.0

# The program polls its parent's id, so that it ends with the trainer's process, however that ends, and not with the
# thread that trains.
_PROGRAM = """
import os, sys, threading, time
os.nice(int(sys.argv[4]))
def end_with(trainer):
    while os.getppid() == trainer:
        time.sleep(0.5)
    os._exit(1)
threading.Thread(target=end_with, args=(int(sys.argv[2]),), daemon=True).start()
from trl_grpo_ext.report.write import write_report
write_report([sys.argv[1]], seconds=float(sys.argv[3]))
"""


class ReportListener(RunListener):
    """A listener that updates a run's `report.html` in a child process, and prints its path once.

    The last report is written when training ends, and again after each later evaluation. With `disable_tqdm`, set for
    runs that other programs start, no path is printed. The report of a long run covers as many batches as can be read
    in `READING_SECONDS`. No method raises: a failing report must not end the run.
    """

    def __init__(
        self, run_folder: str | os.PathLike[str], *, first_after: float = FIRST_AFTER
    ) -> None:
        self.folder = Path(run_folder)
        self._first_after = first_after
        self._due = time.monotonic() + first_after
        self._started = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._is_put_off = False
        self._has_ended = False
        self._says_where = False

    def on_train_begin(self, *, quiet: bool) -> None:
        # The end of an earlier training has disabled reports.
        if self._has_ended:
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
        """Delay the last report from the end of training to the end of the `with` block.

        If training has not ended by then, no report is written.
        """
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
        """Start writing a report if one is due and none is being written; return immediately."""
        try:
            if self._process is not None and self._process.poll() is not None:
                took = time.monotonic() - self._started
                self._process = None
                self._due = self._started + took / SHARE
            if self._process is None and time.monotonic() >= self._due:
                self._begin()
        except Exception as error:
            logger.warning("The report of %s is given up: %s", self.folder, error)
            self._due = float("inf")

    def close(self) -> None:
        """Stop the current writing; the previous report stays."""
        process = self._process
        self._process = None
        self._due = float("inf")
        if process is not None:
            with suppress(OSError, subprocess.SubprocessError):
                process.terminate()
                process.wait(timeout=10)

    def finish(self, seconds: float = LAST_SECONDS) -> Path | None:
        """Write the last report; return its path.

        Returns None, after a warning with advice, if the report cannot be written within `seconds`; the previous report
        stays.
        """
        self.close()
        try:
            self._begin(niceness=LAST)
            if self._process is not None and self._process.wait(timeout=seconds) == 0:
                return self.folder / "report.html"
            logger.warning(
                "The report could not be written; to see why: trl-grpo-ext report %s",
                self.folder,
            )
        except subprocess.TimeoutExpired:
            logger.warning(
                "The report takes long; make it by: trl-grpo-ext report %s", self.folder
            )
        except Exception as error:
            logger.warning("The report of %s could not be written: %s", self.folder, error)
        finally:
            self.close()
        return None

    def _begin(self, niceness: int = BESIDE_TRAINING) -> None:
        self._started = time.monotonic()
        command = [
            sys.executable,
            "-c",
            _PROGRAM,
            os.fspath(self.folder),
            str(os.getpid()),
            str(READING_SECONDS),
            str(niceness),
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )


@contextmanager
def one_last_report(trainer: Any) -> Iterator[None]:
    """Write a single report after training and the evaluation that follows, both inside the `with` block.

    Examples:
        >>> def train_and_measure(trainer):
        ...     with one_last_report(trainer):
        ...         trainer.train()
        ...         return trainer.evaluate()
    """
    reports = (
        one for one in trainer.run_callback.listeners if isinstance(one, ReportListener)
    )
    report = next(reports, None)
    if report is None or not trainer.run_callback.is_main:
        yield
        return
    with report.put_off():
        yield
