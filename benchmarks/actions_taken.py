"""Measure the diagnosis's advice: a faulty run, its recommended action, and a second run with this action taken.

python benchmarks/actions_taken.py [--seeds 3]

The runs train the lab's ten-action policy by TRL. Runs are compared by the mean wanted score over the last eight
batches: a reward peaked at action 7, whatever reward the run trains on.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status, Verdict, Verifier
from trl_grpo_ext.diagnostics.diagnosis import diagnose
from trl_grpo_ext.lab import ActionVerifier, Landscape, run_lab
from trl_grpo_ext.mix.schedule import linear
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.verdict import as_verdict

WANTED = {5: 0.1, 6: 0.6, 7: 1.0, 8: 0.6, 9: 0.1}
HIGH = {action: action / 10 for action in range(1, 11)}
FAILED = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason="worker_died")
# Number of final batches to score.
LAST = 8


def term(name: str, values: dict[int, Any], **settings: Any) -> RewardTerm:
    """Build a term that pays for actions."""
    return RewardTerm(name=name, verifier=ActionVerifier(values, default=0.0), **settings)


class Gold(Verifier):
    """A verifier that compares the action with the row's gold."""

    def verify(self, sample: Sample) -> Verdict:
        return replace(as_verdict(sample.text == sample.row["gold"]), answer=sample.text)


def mix(*terms: RewardTerm) -> RewardMix:
    """Build a mix from terms."""
    return RewardMix(list(terms))


def answer(**settings: Any) -> RewardTerm:
    """Build the term for the wanted score."""
    return term("answer", WANTED, **settings)


@dataclass(frozen=True)
class Fault:
    """A faulty run, and its repaired version with the diagnosis's action taken.

    Attributes:
        name: The fault.
        faulty, mended: Return reward and options of either run.
    """

    name: str
    faulty: Callable[[], tuple[RewardMix | Landscape, dict[str, Any]]]
    mended: Callable[[], tuple[RewardMix | Landscape, dict[str, Any]]]


FAULTS = (
    Fault("learning rate 0", lambda: (mix(answer()), {"learning_rate": 0.0}), lambda: (mix(answer()), {})),
    Fault("learning rate 1e-9", lambda: (mix(answer()), {"learning_rate": 1e-9}), lambda: (mix(answer()), {})),
    Fault(
        "a grader that fails on what is right",
        lambda: (mix(term("answer", WANTED | {7: FAILED})), {}),
        lambda: (mix(answer()), {}),
    ),
    Fault(
        "beta 100",
        lambda: (mix(answer()), {"beta": 100.0, "learning_rate": 0.001}),
        lambda: (mix(answer()), {"beta": 0.0}),
    ),
    Fault(
        "another term drives",
        lambda: (mix(answer(), term("high", HIGH, weight=6.0)), {}),
        lambda: (mix(answer(), term("high", HIGH, weight=0.3)), {}),
    ),
    Fault(
        "two terms cancel",
        lambda: (mix(answer(), term("opposite", {a: 1 - WANTED.get(a, 0.0) for a in range(1, 11)})), {}),
        lambda: (mix(answer(), term("opposite", {a: 1 - WANTED.get(a, 0.0) for a in range(1, 11)}, weight=0.2)), {}),
    ),
    Fault(
        "a tie-breaker alone decides",
        lambda: (mix(term("answer", {7: 1.0}), term("high", HIGH, weight=0.01)), {"learning_rate": 0.05}),
        lambda: (
            mix(term("answer", {7: 1.0}), term("high", HIGH, weight=0.01, gate="answer")),
            {"learning_rate": 0.05},
        ),
    ),
    Fault(
        "a loose verifier",
        lambda: (mix(term("loose", {1: 1, 2: 1, 3: 1, 4: 1, 7: 1}), term("strict", {7: 1}, weight=0.0)), {"groups": 2}),
        lambda: (mix(term("strict", {7: 1}), term("loose", {1: 1, 2: 1, 3: 1, 4: 1, 7: 1}, weight=0.0)), {"groups": 2}),
    ),
    Fault(
        "a schedule that undoes",
        lambda: (
            mix(
                answer(weight=linear(1.0, 0.05, until=0.1)),
                term("low", {1: 1.0}, weight=linear(0.1, 1.0, until=0.1)),
            ),
            {"steps": 200},
        ),
        lambda: (mix(answer(), term("low", {1: 1.0}, weight=0.1)), {"steps": 200}),
    ),
    Fault(
        "a third of the gold is wrong",
        lambda: (
            mix(RewardTerm(name="answer", verifier=Gold())),
            {"rows": [{"gold": "7"}] * 7 + [{"gold": "none"}] * 3, "steps": 160},
        ),
        lambda: (mix(RewardTerm(name="answer", verifier=Gold())), {"rows": [{"gold": "7"}], "steps": 160}),
    ),
)


def wanted(reward: RewardMix | Landscape, options: dict[str, Any], seed: int) -> tuple[float, str, str]:
    """Run the lab; return the mean wanted score at the end, the diagnosis's sentence, and its first action."""
    with tempfile.TemporaryDirectory() as folder:
        run = run_lab(reward, Path(folder), **({"steps": 80, "groups": 4, "seed": seed} | options))
        found = diagnose(RecordedRun(folder), most_examples=0)
    texts = [sample.text for card in run.cards[-LAST:] for sample in card.samples]
    action = found.causes[0].action if found.causes else "none"
    return fmean(WANTED.get(int(text), 0.0) if text.isdigit() else 0.0 for text in texts), found.sentence, action


def main() -> None:
    """Print each fault with its diagnosis, and scores before and after the repair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    better = 0
    for fault in FAULTS:
        before = [wanted(*fault.faulty(), seed) for seed in seeds]
        after = [wanted(*fault.mended(), seed) for seed in seeds]
        scores = [fmean(score for score, _, _ in runs) for runs in (before, after)]
        better += scores[1] > scores[0]
        print(f"{fault.name}: {scores[0]:.2f} -> {scores[1]:.2f}\n  {before[0][1]}\n  {before[0][2]}")
    print(f"{better} of {len(FAULTS)} are better")


if __name__ == "__main__":
    main()
