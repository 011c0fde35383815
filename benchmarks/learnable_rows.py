"""Compare `learnable_rows` with TRL's order of rows at equal completions: live groups, held-out score, cost of a draw.

Real training of the bundled models. All arms of a data set have the same rows, steps, batches and seeds; `uniform` is
TRL's own order. `history` knows what the run itself has seen, `column` also a column of difficulty, the number of
operands, which is a best case: it nearly tells solvable rows from others.

| data | rows | each row is seen |
|---|---|---|
| `hard` | sums: 30 % learnable, 10 % easy, 60 % hardly ever solved | twice |
| `once` | the same kinds, 16 times as many | an eighth of the times |
| `even` | sums, all learnable | four times |
| `equal` | sums of four numbers, all alike | four times |
| `code` | functions to write, judged by tests | twice |

A live share is of all groups that were trained on. The held-out score is of the bundled test split, two completions a
prompt. Intervals are 95 %, of Student's t over the seeds.

    python benchmarks/learnable_rows.py --data hard once even equal code --seeds 5 --record rows.jsonl
    python benchmarks/learnable_rows.py --cost

A run that is in the record already is not made again.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset, disable_progress_bars, load_dataset

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Scorecard,
    VerifiedGRPOConfig,
    VerifiedGRPOTrainer,
)
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.rewards import MathVerifier, UnitTestVerifier
from trl_grpo_ext.support.files import append_lines, read_lines
from trl_grpo_ext.trainer.rows.posteriors import Posteriors

# The same rows for every arm and seed.
DATA_SEED = 7
GROUPS, GROUP_SIZE = 8, 8
# Student's t for a 95 % interval, by the number of seeds.
STUDENT = {
    2: 12.71,
    3: 4.30,
    4: 3.18,
    5: 2.78,
    6: 2.57,
    7: 2.45,
    8: 2.36,
    10: 2.26,
    12: 2.20,
}
ARMS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "history": {"learnable_rows": True},
    "column": {"learnable_rows": True, "rows_by": "operands"},
}
Kinds = Sequence[tuple[float, int, tuple[int, int]]]
# Share of the rows, largest number, and fewest and most numbers of a sum.
HARD: Kinds = ((0.3, 30, (3, 5)), (0.1, 5, (3, 3)), (0.2, 30, (2, 2)), (0.4, 30, (6, 7)))
EVEN: Kinds = ((1.0, 30, (3, 5)),)
EQUAL: Kinds = ((1.0, 30, (4, 4)),)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set with its model, steps and arms."""

    make: Callable[[], tuple[Dataset, Dataset]]
    steps: int
    arms: Sequence[str]
    model: str = "bundled:tiny_reasoner"
    verifier: Callable[[], Any] = MathVerifier
    learning_rate: float = 1e-4


def sums(kinds: Kinds, size: int) -> Callable[[], tuple[Dataset, Dataset]]:
    """Return a maker of sums to train on, none of which is in the test split, and of the test split."""

    def make() -> tuple[Dataset, Dataset]:
        test = load_dataset(resolve("bundled:sums"))["test"]
        held_out = {_key(prompt[0]["content"].split("+")) for prompt in test["prompt"]}
        generator = random.Random(DATA_SEED)
        rows: list[dict[str, Any]] = []
        for share, largest, (fewest, most) in kinds:
            wanted = len(rows) + round(share * size)
            while len(rows) < wanted:
                numbers = [
                    generator.randint(1, largest)
                    for _ in range(generator.randint(fewest, most))
                ]
                if _key(map(str, numbers)) not in held_out:
                    rows.append(_row(numbers))
        generator.shuffle(rows)
        return Dataset.from_list(rows), test

    return make


def _key(numbers: Any) -> tuple[str, ...]:
    return tuple(sorted(numbers))


def _row(numbers: Sequence[int]) -> dict[str, Any]:
    said = [{"role": "user", "content": "+".join(map(str, numbers))}]
    return {"prompt": said, "solution": str(sum(numbers)), "operands": len(numbers)}


def functions() -> tuple[Dataset, Dataset]:
    """Return 120 functions to write, and the test split."""
    data = load_dataset(resolve("bundled:functions"))
    return data["train"].shuffle(seed=DATA_SEED).select(range(120)), data["test"]


TASKS = {
    "hard": Task(make=sums(HARD, 120), steps=30, arms=("uniform", "history", "column")),
    "even": Task(make=sums(EVEN, 120), steps=60, arms=("uniform", "history")),
    "code": Task(
        make=functions,
        steps=30,
        arms=("uniform", "history"),
        model="bundled:tiny_coder",
        verifier=lambda: UnitTestVerifier(timeout=2.0),
        learning_rate=3e-4,
    ),
    "equal": Task(make=sums(EQUAL, 120), steps=60, arms=("uniform", "history")),
    "once": Task(make=sums(HARD, 1920), steps=30, arms=("uniform", "history", "column")),
}


