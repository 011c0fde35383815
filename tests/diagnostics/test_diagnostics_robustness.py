"""Robust diagnostics: a failing check, an earlier run in the folder, a slow report."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from child_processes import command_of
from planted import Column, samples_of
from windows import tell

from trl_grpo_ext import RewardMix, RewardTerm, Sample
from trl_grpo_ext.diagnostics.finding import (
    Finding,
    Severity,
    append_finding,
    read_findings,
)
from trl_grpo_ext.diagnostics.watch import HOLD, Onsets, Watch
from trl_grpo_ext.diagnostics.window import Window
from trl_grpo_ext.runs.recorder import Recorder
from trl_grpo_ext.trainer.report_listener import ReportListener

FOUND = Finding(
    code="bad_data", step=1, severity=Severity.WARNING, sentence="s", numbers={}, action="a"
)


def test_a_check_that_fails_silences_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def fails(window: Any) -> Any:
        raise ZeroDivisionError

    onsets = Onsets({"fails": fails, "bad_data": lambda window: FOUND})
    told = [onsets.look(Window(settings={})) for _ in range(HOLD)]
    assert told == [[]] * (HOLD - 1) + [[FOUND]]
    assert "ZeroDivisionError" in onsets.not_checked["fails"]
    assert caplog.text.count("Traceback") == 1


def card_of(step: int) -> Any:
    mix = RewardMix([RewardTerm(name="right", verifier=Column("right"))])
    rows = samples_of(right=[1.0, 0.0, 1.0, 0.0])
    samples = [Sample(text="x", row=sample.row, group=0, step=step) for sample in rows]
    return mix.score(samples).with_advantages([1.0, -1.0, 1.0, -1.0])


def test_a_new_run_in_a_used_folder_does_not_inherit_findings_and_a_resumed_one_does(
    tmp_path: Path,
) -> None:
    append_finding(tmp_path, FOUND)
    tell(Watch(tmp_path, {}), card_of(3))
    assert read_findings(tmp_path) == [FOUND]
    tell(Watch(tmp_path, {}), card_of(0))
    assert read_findings(tmp_path) == []
    assert (tmp_path / "findings.1.jsonl").exists()


def reports_being_made(folder: Path) -> list[psutil.Process]:
    return [
        child for child in psutil.Process().children() if str(folder) in command_of(child)
    ]


def test_the_last_report_is_written_by_a_process_of_its_own(tmp_path: Path) -> None:
    Recorder(tmp_path).on_batch(card_of(0))
    ReportListener(tmp_path).finish(seconds=120)
    assert (tmp_path / "report.html").exists()


def test_a_report_that_takes_too_long_is_left_to_the_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Recorder(tmp_path).on_batch(card_of(0))
    with caplog.at_level(logging.WARNING):
        ReportListener(tmp_path).finish(seconds=0.01)
    assert f"trl-grpo-ext report {tmp_path}" in caplog.text
    assert not reports_being_made(tmp_path)


def test_a_report_outlives_the_thread_that_began_it(tmp_path: Path) -> None:
    Recorder(tmp_path).on_batch(card_of(0))
    report = ReportListener(tmp_path, first_after=0.0)
    part = tmp_path / "scorecards" / "samples-00000001.parquet"
    os.mkfifo(part)

    def begin() -> None:
        report.poke()
        part.open("wb").close()  # once the report is there to read it
        part.unlink()

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    (process,) = reports_being_made(tmp_path)
    process.wait(timeout=120)
    report.close()
    assert (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_a_report_ends_with_the_process_that_began_it(tmp_path: Path) -> None:
    (tmp_path / "scorecards").mkdir()
    os.mkfifo(
        tmp_path / "scorecards" / "samples-00000000.parquet"
    )  # which is never read to its end
    begin = "from trl_grpo_ext.trainer.report_listener import ReportListener as Report; import sys, time; "
    begin += (
        "Report(sys.argv[1], first_after=0.0).poke(); print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", begin, str(tmp_path)], stdout=subprocess.PIPE
    ) as trainer:
        assert trainer.stdout is not None
        trainer.stdout.readline()
        (report,) = psutil.Process(trainer.pid).children()
        trainer.kill()
    report.wait(timeout=60)
