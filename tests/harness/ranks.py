"""Start scripts of the tests on several gloo ranks."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from places import HARNESS

from trl_grpo_ext import Scorecard

SCRIPT = HARNESS / "rank_of_several.py"


def run_on_ranks(
    how: str, folder: Path, ranks: int = 2, script: Path = SCRIPT
) -> subprocess.CompletedProcess[str]:
    # accelerate starts several processes on one machine only for --multi_gpu; use_cpu puts them on gloo.
    launch = [
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        str(ranks),
        "--num_machines",
        "1",
    ]
    command = [
        sys.executable,
        *launch,
        "--main_process_port",
        "0",
        str(script),
        how,
        str(folder),
    ]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=environment
    )


def scored_on_ranks(
    how: str, folder: Path, ranks: int = 2
) -> tuple[list[Scorecard], list[dict[str, Any]]]:
    done = run_on_ranks(how, folder, ranks)
    assert done.returncode == 0, done.stderr[-3000:]
    cards, log = pickle.loads((folder / "cards.pickle").read_bytes())
    return cards, log
