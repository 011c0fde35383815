"""Real runs with one planted fault each: exactly its finding, named by the diagnosis; healthy runs give none."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planted import Gold
from planted import lab_term as term
from torch.utils.data import WeightedRandomSampler

from trl_grpo_ext import (
    Blame,
    RewardMix,
    RewardTerm,
    Sample,
    Status,
    Verdict,
    VerifiedGRPOTrainer,
    Verifier,
    verifier,
)
from trl_grpo_ext.diagnostics.diagnosis import Diagnosis, diagnose
from trl_grpo_ext.diagnostics.finding import read_findings
from trl_grpo_ext.lab import Landscape, double_peak, linear, run_lab, single_peak
from trl_grpo_ext.rewards import MathVerifier, NumericVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.verdict import as_verdict

Make = Callable[..., Any]

# Enough tokens that no completion is cut.
ROOM = {"per_device_train_batch_size": 16, "max_completion_length": 48}

# Planted finding -> further findings that are also true of the run.
COMPANIONS = {
    # The grader's missing verdicts are the way out.
    "way_out": {"grader_trouble"},
    # The verifiers disagree before the policy exploits the disagreement.
    "reward_hacking": {"noisy_verifier"},
}

BY_ACTION = {action: action / 10 for action in range(1, 11)}
PEAK = {5: 0.1, 6: 0.6, 7: 1.0, 8: 0.6, 9: 0.1}
TIMEOUT = Verdict(status=Status.TIMEOUT, score=0.0, reason="timeout", seconds=5.0)
FAILED = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason="worker_died")


class Dice(Verifier):
    """A verifier with random scores."""

    score_range = (0.0, 1.0)

    def __init__(self) -> None:
        self.chance = random.Random(0)

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(self.chance.random())


class MovingTarget(Verifier):
    """A verifier that passes a third of the actions, changing every second step: nothing to learn."""

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict((int(sample.text) + (sample.step or 0) // 2) % 3 == 0)


class BreaksTheGrader(Verifier):
    """A verifier that passes 7, and has grader errors on a growing share of other actions."""

    def verify(self, sample: Sample) -> Verdict:
        is_broken = zlib.crc32(f"{sample.step} {sample.text}".encode()) % 100 < (
            sample.step or 0
        )
        return (
            as_verdict(sample.text == "7")
            if sample.text == "7" or not is_broken
            else FAILED
        )


# Learning is slow enough that the fault stays visible.
SLOW = {"learning_rate": 0.03, "groups": 4}

# "expected finding: story" -> reward and run options with one fault.
#
# Two steps of the lab are one batch, and a finding that hides another one stays for 16 batches. Texts are ten words, so
# siblings repeat: a verifier that judges by more than the text is a `noisy_verifier` too, which stands in `COMPANIONS`,
# or in `HIDES` if the planted fault is the cause.
LAB_FAULTS: dict[str, tuple[RewardMix | Landscape, dict[str, Any]]] = {
    "grader_trouble: timeouts for two actions": (
        RewardMix([term("peak", PEAK | {2: TIMEOUT, 3: TIMEOUT})]),
        SLOW,
    ),
    "grader_trouble: failures for one action": (
        RewardMix([term("peak", PEAK | {3: FAILED})]),
        SLOW,
    ),
    "way_out: more and more wrong answers break the grader": (
        RewardMix([RewardTerm(name="peak", verifier=BreaksTheGrader())]),
        {"learning_rate": 0.01, "groups": 4, "steps": 60},
    ),
    "bad_data: no gold for one action": (RewardMix([term("peak", PEAK | {3: None})]), SLOW),
    "inert_term: a term that all pass": (
        RewardMix(
            [
                RewardTerm(name="answer", verifier=MovingTarget()),
                term("format", {}, 1.0, weight=0.5),
            ]
        ),
        {"learning_rate": 0.01, "groups": 4, "steps": 160},
    ),
    "wrong_driver: a tie breaker": (
        RewardMix(
            [
                term("answer", {7: 1.0}),
                term("tie_breaker", BY_ACTION, weight=0.01),
            ]
        ),
        {"learning_rate": 0.01},
    ),
    "wrong_driver: answers that are never right": (
        RewardMix([term("answer", {}), term("tie_breaker", BY_ACTION, weight=0.01)]),
        {"learning_rate": 0.5, "groups": 2},
    ),
    "wrong_driver: answers that are hardly ever right": (
        RewardMix([term("answer", {7: 1.0}), term("tie_breaker", BY_ACTION, weight=0.01)]),
        {"learning_rate": 0.3, "groups": 2, "logits": [0.5] * 6 + [-1.2] + [0.5] * 3},
    ),
    "entropy_collapse: a third of the gold answers are wrong": (
        RewardMix([RewardTerm(name="answer", verifier=Gold())]),
        {"groups": 4, "steps": 160, "rows": [{"gold": "7"}] * 7 + [{"gold": "none"}] * 3},
    ),
    "dead_groups: all wrong": (RewardMix([term("answer", {}, 0.0)]), {}),
    "dead_groups: all right": (RewardMix([term("answer", {}, 1.0)]), {}),
    "inert_term": (RewardMix([term("answer", {}, 0.5)]), {}),
    "reward_hacking": (
        RewardMix(
            [term("loose", {2: 1, 3: 1, 4: 1, 7: 1}), term("strict", {7: 1}, weight=0)]
        ),
        {"groups": 2},
    ),
    "noisy_verifier: it judges by chance": (
        RewardMix([RewardTerm(name="judge", verifier=Dice())]),
        {"groups": 4},
    ),
    "zero_updates: no learning rate": (single_peak(7), {"learning_rate": 0.0}),
    "zero_updates: no learning rate, few logs": (
        single_peak(7),
        {"learning_rate": 0.0, "beta": 0.0, "steps": 40, "logging_steps": 10},
    ),
    "zero_updates: no learning rate, marks up to 50": (
        Landscape(
            name="marks", rewards=tuple(50.0 * reward for reward in single_peak(7).rewards)
        ),
        {"learning_rate": 0.0},
    ),
    "wrong_driver: marks up to 50 and a length that outweighs them": (
        RewardMix(
            [
                term("answer", {2: 50.0, 9: 50.0}),
                term("length", {4: 25.0, 9: 50.0, 10: 50.0}, weight=3.0),
            ]
        ),
        {"learning_rate": 0.03, "groups": 4},
    ),
    "zero_updates: next to none": (single_peak(7), {"learning_rate": 1e-9}),
    "zero_updates: next to none, few logs": (
        single_peak(7),
        {"learning_rate": 1e-9, "logging_steps": 10},
    ),
    "zero_updates: next to none, without beta": (
        single_peak(7),
        {"learning_rate": 1e-9, "beta": 0.0},
    ),
    "odd_sampling: a temperature of 3": (
        single_peak(7),
        {"temperature": 3.0, "learning_rate": 0.003, "groups": 4, "steps": 40},
    ),
    "kl_blowup": (single_peak(7), {"learning_rate": 100.0}),
    "kl_blowup: few logs": (single_peak(7), {"learning_rate": 100.0, "logging_steps": 10}),
    "wrong_driver": (
        RewardMix(
            [
                term("answer", {2: 1.0, 9: 1.0}),
                term("length", {4: 0.5, 9: 1.0, 10: 1.0}, weight=3.0),
            ]
        ),
        {"learning_rate": 0.03, "groups": 4},
    ),
}


def assert_names(diagnosis: Diagnosis, code: str) -> None:
    """Assert that the first cause is the planted fault, and gives the diagnosis sentence."""
    assert diagnosis.causes[0].code == code
    assert diagnosis.sentence == diagnosis.causes[0].sentence


@pytest.mark.slow  # real trainings
@pytest.mark.parametrize("fault", LAB_FAULTS)
def test_a_fault_planted_in_the_lab_gives_its_finding_and_no_other(
    tmp_path: Path, fault: str
) -> None:
    code = fault.split(":")[0]
    reward, options = LAB_FAULTS[fault]
    run_lab(reward, tmp_path, **({"steps": 80, "write_report": False} | options))
    told = [finding.code for finding in read_findings(tmp_path)]
    assert told.count(code) == 1
    assert set(told) - COMPANIONS.get(code, set()) == {code}
    assert_names(diagnose(RecordedRun(tmp_path)), code)


@pytest.mark.slow  # real runs; test_healthy_runs.py has a quick one
@pytest.mark.parametrize("seed", range(10))
def test_healthy_runs_give_no_finding(tmp_path: Path, seed: int) -> None:
    landscape = (single_peak(7), linear(), double_peak())[seed % 3]
    run_lab(landscape, tmp_path, steps=120, seed=seed, write_report=False)
    assert read_findings(tmp_path) == []
    diagnosis = diagnose(RecordedRun(tmp_path))
    assert diagnosis.findings == diagnosis.causes == ()
    assert re.match(
        r"The score of `\w+` has risen from .*; nothing is held out", diagnosis.sentence
    )


class Coin(Verifier):
    """A verifier that passes half of all texts, by a hash that cannot be learned."""

    score_range = (0.0, 1.0)

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(zlib.crc32(sample.text.encode()) % 2)


@verifier
def longer(sample: Sample) -> float:
    """Reward length in tokens."""
    return min(1.0, len(sample.completion_ids or ()) / 48)


def train(model: str, mix: RewardMix, args: Any, data: Any) -> tuple[list[str], Diagnosis]:
    VerifiedGRPOTrainer(model, mix, args, data).train()
    return [finding.code for finding in read_findings(args.output_dir)], diagnose(
        RecordedRun(args.output_dir)
    )


@pytest.mark.slow  # real runs
def test_gold_answers_that_cannot_be_parsed_are_bad_data(
    tiny_model: str, sums: Any, config: Make
) -> None:
    spoiled = sums["train"].map(
        lambda row, index: {"solution": "?" if index % 4 == 0 else row["solution"]},
        with_indices=True,
    )
    told, diagnosis = train(tiny_model, accuracy(), config(max_steps=8, **ROOM), spoiled)
    assert told == ["bad_data"]
    assert_names(diagnosis, "bad_data")
    assert "gold" in diagnosis.examples[0].verdicts["accuracy"]


@pytest.mark.slow  # a real run
def test_answers_that_are_cut_are_truncation(
    tiny_model: str, sums: Any, config: Make
) -> None:
    args = config(
        max_steps=10,
        per_device_train_batch_size=16,
        num_generations=8,
        max_completion_length=24,
    )
    told, diagnosis = train(tiny_model, accuracy(), args, sums["train"])
    assert told == ["truncation"]
    assert_names(diagnosis, "truncation")
    assert "24 tokens" in diagnosis.sentence


@pytest.mark.slow  # a real run
@pytest.mark.parametrize("beta", [0.04, 0.0])
def test_a_learning_rate_that_breaks_the_policy_is_no_fault_of_the_length_limit(
    tiny_model: str, sums: Any, config: Make, beta: float
) -> None:
    args = config(max_steps=24, learning_rate=1e-2, beta=beta, seed=2, **ROOM)
    told, diagnosis = train(tiny_model, accuracy(), args, sums["train"])
    assert told == ["kl_blowup"]
    assert_names(diagnosis, "kl_blowup")
    assert "score has fallen to 0.00 in the last 8 batches after" in diagnosis.sentence
    assert ("nats of KL" in diagnosis.sentence) is (beta > 0)


@pytest.mark.slow  # a real run
def test_answers_that_nobody_can_read_are_an_unparseable_flood(
    tiny_model: str, sums: Any, config: Make
) -> None:
    # The model writes \\boxed{}, and the verifier wants an <answer>.
    mix = RewardMix(
        [RewardTerm(name="accuracy", verifier=NumericVerifier(answer_from="answer_tag"))]
    )
    told, diagnosis = train(tiny_model, mix, config(max_steps=10, **ROOM), sums["train"])
    assert told == ["unparseable_flood"]
    assert_names(diagnosis, "unparseable_flood")


@pytest.mark.slow  # a real run
def test_lengths_that_drift_without_better_answers_are_a_length_explosion(
    tiny_model: str, sums: Any, config: Make
) -> None:
    mix = RewardMix(
        [
            RewardTerm(name="accuracy", verifier=Coin()),
            RewardTerm(name="length", verifier=longer, weight=1.0),
        ]
    )
    args = config(
        max_steps=30,
        per_device_train_batch_size=32,
        num_generations=8,
        max_completion_length=64,
        learning_rate=2e-4,
    )
    # With golds, a coin would be found out as a noisy verifier.
    told, diagnosis = train(tiny_model, mix, args, sums["train"].remove_columns("solution"))
    assert told == ["length_explosion"]
    assert_names(diagnosis, "length_explosion")


def accuracy() -> RewardMix:
    return RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())])


class Weighted(VerifiedGRPOTrainer):
    """A trainer with the sampler that TRL's maintainers advise for drawing some rows more often (trl#2801)."""

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        return WeightedRandomSampler([1.0] * len(self.train_dataset), num_samples=64)


@pytest.mark.parametrize("columns", [["prompt", "solution"], ["prompt"]])
def test_a_sampler_that_mixes_rows_within_groups_is_told_at_the_first_batch(
    tiny_model: str, sums: Any, config: Make, columns: list[str]
) -> None:
    reward = RewardMix([RewardTerm(name="longer", verifier=longer)])
    args = config(max_steps=1, per_device_train_batch_size=16)
    Weighted(tiny_model, reward, args, sums["train"].select_columns(columns)).train()
    (told,) = read_findings(args.output_dir)
    assert (told.code, told.numbers["mixed"]) == ("mixed_groups", 4)
    assert_names(diagnose(RecordedRun(args.output_dir)), "mixed_groups")
