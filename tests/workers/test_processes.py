"""Rewards in trainers' processes: spawned children, event loops, machines without room for another process."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import subprocess
import sys
from multiprocessing.connection import Connection

import pytest

from trl_grpo_ext import Blame, RewardMix, RewardTerm
from trl_grpo_ext.mix.reward_function import ASYNC_WORKER
from trl_grpo_ext.rewards import MathVerifier, math_reward

COMPLETIONS, GOLDS = [r"\boxed{x+y}", r"\boxed{2x}"], ["2x", "x+x"]


def rollout_worker(connection: Connection, rewards: list[MathVerifier]) -> None:
    """Imitate AsyncGRPO's child: judge several groups at once, each reward in its own thread."""

    async def groups() -> list[list[float | None]]:
        calls = [
            asyncio.to_thread(reward, COMPLETIONS, solution=GOLDS)
            for reward in rewards
            for _ in range(3)
        ]
        return await asyncio.gather(*calls)

    connection.send(asyncio.run(groups()))


@pytest.mark.slow
def test_rewards_work_in_a_spawned_child_from_its_event_loop() -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=rollout_worker, args=(there, [math_reward]))
    child.start()
    assert here.poll(60)
    assert here.recv() == [[0.0, 1.0]] * 3
    child.join(20)
    assert child.exitcode == 0


MIXES = {
    "ones": RewardMix([RewardTerm(name="right", verifier=math_reward)]),
    "twos": RewardMix([RewardTerm(name="right", verifier=math_reward, weight=2.0)]),
    "shadow": RewardMix(
        [
            RewardTerm(name="right", verifier=math_reward),
            RewardTerm(name="watched", verifier=math_reward, weight=0),
        ]
    ),
}


@pytest.mark.parametrize(
    ("mix", "told"), [("ones", ""), ("twos", "right: 2"), ("shadow", "watched: 0")]
)
def test_in_the_process_in_which_async_grpo_scores_a_mix_whose_weights_would_be_lost_is_refused(
    mix: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = MIXES[mix].reward_funcs()
    pickle.loads(pickle.dumps(functions))
    monkeypatch.setattr(multiprocessing.current_process(), "name", ASYNC_WORKER)
    if not told:
        assert pickle.loads(pickle.dumps(functions))[0](["$4$"], solution=["4"]) == [1.0]
        return
    with pytest.raises(
        ValueError, match=f"AsyncGRPOTrainer adds rewards up without weights.*{told}"
    ):
        pickle.loads(pickle.dumps(functions))


NO_ROOM = r"""
import os, resource
import psutil, trl_grpo_ext.workers.pool  # nobody may not read where these are installed
from trl_grpo_ext.rewards import math_reward
if os.getuid() == 0:
    os.setuid(65534)  # limits do not hold for root
resource.setrlimit(resource.RLIMIT_NPROC, (1, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
verdicts = math_reward.judge([r"\boxed{|x|}", r"\boxed{4}"], solution=["2x", "4"])
print(*(f"{verdict.score} {verdict.blame}" for verdict in verdicts), sep="; ")
"""


def test_where_no_process_can_be_started_the_grader_is_to_blame_and_what_needs_none_is_judged() -> (
    None
):
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == f"None {Blame.GRADER}; 1.0 {Blame.POLICY}\n", done.stderr
