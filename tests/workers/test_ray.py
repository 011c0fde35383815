"""Judging on real local Ray clusters of several nodes; one node is killed under load."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import isolated_verifiers
import pytest
from datasets import Dataset
from ray_cluster import ADD, LocalCluster, program, ray_cluster_of
from walls import walls_or_skip

from trl_grpo_ext import RewardMix, RewardTerm, Sample, VerifiedGRPOConfig
from trl_grpo_ext.answers import pairs as judging
from trl_grpo_ext.mix.reward_plan import plan_rewards
from trl_grpo_ext.programs.sandbox.job import CallSuite, Job, Limits, StdioCase, StdioSuite
from trl_grpo_ext.recipe.file import load_recipe, set_environment
from trl_grpo_ext.rewards import MathVerifier, RegexVerifier, UnitTestVerifier
from trl_grpo_ext.support.version import __version__
from trl_grpo_ext.trainer.preflight import check_run
from trl_grpo_ext.workers import executor, processes, ray_cluster
from trl_grpo_ext.workers.call import Call, Failure
from trl_grpo_ext.workers.executor import (
    ADDRESS_VARIABLE,
    EXECUTOR_VARIABLE,
    ExecutorError,
    choose_executor,
    on_ray,
)
from trl_grpo_ext.workers.pool import shared_pool
from trl_grpo_ext.workers.ray_cluster import check_executor

walls_or_skip()

# No answer that reaches its deadline: on a busy machine, two runs may blame different sides.
MATHS = [
    r"\boxed{\frac{1}{2}}",
    r"\boxed{x^x*x}",
    r"\boxed{3}",
    r"\boxed{2^{10}}",
    "I do not know",
]
GOLDS = ["0.5", "x^(x+1)", "5", "1024", "2"]


# --- No cluster


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Choose Ray, and hide all clusters of this machine: Ray would join those of other tests' processes."""
    services = pytest.importorskip("ray._private.services")
    monkeypatch.setattr(services, "find_gcs_addresses", frozenset)
    monkeypatch.setattr(services, "find_bootstrap_address", lambda temp_dir: None)
    monkeypatch.setenv(EXECUTOR_VARIABLE, "ray")
    monkeypatch.delenv(ADDRESS_VARIABLE, raising=False)
    monkeypatch.setattr(executor, "_connected_in", None)
    monkeypatch.setattr(executor, "_chosen", None)
    processes.close_shared()
    yield
    processes.close_shared()


@pytest.mark.slow
@pytest.mark.usefixtures("without")
def test_without_a_cluster_a_run_is_refused_with_what_to_do() -> None:
    mix = RewardMix([RewardTerm(name="math", verifier=MathVerifier())])
    with pytest.raises(ExecutorError, match=r"RAY_ADDRESS=auto.*ray start --head"):
        mix.check_columns(["solution"])
    with pytest.raises(ExecutorError, match="ray start --head"):
        UnitTestVerifier()(["x"], tests=[ADD])


@pytest.mark.slow
@pytest.mark.usefixtures("without")
def test_an_address_at_which_nothing_listens_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv(ADDRESS_VARIABLE, address)
    began = time.monotonic()
    with pytest.raises(ExecutorError, match=f"{address} .*refused"):
        check_executor()
    assert time.monotonic() - began < 20


@pytest.mark.usefixtures("without")
def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ExecutorError, match=r"trl-grpo-ext\[ray\]"):
        check_executor()


@pytest.mark.usefixtures("without")
def test_a_forked_child_is_told_that_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_connected_in", os.getpid() + 1)
    with pytest.raises(ExecutorError, match="fork"):
        check_executor()


def test_an_executor_that_there_is_not_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="Did you mean `ray`"):
        VerifiedGRPOConfig(
            output_dir=str(tmp_path), use_cpu=True, bf16=False, executor="rya"
        )
    monkeypatch.setenv(EXECUTOR_VARIABLE, "dask")
    with pytest.raises(ExecutorError, match=r"'dask'.*local"):
        check_executor()


@pytest.mark.usefixtures("without")
def test_a_recipe_and_a_configuration_choose_the_executor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(EXECUTOR_VARIABLE)
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("executor: ray\n", encoding="utf-8")
    set_environment(load_recipe(str(recipe)))
    assert on_ray()
    choose_executor("local")
    settings = VerifiedGRPOConfig(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", executor="ray"
    )
    mix = RewardMix([RewardTerm(name="math", verifier=MathVerifier())])
    data = Dataset.from_dict({"prompt": ["1 + 1?"], "solution": ["2"]})
    with pytest.raises(ValueError, match="ray start --head"):
        check_run(plan_rewards(mix), data, None, settings)


def test_judging_here_does_not_import_ray() -> None:
    use = "from trl_grpo_ext.rewards import math_reward; math_reward(['1'], solution=['2'])"
    code = f"{use}; import sys; print('ray' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


JOBS = [
    Job(
        program="x = '\ud800'",
        suite=CallSuite(tests=("assert f(1) == 2",), names=("f",), setup="import math"),
    ),
    Job(
        program="p",
        suite=StdioSuite(tests=(StdioCase(stdin="1", stdout="2"),)),
        limits=Limits(wall_seconds=1.5),
    ),
]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_crosses_unchanged(job: Job) -> None:
    record = job.to_record()
    assert Job.from_record(record) == job
    if isinstance(job.suite, CallSuite):
        record["suite"]["code"] = "00"
        rebuilt = Job.from_record(record).suite
        assert isinstance(rebuilt, CallSuite) and rebuilt.code == ""


