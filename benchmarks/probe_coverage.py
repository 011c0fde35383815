"""Compare what `probe` predicts with what a run meets: the share of live groups of 4, 8 and 16 completions.

The probe has 8 completions of 200 prompts. A run trains at a learning rate of 0, so that the model stays as it is, on
192 other groups of 16 completions; the smaller groups are parts of these. A prediction is right if its 95 % interval
holds the share that the run meets. That share varies too, by chance: at 192 groups its standard error is up to 0.036.

    python benchmarks/probe_coverage.py --data hard even code --seeds 5 --record coverage.jsonl

A run that is in the record already is not made again. With `--simulated`, success rates come from known distributions
instead of a model, and 200 probes of each are compared with 200 runs:

    python benchmarks/probe_coverage.py --simulated
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import disable_progress_bars, load_dataset
from learnable_rows import EVEN, HARD, sums

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Scorecard,
    VerifiedGRPOConfig,
    VerifiedGRPOTrainer,
)
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.commands.probe.figures import Attempts, attempts_of, live_share, probe
from trl_grpo_ext.recipe.rows import spread
from trl_grpo_ext.rewards import MathVerifier, UnitTestVerifier
from trl_grpo_ext.support.files import append_lines, read_lines

SIZES = (4, 8, 16)
PROMPTS, SAMPLES, GROUPS, STEPS = 200, 8, 32, 6
DATA = {
    "hard": lambda: sums(HARD, 1920)()[0],
    "even": lambda: sums(EVEN, 1920)()[0],
    "code": lambda: load_dataset(resolve("bundled:functions"))["train"],
}


def run(name: str, seed: int, folder: str) -> dict[str, Any]:
    """Probe, then train at a learning rate of 0; return the predicted intervals and the observed shares by size."""
    is_code = name == "code"
    rows = DATA[name]().shuffle(seed=seed)
    args = VerifiedGRPOConfig(
        output_dir=folder, seed=seed, max_steps=STEPS, learning_rate=0.0, beta=0.0, num_generations=max(SIZES),
        per_device_train_batch_size=GROUPS * max(SIZES), max_completion_length=48, num_generations_eval=SAMPLES,
        per_device_eval_batch_size=PROMPTS * SAMPLES // 4, use_cpu=True, bf16=False, gradient_checkpointing=False,
        dataloader_pin_memory=False, save_strategy="no", report_to="none", disable_tqdm=True, write_report=False,
        record_scorecards=False, run_checks=False, measure_noise=False,
    )  # fmt: skip
    verifier = UnitTestVerifier(timeout=2.0) if is_code else MathVerifier()
    model = resolve("bundled:tiny_coder" if is_code else "bundled:tiny_reasoner")
    mix = RewardMix([RewardTerm(name="right", verifier=verifier)])
    half = len(rows) // 2
    probed, trained = (
        spread(rows.select(range(half)), PROMPTS),
        rows.select(range(half, len(rows))),
    )
    trainer = VerifiedGRPOTrainer(model, mix, args, trained, probed)
    cards: list[Scorecard] = []
    trainer.add_scorecard_listener(cards.append)
    trainer.evaluate()
    trainer.train()
    met = attempts_of([card for card in cards if card.mode == "train"])
    predicted = probe(
        [card for card in cards if card.mode == "eval"], {"num_generations": SAMPLES}
    ).live
    found: dict[str, Any] = {}
    for size in SIZES:
        interval, observed = predicted.get(size), live_share(met, size)
        assert interval is not None and observed is not None
        found[str(size)] = {**interval.to_record(), "met": observed.mean}
    return found


def results(names: Sequence[str], seeds: int, record: Path) -> Iterator[dict[str, Any]]:
    """Yield the figures of all runs; runs that the record lacks are made and recorded."""
    known = (
        {(one["data"], one["seed"]): one for one in read_lines(record)}
        if record.exists()
        else {}
    )
    for seed in range(seeds):
        for name in names:
            if (name, seed) not in known:
                with tempfile.TemporaryDirectory() as folder:
                    known[name, seed] = {
                        "data": name,
                        "seed": seed,
                        "live": run(name, seed, folder),
                    }
                append_lines(record, [known[name, seed]])
            yield known[name, seed]


def show(found: Sequence[dict[str, Any]]) -> None:
    """Print a line per data set and group size: predicted and met shares, means over seeds, and the coverage."""
    print("| data | group size | predicted | half the interval | met | covered |")
    print("|---|---|---|---|---|---|")
    covered: list[bool] = []
    for name in dict.fromkeys(one["data"] for one in found):
        for size in SIZES:
            shares = [one["live"][str(size)] for one in found if one["data"] == name]
            hits = [one["low"] <= one["met"] <= one["high"] for one in shares]
            covered += hits
            mean, met = (
                float(np.mean([one[key] for one in shares])) for key in ("mean", "met")
            )
            half = float(np.mean([one["high"] - one["low"] for one in shares])) / 2
            print(
                f"| {name} | {size} | {mean:.3f} | {half:.3f} | {met:.3f} | {sum(hits)} of {len(hits)} |"
            )
    print(f"covered: {sum(covered)} of {len(covered)} ({np.mean(covered):.0%})")


# Success rates of rows: how many come from each Beta distribution, and its parameters.
SHAPES = {
    "spread": ((1.0, 0.5, 1.0),),
    "hardly solved": ((1.0, 0.15, 0.9),),
    "all alike": ((1.0, 20.0, 20.0),),
    "nearly all right": ((1.0, 3.0, 0.3),),
    "most never solved": ((0.6, 1e-3, 10.0), (0.4, 2.0, 2.0)),
    "most seldom solved": ((0.6, 3.0, 97.0), (0.4, 2.0, 2.0)),
}


def simulate(times: int) -> None:
    """Print the coverage for rates of known distributions, by group size."""
    print(
        "| success rates | "
        + " | ".join(f"groups of {size}" for size in (*SIZES, 32))
        + " |"
    )
    print("|---" * (len(SIZES) + 2) + "|")
    for name, parts in SHAPES.items():
        generator = np.random.default_rng(0)
        hits = np.array([_covered(parts, generator) for _ in range(times)])
        print(
            f"| {name} | "
            + " | ".join(f"{share:.0%}" for share in hits.mean(axis=0))
            + " |"
        )


def _covered(
    parts: Sequence[tuple[float, float, float]], generator: np.random.Generator
) -> list[bool]:
    """Probe once, run once; return whether each group size's interval holds what the run meets."""
    right = generator.binomial(SAMPLES, _rates(parts, PROMPTS, generator)).astype(float)
    alike = tuple((int(count), SAMPLES - int(count)) for count in right)
    attempts = Attempts(right=right, judged=np.full(PROMPTS, float(SAMPLES)), alike=alike)
    found = []
    for size in (*SIZES, 32):
        met = generator.binomial(size, _rates(parts, GROUPS * STEPS, generator))
        interval = live_share(attempts, size)
        assert interval is not None
        found.append(
            bool(interval.low <= ((met > 0) & (met < size)).mean() <= interval.high)
        )
    return found


def _rates(
    parts: Sequence[tuple[float, float, float]], count: int, generator: np.random.Generator
) -> Any:
    chosen = generator.choice(len(parts), count, p=[part[0] for part in parts])
    return generator.beta(*np.array([part[1:] for part in parts])[chosen].T)


def main() -> None:
    """Make the missing runs and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--record", type=Path, default=Path("probe_coverage.jsonl"))
    parser.add_argument(
        "--simulated",
        action="store_true",
        help="take success rates from known distributions",
    )
    arguments = parser.parse_args()
    if arguments.simulated:
        simulate(200)
        return
    torch.set_num_threads(1)
    disable_progress_bars()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    show(list(results(arguments.data, arguments.seeds, arguments.record)))


if __name__ == "__main__":
    main()
