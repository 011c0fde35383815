"""Judge hostile math answers alone and among normal answers, off the main thread.

    python benchmarks/math_hostile.py HOSTILE.jsonl CASES.jsonl

HOSTILE has `name`, `completion`, `solution`; CASES has `gold`, `prediction`, `expected`. Prints each hostile answer's
verdict, the batch's wall time with an upper bound for its slow answers (number x deadline / workers), and the number of
processes left. TRL's accuracy reward gets the hostile answers one by one, off the main thread as in AsyncGRPO, each in
a process that is killed after `--limit` seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.rewards.math import forget
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.workers.call import Call, Failure
from trl_grpo_ext.workers.pool import WorkerPool, usable_cores

Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    """Read a case file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def judge(verifier: MathVerifier, texts: Sequence[str], golds: Sequence[Any]) -> tuple[list[Verdict], float]:
    """Judge a batch in a thread; return verdicts and wall seconds."""
    verdicts: list[Verdict] = []
    thread = threading.Thread(target=lambda: verdicts.extend(verifier.judge(list(texts), solution=list(golds))))
    started = time.perf_counter()
    thread.start()
    thread.join()
    return verdicts, time.perf_counter() - started


def report(name: str, verdicts: Sequence[Verdict], seconds: float, timeout: float) -> None:
    """Print a summary of a batch's verdicts."""
    slow = sum(verdict.seconds > timeout / 10 for verdict in verdicts)
    spent = sum(verdict.seconds for verdict in verdicts)
    bound = slow * timeout / usable_cores()
    print(f"{name}: {len(verdicts)} judged in {seconds:.1f} s; {slow} slow ones, which may take {bound:.1f} s")
    print(f"  seconds in workers {spent:.1f}; verdicts {dict(Counter(str(v.status) for v in verdicts))}")
    print(f"  blame {dict(Counter(str(verdict.blame) for verdict in verdicts))}")


def trl_score(completion: str, solution: str) -> float | None:
    """Compute TRL's accuracy reward in a thread inside a worker, as AsyncGRPO calls it."""
    from trl.rewards import accuracy_reward

    scores: list[float | None] = []
    call = threading.Thread(
        target=lambda: scores.extend(accuracy_reward([[{"content": completion}]], solution=[solution]))
    )
    call.start()
    call.join()
    return scores[0]


def main() -> None:
    """Judge all answers and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hostile", type=Path)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--timeout", type=float, default=5.0)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds that TRL has for each; 0 leaves it out")
    arguments = parser.parse_args()
    hostile, cases = rows(arguments.hostile), rows(arguments.cases)
    verifier = MathVerifier(timeout=arguments.timeout)
    # Start the workers before timing.
    judge(verifier, [r"\boxed{x+x}"] * 2, ["3x", "4x"])

    forget()
    verdicts, seconds = judge(verifier, [row["completion"] for row in hostile], [row["solution"] for row in hostile])
    for row, verdict in zip(hostile, verdicts, strict=True):
        print(
            f"  {row['name'][:42]:<42} {verdict.score} {verdict.reason or verdict.status:<20} {verdict.seconds:6.2f} s"
        )
    report("hostile alone", verdicts, seconds, arguments.timeout)

    forget()
    normal = [cases[index % len(cases)] for index in range(1000)]
    texts = [row["completion"] for row in hostile] + [case["prediction"] for case in normal]
    golds = [row["solution"] for row in hostile] + [case["gold"] for case in normal]
    verdicts, seconds = judge(verifier, texts, golds)
    report("hostile among 1000 normal", verdicts, seconds, arguments.timeout)
    right = sum((v.score == 1.0) == case["expected"] for v, case in zip(verdicts[len(hostile) :], normal, strict=True))
    print(f"  normal answers judged as labelled: {right} of {len(normal)}")
    verifier.close()
    left = [child for child in psutil.Process(os.getpid()).children(recursive=True) if child.is_running()]
    print(f"processes left: {len(left)}")

    if arguments.limit:
        pool = WorkerPool(usable_cores())
        calls = [
            Call(target="math_hostile:trl_score", arguments=(row["completion"], row["solution"])) for row in hostile
        ]
        outcomes = pool.run(calls, timeout=arguments.limit)
        killed = sum(outcome.failure in (Failure.TIMEOUT, Failure.STARVED) for outcome in outcomes)
        print(
            f"TRL accuracy_reward off the main thread: {killed} of {len(hostile)} killed after {arguments.limit:.0f} s"
        )
        pool.close()


if __name__ == "__main__":
    main()
