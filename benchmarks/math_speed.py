"""Compare the speed of math rewards in pairs per second: ours and TRL's accuracy reward, on equal pairs in one run.

    python benchmarks/math_speed.py CASES.jsonl [CASES.jsonl ...] --run RUN_FOLDER

The cases (`gold`, `prediction`) are distinct answers; RUN_FOLDER holds the scorecards of a run, such as the
quickstart's, whose groups contain duplicates like a real policy's. Both rewards are warm; ours forgets remembered
verdicts before each repeat. TRL runs on the main thread, where its timeouts work. Quote the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles

import psutil
import pyarrow.parquet as pq

from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.rewards.math import forget

Pairs = tuple[list[str], list[str]]


def cases(paths: Sequence[Path]) -> Pairs:
    """Read golds and predictions from case files."""
    rows = [
        json.loads(line)
        for path in paths
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return [row["gold"] for row in rows], [row["prediction"] for row in rows]


def recorded(folder: Path, most: int) -> Pairs:
    """Read golds and completions from a run's training batches."""
    golds: list[str] = []
    texts: list[str] = []
    for part in sorted((folder / "scorecards").glob("samples-*.parquet")):
        for row in pq.read_table(part, columns=["mode", "text", "row"]).to_pylist():
            if row["mode"] == "train" and len(texts) < most:
                golds.append(json.loads(row["row"])["solution"])
                texts.append(row["text"])
    return golds, texts


def seconds(reward: Callable[..., object], golds: list[str], texts: list[str]) -> float:
    """Return a call's wall seconds."""
    started = time.perf_counter()
    reward([[{"role": "assistant", "content": text}] for text in texts], solution=golds)
    return time.perf_counter() - started


def compare(name: str, golds: list[str], texts: list[str], repeats: int) -> None:
    """Time both rewards in turn, and print their rates and ratio."""
    from trl.rewards import accuracy_reward

    ours = MathVerifier()
    # Warm up with all pairs: any pair may be the first to need a worker.
    for reward in (ours, accuracy_reward):
        seconds(reward, golds, texts)
    times: dict[str, list[float]] = {"ours": [], "trl": []}
    for _ in range(repeats):
        forget()
        times["ours"].append(seconds(ours, golds, texts))
        times["trl"].append(seconds(accuracy_reward, golds, texts))
    rates = {who: len(golds) / median(taken) for who, taken in times.items()}
    distinct = len(set(zip(golds, texts, strict=True)))
    print(f"{name}: {len(golds)} pairs, {distinct} distinct, median of {repeats}")
    ratio = rates["ours"] / rates["trl"]
    print(
        f"  ours {rates['ours']:>9.0f} pairs/s   trl {rates['trl']:>7.0f} pairs/s   ratio {ratio:.1f}"
    )
    forget()
    verdicts = ours.judge(texts, solution=golds)
    cuts = quantiles([verdict.seconds * 1000 for verdict in verdicts], n=100)
    worst = max(verdict.seconds for verdict in verdicts) * 1000
    print(f"  ours, ms a pair: p50 {cuts[49]:.2f}  p99 {cuts[98]:.1f}  max {worst:.1f}")


def main() -> None:
    """Compare the rewards, and print rates and worker memory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path, nargs="+")
    parser.add_argument("--run", type=Path, help="the folder of a run with scorecards")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    compare("distinct answers", *cases(arguments.cases), arguments.repeats)
    if arguments.run:
        compare(
            "a run's own groups", *recorded(arguments.run, most=2048), arguments.repeats
        )
    workers = [
        child
        for child in psutil.Process(os.getpid()).children()
        if "worker_main" in " ".join(child.cmdline())
    ]
    print(
        f"{len(workers)} workers, MiB each: {', '.join(f'{w.memory_info().rss / 2**20:.0f}' for w in workers)}"
    )


if __name__ == "__main__":
    main()
