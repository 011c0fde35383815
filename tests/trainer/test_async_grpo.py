"""A mix in TRL's AsyncGRPO: TRL's rollout loop in its spawned process, with a stand-in for vLLM."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from accelerate import PartialState

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
pytest.importorskip("aiohttp")
worker_module = pytest.importorskip("trl.experimental.async_grpo.async_rollout_worker")

import async_parts as parts  # noqa: E402
from environment_run import tool_tokenizer  # noqa: E402
from walls import walls_or_skip  # noqa: E402

from trl_grpo_ext import RewardMix, RewardTerm, Scorecard, Verdict  # noqa: E402
from trl_grpo_ext.environments import PythonEnvironment  # noqa: E402
from trl_grpo_ext.figures.advantages import AdvantageSettings, advantages_of  # noqa: E402
from trl_grpo_ext.mix import linear  # noqa: E402
from trl_grpo_ext.outcome import Outcome  # noqa: E402
from trl_grpo_ext.rewards import EnvironmentReward  # noqa: E402
from trl_grpo_ext.runs.recorded_run import RecordedRun  # noqa: E402
from trl_grpo_ext.trainer.async_grpo import judge_by  # noqa: E402
from trl_grpo_ext.trainer.environments import Asked  # noqa: E402
from trl_grpo_ext.trainer.guarded import GuardedFactory  # noqa: E402
from trl_grpo_ext.trainer.mix_loop import AsyncJudging, MixLoop, RunClock  # noqa: E402
from trl_grpo_ext.trainer.tools import ToolWatch  # noqa: E402
from trl_grpo_ext.verdict import as_verdict, grader_error  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

RIGHT = RewardTerm(name="right", verifier=parts.says_42)
SHORT = RewardTerm(name="short", verifier=parts.is_short)
SAYS = ("42", "41", "42", "It is 42.", "41", "41", "41", "41")


def loop_arguments(tokenizer: Any, dataset: Any) -> dict[str, Any]:
    """Make the arguments shared by TRL's loop and our loop, for this process."""
    return {
        "model_name": "m", "dataset": dataset, "reward_funcs": [], "processing_class": tokenizer,
        "eos_token_ids": [tokenizer.eos_token_id], "rollout_buffer": queue.Queue(), "num_generations": 4,
        "model_version_value": SimpleNamespace(value=0), "heartbeat_value": SimpleNamespace(value=0.0),
        "failed_event": threading.Event(), "exception_info_queue": queue.Queue(), "metrics_queue": queue.Queue(),
    }  # fmt: skip


def group_of(*texts: str, version: int = 0) -> Any:
    """Make a rollout group in the form TRL's loop passes to scoring; each completion is one row."""
    row = SimpleNamespace(
        input_ids=[1, 2], completion_mask=[0, 1], old_log_probs=[0.0, -1.0]
    )
    size = len(texts)
    return worker_module.RolloutGroup(
        prompts=[[{"role": "user", "content": "40+2"}]] * size, reward_kwargs={"solution": ["42"] * size},
        completions=[[{"role": "assistant", "content": text}] for text in texts], completions_ids=[[5, 6]] * size,
        completions_sequences=[[row]] * size, tool_call_counts=[0] * size, tool_failure_counts=[0] * size,
        model_version=version, group_id=0, env_rewards=[], rollout_rewards=[None] * size,
    )  # fmt: skip


