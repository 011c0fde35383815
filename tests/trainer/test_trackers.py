"""Figures in the files of tensorboard and trackio."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from places import HARNESS

SCRIPT = HARNESS / "tracked_run.py"

Tracked = dict[str, dict[int, float]]


def tracked_run(tracker: str, folder: Path) -> tuple[Tracked, str]:
    """Run under a tracker, and return all known figures by tracker name and step, and the printed output."""
    places = {
        "TENSORBOARD_LOGGING_DIR": str(folder / "kept"),
        "TRACKIO_DIR": str(folder / "kept"),
    }
    command = [sys.executable, str(SCRIPT), tracker, str(folder)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | places,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    logged: Tracked = defaultdict(dict)
    for entry in json.loads((folder / "log.json").read_text()):
        for key, value in entry.items():
            if "verified/" in key and value is not None:
                name = (
                    f"eval/{key.removeprefix('eval_')}"
                    if key.startswith("eval_")
                    else f"train/{key}"
                )
                logged[name][entry["step"]] = value
    assert {name.split("/")[0] for name in logged} == {"train", "eval"}
    return logged, done.stdout + done.stderr


def check(found: Tracked, logged: Tracked) -> None:
    assert set(found) == set(logged)
    for name, steps in logged.items():
        assert found[name] == pytest.approx(steps), name


@pytest.mark.slow  # real runs
def test_tensorboard_has_every_figure_that_is_known_and_nobody_is_warned_of_the_others(
    tmp_path: Path,
) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logged, said = tracked_run("tensorboard", tmp_path)
    assert "attempting to log" not in said
    board = EventAccumulator(str(tmp_path / "kept"))
    board.Reload()
    names = [name for name in board.Tags()["scalars"] if "verified/" in name]
    check(
        {
            name: {event.step: event.value for event in board.Scalars(name)}
            for name in names
        },
        logged,
    )


@pytest.mark.slow  # a process that trains
def test_trackio_has_every_figure_that_is_known(tmp_path: Path) -> None:
    pytest.importorskip("trackio")
    logged, _ = tracked_run("trackio", tmp_path)
    with sqlite3.connect(tmp_path / "kept" / "figures.db") as database:
        rows = [
            json.loads(metrics)
            for (metrics,) in database.execute("SELECT metrics FROM metrics ORDER BY id")
        ]
    found: Tracked = defaultdict(dict)
    for row in rows:
        for name, value in row.items():
            if "verified/" in name and value is not None:
                found[name][row["train/global_step"]] = value
    check(found, logged)
