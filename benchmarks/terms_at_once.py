"""Compare judging two slow terms in parallel with judging them in sequence.

Two pairs are compared: mathematics and programs, which both keep all cores busy; and programs and a judge that waits
for its endpoint (here it sleeps). Printed are medians of wall time, in sequence and in parallel, and of the CPU time of
all processes. Each round has new completions, and the order alternates between rounds.

    python benchmarks/terms_at_once.py --completions 128 --wait 2 --rounds 5
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from scale import TESTS, cpu_seconds, formula, program

from trl_grpo_ext.rewards import MathVerifier, UnitTestVerifier

Term = Callable[[Sequence[int]], object]


def maths(numbers: Sequence[int]) -> object:
    """Judge answers to algebra problems."""
    answers = [formula(number) for number in numbers]
    return MathVerifier()(answers, solution=[f"x^2 + {number}x + 1" for number in numbers])


def code(numbers: Sequence[int]) -> object:
    """Judge programs."""
    return UnitTestVerifier()([program(number, "") for number in numbers], tests=[TESTS] * len(numbers))


def taken(terms: Sequence[Term], numbers: Sequence[int], *, at_once: bool) -> tuple[float, float]:
    """Judge all terms; return wall seconds, and CPU seconds of all processes."""
    cpu, began = sum(cpu_seconds()), time.perf_counter()
    if at_once:
        with ThreadPoolExecutor(len(terms)) as threads:
            list(threads.map(lambda term: term(numbers), terms))
    else:
        for term in terms:
            term(numbers)
    return time.perf_counter() - began, sum(cpu_seconds()) - cpu


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--completions", type=int, default=128)
    parser.add_argument("--wait", type=float, default=2.0, help="seconds that the endpoint takes for a batch")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    pairs: dict[str, list[Term]] = {
        "mathematics, programs": [maths, code],
        "programs, an endpoint": [code, lambda _: time.sleep(options.wait)],
    }
    print(f"{options.completions} completions, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    maths([0]), code([0])
    first = 1
    for name, terms in pairs.items():
        found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for round_ in range(options.rounds):
            for at_once in (round_ % 2 == 0, round_ % 2 == 1):
                numbers = range(first, first := first + options.completions)
                found[at_once].append(taken(terms, numbers, at_once=at_once))
        one_by_one, at_once_ = (
            "{:.2f} s, {:.2f} s CPU".format(*(statistics.median(each[part] for each in found[way]) for part in (0, 1)))
            for way in (False, True)
        )
        print(f"{name}: one after the other {one_by_one}; at once {at_once_}")


if __name__ == "__main__":
    main()