def run(task: Task, arm: str, seed: int, folder: str) -> dict[str, Any]:
    """Train, and evaluate on the test split; return the figures of the run."""
    train, test = task.make()
    args = VerifiedGRPOConfig(
        output_dir=folder, seed=seed, max_steps=task.steps, learning_rate=task.learning_rate, beta=0.0,
        per_device_train_batch_size=GROUPS * GROUP_SIZE, num_generations=GROUP_SIZE, max_completion_length=48,
        per_device_eval_batch_size=200, num_generations_eval=2, use_cpu=True, bf16=False, gradient_checkpointing=False,
        dataloader_pin_memory=False, logging_steps=5, save_strategy="no", report_to="none", disable_tqdm=True,
        write_report=False, record_scorecards=False, run_checks=False, measure_noise=False, **ARMS[arm],
    )  # fmt: skip
    mix = RewardMix([RewardTerm(name="right", verifier=task.verifier())])
    trainer = VerifiedGRPOTrainer(resolve(task.model), mix, args, train, test)
    cards: list[Scorecard] = []
    trainer.add_scorecard_listener(cards.append)
    began = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - began
    live = [float(card.live.mean()) for card in cards if card.mode == "train"]
    floor = [
        float(card.representative.live.mean()) for card in cards if card.mode == "train"
    ]
    held_out = trainer.evaluate()["eval_rewards/right/mean"]
    return {
        "live": float(np.mean(live)),
        "second_half": float(np.mean(live[len(live) // 2 :])),
        "floor_live": float(np.mean(floor)),
        "held_out": held_out,
        "steps": task.steps,
        "completions": sum(len(card) for card in cards if card.mode == "train"),
        "seconds": seconds,
    }


def results(names: Sequence[str], seeds: int, record: Path) -> Iterator[dict[str, Any]]:
    """Yield the figures of all runs; runs that the record lacks are made and recorded."""
    known = (
        {(one["data"], one["arm"], one["seed"]): one for one in read_lines(record)}
        if record.exists()
        else {}
    )
    for name in names:
        for seed in range(seeds):
            for arm in TASKS[name].arms:
                key = (name, arm, seed)
                if key not in known:
                    with tempfile.TemporaryDirectory() as folder:
                        figures = run(TASKS[name], arm, seed, folder)
                    known[key] = {"data": name, "arm": arm, "seed": seed, **figures}
                    append_lines(record, [known[key]])
                yield known[key]


def told(values: Sequence[float]) -> str:
    """Format a mean with its 95 % interval over seeds.

    Examples:
        >>> told([0.4, 0.5, 0.6])
        '0.500 [0.252, 0.748]'
    """
    mean, size = float(np.mean(values)), len(values)
    if size < 2:
        return f"{mean:.3f}"
    half = STUDENT.get(size, 1.96) * float(np.std(values, ddof=1)) / size**0.5
    return f"{mean:.3f} [{mean - half:.3f}, {mean + half:.3f}]"


def show(found: Sequence[dict[str, Any]]) -> None:
    """Print a table: a line per data set and arm, with differences from `uniform`, seed by seed."""
    print(
        "| data | arm | live | 2nd half | held-out | live, times uniform | held-out, minus uniform |"
    )
    print("|---|---|---|---|---|---|---|")
    by_key = {(one["data"], one["arm"], one["seed"]): one for one in found}
    for name in dict.fromkeys(one["data"] for one in found):
        for arm in TASKS[name].arms:
            own = [one for one in found if one["data"] == name and one["arm"] == arm]
            base = [by_key[name, "uniform", one["seed"]] for one in own]
            pairs = list(zip(own, base, strict=True))
            cells = [
                told([one["live"] for one in own]),
                told([one["second_half"] for one in own]),
                told([one["held_out"] for one in own]),
                told([one["live"] / other["live"] for one, other in pairs]),
                told([one["held_out"] - other["held_out"] for one, other in pairs]),
            ]
            print(f"| {name} | {arm} | {' | '.join(cells)} |")


def show_cost() -> None:
    """Print the seconds of a draw and of learning it, and the bytes of a checkpoint, for data that was all seen once.

    Times are the best of five.
    """
    print(
        "| rows | draw of 64 rows, ms | learn, ms | state, MB (all rows seen) | state, KB (1,000 rows seen) |"
    )
    print("|---|---|---|---|---|")
    for size in (10**4, 10**5, 10**6):
        posteriors = Posteriors(
            buckets=np.zeros(size, dtype=np.int64), group_size=8, floor=0.25, seed=0
        )
        _see(posteriors, 1000)
        small = _state_bytes(posteriors)
        _see(posteriors, size)
        draws, learns = [], []
        for _ in range(5):
            began = time.perf_counter()
            draw = posteriors.draw(64)
            draws.append(time.perf_counter() - began)
            began = time.perf_counter()
            posteriors.learn(draw.rows, right=np.full(64, 3.0), judged=np.full(64, 8.0))
            learns.append(time.perf_counter() - began)
        large = _state_bytes(posteriors)
        print(
            f"| {size} | {1e3 * min(draws):.1f} | {1e3 * min(learns):.2f} | {large / 1e6:.1f} | {small / 1e3:.0f} |"
        )


def _see(posteriors: Posteriors, count: int) -> None:
    rows = np.arange(count)
    right = np.random.default_rng(0).integers(0, 9, count).astype(float)
    posteriors.learn(rows.tolist(), right=right, judged=np.full(count, 8.0))


def _state_bytes(posteriors: Posteriors) -> int:
    with tempfile.TemporaryFile() as file:
        np.savez(file, **posteriors.state())
        return file.tell()


def main() -> None:
    """Make the missing runs and print the table, or measure the cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--record", type=Path, default=Path("learnable_rows.jsonl"))
    parser.add_argument(
        "--cost", action="store_true", help="measure the cost of draws instead"
    )
    arguments = parser.parse_args()
    if arguments.cost:
        show_cost()
        return
    torch.set_num_threads(1)
    disable_progress_bars()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    show(list(results(arguments.data, arguments.seeds, arguments.record)))


if __name__ == "__main__":
    main()