@pytest.fixture
def mix_loop(one_layer: str, sums: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Make our loop in this process."""

    def make(mix: RewardMix, **settings: Any) -> Any:
        judging = AsyncJudging(
            output_dir=str(tmp_path / "run"), write_report=False, **settings
        )
        clock = RunClock(
            steps_a_version=1,
            max_steps=10,
            groups_a_step=1,
            settings={"num_generations": 4},
        )
        arguments = loop_arguments(tool_tokenizer(one_layer), sums["train"])
        return MixLoop(mix=mix, judging=judging, clock=clock, **arguments)

    yield make


@pytest.fixture(autouse=True)
def _logging_of_accelerate() -> None:
    """Set up Accelerate's logging like TRL's child process."""
    PartialState(cpu=True)


def scored(loop: Any, group: Any) -> list[Any]:
    """Score a group with a loop, close the loop, and return the rows."""
    try:
        return list(asyncio.run(loop._score_group(group)))
    finally:
        loop._loop.close()
        loop._tool_pool.shutdown()


def test_with_weights_of_1_advantages_are_trls_own(
    mix_loop: Any, one_layer: str, sums: Any
) -> None:
    mix = RewardMix([RIGHT, SHORT])
    arguments = loop_arguments(tool_tokenizer(one_layer), sums["train"]) | {
        "reward_funcs": mix.reward_funcs()
    }
    theirs = scored(worker_module._AsyncRolloutLoop(**arguments), group_of(*SAYS[:4]))
    ours = scored(mix_loop(mix), group_of(*SAYS[:4]))
    assert [one.advantage for one in ours] == pytest.approx(
        [one.advantage for one in theirs], abs=1e-6
    )
    for one, other in zip(ours, theirs, strict=True):
        assert {name: one.metrics[name] for name in other.metrics} == pytest.approx(
            other.metrics, abs=1e-6
        )


def test_weights_schedules_and_gates_make_the_total_and_replay_knows_the_advantages(
    mix_loop: Any, tmp_path: Path
) -> None:
    fading = RewardTerm(
        name="short", verifier=parts.is_short, weight=linear(1.0, 0.0), gate="right"
    )
    loop = mix_loop(
        RewardMix([RewardTerm(name="right", verifier=parts.says_42, weight=2.0), fading])
    )
    samples = scored(loop, group_of(*SAYS[:4], version=5))
    totals = np.array([2 + 0.5 / 3, 0, 2 + 0.5 / 3, 0])
    wanted = (totals - totals.mean()) / (totals.std() + 1e-8)
    assert [one.metrics["reward"] for one in samples] == pytest.approx(totals.tolist())
    assert [one.advantage for one in samples] == pytest.approx(wanted.tolist())
    assert {one.metrics["verified/short/weight"] for one in samples} == {0.5}
    (card,) = RecordedRun(tmp_path / "run").cards("train")
    settings = AdvantageSettings.read({"advantage_deviation": "population"})
    assert advantages_of(card, settings).values.tolist() == pytest.approx(
        wanted.tolist(), abs=1e-5
    )
    assert card.step == 5


def test_a_row_that_cannot_be_judged_is_left_out_and_told_with_its_status(
    mix_loop: Any,
) -> None:
    mix = RewardMix([RewardTerm(name="right", verifier=parts.fails_on_41), SHORT])
    samples = scored(mix_loop(mix), group_of(*SAYS[:4]))
    totals = np.array([1 + 1 / 3, 1 + 1 / 3, 1 / 10])
    wanted = (totals - totals.mean()) / (totals.std() + 1e-8)
    assert [samples[place].advantage for place in (0, 2, 3)] == pytest.approx(
        wanted.tolist()
    )
    assert samples[1].advantage == 0
    assert np.isnan(samples[1].metrics["reward"])
    assert (
        samples[0].metrics["verified/right/error"]
        == samples[0].metrics["verified/void"]
        == 1 / 4
    )


def asked(verdict: Verdict | None, *, is_lost: bool = False) -> Any:
    """Make an environment entry of TRL's loop: its class, and the guard's answer to `get_reward`."""
    return parts.Game, Asked(
        outcome=Outcome(environment="Game", verdict=verdict),
        is_lost=is_lost,
        has_reward=True,
    )


@pytest.mark.parametrize("with_term", [True, False])
def test_what_environments_say_is_a_term_or_is_added_and_a_failure_is_a_void_row(
    with_term: bool, mix_loop: Any
) -> None:
    won, lost = as_verdict(True), grader_error("reset_ConnectionError")
    group = group_of("42", "41", "42", "41")
    group.env_rewards = [
        asked(won),
        asked(won),
        asked(grader_error("get_reward_hangs")),
        asked(lost, is_lost=True),
    ]
    solved = RewardTerm(name="solved", verifier=EnvironmentReward(), weight=1.0)
    samples = scored(mix_loop(RewardMix([solved, RIGHT] if with_term else [RIGHT])), group)
    assert [one.metrics["reward"] for one in samples[:2]] == [2.0, 1.0]
    assert [one.advantage for one in samples] == pytest.approx(
        [1.0, -1.0, 0.0, 0.0], abs=1e-6
    )


def test_rollouts_call_python_on_the_threads_of_the_loop_each_in_its_own_session(
    mix_loop: Any,
) -> None:
    walls_or_skip()
    loop = mix_loop(RewardMix([RIGHT]))
    factory = GuardedFactory(PythonEnvironment, 60.0, gives_outcomes=True)
    environments = [factory() for _ in range(6)]

    async def rollout(number: int) -> list[str]:
        environments[number].reset()
        tools = ToolWatch(60.0).watched({"python": environments[number].python})
        read = []
        for code in (f"n = {number}", "n * 2"):
            call = {
                "type": "function",
                "function": {"name": "python", "arguments": {"code": code}},
            }
            (message,), _, failures = await loop._execute_tool_calls([call], tools)
            read.append(message["content"])
            assert failures == 0
        return read

    async def rollouts() -> list[list[str]]:
        return await asyncio.gather(*map(rollout, range(6)))

    assert asyncio.run(rollouts()) == [
        ["(no output)", str(2 * number)] for number in range(6)
    ]
    assert [
        environment.get_reward().outcome.state["calls"] for environment in environments
    ] == [2] * 6
    assert all(environment._session._live is None for environment in environments)
    loop._loop.close()
    loop._tool_pool.shutdown()


def test_a_dead_group_is_recorded_and_not_delivered_if_asked(
    mix_loop: Any, tmp_path: Path
) -> None:
    mix = RewardMix([RIGHT])
    assert scored(mix_loop(mix, drop_dead_groups=True), group_of(*SAYS[4:])) == []
    assert len(list(RecordedRun(tmp_path / "run").cards("train"))) == 1
    assert len(scored(mix_loop(mix), group_of(*SAYS[4:]))) == 4


class Run:
    """A stand-in for the trainer, with TRL's worker and child process, which takes the delivered rows."""

    def __init__(self, model: str, dataset: Any, output_dir: Path) -> None:
        self.callbacks: list[Any] = []
        self.tokenizer = tool_tokenizer(model)
        self.train_dataset = dataset
        self.model = SimpleNamespace(name_or_path=model)
        self.accelerator = SimpleNamespace(num_processes=1, is_main_process=True)
        self.add_callback = self.callbacks.append
        self.args = SimpleNamespace(
            output_dir=str(output_dir), weight_sync_steps=1, max_steps=10, per_device_train_batch_size=8,
            gradient_accumulation_steps=1, num_generations=4, report_to=[],
        )  # fmt: skip

    def start(self, address: str, environment: Any = None) -> None:
        self.rollout_worker = worker_module.AsyncRolloutWorker(
            model_name="m", dataset=self.train_dataset, reward_funcs=[], processing_class=self.tokenizer,
            eos_token_ids=[self.tokenizer.eos_token_id], environment_factory=environment, num_generations=4,
            max_inflight_tasks=1, vllm_server_url=address, max_tokens=32, tools=[],
        )  # fmt: skip

    def taken(self, count: int) -> list[Any]:
        return [self.rollout_worker.rollout_buffer.get(timeout=120) for _ in range(count)]

    def stop(self) -> None:
        self.rollout_worker.stop()


@pytest.fixture
def judged(
    one_layer: str, sums: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    """Run TRL's worker with a mix until some rows are delivered."""
    # TRL requires vLLM even if the server runs elsewhere.
    monkeypatch.setattr(worker_module, "is_vllm_available", lambda: True)
    run = Run(one_layer, sums["train"].select(range(8)), tmp_path / "run")

    def judge(
        mix: RewardMix,
        take: Any = lambda run: run.taken(16),
        environment: Any = None,
        **settings: Any,
    ) -> Any:
        with parts.vllm_server(run.tokenizer, SAYS) as address:
            run.start(address, environment)
            judge_by(run, mix, **settings)
            run.rollout_worker.start()
            try:
                return run, take(run)
            finally:
                run.stop()

    yield judge


def cards_of(run: Run) -> list[Scorecard]:
    return list(RecordedRun(run.args.output_dir).cards("train"))


@pytest.mark.slow  # a process
def test_the_child_judges_records_and_reports_what_it_delivers(judged: Any) -> None:
    run, samples = judged(RewardMix([RIGHT, SHORT]))
    cards = cards_of(run)
    assert [len(card) for card in cards[:2]] == [8, 8]
    recorded = [advantage for card in cards[:2] for advantage in card.advantages or ()]
    assert [one.advantage for one in samples] == pytest.approx(recorded)
    assert RecordedRun(run.args.output_dir).settings["advantage_deviation"] == "population"
    assert (Path(run.args.output_dir) / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("with_term", [True, False])
def test_environments_that_fail_in_the_child_make_void_rows(
    with_term: bool, judged: Any
) -> None:
    solved = RewardTerm(name="solved", verifier=EnvironmentReward())
    run, samples = judged(
        RewardMix([solved, RIGHT] if with_term else [RIGHT]), environment=parts.Game
    )
    card = cards_of(run)[0]
    assert card.void == (False, False, True, True) * 2
    assert [sample.outcome.state for sample in card.samples[:3]] == [
        {"turn": turn} for turn in range(3)
    ]
    assert [one.advantage for one in samples[2:4]] == [0.0, 0.0]
    assert card.totals[:2] == (1.0, 1.0)  # a right answer, and a game that was won


@pytest.mark.slow
def test_an_async_reward_is_asked_on_the_loop_of_the_child(judged: Any) -> None:
    run, _ = judged(
        RewardMix([RewardTerm(name="solved", verifier=EnvironmentReward())]),
        environment=parts.Waiting,
    )
    assert cards_of(run)[0].totals == (1.0,) * 8


@pytest.mark.slow
def test_a_child_whose_every_rollout_fails_ends_and_the_parent_is_told_why(
    judged: Any,
) -> None:
    def told(run: Run) -> Any:
        return run.rollout_worker._exception_info_queue.get(timeout=120)

    _, (name, message, _) = judged(
        RewardMix([RIGHT]), told, parts.Down, environment_patience=2
    )
    assert name == "EnvironmentsFailedError"
    assert "Down.reset raised ConnectionError: no sandbox" in message


@pytest.mark.slow
def test_a_finding_of_halt_on_ends_the_training(judged: Any) -> None:
    mix = RewardMix([RewardTerm(name="right", verifier=parts.always_fails)])
    run, _ = judged(mix, lambda run: run.taken(48), halt_on=("grader_trouble",))
    logs: dict[str, float] = {}
    while "verified/halted" not in logs:  # as TRL's `log` takes them
        logs.update(run.rollout_worker.metrics_queue.get(timeout=60))
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    (callback,) = run.callbacks
    callback.on_log(run.args, SimpleNamespace(global_step=6), control, logs=logs)
    assert control.should_training_stop


def test_what_cannot_be_judged_there_is_refused(
    one_layer: str, sums: Any, tmp_path: Path
) -> None:
    run = Run(one_layer, sums["train"], tmp_path)
    run.rollout_worker = SimpleNamespace()
    with pytest.raises(TypeError, match="AsyncRolloutWorker"):
        judge_by(run, RewardMix([RIGHT]))
    with pytest.raises(TypeError, match="halt_om"):
        judge_by(run, RewardMix([RIGHT]), halt_om=["way_out"])
    with pytest.raises(ValueError, match="way_uot"):
        judge_by(run, RewardMix([RIGHT]), halt_on=["way_uot"])
    with pytest.raises(ValueError, match="@verifier"):
        judge_by(run, [lambda completions, **_: [0.0] * len(completions)])
    kwargs = {"reward_funcs": [len]}
    run.rollout_worker = SimpleNamespace(
        _loop_kwargs=kwargs, _mp_ctx=multiprocessing.get_context("spawn")
    )
    with pytest.raises(ValueError, match="leave them out"):
        judge_by(run, RewardMix([RIGHT]))