# --- A cluster that is there


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Start two nodes with two cores each."""
    with ray_cluster_of(2) as found:
        yield found


def judged(mix: RewardMix, samples: list[Sample]) -> list[Any]:
    """Score samples afresh, and return all verdicts, totals and void rows without times."""
    judging.forget()
    card = mix.score(samples)
    verdicts = [
        [
            verdict and (verdict.to_record() | {"seconds": 0.0})
            for verdict in card.verdicts[term]
        ]
        for term in card.terms
    ]
    return [verdicts, card.totals, card.void]


@pytest.mark.slow  # starts a cluster
def test_the_same_mix_gives_the_same_verdicts_as_on_this_machine(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, any_cpu_counts: None
) -> None:
    mix = RewardMix(
        [
            RewardTerm(
                name="code",
                verifier=UnitTestVerifier(scoring="share"),
                when={"task": "code"},
            ),
            RewardTerm(
                name="math", verifier=MathVerifier(timeout=2.0), when={"task": "math"}
            ),
            RewardTerm(name="form", verifier=RegexVerifier(pattern=r"\w+"), weight=0.1),
        ]
    )
    codes = [*map(program, range(6)), "import sys; sys.exit(0)", "def add(:", "no code"]
    samples = [
        Sample(text=text, row={"task": "code", "tests": [*ADD, "assert add(0, 0) == 1"]})
        for text in codes
    ]
    samples += [
        Sample(text=text, row={"task": "math", "solution": gold})
        for text, gold in zip(MATHS, GOLDS, strict=True)
    ]
    there = judged(mix, samples)
    monkeypatch.setenv(EXECUTOR_VARIABLE, "local")
    assert there == judged(mix, samples)


@pytest.mark.slow  # starts a cluster
def test_outcomes_come_in_order_from_all_cores_of_all_nodes(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    verifier = UnitTestVerifier()
    scores = verifier([program(number, "order") for number in range(60)], tests=[ADD] * 60)
    assert scores == [float(number % 2 == 0) for number in range(60)]
    assert (
        isolated_verifiers.meets_three_others([str(tmp_path)] * 4) == [1.0] * 4
    )  # two nodes with two cores each
    assert len(list(tmp_path.iterdir())) == 4
    assert (
        "namespaces" in verifier.facts()["isolation"]
        or "landlock" in verifier.facts()["isolation"]
    )


@pytest.mark.slow  # starts a cluster
def test_what_a_worker_does_with_a_call_is_told_as_on_this_machine(
    cluster: LocalCluster,
) -> None:
    texts = ["right", "raise", "die", "wrong", "spin"]
    *verdicts, spun = isolated_verifiers.in_worker.judge(texts)
    assert [verdict.reason for verdict in verdicts] == [
        "",
        "raised_RuntimeError",
        "worker_lost",
        "",
    ]
    assert [verdict.score for verdict in verdicts] == [1.0, None, None, 0.0]
    # A busy machine gives the worker too little processor time to blame the answer.
    assert (spun.reason, spun.score) in [("timeout", 0.0), ("worker_starved", None)]


@pytest.mark.slow  # starts a cluster
def test_a_call_that_cannot_be_sent_fails_alone(cluster: LocalCluster) -> None:
    calls = [
        Call(target="math:sqrt", arguments=(number,))
        for number in (9, threading.Lock(), 16)
    ]
    found = shared_pool().run(calls, timeout=5.0)
    assert [(each.value, each.failure) for each in found] == [
        (3.0, None),
        (None, Failure.RAISED),
        (4.0, None),
    ]


def test_a_node_with_another_version_does_not_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(
        EXECUTOR_VARIABLE, "ray"
    )  # a node takes it away: there, everything is local
    reply = ray_cluster.NodeJudge(1).run(
        "math:sqrt", b'{"version": "0.0", "items": [], "settings": {}}'
    )
    assert b"it has trl-grpo-ext " + __version__.encode() in reply
    assert EXECUTOR_VARIABLE not in os.environ


@pytest.mark.slow  # starts a cluster
def test_a_fork_of_this_process_does_not_end_what_it_has_on_the_cluster(
    cluster: LocalCluster,
) -> None:
    verifier = UnitTestVerifier()
    assert verifier([program(0, "before")], tests=[ADD]) == [1.0]
    nodes = ray_cluster.ray_cluster().nodes()
    subprocess.run(
        ["true"], check=True, preexec_fn=lambda: None
    )  # as Ray itself starts processes, by a fork
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forks of a process with threads
        child = os.fork()
    if child == 0:
        try:
            (verdict,) = verifier.judge([program(1, "child")], tests=[ADD])
            os._exit(0 if verdict.score is None else 1)
        except ExecutorError as error:
            os._exit(7 if "fork" in str(error) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    time.sleep(1.0)
    assert verifier([program(2, "after")], tests=[ADD]) == [1.0]
    assert ray_cluster.ray_cluster().nodes() == nodes


@pytest.mark.slow  # starts a cluster
def test_closing_ends_what_is_under_way_and_it_can_be_used_again(
    cluster: LocalCluster,
) -> None:
    verifier = UnitTestVerifier(timeout=60.0)
    threading.Timer(1.0, verifier.close).start()
    began = time.monotonic()
    (verdict,) = verifier.judge(["while True: pass"], tests=[ADD])
    assert (verdict.score, verdict.reason, verdict.details["why"]) == (
        None,
        "sandbox_failed",
        "closed",
    )
    assert time.monotonic() - began < 30
    assert verifier([program(2, "again")], tests=[ADD]) == [1.0]
