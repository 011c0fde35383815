"""Early judging, during TRL's log-probabilities: an equal run in less time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from isolated_verifiers import in_worker
from planted import Positions, collected, term

from trl_grpo_ext import (
    RewardMix,
    Sample,
    Scorecard,
    Verdict,
    VerifiedGRPOTrainer,
    Verifier,
)
from trl_grpo_ext.mix import linear
from trl_grpo_ext.mix.reward_mix import UnscoredError
from trl_grpo_ext.trainer.judge import EarlyJudging
from trl_grpo_ext.verdict import as_verdict

Make = Callable[..., Any]
# Seconds until a deadlocked test fails.
PATIENCE = 60.0


class Telling(VerifiedGRPOTrainer):
    """A trainer that sets an event when TRL begins the reference policy's log-probabilities."""

    passing: threading.Event

    def _get_per_token_logps_and_entropies(self, *arguments: Any, **settings: Any) -> Any:
        self.passing.set()
        return super()._get_per_token_logps_and_entropies(*arguments, **settings)


class Awaiting(Verifier):
    """A verifier that waits for TRL to pass the completions: a deadlock if TRL first waits for verdicts."""

    def __init__(self, event: threading.Event) -> None:
        self.event = event
        self.threads: list[str] = []

    def verify(self, sample: Sample) -> Verdict:
        raise NotImplementedError

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        self.threads.append(threading.current_thread().name)
        assert self.event.wait(PATIENCE)
        self.event.clear()
        return [as_verdict(index % 2 == 0) for index in range(len(samples))]


def trained(
    make: Make, model: str, data: Any, **settings: Any
) -> tuple[list[dict[str, float]], list[Scorecard]]:
    """Train with a void row and a weight schedule, and return logs (training and evaluation) and scorecards."""
    mix = RewardMix(
        [
            term("right", 1, 0, 0, 1, 0, None, 1, 0),
            term("form", 0.2, 0.9, 0.4, weight=linear(0.5, 0.1)),
        ]
    )
    args = make(beta=0.04, eval_strategy="steps", eval_steps=1, **settings)
    trainer = VerifiedGRPOTrainer(
        model, mix, args, data["train"], data["test"].select(range(4))
    )
    cards = collected(trainer)
    trainer.train()
    return trainer.state.log_history, cards


def contents(card: Scorecard) -> tuple[Any, ...]:
    samples = [(each.text, each.group, each.step) for each in card.samples]
    return card.mode, card.weights, card.values, card.void, samples


@pytest.mark.slow
def test_a_run_that_is_judged_early_is_the_run_that_is_judged_late(
    one_layer: str, sums: Any, config: Make, tmp_path: Path
) -> None:
    (late, late_cards), (early, early_cards) = (
        trained(
            config,
            one_layer,
            sums,
            judge_early=early,
            output_dir=str(tmp_path / str(early)),
        )
        for early in (False, True)
    )
    timed = ("seconds", "time", "latency", "per_second", "share_of_step")
    for before, after in zip(late, early, strict=True):
        kept = [name for name in before if not any(word in name for word in timed)]
        assert "loss" in before or "eval_loss" in before or "train_loss" in before
        assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    for before, after in zip(late_cards, early_cards, strict=True):
        assert contents(after) == contents(before)


def test_verdicts_are_made_while_trl_computes_log_probabilities(
    one_layer: str, sums: Any, config: Make
) -> None:
    passing = threading.Event()
    waits = Awaiting(passing)
    trainer = Telling(one_layer, waits, config(judge_early=True, beta=0.04), sums["train"])
    trainer.passing = passing
    trainer.train()
    assert len(waits.threads) == 2  # a batch a step, each judged once
    assert threading.main_thread().name not in waits.threads


@pytest.mark.parametrize("early", [None, False])
def test_without_an_accelerator_or_where_it_is_not_wanted_verifiers_work_on_the_main_thread(
    one_layer: str, sums: Any, config: Make, early: bool | None
) -> None:
    ready = threading.Event()
    waits = Awaiting(ready)
    ready.set()
    VerifiedGRPOTrainer(
        one_layer, waits, config(judge_early=early, max_steps=1), sums["train"]
    ).train()
    assert waits.threads == [threading.main_thread().name]


def test_what_a_rollout_adds_to_the_rows_reaches_the_verifiers(
    one_layer: str, sums: Any, config: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    seen: list[Any] = []

    class Seeing(Positions):
        def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
            seen.extend(sample.row.get("tried") for sample in samples)
            return super().judge_samples(samples)

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        ends = [trainer.processing_class.eos_token_id]
        return {
            "prompt_ids": [ends for _ in prompts],
            "completion_ids": [ends for _ in prompts],
            "logprobs": [[0.0] for _ in prompts],
            "tried": list(range(len(prompts))),
        }

    args = config(judge_early=True, max_steps=1)
    VerifiedGRPOTrainer(
        one_layer, Seeing(1, 0), args, sums["train"], rollout_func=rollout
    ).train()
    assert seen == list(range(8))


def test_a_row_that_must_not_stay_unscored_ends_an_early_judged_run(
    one_layer: str, sums: Any, config: Make
) -> None:
    mix = RewardMix([term("right", 1, None, on_unscored="raise")])
    with pytest.raises(UnscoredError, match="right"):
        VerifiedGRPOTrainer(one_layer, mix, config(judge_early=True), sums["train"]).train()


def test_a_verifier_finds_the_gpu_that_its_rank_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert EarlyJudging(lambda: list(chosen), []).result() == [3]


def test_every_term_that_comes_after_the_failure_is_ended_too() -> None:
    asleep = threading.Event()
    ended: list[str] = []

    def judge() -> None:
        for _ in range(3):
            asleep.set()
            ended.extend(verdict.reason for verdict in in_worker.judge(["sleep"]))

    early = EarlyJudging(judge, [])
    assert asleep.wait(PATIENCE)
    early.cancel()
    early.result()
    assert ended == ["worker_lost"] * 3


def test_a_step_that_fails_meanwhile_ends_what_verifiers_have_under_way(
    one_layer: str, sums: Any, config: Make
) -> None:
    asleep = threading.Event()
    ended: list[Verdict] = []

    class Asleep(Positions):
        def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
            asleep.set()
            ended.extend(in_worker.judge(["sleep"] * len(samples)))
            return super().judge_samples(samples)

    class Failing(VerifiedGRPOTrainer):
        def _get_per_token_logps_and_entropies(
            self, *arguments: Any, **settings: Any
        ) -> Any:
            assert asleep.wait(PATIENCE)
            raise RuntimeError("out of memory")

    trainer = Failing(
        one_layer, Asleep(1, 0), config(judge_early=True, beta=0.04), sums["train"]
    )
    with pytest.raises(RuntimeError, match="out of memory"):
        trainer.train()
    judging = [
        thread for thread in threading.enumerate() if thread.name.startswith("judge")
    ]
    for thread in judging:
        thread.join(PATIENCE)
    assert "worker_lost" in {verdict.reason for verdict in ended}
