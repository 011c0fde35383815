"""Measure each shipped verifier's cost per verdict: CPU time of the training process, and of its child processes.

The completions are those of trainer_soak.py without endless programs: ten kinds, right, wrong and in other forms, all
distinct. Workers and the sandbox start before the measurement. The figures are means over completions. The LLM judge is
an endpoint of this process and counts with it.

    python benchmarks/verdict_cost.py
"""

from __future__ import annotations

import logging
import time

from scale import cpu_seconds
from trainer_soak import GROUP, HANG_EVERY, completion, judge_endpoint, row, verifiers

from trl_grpo_ext import Sample, Verifier

ACTIONS = 10
# Numbers for warm-up and measurement; each number gives a completion of every kind.
WARM, MEASURED = 2 * GROUP, 8 * GROUP


def samples(numbers: range) -> list[Sample]:
    """Build groups of completions, each group of a single kind and each completion with its own number."""
    return [
        Sample(
            text=(text := completion(action, number)),
            prompt="What is it?",
            completion_ids=range(len(text) // 4),
            row={name: value for name, value in row(number).items() if name != "prompt"},
            group=action * len(numbers) + place // GROUP,
        )
        for action in range(1, ACTIONS + 1)
        for place, number in enumerate(number for number in numbers if number % HANG_EVERY)
    ]


def line(name: str, verifier: Verifier, first: int) -> str:
    """Measure a verifier: CPU microseconds per verdict, and the range of scores; `first` is its first unused number."""
    verifier.judge_samples(samples(range(first, first + WARM)))
    judged = samples(range(first + WARM, first + WARM + MEASURED))
    (_, below_before), here_before = cpu_seconds(), time.process_time()
    verdicts = verifier.judge_samples(judged)
    here = 1e6 * (time.process_time() - here_before) / len(judged)
    below = 1e6 * (cpu_seconds()[1] - below_before) / len(judged)
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    seen = f"{min(scores):.3g} to {max(scores):.3g}" if scores else "none"
    return f"{name:20}{here:9.0f}{below:9.0f}   {seen}"


def main() -> None:
    """Print a line per verifier."""
    logging.disable(logging.WARNING)
    print(f"{'verifier':20}{'us here':>9}{'us below':>9}   scores")
    with judge_endpoint() as endpoint:
        for place, (name, verifier) in enumerate(verifiers(endpoint.base_url).items()):
            print(line(name, verifier, 1 + 1000 * place), flush=True)
            verifier.close()


if __name__ == "__main__":
    main()
