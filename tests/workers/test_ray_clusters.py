"""Ray clusters that lose nodes, serve several ranks, or require a token."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
from places import HARNESS
from ray_cluster import ADD, program, ray_cluster_of
from walls import walls_or_skip

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status
from trl_grpo_ext.rewards import MathVerifier, UnitTestVerifier

walls_or_skip()


@pytest.mark.slow
def test_a_node_that_is_killed_under_load_loses_no_row_and_shifts_none() -> None:
    with ray_cluster_of(2) as cluster:
        verifier = UnitTestVerifier()
        assert verifier([program(0)], tests=[ADD]) == [1.0]
        killing = threading.Timer(0.7, cluster.kill)
        killing.start()
        for turn in range(3):
            verdicts = verifier.judge(
                [program(number, f"turn {turn}") for number in range(300)],
                tests=[ADD] * 300,
            )
            assert [verdict.score for verdict in verdicts] == [
                float(number % 2 == 0) for number in range(300)
            ]
        killing.join()
        cluster.add()
        assert (
            verifier([program(number, "after") for number in range(8)], tests=[ADD] * 8)
            == [1.0, 0.0] * 4
        )


@pytest.mark.slow
def test_when_all_nodes_are_gone_there_is_no_verdict_and_a_reason_in_bounded_time() -> None:
    with ray_cluster_of(1) as cluster:
        mix = RewardMix(
            [
                RewardTerm(name="code", verifier=UnitTestVerifier()),
                RewardTerm(name="math", verifier=MathVerifier()),
            ]
        )
        sample = Sample(text=program(0), row={"tests": ADD, "solution": "2"})
        assert mix.score([sample]).void == (False,)
        cluster.kill()
        began, turn = time.monotonic(), 0
        verdict = None
        while (
            verdict is None or verdict.score is not None
        ):  # the node's actor learns a little later that it is alone
            turn += 1
            verdict = mix.score([Sample(text=program(2 * turn), row=sample.row)]).verdicts[
                "code"
            ][0]
        assert (verdict.status, verdict.score, verdict.blame) == (
            Status.ERROR,
            None,
            Blame.GRADER,
        )
        assert "Ray" in verdict.details["why"]
        assert time.monotonic() - began < 120


def start(code: str, **variables: str) -> subprocess.Popen[str]:
    """Start a process that runs this code and can import the tests' modules."""
    path = os.pathsep.join([str(HARNESS), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path} | variables
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    )


CHECK = """
from trl_grpo_ext.workers.ray_cluster import check_executor
try:
    check_executor()
    print("joined")
except ValueError as error:
    print(error)
"""
WITH_TOKENS = """
import os, subprocess, sys
from ray_cluster import ray_cluster_of
with ray_cluster_of(1):
    for token in ("a" * 40, "b" * 40):
        subprocess.run([sys.executable, "-c", os.environ["CHECK"]], env=os.environ | {"RAY_AUTH_TOKEN": token})
"""
PIDS = """
import isolated_verifiers
print(*{verdict.answer for verdict in isolated_verifiers.in_worker.judge(["pid"] * 40)})
"""


@pytest.mark.slow
def test_who_has_not_the_clusters_token_is_refused_and_told_so() -> None:
    # In a process of its own: Ray reads once whether there are tokens.
    asked = start(WITH_TOKENS, CHECK=CHECK, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="a" * 40)
    joined, refused = asked.communicate(timeout=240)[0].splitlines()
    assert joined == "joined"
    assert "If the cluster wants a token, set RAY_AUTH_MODE" in refused


@pytest.mark.slow
def test_the_ranks_of_a_run_share_the_workers_of_a_node_and_others_do_not() -> None:
    with ray_cluster_of(1):
        rank = {"WORLD_SIZE": "2", "MASTER_ADDR": "host", "MASTER_PORT": "29500"}
        started = [start(PIDS, **rank), start(PIDS, **rank), start(PIDS)]
        first, second, other = (
            set(each.communicate(timeout=120)[0].split()) for each in started
        )
        assert (
            len(first | second) <= 4
        )  # two cores, and two more should the first rank have ended before the second
        assert first
        assert other
        assert not other & (first | second)
