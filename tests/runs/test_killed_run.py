"""A run killed midway: its records are complete, diagnosis and report work, and the run resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from trl_grpo_ext.diagnostics.diagnosis import diagnose
from trl_grpo_ext.report.write import write_report
from trl_grpo_ext.runs.recorded_run import RecordedRun

FLAGS = [
    "--evaluate_before_and_after",
    "false",
    "--per_device_train_batch_size",
    "16",
    "--logging_steps",
    "1",
]
FLAGS += ["--save_strategy", "steps", "--save_steps", "2", "--max_steps", "10"]


def start(folder: Path, *flags: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "trl_grpo_ext",
        "train",
        "--config",
        "quickstart",
        *FLAGS,
        *flags,
    ]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def is_written(state: Path) -> bool:
    """Test if the last file of a checkpoint exists and is complete JSON."""
    try:
        json.loads(state.read_text())
    except (OSError, ValueError):
        return False
    return True


def killed_after(folder: Path, checkpoint: int, *flags: str) -> Path:
    """Start a run, kill all its processes once the checkpoint exists, and return the run folder."""
    process = start(folder, *flags)
    run = folder / "runs" / "quickstart"
    deadline = time.monotonic() + 300
    while not is_written(run / f"checkpoint-{checkpoint}" / "trainer_state.json"):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return run


@pytest.mark.slow  # a run that is killed, and one that goes on
def test_a_killed_run_is_readable_to_its_last_step_and_resumes_as_one(
    tmp_path: Path,
) -> None:
    run = killed_after(tmp_path, checkpoint=4)
    steps = [card.step for card in RecordedRun(run).cards("train")]
    assert steps[:4] == [0, 1, 2, 3]
    assert steps == list(range(len(steps)))
    for card in RecordedRun(run).cards():
        assert len(card) == 16
        assert card.advantages is not None
    assert ("The record stops after step" in diagnose(RecordedRun(run)).sentence) is (
        len(steps) < 10
    )
    assert "</html>" in write_report([run]).read_text()[-200:]

    process = start(tmp_path, "--resume_from_checkpoint", "true")
    assert process.wait(timeout=300) == 0
    whole = RecordedRun(run)
    assert [card.step for card in whole.cards("train")] == list(range(10))
    assert "The record stops" not in diagnose(whole).sentence
    assert [entry["step"] for entry in whole.logs if "loss" in entry] == list(range(1, 11))
    for part in (run / "scorecards").glob("*.parquet"):
        pq.read_table(part)  # whole, though it may be of a step that was repeated
    assert (run / "report.html").exists()


LEARNABLE = ["--learnable_rows", "true", "--rows", "16", "--write_report", "false"]


def rows_by_step(run: Path) -> dict[int | None, list[str]]:
    return {
        card.step: [str(sample.prompt) for sample in card.samples]
        for card in RecordedRun(run).cards("train")
    }


@pytest.mark.slow  # a run that is killed, one that goes on, and one that is left alone
def test_a_killed_run_of_learnable_rows_resumes_with_the_rows_of_a_run_that_was_left_alone(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / name for name in ("killed", "alone")]
    for folder in folders:
        folder.mkdir()
    run = killed_after(folders[0], 4, *LEARNABLE)
    assert (
        start(folders[0], *LEARNABLE, "--resume_from_checkpoint", "true").wait(timeout=300)
        == 0
    )
    assert start(folders[1], *LEARNABLE).wait(timeout=300) == 0
    assert rows_by_step(run) == rows_by_step(folders[1] / "runs" / "quickstart")
    posteriors = [
        path / "runs/quickstart/checkpoint-10/learnable_rows.npz" for path in folders
    ]
    first, second = (np.load(path) for path in posteriors)
    assert all(np.array_equal(first[name], second[name]) for name in second)
