"""Simulate learning and stuck runs, and measure how often the checks that judge a score report either.

Each prompt has its own chance of a right answer, drawn for each batch around a mean that follows a curve. The
scorecards are real, and reach the checks as in a trainer.

    python benchmarks/false_alarms.py [--runs 20] [--steps 200]
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trl_grpo_ext import RewardMix, RewardTerm, Sample, Verdict, Verifier
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.watch import Onsets
from trl_grpo_ext.diagnostics.window import RunView
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.verdict import as_verdict

# Completions per group.
SIZE = 8

# Maps the share of the run that is over to the mean chance of a right answer.
Curve = Callable[[float], float]

LEARNING: dict[str, Curve] = {
    ".10 to .25": lambda done: 0.10 + 0.15 * done,
    ".05 to .15": lambda done: 0.05 + 0.10 * done,
    ".30 to .50": lambda done: 0.30 + 0.20 * done,
    ".50 to .70": lambda done: 0.50 + 0.20 * done,
    ".05 to .40, late": lambda done: 0.05 + 0.35 / (1 + math.exp(-20 * (done - 0.5))),
}
STUCK: dict[str, Curve] = {
    "at 0": lambda _: 0.0,
    "at .02": lambda _: 0.02,
    "at .10": lambda _: 0.10,
    "at .50": lambda _: 0.50,
}

# Groups per batch, and the concentration of the prompts' chances: near 0, a prompt is always right or always wrong.
DATA = ((4, 1.0), (8, 0.5), (16, 0.2))


class Chance(Verifier):
    """A verifier that reads the simulated result from the row."""

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(sample.row["right"])


class Met(Verifier):
    """A saturated format verifier: every completion passes, which matters only if the answer term is stuck."""

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(True)


@dataclass(frozen=True, slots=True)
class Told:
    """Findings in runs of a kind: share of runs per code, and median step."""

    share: dict[str, float]
    step: dict[str, float]

    def __str__(self) -> str:
        return (
            ", ".join(
                f"{code} {share:.0%} at step {self.step[code]:.0f}"
                for code, share in self.share.items()
            )
            or "-"
        )


def simulated_run(
    curve: Curve, steps: int, groups: int, alike: float, chance: np.random.Generator
) -> dict[str, int]:
    """Simulate a run, and return the step at which each finding began."""
    mix = RewardMix(
        [
            RewardTerm(name="answer", verifier=Chance()),
            RewardTerm(name="form", verifier=Met(), weight=0.2),
        ]
    )
    view, onsets, told = RunView({}), Onsets(dict(CHECKS)), {}
    for step in range(steps):
        mean = min(max(curve(step / steps), 1e-9), 1 - 1e-9)
        prompts = chance.beta(mean * alike, (1 - mean) * alike, groups)
        right = chance.random((groups, SIZE)) < prompts[:, None]
        samples = [
            Sample(
                text=str(index), row={"right": bool(value)}, group=index // SIZE, step=step
            )
            for index, value in enumerate(right.ravel())
        ]
        view.add(reduce_card(mix.score(samples), {}))
        for finding in onsets.look(view.window):
            told.setdefault(finding.code, step)
    return told


def told_of(curve: Curve, runs: int, steps: int, groups: int, alike: float) -> Told:
    """Simulate runs with different seeds, and summarize their findings."""
    found = [
        simulated_run(curve, steps, groups, alike, np.random.default_rng(seed))
        for seed in range(runs)
    ]
    codes = sorted({code for told in found for code in told})
    began = {code: [told[code] for told in found if code in told] for code in codes}
    return Told(
        share={code: len(began[code]) / runs for code in codes},
        step={code: statistics.median(began[code]) for code in codes},
    )


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="runs of each kind")
    parser.add_argument("--steps", type=int, default=200, help="training batches a run")
    args = parser.parse_args()
    for kind, curves in (("learns", LEARNING), ("stuck", STUCK)):
        for name, curve in curves.items():
            for groups, alike in DATA:
                told = told_of(curve, args.runs, args.steps, groups, alike)
                print(
                    f"{kind:6} {name:17} {groups:2} groups, alike {alike:<4} {told}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
