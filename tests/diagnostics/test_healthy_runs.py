"""Healthy runs that look odd: no findings, and a diagnosis that nothing limits the reward."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from planted import Gold
from planted import lab_term as term
from transformers import AutoModelForCausalLM, TrainerCallback

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    Status,
    Verdict,
    VerifiedGRPOTrainer,
    Verifier,
)
from trl_grpo_ext.diagnostics.diagnosis import diagnose
from trl_grpo_ext.diagnostics.finding import read_findings
from trl_grpo_ext.lab import ActionVerifier, Landscape, run_lab, single_peak
from trl_grpo_ext.lab.policy import make_tokenizer
from trl_grpo_ext.lab.training import REFERENCE
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.verdict import as_verdict

UNREAD = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_boxed")
NOTHING_TO_PUNISH = Verdict(status=Status.CORRECT, score=0.0)
WRONG_GOLD = [{"gold": "7"}] * 9 + [{"gold": "none"}]


class Graded(Verifier):
    """A verifier with a score per action, and without answers."""

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = scores

    def verify(self, sample: Sample) -> Verdict:
        action = sample.text.strip()
        return as_verdict(self.scores[int(action) - 1] if action.isdigit() else 0.0)


def is_seven(completions: list[str], **_: Any) -> list[float]:
    """Reward like a typical plain TRL function."""
    return [float(completion.strip() == "7") for completion in completions]


def only_seven(*others: RewardTerm) -> RewardMix:
    """Make a mix with one right action of ten, and all other actions equally wrong."""
    return RewardMix([term("answer", {7: 1.0}), *others])


def scaled(factor: float, offset: float) -> Landscape:
    """The landscape with a single peak, on another scale."""
    return Landscape(
        name="scaled",
        rewards=tuple(factor * reward + offset for reward in single_peak(7).rewards),
    )


def begins_with(probability: float) -> list[float]:
    """Compute logits of a policy with this probability of the right action."""
    logits = [math.log((1 - probability) / 9)] * 10
    logits[6] = math.log(probability)
    return logits


WARM_UP = {"lr_scheduler_type": "constant_with_warmup"}
LATE = {"eval_rows": [{}] * 8, "eval_strategy": "steps", "eval_steps": 10, "eval_delay": 60}

# Oddity -> reward and run options.
ODD_RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "one action of ten, held by beta": (only_seven(), {"beta": 0.1}),
    "a first evaluation in the middle": (only_seven(), LATE),
    "a long warm-up": (
        single_peak(7),
        {"groups": 1, "steps": 160, "warmup_steps": 120} | WARM_UP,
    ),
    "pairs": (only_seven(), {"groups": 8, "num_generations": 2, "steps": 160}),
    "converged without beta, and going on": (
        single_peak(7),
        {"beta": 0.0, "groups": 2, "steps": 240},
    ),
    "a tenth of the gold answers are wrong": (
        RewardMix([RewardTerm(name="answer", verifier=Gold())]),
        {"rows": WRONG_GOLD, "steps": 160},
    ),
    "right nearly always from the start": (only_seven(), {"logits": begins_with(0.95)}),
    "four updates a batch": (only_seven(), {"num_iterations": 4, "steps": 160}),
    "a plain function beside a verifier": ([ActionVerifier({7: 1.0}), is_seven], {}),
    "a learning rate that ends at 0": (only_seven(), {"lr_scheduler_type": "linear"}),
    "a score that rises late": (
        only_seven(),
        {"logits": begins_with(0.05), "groups": 8, "steps": 160, "warmup_steps": 100}
        | WARM_UP,
    ),
    "a penalty with nothing to punish": (
        only_seven(term("overlong", {}, NOTHING_TO_PUNISH)),
        {},
    ),
    "a form that is learned first": (
        only_seven(term("form", dict.fromkeys(range(5, 10), 1.0), weight=0.3)),
        {"steps": 160},
    ),
    "rows of two kinds, a term for each": (
        RewardMix(
            [
                RewardTerm(
                    name=kind,
                    verifier=ActionVerifier({7: 1.0} | others),
                    when={"kind": kind},
                )
                for kind, others in {"strict": {}, "lenient": {6: 0.5}}.items()
            ]
        ),
        {"rows": [{"kind": "strict"}, {"kind": "lenient"}]},
    ),
    "a form that some answers lack at first": (
        RewardMix([term("answer", {7: 1.0} | dict.fromkeys(range(1, 5), UNREAD))]),
        {},
    ),
    "a form that weighs as much as the answer": (
        only_seven(term("form", dict.fromkeys(range(5, 10), 1.0))),
        {},
    ),
    "a tie-break among right answers": (
        RewardMix(
            [
                term("answer", {7: 1.0, 8: 1.0}),
                term(
                    "short", {action: action / 10 for action in range(1, 11)}, weight=0.05
                ),
            ]
        ),
        {},
    ),
    "scores that no group differs in once they are learned": (
        RewardMix(
            [
                RewardTerm(name="answer", verifier=Graded([0.0] * 6 + [1.0] + [0.0] * 3)),
                RewardTerm(
                    name="style", verifier=Graded([action / 12 for action in range(1, 11)])
                ),
            ]
        ),
        {},
    ),
    "marks up to 50 whose range nobody knows": (scaled(50.0, 0.0), {}),
    "penalties from -1 to 0, learned away": (scaled(1.0, -1.0), {"steps": 200}),
    "a highest score below 1": (
        RewardMix([RewardTerm(name="answer", verifier=Graded([0.1] * 6 + [0.7] * 4))]),
        {},
    ),
}


QUICK_RUNS = ("a highest score below 1",)


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK_RUNS else pytest.param(name, marks=pytest.mark.slow)
        for name in ODD_RUNS
    ],
)
def test_a_healthy_run_that_looks_odd_gives_no_finding(tmp_path: Path, name: str) -> None:
    reward, options = ODD_RUNS[name]
    run_lab(
        reward, tmp_path, **({"steps": 120, "groups": 4, "write_report": False} | options)
    )
    assert_healthy(tmp_path)


class StopAt(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """A callback that ends a run at a step, like a time limit."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = state.global_step >= self.step


@pytest.mark.slow  # two real runs
def test_a_healthy_run_that_was_resumed_gives_no_finding(tmp_path: Path) -> None:
    saved = {"save_strategy": "steps", "save_steps": 20, "write_report": False}
    first = run_lab(
        only_seven(), tmp_path, steps=120, groups=4, callbacks=[StopAt(60)], **saved
    )
    assert first.steps == 60
    model = AutoModelForCausalLM.from_pretrained(tmp_path / REFERENCE)
    trainer = VerifiedGRPOTrainer(
        model,
        only_seven(),
        first.trainer.args,
        first.trainer.train_dataset,
        processing_class=make_tokenizer(),
    )
    trainer.train(resume_from_checkpoint=True)
    assert trainer.state.global_step == 120
    assert_healthy(tmp_path)


def assert_healthy(folder: Path) -> None:
    diagnosis = diagnose(RecordedRun(folder))
    assert [
        (finding.code, finding.step, finding.sentence) for finding in read_findings(folder)
    ] == []
    assert diagnosis.findings == diagnosis.causes == ()
    assert re.match(r"All is well|The score of .* (has risen|is) ", diagnosis.sentence)
