"""Measure the cost of diagnostics: equal runs with and without them, compared step by step, and each part's own time.

Each round trains the bundled model twice from the round's seed, once with default diagnostics (statistics, scorecards
on disk, checks) and once without; the order alternates between rounds. Step i of both runs does equal work on equal
completions, which is checked, so a pair of steps differs by diagnostics only. Between runs, remembered verdicts are
dropped and garbage is collected. A short warm-up run of each kind comes first, and first steps do not count: they start
workers and fill caches.

The measure is CPU time of the training process, which other work on the machine disturbs least. Even so, noise between
paired steps may exceed the cost of diagnostics; each part's own time, inside the same runs, is more precise. The report
is left out, since a separate process makes it.

    python benchmarks/diagnostics_overhead.py --completions 512 --steps 4 --rounds 3
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from datasets import disable_progress_bars, load_dataset
from transformers import TrainerCallback

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Scorecard,
    VerifiedGRPOConfig,
    VerifiedGRPOTrainer,
)
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.figures.logged import logged_figures
from trl_grpo_ext.figures.reduction import BatchFigures, reduce_card
from trl_grpo_ext.mix import linear
from trl_grpo_ext.rewards import MathVerifier, RegexVerifier, ThinkFormatVerifier
from trl_grpo_ext.rewards.math import forget
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.trainer.console import keep_quiet

# CPU and wall seconds of each step, by activity.
Times = dict[str, list[tuple[float, float]]]


def fresh_times() -> Times:
    """Return empty times, after dropping remembered verdicts and garbage of earlier runs."""
    forget()
    gc.collect()
    return defaultdict(list)


@contextmanager
def timed(times: Times, part: str) -> Iterator[None]:
    """Add CPU and wall seconds of the block to `times`."""
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    times[part].append((time.process_time() - cpu, time.perf_counter() - wall))


class Steps(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """A callback that times each step with its logging: until the next step begins, or training ends."""

    def __init__(self, times: Times) -> None:
        self.times = times
        self.began: tuple[float, float] | None = None

    def _tick(self) -> None:
        now = time.process_time(), time.perf_counter()
        if self.began is not None:
            self.times["step"].append((now[0] - self.began[0], now[1] - self.began[1]))
        self.began = now

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._tick()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._tick()


class Bare(VerifiedGRPOTrainer):
    """A trainer without diagnostics."""

    texts: list[list[str]]

    def _publish(self, card: Scorecard) -> None:
        self.texts.append([sample.text for sample in card.samples])


class Timed(VerifiedGRPOTrainer):
    """A trainer with default diagnostics, each part timed."""

    times: Times
    texts: list[list[str]]

    def _publish(self, card: Scorecard) -> None:
        self.texts.append([sample.text for sample in card.samples])
        listeners = self.run_callback.listeners
        self.run_callback.listeners = [
            Stopwatch(listener, self.times) for listener in listeners
        ]
        with timed(self.times, "all"):
            super()._publish(card)
        self.run_callback.listeners = listeners
        # The figures again, to time them alone.
        with timed(self.times, "figures"):
            logged_figures(reduce_card(card, self._run_settings))


class Stopwatch(RunListener):
    """A listener that times another listener."""

    def __init__(self, listener: RunListener, times: Times) -> None:
        self.listener = listener
        self.times = times

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        with timed(self.times, type(self.listener).__name__.lower()):
            self.listener.on_batch(card, figures)


def make_mix() -> RewardMix:
    """Build a mix: primary term, fading format term, gated tie-breaker, and shadow term."""
    return RewardMix(
        [
            RewardTerm(name="accuracy", verifier=MathVerifier()),
            RewardTerm(
                name="format", verifier=ThinkFormatVerifier(), weight=linear(0.3, 0.0)
            ),
            RewardTerm(
                name="boxed",
                verifier=RegexVerifier(pattern=r"\\boxed"),
                weight=0.1,
                gate="accuracy",
            ),
            RewardTerm(name="digits", verifier=RegexVerifier(pattern=r"\d+"), weight=0),
        ]
    )


def train(
    trainer_class: type[Bare | Timed],
    options: argparse.Namespace,
    data: Any,
    folder: str,
    seed: int,
) -> tuple[Times, list[list[str]]]:
    """Train once, and return times and generated texts."""
    times = fresh_times()
    args = VerifiedGRPOConfig(
        output_dir=folder, per_device_train_batch_size=options.completions, num_generations=8, max_steps=options.steps,
        max_completion_length=options.tokens, use_cpu=True, bf16=False, report_to="none", save_strategy="no",
        logging_steps=1, disable_tqdm=True, seed=seed, record_scorecards=trainer_class is Timed,
        run_checks=trainer_class is Timed, write_report=False,
    )  # fmt: skip
    trainer = trainer_class(resolve("bundled:tiny_reasoner"), make_mix(), args, data)
    keep_quiet(trainer)
    trainer.times, trainer.texts = times, []
    trainer.add_callback(Steps(times))
    trainer.train()
    return times, trainer.texts


def report(with_: Times, without: Times) -> None:
    """Print medians, ranges, and shares of a step."""
    step_cpu = statistics.median(cpu for cpu, _ in without["step"])
    step_wall = statistics.median(wall for _, wall in without["step"])
    print(
        f"a step without diagnostics: {step_cpu:.2f} s CPU, {step_wall:.2f} s wall (medians)"
    )
    # A timed run computes statistics twice; subtract the second time, which users do not have.
    extra = [cpu for cpu, _ in with_["figures"]]
    pairs = zip(with_["step"], extra, without["step"], strict=True)
    ratios = [100 * ((one[0] - twice) / other[0] - 1) for one, twice, other in pairs]
    middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
    print(
        f"paired steps: {middle:+.2f} % CPU (median of {len(ratios)}; {low:+.2f} to {high:+.2f})"
    )
    print("each part alone, a step:")
    for part in ("figures", "recorder", "watch", "all"):
        cpu, wall = (sorted(taken[kind] for taken in with_[part]) for kind in (0, 1))
        print(
            f"  {part:10} {1000 * statistics.median(cpu):6.1f} ms CPU ({1000 * cpu[0]:.1f} to {1000 * cpu[-1]:.1f}), "
            f"{100 * statistics.median(cpu) / step_cpu:.2f} % of a step; "
            f"{1000 * statistics.median(wall):6.1f} ms wall, {100 * statistics.median(wall) / step_wall:.2f} %"
        )


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--completions", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    disable_progress_bars()
    data = load_dataset(resolve("bundled:sums"), split="train")
    runs: dict[type[Bare | Timed], Times] = {
        Bare: defaultdict(list),
        Timed: defaultdict(list),
    }
    with tempfile.TemporaryDirectory() as folder:
        for kind in runs:
            train(
                kind,
                argparse.Namespace(completions=8, tokens=8, steps=1),
                data,
                f"{folder}/warm",
                seed=0,
            )
        for round_ in range(options.rounds):
            said = {}
            for kind in sorted(
                runs, key=lambda kind: kind.__name__, reverse=round_ % 2 == 1
            ):
                times, said[kind] = train(
                    kind,
                    options,
                    data,
                    f"{folder}/{kind.__name__}{round_}",
                    seed=7 + round_,
                )
                for part, taken in times.items():
                    runs[kind][part] += taken[1:]
            if said[Bare] != said[Timed]:
                raise SystemExit(
                    "The two runs of a round have generated other completions: they are no pair."
                )
    print(
        f"{options.completions} completions of at most {options.tokens} tokens a step, 4 terms; medians over steps"
    )
    report(runs[Timed], runs[Bare])


if __name__ == "__main__":
    main()
