"""Learnable rows on two gloo ranks with split groups: equal on all ranks, and equal to one process's."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import HARNESS

SCRIPT = HARNESS / "rows_of_a_rank.py"


def run(how: str, folder: Path, ranks: int) -> list[tuple[dict[str, Any], list[list[int]]]]:
    """Run the script on this many ranks; return each rank's posteriors, and the main rank's rows by batch."""
    done = start(how, folder, ranks)
    assert done.returncode == 0, done.stderr[-3000:]
    return [
        pickle.loads((folder / f"rank-{rank}.pickle").read_bytes()) for rank in range(ranks)
    ]


def start(how: str, folder: Path, ranks: int) -> subprocess.CompletedProcess[str]:
    """Run the script on this many ranks to its end, whatever the end."""
    folder.mkdir(exist_ok=True)
    launch = [
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        str(ranks),
        "--num_machines",
        "1",
    ]
    several = [*launch, "--main_process_port", "0"] if ranks > 1 else []
    command = [sys.executable, *several, str(SCRIPT), how, str(folder), str(ranks)]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=environment
    )


def are_equal(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.slow  # two ranks
@pytest.mark.parametrize("how", ["plain", "iterations", "workers", "pictures"])
def test_ranks_draw_and_know_the_same_and_what_one_process_does_with_the_same_verdicts(
    how: str, vlm: str, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vlm").symlink_to(vlm)
    (first, drawn), (second, _) = run(how, tmp_path / "two", 2)
    assert are_equal(first, second)
    ((alone, drawn_alone),) = run(how, tmp_path / "one", 1)
    assert drawn == drawn_alone
    assert all(len(rows) == len(set(rows)) for rows in drawn)
    assert are_equal(first, alone)


@pytest.mark.slow  # two ranks
def test_ranks_that_resume_draw_and_know_what_uninterrupted_ranks_do(
    tmp_path: Path,
) -> None:
    (whole, drawn), _ = run("plain", tmp_path / "whole", 2)
    shutil.copytree(
        tmp_path / "whole/run/checkpoint-2", tmp_path / "again/run/checkpoint-2"
    )
    (first, resumed), (second, _) = run("resumed", tmp_path / "again", 2)
    assert resumed == drawn[2:]
    assert are_equal(first, whole)
    assert are_equal(second, whole)


@pytest.mark.slow  # two ranks
def test_ranks_of_which_one_is_killed_resume_as_if_none_had_been(tmp_path: Path) -> None:
    (whole, drawn), _ = run("iterations", tmp_path / "whole", 2)
    killed = start("killed", tmp_path / "again", 2)
    assert killed.returncode != 0
    assert "SIGKILL" in killed.stderr
    assert not list((tmp_path / "again").glob("*.pickle"))
    (first, resumed), (second, _) = run("resumed iterations", tmp_path / "again", 2)
    assert 0 < len(resumed) < len(drawn)
    assert resumed == drawn[-len(resumed) :]
    assert are_equal(first, whole)
    assert are_equal(second, whole)
