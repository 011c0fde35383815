"""Two and four gloo ranks: groups split between ranks, and failing ranks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import HARNESS
from planted import expected_advantages
from rank_of_several import EVALUATED_ROWS, mix
from ranks import SCRIPT, run_on_ranks, scored_on_ranks

from trl_grpo_ext import Scorecard


def check_against_one_rank(card: Scorecard, first_group: int, size: int = 4) -> None:
    """Judge the completions again in one process, and assert equal values and advantages."""
    assert card.advantages is not None
    once_more = mix("fine").score(card.samples, (card.step or 0) / 3)
    assert [sample.group for sample in card.samples] == [
        first_group + index // size for index in range(len(card))
    ]
    for name in ("even", "short"):
        assert once_more.values[name] == card.values[name]
    assert once_more.weights == pytest.approx(card.weights)
    assert card.advantages == expected_advantages(card)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "ranks"), [("fail", 2), ("fine", 2), ("slow", 2), ("workers", 2), ("fine", 4)]
)
def test_groups_that_are_split_over_ranks_get_the_advantages_of_one_rank(
    how: str, ranks: int, tmp_path: Path
) -> None:
    cards, log = scored_on_ranks(how, tmp_path, ranks)
    size = 6 * ranks
    training = [card for card in cards if card.mode == "train"]
    assert len(training) == 3
    for step, card in enumerate(training):
        assert len(card) == size
        check_against_one_rank(card, first_group=step * size // 4)
        failed = [how == "fail" and index >= 6 for index in range(size)]
        assert card.void == tuple(failed)
        entry = log[step]
        assert entry["verified/void"] == sum(failed) / size
        assert entry["verified/even/correct"] == pytest.approx(
            sum(v == 1 for v in card.values["even"]) / size
        )
        closed = sum(card.gated["short"]) / size
        assert entry["verified/short/gated"] == pytest.approx(closed)
        assert (
            entry["verified/short/skipped"] == 0
        )  # those left out by the gate are nobody's fault
        if (
            how == "slow"
        ):  # the second rank sleeps a second a completion, and the first one logs
            assert entry["verified/grader/judging_seconds"] >= 6
    assert any(len(set(card.advantages or ())) > 1 for card in training)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_last_batch_that_is_smaller_than_the_others_has_each_row_once(
    ranks: int, sums: Any, tmp_path: Path
) -> None:
    evaluated_rows = sums["test"]["solution"][:EVALUATED_ROWS]
    cards, _ = scored_on_ranks("fine", tmp_path, ranks)
    first_group = 3 * 6 * ranks // 4
    evaluated = [card for card in cards if card.mode == "eval"]
    size, wanted = 6 * ranks, 2 * len(evaluated_rows)
    # All ranks get equally many rows: accelerate fills the last batch with the first rows.
    assert [len(card) for card in evaluated] == [
        min(size, wanted - done) for done in range(0, wanted, size)
    ]
    judged = [sample.row["solution"] for card in evaluated for sample in card.samples]
    assert sorted(judged) == sorted(evaluated_rows * 2)
    for card in evaluated:
        check_against_one_rank(card, first_group, size=2)
        first_group += size // 2


@pytest.mark.slow  # two ranks
def test_a_rank_that_ends_the_run_over_an_unscored_row_takes_the_other_with_it(
    tmp_path: Path,
) -> None:
    done = run_on_ranks("raise", tmp_path)
    assert done.returncode != 0
    assert (
        done.stderr.count("UnscoredError: The reward term 'trouble' could not judge") == 2
    )


@pytest.mark.slow  # two ranks
@pytest.mark.parametrize("how", ["dies", "hangs"])
def test_a_rank_that_waits_for_another_in_vain_ends_and_names_the_reward_that_the_other_was_in(
    how: str, tmp_path: Path
) -> None:
    # Without a launcher, which would end the others by itself.
    waiting, failing = started_alone(SCRIPT, how, str(tmp_path))
    try:
        _, told = waiting.communicate(timeout=300)
        assert waiting.returncode != 0
        assert (
            "rank 0 (this one) was in the reward 'short'; rank 1 was in the reward 'trouble'."
            in told
        )
        assert how == "hangs" or failing.wait(timeout=300) == -signal.SIGKILL
    finally:
        waiting.kill()
        failing.kill()
        failing.communicate()


def started_alone(script: Path, *arguments: str) -> list[subprocess.Popen[str]]:
    """Start two ranks like a launcher, rank 0 first."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    where = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, str(script), *arguments]
    return [
        subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | where | {"RANK": rank, "LOCAL_RANK": rank},
        )
        for rank in "01"
    ]


@pytest.mark.slow  # two ranks
def test_a_rank_that_has_finished_ends_well_whatever_its_threads_still_do() -> None:
    script = HARNESS / "leaves_late.py"
    other, own = started_alone(script, "leaves")
    for rank in (own, other):
        _, told = rank.communicate(timeout=300)
        assert rank.returncode == 0
        assert "Traceback" not in told
