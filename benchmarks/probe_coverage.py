"""Compare what `probe` predicts with what a run meets: the share of live groups of 4, 8 and 16 completions.

The probe has 8 completions of 200 prompts. The run trains at a learning rate of 0, so that the model stays as it is, on
192 other groups of 16 completions; the smaller groups are parts of these. A prediction is right if its 95 % interval
holds the share that the run meets. That share varies too, by chance: at 192 groups its standard error is up to 0.036.

    python benchmarks/probe_coverage.py --data hard even code --seeds 5 --record coverage.jsonl

A run that is in the record already is not made again.
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

from trl_grpo_ext import RewardMix, RewardTerm, Scorecard, VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.evaluation.probe import attempts_of, live_share, probe
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
    probed, trained = spread(rows.select(range(half)), PROMPTS), rows.select(range(half, len(rows)))
    trainer = VerifiedGRPOTrainer(model, mix, args, trained, probed)
    cards: list[Scorecard] = []
    trainer.add_scorecard_listener(cards.append)
    trainer.evaluate()
    trainer.train()
    met = attempts_of([card for card in cards if card.mode == "train"])
    predicted = probe([card for card in cards if card.mode == "eval"], {"num_generations": SAMPLES}).live
    found: dict[str, Any] = {}
    for size in SIZES:
        interval, observed = predicted.get(size), live_share(met, size)
        assert interval is not None and observed is not None
        found[str(size)] = {**interval.to_record(), "met": observed.mean}
    return found


def results(names: Sequence[str], seeds: int, record: Path) -> Iterator[dict[str, Any]]:
    """Yield the figures of all runs; runs that the record lacks are made and recorded."""
    known = {(one["data"], one["seed"]): one for one in read_lines(record)} if record.exists() else {}
    for seed in range(seeds):
        for name in names:
            if (name, seed) not in known:
                with tempfile.TemporaryDirectory() as folder:
                    known[name, seed] = {"data": name, "seed": seed, "live": run(name, seed, folder)}
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
            mean, met = (float(np.mean([one[key] for one in shares])) for key in ("mean", "met"))
            half = float(np.mean([one["high"] - one["low"] for one in shares])) / 2
            print(f"| {name} | {size} | {mean:.3f} | {half:.3f} | {met:.3f} | {sum(hits)} of {len(hits)} |")
    print(f"covered: {sum(covered)} of {len(covered)} ({np.mean(covered):.0%})")


def main() -> None:
    """Make the missing runs and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--record", type=Path, default=Path("probe_coverage.jsonl"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bars()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    show(list(results(arguments.data, arguments.seeds, arguments.record)))


if __name__ == "__main__":
    main()
