"""Compare the cost of `VerifiedGRPOTrainer` and TRL's `GRPOTrainer` with equal reward functions: time and memory.

Each round trains the bundled model with both trainers from the same seed; the order alternates between rounds. Step i
of both does equal work on equal completions, which is checked, so a pair of steps differs by the trainer only. Our
trainer has its defaults: it records, checks, measures noise, and lets a separate process make the report, whose time
does not count.

The measure is CPU time of the training process. The model takes almost all of a step, and its time for equal work
varies by more than the difference in question. So the model's part, TRL's code in both trainers (generation,
log-probabilities, loss and gradient), is timed separately, and the rest of a step is compared: this figure is more
precise. The bundled model is tiny, so its steps are short; the added time hardly depends on the model, and is also
given as a share of steps of 1 s and 10 s.

With all objects of torch and transformers, a full garbage collection takes a quarter of a second, every few steps with
either trainer. Objects loaded before a run are therefore frozen.

For peak memory, each trainer runs in processes of its own.

    python benchmarks/trainer_overhead.py --completions 512 --steps 4 --rounds 4
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from datasets import disable_progress_bars, load_dataset
from diagnostics_overhead import Steps, Times, fresh_times, timed
from trl import GRPOConfig, GRPOTrainer

from trl_grpo_ext import VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.rewards import MathVerifier, RegexVerifier, ThinkFormatVerifier
from trl_grpo_ext.trainer.console import keep_quiet

WEIGHTS = [1.0, 0.3, 0.1, 0.0]
RESAMPLES = 2000


class Modelled(GRPOTrainer):  # type: ignore[misc]  # TRL ships no types
    """A trainer that records the model's time in each step, and the generated token ids."""

    times: Times
    texts: list[list[list[int]]]

    def _generate_single_turn(self, *arguments: Any, **settings: Any) -> Any:
        with timed(self.times, "model"):
            generated = super()._generate_single_turn(*arguments, **settings)
        self.texts.append(generated[0])
        return generated

    def _get_per_token_logps_and_entropies(self, *arguments: Any, **settings: Any) -> Any:
        # Inside the loss, which is timed already.
        if torch.is_grad_enabled():
            return super()._get_per_token_logps_and_entropies(*arguments, **settings)
        with timed(self.times, "model"):
            return super()._get_per_token_logps_and_entropies(*arguments, **settings)

    def compute_loss(self, *arguments: Any, **settings: Any) -> Any:
        with timed(self.times, "model"):
            return super().compute_loss(*arguments, **settings)


class Plain(Modelled):
    """TRL's trainer."""


class Verified(Modelled, VerifiedGRPOTrainer):
    """Our trainer, with the same timers."""


KINDS: dict[str, tuple[type[Modelled], type[GRPOConfig]]] = {
    "TRL": (Plain, GRPOConfig),
    "ours": (Verified, VerifiedGRPOConfig),
}


def train(
    kind: str, options: argparse.Namespace, folder: str, seed: int
) -> tuple[Times, list[list[list[int]]]]:
    """Train once, and return times and generated token ids."""
    times = fresh_times()
    trainer_class, config = KINDS[kind]
    args = config(
        output_dir=folder, per_device_train_batch_size=options.completions, num_generations=8, max_steps=options.steps,
        max_completion_length=options.tokens, use_cpu=True, bf16=False, report_to="none", save_strategy="no",
        logging_steps=1, disable_tqdm=True, seed=seed, reward_weights=WEIGHTS,
    )  # fmt: skip
    rewards = [
        MathVerifier(),
        # Under TRL's trainer, the verifier would have to guess `prefilled`.
        ThinkFormatVerifier(prefilled=False),
        RegexVerifier(pattern=r"\\boxed", name="boxed"),
        RegexVerifier(pattern=r"\d+", name="digits"),
    ]
    data = load_dataset(resolve("bundled:sums"), split="train")
    trainer = trainer_class(resolve("bundled:tiny_reasoner"), rewards, args, data)
    keep_quiet(trainer)
    trainer.times, trainer.texts = times, []
    _time_backward(trainer)
    trainer.add_callback(Steps(times))
    gc.freeze()
    trainer.train()
    gc.unfreeze()
    return times, trainer.texts


def _time_backward(trainer: Modelled) -> None:
    backward = trainer.accelerator.backward

    def timed_backward(*arguments: Any, **settings: Any) -> None:
        with timed(trainer.times, "model"):
            backward(*arguments, **settings)

    trainer.accelerator.backward = timed_backward


