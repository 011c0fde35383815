"""Measure the cost of a mix: 4,096 completions under 6 terms, without the verifiers' own work.

Timed are the mix itself (routing, shapes, gates, combinations, voiding, totals), the rewards that TRL gets, and the
figures for its logs; as milliseconds of CPU time, which other work on the machine disturbs little, and as the share of
a training step of one second.

    python benchmarks/mix_cost.py
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Sequence

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status, Verdict, Verifier
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.mix import Affine, Clip, Gate, linear, product

CORRECT = Verdict(status=Status.CORRECT, score=1.0)
WRONG = Verdict(status=Status.INCORRECT, score=0.0)
FAILED = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER)


class Ready(Verifier):
    """A verifier with prepared verdicts, so that only the mix is timed."""

    def __init__(self, verdicts: Sequence[Verdict]) -> None:
        self.verdicts = list(verdicts)

    def verify(self, sample: Sample) -> Verdict:
        return self.verdicts[0]

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        return self.verdicts[: len(samples)]


def make_mix(size: int, rng: random.Random) -> RewardMix:
    """Build six terms: plain, gated on a schedule, shaped, routed, shadow and combination."""

    def ready() -> Ready:
        return Ready(rng.choices([CORRECT, WRONG, FAILED], weights=[50, 49, 1], k=size))

    return RewardMix(
        [
            RewardTerm(name="accuracy", verifier=ready()),
            RewardTerm(name="short", verifier=ready(), gate=Gate("accuracy", floor=-1.0), weight=linear(0.3, 0.0)),
            RewardTerm(name="form", verifier=ready(), shape=[Affine(2.0, -1.0), Clip(-1.0, 1.0)], weight=0.1),
            RewardTerm(name="task", verifier=ready(), when={"task": ["math", "logic"]}, weight=0.1),
            RewardTerm(name="strict", verifier=ready(), weight=0),
            RewardTerm(name="both", combine=product("accuracy", "form"), weight=0.2),
        ]
    )


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--completions", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    rng = random.Random(0)
    samples = [
        Sample(text="x" * 100, group=index // 8, row={"task": rng.choice(["math", "logic", "code"])})
        for index in range(options.completions)
    ]
    mix = make_mix(options.completions, rng)
    parts: dict[str, list[float]] = {"mix and void": [], "rewards for TRL": [], "figures": []}
    for _ in range(options.rounds):
        times = [time.process_time()]
        card = mix.score(samples, 0.5)
        times.append(time.process_time())
        for term in card.terms:
            card.rewards(term)
        times.append(time.process_time())
        reduce_card(card, {})
        times.append(time.process_time())
        for part, (begin, end) in zip(parts, itertools.pairwise(times), strict=True):
            parts[part].append(1000 * (end - begin))
    print(f"{options.completions} completions x {len(mix.terms)} terms, median (range) of {options.rounds} rounds")
    totals = [sum(round_) for round_ in zip(*parts.values(), strict=True)]
    for part, taken in {**parts, "together": totals}.items():
        median = statistics.median(taken)
        print(f"{part:16} {median:7.2f} ms ({min(taken):.2f} to {max(taken):.2f}), {median / 10:.2f} % of a 1 s step")


if __name__ == "__main__":
    main()
