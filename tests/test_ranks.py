"""Two ranks under accelerate, on gloo, with a group that is split between them."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rank_of_two import mix
from test_trainer_mix import expected_advantages

from trl_grpo_ext import Scorecard

SCRIPT = Path(__file__).parent / "rank_of_two.py"


def run_on_two_ranks(how: str, folder: Path) -> subprocess.CompletedProcess[str]:
    # accelerate starts several processes on one machine only for --multi_gpu; use_cpu puts them on gloo.
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    command = [sys.executable, *launch, "--main_process_port", "0", str(SCRIPT), how, str(folder)]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)


def scored_on_two_ranks(how: str, folder: Path) -> tuple[list[Scorecard], list[dict[str, Any]]]:
    done = run_on_two_ranks(how, folder)
    assert done.returncode == 0, done.stderr[-3000:]
    cards, log = pickle.loads((folder / "cards.pickle").read_bytes())
    return cards, log


def check_against_one_rank(cards: list[Scorecard], how: str, step: int) -> None:
    """The same completions, judged here, in one process, come to the same values and advantages."""
    card = cards[step]
    assert card.advantages is not None
    once_more = mix("fine").score(card.samples, step / 3)
    assert [sample.group for sample in card.samples] == [3 * step + index // 4 for index in range(12)]
    for name in ("even", "short"):
        assert once_more.values[name] == card.values[name]
    assert once_more.weights == pytest.approx(card.weights)
    assert card.advantages == pytest.approx(expected_advantages(card, 4, "sum_then_normalize", "group"), abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fail", "fine", "slow"])
def test_groups_that_are_split_over_ranks_get_the_advantages_of_one_rank(how: str, tmp_path: Path) -> None:
    cards, log = scored_on_two_ranks(how, tmp_path)
    assert len(cards) == 3
    for step, card in enumerate(cards):
        check_against_one_rank(cards, how, step)
        failed = [how == "fail" and index >= 6 for index in range(12)]
        assert card.void == tuple(failed)
        entry = log[step]
        assert entry["verified/void"] == sum(failed) / 12
        assert entry["verified/even/correct"] == pytest.approx(sum(v == 1 for v in card.values["even"]) / 12)
        closed = sum(card.gated["short"]) / 12
        assert entry["verified/short/gated"] == pytest.approx(closed)
        assert entry["verified/short/skipped"] == 0  # those left out by the gate are nobody's fault
    assert any(len(set(card.advantages or ())) > 1 for card in cards)


@pytest.mark.slow  # two ranks
def test_a_rank_that_ends_the_run_over_an_unscored_row_takes_the_other_with_it(tmp_path: Path) -> None:
    done = run_on_two_ranks("raise", tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("UnscoredError: The reward term 'trouble' could not judge") == 2


@pytest.mark.slow  # two ranks
def test_a_rank_that_has_finished_ends_well_whatever_its_threads_still_do() -> None:
    script = Path(__file__).parent / "leaves_late.py"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    other, own = (
        subprocess.Popen([sys.executable, script, "leaves"], env=os.environ | where | {"RANK": rank}) for rank in "01"
    )
    assert own.wait(timeout=300) == 0
    assert other.wait(timeout=300) == 0