def of_steps(times: Times) -> list[tuple[float, float]]:
    """Return CPU seconds per step, in total and outside the model; the first step is left out."""
    each = len(times["model"]) // len(times["step"])
    assert each * len(times["step"]) == len(times["model"]), (
        "a step has not as many passes as the others"
    )
    steps = []
    for index, (cpu, _) in enumerate(times["step"]):
        model = sum(taken for taken, _ in times["model"][index * each : (index + 1) * each])
        steps.append((cpu, cpu - model))
    return steps[1:]


def interval(
    numbers: Sequence[float],
    statistic: Callable[[Sequence[float]], float] = statistics.median,
) -> str:
    """Format a statistic with its 95 % bootstrap interval."""
    chance = random.Random(0)
    again = sorted(
        statistic(chance.choices(numbers, k=len(numbers))) for _ in range(RESAMPLES)
    )
    return f"{statistic(numbers):.4f} ({again[RESAMPLES // 40]:.4f} to {again[-RESAMPLES // 40]:.4f})"


def compare_time(options: argparse.Namespace) -> None:
    """Print step times of both trainers, compared in pairs."""
    steps: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            train(
                kind,
                argparse.Namespace(completions=8, tokens=8, steps=1),
                f"{folder}/warm",
                seed=0,
            )
        for round_ in range(options.rounds):
            said = {}
            for kind in sorted(KINDS, reverse=round_ % 2 == 1):
                times, said[kind] = train(
                    kind, options, f"{folder}/{kind}{round_}", seed=7 + round_
                )
                steps[kind] += of_steps(times)
            if said["TRL"] != said["ours"]:
                raise SystemExit(
                    "The two runs of a round have generated other completions: they are no pair."
                )
    pairs = list(zip(steps["ours"], steps["TRL"], strict=True))
    plain = statistics.median(cpu for cpu, _ in steps["TRL"])
    rests = {
        kind: 1000 * statistics.median(rest for _, rest in taken)
        for kind, taken in steps.items()
    }
    added = [one[1] - other[1] for one, other in pairs]
    print(
        f"{options.completions} completions a step, 4 rewards, {len(pairs)} pairs of steps; 95 % intervals"
    )
    print(
        f"a step of TRL's trainer: {plain:.2f} s CPU, of which not the model's {rests['TRL']:.0f} ms"
    )
    print(f"a step of ours: not the model's {rests['ours']:.0f} ms")
    print(
        f"whole steps, ours to TRL's:  {interval([one[0] / other[0] for one, other in pairs])}"
    )
    print(
        f"without the model, added:    {interval([1000 * each for each in added])} ms a step"
    )
    print(f"  as a ratio of steps:       {interval([1 + each / plain for each in added])}")
    middle = statistics.median(added)
    print(f"  of a step of 1 s {100 * middle:.2f} %, of 10 s {10 * middle:.2f} %")


def compare_memory(options: argparse.Namespace) -> None:
    """Print peak memory of both trainers."""
    peaks: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for round_ in range(options.memory_rounds):
        for kind in sorted(KINDS, reverse=round_ % 2 == 1):
            command = [
                sys.executable,
                __file__,
                "--only",
                kind,
                "--steps",
                str(options.steps),
            ]
            command += [
                "--completions",
                str(options.completions),
                "--tokens",
                str(options.tokens),
            ]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            peaks[kind].append(json.loads(done.stdout.splitlines()[-1])["peak_mib"])
    for kind, found in peaks.items():
        print(
            f"peak memory, {kind}: {statistics.median(found):.0f} MiB ({min(found):.0f} to {max(found):.0f})"
        )
    ratio = statistics.median(peaks["ours"]) / statistics.median(peaks["TRL"])
    print(f"peak memory, ours to TRL's: {ratio:.4f}")


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--completions", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--memory-rounds", type=int, default=3)
    parser.add_argument(
        "--only",
        choices=list(KINDS),
        help="train with this one only, and print its peak memory",
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    disable_progress_bars()
    if options.only:
        with tempfile.TemporaryDirectory() as folder:
            train(options.only, options, folder, seed=7)
        print(
            json.dumps(
                {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
            )
        )
        return
    print(f"load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}")
    if options.rounds:
        compare_time(options)
    if options.memory_rounds:
        compare_memory(options)


if __name__ == "__main__":
    main()
