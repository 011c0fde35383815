"""Faults in a run and their consequences: rows of docs/faults_reference.md without another test."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from child_processes import command_of
from isolated_verifiers import in_worker, right_in_worker
from places import HARNESS
from planted import collected

from trl_grpo_ext import (
    Blame,
    RewardMix,
    RewardTerm,
    Sample,
    Scorecard,
    Verdict,
    VerifiedGRPOTrainer,
    Verifier,
    verifier,
)
from trl_grpo_ext.runs.recorded_run import RecordedRun

Make = Callable[..., Any]


def trained(
    model: str, rewards: Any, args: Any, data: Any
) -> tuple[list[Scorecard], list[dict[str, Any]], VerifiedGRPOTrainer]:
    trainer = VerifiedGRPOTrainer(model, rewards, args, data)
    cards = collected(trainer)
    trainer.train()
    return cards, [entry for entry in trainer.state.log_history if "loss" in entry], trainer


@verifier
def longer(sample: Sample) -> float:
    return min(1.0, len(sample.text) / 50)


WRONG: dict[str, Any] = {"nan": math.nan, "inf": math.inf, "string": "yes", "list": [1.0]}
REASONS = {
    "nan": "score_not_finite",
    "inf": "score_not_finite",
    "string": "returned_str",
    "list": "returned_list",
}


class WrongFirst(Verifier):
    """A verifier with one planted failure, on the first completion of each group of four."""

    name = "wrong_first"

    def __init__(self, how: str) -> None:
        self.how = how
        self.seen = 0

    def verify(self, sample: Sample) -> Any:
        self.seen += 1
        if self.seen % 4 != 1:
            return longer.verify(sample)
        if self.how == "raises":
            raise RuntimeError("planted")
        return WRONG[self.how]


@pytest.mark.parametrize("how", ["raises", *WRONG])
def test_a_row_that_its_verifier_fails_on_is_left_out_and_the_others_are_trained_on(
    one_layer: str, sums: Any, config: Make, how: str
) -> None:
    mix = RewardMix(
        [
            RewardTerm(name="wrong", verifier=WrongFirst(how)),
            RewardTerm(name="longer", verifier=longer),
        ]
    )
    cards, steps, _ = trained(one_layer, mix, config(), sums["train"])
    assert len(steps) == 2
    for card in cards:
        assert card.void == (True, False, False, False) * 2
        verdict = card.verdicts["wrong"][0]
        assert verdict is not None
        assert (verdict.blame, verdict.reason) == (
            Blame.GRADER,
            REASONS.get(how, "raised_RuntimeError"),
        )
        assert card.advantages is not None
        assert [card.advantages[row] for row in (0, 4)] == [0.0, 0.0]
        assert any(card.advantages)
    assert all(
        math.isfinite(entry["grad_norm"]) and entry["grad_norm"] > 0 for entry in steps
    )
    assert [entry["verified/void"] for entry in steps] == [0.25, 0.25]


class TooFew(Verifier):
    def verify(self, sample: Sample) -> Verdict:
        raise AssertionError("judged by batch")

    def judge_samples(self, samples: Any) -> list[Verdict]:
        return [self.as_verdict_of_one(sample) for sample in samples[1:]]

    def as_verdict_of_one(self, sample: Sample) -> Verdict:
        return longer.judge_samples([sample])[0]


def test_a_batch_with_a_verdict_too_few_is_left_out_whole_and_said_to_be(
    one_layer: str, sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    cards, steps, _ = trained(one_layer, TooFew(), config(), sums["train"])
    assert [card.void for card in cards] == [(True,) * 8] * 2
    assert [entry["grad_norm"] for entry in steps] == [0.0, 0.0]
    assert "'too_few' gave 7 verdicts for 8 completions" in caplog.text


def plain(first: Any) -> Callable[..., Any]:
    """Make a plain reward function that returns `first` for the first completion of each group of four."""

    def wrong(completions: list[Any], **_: Any) -> list[Any]:
        return [
            first if index % 4 == 0 else float(index % 2)
            for index in range(len(completions))
        ]

    return wrong


@pytest.mark.slow
def test_a_lone_plain_functions_reward_that_is_no_number_leaves_the_row_out_and_is_told_unless_it_is_none(
    one_layer: str, sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    logs, told = [], []
    for value in (None, math.nan, math.inf, -math.inf):
        caplog.clear()
        _, steps, _ = trained(one_layer, plain(value), config(), sums["train"])
        logs.append(
            [(entry["loss"], entry["grad_norm"], entry["reward"]) for entry in steps]
        )
        told.append(
            caplog.text.count(
                "The reward 'wrong' was NaN or infinite for 2 of 8 completions"
            )
        )
    assert logs == [logs[0]] * 4
    assert all(math.isfinite(figure) for entry in logs[0] for figure in entry)
    assert told == [0, 1, 1, 1]


def plain_async(first: Any) -> Callable[..., Any]:
    """Make the async version of `plain`."""

    async def wrong(completions: list[Any], **_: Any) -> list[Any]:
        return list(plain(first)(completions))

    return wrong


@pytest.mark.parametrize("made", [plain, plain_async])
@pytest.mark.parametrize("value", [math.nan, np.float32("nan"), math.inf])
def test_a_plain_functions_nan_beside_a_verifier_voids_the_row_and_is_recorded_as_void(
    one_layer: str,
    sums: Any,
    config: Make,
    made: Any,
    value: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cards, steps, trainer = trained(
        one_layer, [longer, made(value)], config(), sums["train"]
    )
    assert [card.void for card in cards] == [(True, False, False, False) * 2] * 2
    assert [entry["verified/void"] for entry in steps] == [0.25, 0.25]
    verdict = cards[0].verdicts["wrong"][0]
    assert verdict is not None
    assert (verdict.blame, verdict.reason) == (Blame.GRADER, "score_not_finite")
    recorded = [card.void for card in RecordedRun(trainer.args.output_dir).cards("train")]
    assert recorded == [card.void for card in cards]
    assert (
        caplog.text.count("The reward 'wrong' was NaN or infinite for 2 of 8 completions")
        == 1
    )


def in_a_mix(function: Any) -> list[RewardMix]:
    """Return a mix of a verifier and a plain function, both as terms."""
    terms = [("longer", longer), ("wrong", function)]
    return [RewardMix([RewardTerm(name=name, verifier=judge) for name, judge in terms])]


def beside_a_verifier(function: Any) -> list[Any]:
    """Return a verifier and a plain function beside it."""
    return [longer, function]


@pytest.mark.parametrize("rewards", [beside_a_verifier, in_a_mix])
def test_a_plain_functions_none_beside_a_verifier_does_not_apply_and_is_said_once_with_the_way_to_void(
    one_layer: str,
    sums: Any,
    config: Make,
    caplog: pytest.LogCaptureFixture,
    rewards: Callable[[Any], list[Any]],
) -> None:
    cards, _, _ = trained(one_layer, rewards(plain(None)), config(), sums["train"])
    assert not any(flag for card in cards for flag in card.void)
    assert caplog.text.count("The reward 'wrong' gave None for 2 of 8 completions") == 1
    assert "return NaN, or make it a verifier (@verifier)" in caplog.text


def test_a_plain_functions_nan_without_weight_voids_no_row(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(reward_weights=[1.0, 0.0])
    cards, _, _ = trained(one_layer, [longer, plain(math.nan)], args, sums["train"])
    assert not any(flag for card in cards for flag in card.void)


def raises(completions: list[Any], **_: Any) -> list[float]:
    raise RuntimeError("planted")


def too_few(completions: list[Any], **_: Any) -> list[float]:
    return [1.0]


def strings(completions: list[Any], **_: Any) -> list[Any]:
    return ["1.0"] * len(completions)


@pytest.mark.parametrize("wrong", [raises, too_few, strings])
def test_a_plain_function_that_fails_ends_the_run_and_is_named(
    one_layer: str, sums: Any, config: Make, wrong: Any
) -> None:
    mix = RewardMix([RewardTerm(name="longer", verifier=longer)])
    with pytest.raises((RuntimeError, ValueError)) as failed:
        trained(one_layer, [mix, wrong], config(), sums["train"])
    assert failed.value.__notes__ == [
        f"Where this happened: in the reward {wrong.__name__!r}."
    ]


@pytest.mark.slow  # real runs
def test_what_the_disk_did_not_take_is_written_once_it_has_room_again(
    tmp_path: Path,
) -> None:
    namespaces = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*namespaces, "true"], capture_output=True).returncode:
        pytest.skip("needs a user namespace, to mount a small disk in")
    command = [
        *namespaces,
        sys.executable,
        str(HARNESS / "run_on_a_full_disk.py"),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    recorded = json.loads(done.stdout.splitlines()[-1])
    assert recorded == {"steps": 8, "batches": list(range(8)), "logged": list(range(1, 9))}
    for recorder in ("Recorder", "LogRecorder"):
        assert (
            done.stderr.count(
                f"<{recorder} of a run> failed; the run goes on. This is shown once."
            )
            == 1
        )
    assert "No space left on device" in done.stderr


@pytest.mark.slow  # two real runs
def test_a_run_that_is_ended_while_it_scores_leaves_no_worker_and_goes_on_from_its_checkpoint(
    tmp_path: Path,
) -> None:
    command = [sys.executable, str(HARNESS / "run_that_scores.py"), str(tmp_path)]
    with subprocess.Popen(
        [*command, "sleeps_after_the_first_step"], stderr=subprocess.DEVNULL
    ) as run:
        deadline = time.monotonic() + 300
        while not (
            tmp_path / "checkpoint-1" / "trainer_state.json"
        ).exists() or not busy_workers(run.pid):
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        workers = busy_workers(run.pid)
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=60) == -signal.SIGTERM
    gone, alive = psutil.wait_procs(workers, timeout=60)
    assert gone
    assert not alive
    assert [card.step for card in RecordedRun(tmp_path).cards("train")] == [0]

    assert (
        subprocess.run(
            [*command, "even_in_worker"], stderr=subprocess.DEVNULL, timeout=300
        ).returncode
        == 0
    )
    cards = list(RecordedRun(tmp_path).cards("train"))
    assert [card.step for card in cards] == [0, 1, 2]
    assert not any(any(card.void) for card in cards)


def busy_workers(trainer: int) -> list[psutil.Process]:
    """List a trainer's worker processes, called while the trainer waits in its second batch."""
    return [
        child
        for child in psutil.Process(trainer).children()
        if "worker_main" in command_of(child)
    ]


@pytest.mark.usefixtures("any_cpu_counts")
def test_a_clock_that_jumps_changes_no_deadline_and_no_figure(
    one_layer: str, sums: Any, config: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, jumps = time.time, iter(range(10**9))
    monkeypatch.setattr(
        time, "time", lambda: read() + (-1) ** next(jumps) * 86_400.0
    )  # a day on, a day back
    assert [verdict.reason for verdict in in_worker.judge(["spin"])] == ["timeout"]
    assert right_in_worker(["right", "wrong"]) == [1.0, 0.0]
    cards, steps, trainer = trained(one_layer, right_in_worker, config(), sums["train"])
    seconds = [
        verdict.seconds
        for card in cards
        for verdict in card.verdicts["right_in_worker"]
        if verdict
    ]
    assert len(seconds) == 16
    assert all(0 <= each < 60 for each in seconds)
    assert [entry["verified/right_in_worker/incorrect"] for entry in steps] == [1.0, 1.0]
    assert all(0 <= entry["verified/grader/share_of_step"] <= 1 for entry in steps)
    assert [card.step for card in RecordedRun(trainer.args.output_dir).cards("train")] == [
        0,
        1,
    ]
