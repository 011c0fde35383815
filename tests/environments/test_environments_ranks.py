"""Failing environments on one rank of two, or on both ranks."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from environment_run import scored_by_environments
from places import HARNESS
from planted import expected_advantages
from ranks import run_on_ranks

SCRIPT = HARNESS / "environments_of_a_rank.py"

pytestmark = [pytest.mark.slow, scored_by_environments]


def test_rollouts_that_fail_on_one_rank_are_void_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    done = run_on_ranks("1", tmp_path, script=SCRIPT)
    assert done.returncode == 0, done.stderr[-3000:]
    cards, _ = pickle.loads((tmp_path / "cards.pickle").read_bytes())
    assert len(cards) == 5
    for card in cards:
        assert card.void == (False,) * 6 + (True,) * 6
        assert card.advantages == expected_advantages(card)
        assert card.samples[11].outcome.verdict.reason == "reset_ConnectionError"


def test_a_run_whose_every_rollout_fails_ends_on_all_ranks_with_one_message(
    tmp_path: Path,
) -> None:
    done = run_on_ranks("01", tmp_path, script=SCRIPT)
    assert done.returncode != 0
    message = (
        "EnvironmentsFailedError: Every rollout of the last 3 batches has failed "
        "in its environment, so nothing is "
    )
    assert done.stderr.count(message) == 2
    assert (
        done.stderr.count("Refusing.reset raised ConnectionError: refused on rank 0") >= 2
    )
