"""A stopped and resumed run equals an uninterrupted run, term by term."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    Scorecard,
    Verdict,
    VerifiedGRPOTrainer,
    Verifier,
    verifier,
)
from trl_grpo_ext.diagnostics.finding import read_findings
from trl_grpo_ext.mix import linear
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.verdict import as_verdict

Make = Callable[..., Any]

STEPS, STOP = 14, 7


class FailsFromStep(Verifier):
    """A verifier that fails on one completion in eight from a step on; its finding needs batches before the stop."""

    def __init__(self, step: int) -> None:
        self.step = step

    def judge_samples(self, samples: Any) -> list[Verdict]:
        return [
            self.guarded(self.judged, (index, sample))
            for index, sample in enumerate(samples)
        ]

    def judged(self, one: tuple[int, Sample]) -> Verdict:
        index, sample = one
        if index % 8 == 0 and (sample.step or 0) >= self.step:
            raise RuntimeError("planted")
        return as_verdict(len(sample.text) % 2)

    def verify(self, sample: Sample) -> Verdict:
        raise AssertionError("judged by batch")


@verifier
def digits(sample: Sample) -> float:
    return sum(character.isdigit() for character in sample.text) / (len(sample.text) + 1)


def mix() -> RewardMix:
    return RewardMix(
        [
            RewardTerm(name="fails", verifier=FailsFromStep(STOP - 2)),
            RewardTerm(
                name="digits",
                verifier=digits,
                weight=linear(1.0, 0.2, begin=0.1, until=0.9),
                gate="fails",
            ),
        ]
    )


class StopsAt(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = (
            control.should_training_stop or state.global_step == STOP
        )


def contents(card: Scorecard) -> dict[str, Any]:
    return {
        "where": (
            card.mode,
            card.step,
            [(sample.group, sample.text) for sample in card.samples],
        ),
        "verdicts": {
            name: [
                verdict and (verdict.status, verdict.score, verdict.reason)
                for verdict in verdicts
            ]
            for name, verdicts in card.verdicts.items()
        },
        "values": card.values,
        "weights": card.weights,
        "void": card.void,
        "totals": card.totals,
        "advantages": card.advantages,
    }


@pytest.mark.slow  # three real runs
def test_a_run_that_was_stopped_and_resumed_equals_one_that_was_not(
    one_layer: str, sums: Any, config: Make, tmp_path: Path
) -> None:
    def run(folder: str, *, stops: bool = False, resume: bool = False) -> None:
        args = config(
            output_dir=str(tmp_path / folder), max_steps=STEPS, save_strategy="steps", save_steps=STOP, beta=0.04,
            eval_strategy="steps", eval_steps=STOP, keep_scorecards_every=3, learning_rate=1e-3,
        )  # fmt: skip
        data = (sums["train"], sums["test"].select(range(4)))
        trainer = VerifiedGRPOTrainer(
            one_layer, mix(), args, *data, callbacks=[StopsAt()] if stops else None
        )
        trainer.train(resume_from_checkpoint=resume or None)

    run("whole")
    run("stopped", stops=True)
    before = read_findings(tmp_path / "stopped")
    run("stopped", resume=True)

    whole, resumed = (RecordedRun(tmp_path / folder) for folder in ("whole", "stopped"))
    cards = list(whole.cards())
    assert len(cards) == STEPS + 4  # two evaluations of two batches
    for card, again in zip(cards, resumed.cards(), strict=True):
        assert contents(again) == contents(card)
    timed = (
        "time",
        "seconds",
        "latency",
        "per_second",
        "share_of_step",
        "noise",
        "total_flos",
        "moved",
    )
    # Skip the final entry of each training.
    logs, logs_again = (
        [entry for entry in run.logs if "train_runtime" not in entry]
        for run in (whole, resumed)
    )
    for entry, again in zip(logs, logs_again, strict=True):
        # `moved` is measured from where a session began.
        kept = [
            name for name in entry if not any(word in name for word in (*timed, "session"))
        ]
        assert {name: again.get(name) for name in kept} == {
            name: entry[name] for name in kept
        }
    findings = read_findings(tmp_path / "whole")
    assert read_findings(tmp_path / "stopped") == findings
    # The finding's evidence lies before and after the stop.
    assert (before, [finding.code for finding in findings]) == ([], ["grader_trouble"])
