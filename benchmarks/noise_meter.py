r"""Test the noise meter on planted noise: the accuracy of its rates, and its cost.

The noisy verifier is `MathVerifier` with a planted share of flipped verdicts; a hash of completion and gold chooses
them, so it never contradicts itself. First the meter gets batches of written completions, 40 % of them right, without
its time limit: noise then accepts many wrong answers, which the meter must not take for right ones. Then it measures in
a run of the bundled model, within its limit of 0.1 % of a step's time.

    python benchmarks/noise_meter.py --batches 300 --steps 30
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

from trl_grpo_ext import RewardMix, RewardTerm, Sample, Scorecard, Status, Verdict
from trl_grpo_ext.figures.logged import FALSE_ACCEPTS, FALSE_REJECTS, NOISE_SECONDS
from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.trainer.meters.noise_meter import NoiseMeter

PLANTED = (0.0, 0.02, 0.05, 0.20)
GOLDS = ("{0}", r"\frac{{{0}}}{{7}}", "{0}.5", r"{0}\sqrt{{2}}", "({0}, 1)", "x^2+{0}")
ENDINGS = (
    r"So it is $\boxed{{{0}}}$.",
    "The final answer is {0}.",
    "<answer>{0}</answer>",
    "#### {0}",
)
# Share of right completions.
RIGHT = 0.4


@dataclass(frozen=True, kw_only=True)
class NoisyVerifier(MathVerifier):
    """`MathVerifier` with flipped verdicts for a share `noise` of completions."""

    noise: float = 0.0

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        judged = zip(samples, super().judge_samples(samples), strict=True)
        return [
            _flipped(verdict) if _chance(sample) < self.noise else verdict
            for sample, verdict in judged
        ]


def _chance(sample: Sample) -> float:
    digest = hashlib.sha256(f"{sample.text}|{sample.row['solution']}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _flipped(verdict: Verdict) -> Verdict:
    if verdict.score is None:
        return verdict
    right = verdict.status is not Status.CORRECT
    return replace(
        verdict,
        status=Status.CORRECT if right else Status.INCORRECT,
        score=float(right),
        reason="planted",
    )


def batches(
    mix: RewardMix, count: int, groups: int = 8, size: int = 8
) -> Iterator[Scorecard]:
    """Yield judged batches of completions with varied answer formats."""
    for step in range(count):
        samples = []
        for group in range(step * groups, (step + 1) * groups):
            form = GOLDS[group % len(GOLDS)]
            for member in range(size):
                is_right = (group * 7 + member * 3) % 10 < 10 * RIGHT
                said = form.format(group + 8 if is_right else group + 9 + member)
                text = f"We try way {member} of {group}.\n{ENDINGS[(group + member) % len(ENDINGS)].format(said)}"
                samples.append(
                    Sample(
                        text=text,
                        row={"solution": form.format(group + 8)},
                        group=group,
                        step=step,
                    )
                )
        yield mix.score(samples)


def measured(noise: float, count: int) -> dict[str, float]:
    """Return the meter's figures after `count` batches."""
    mix = RewardMix([RewardTerm(name="accuracy", verifier=NoisyVerifier(noise=noise))])
    with tempfile.TemporaryDirectory() as folder:
        meter = NoiseMeter(mix, folder, share=math.inf)
        for card in batches(mix, count):
            meter.on_batch(card, None)
        return meter.figures | {
            f"{name}_count": float(len(found)) for name, found in meter.mistakes.items()
        }


def run(noise: float, steps: int) -> tuple[list[dict[str, Any]], float]:
    """Train the bundled model; return its logs, and the meter's share of the run time."""
    import torch
    from datasets import disable_progress_bars, load_dataset

    from trl_grpo_ext import VerifiedGRPOConfig, VerifiedGRPOTrainer
    from trl_grpo_ext.assets import resolve
    from trl_grpo_ext.trainer.console import keep_quiet

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    disable_progress_bars()
    # Start the verifier's worker before the run.
    MathVerifier().judge([r"\boxed{x}"], solution=["5 + 0x"])
    with tempfile.TemporaryDirectory() as folder:
        args = VerifiedGRPOConfig(
            output_dir=folder, per_device_train_batch_size=64, num_generations=8, max_steps=steps, seed=3,
            max_completion_length=48, learning_rate=1e-4, use_cpu=True, bf16=False, report_to="none", logging_steps=1,
            save_strategy="no", disable_tqdm=True, write_report=False, run_checks=False,
        )  # fmt: skip
        data = load_dataset(resolve("bundled:sums"), split="train")
        trainer = VerifiedGRPOTrainer(
            resolve("bundled:tiny_reasoner"), NoisyVerifier(noise=noise), args, data
        )
        keep_quiet(trainer)
        trainer.train()
        logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    seconds = sum(entry.get(NOISE_SECONDS) or 0.0 for entry in logs)
    return logs, seconds / trainer.state.log_history[-1]["train_runtime"]


def _row(noise: float, figures: dict[str, Any]) -> str:
    parts = [f"{noise:7.0%}"]
    for name in (FALSE_REJECTS, FALSE_ACCEPTS):
        rate, low, high = (figures.get(f"{name}{bound}") for bound in ("", "_low", "_high"))
        count = figures.get(f"{name}_count")
        said = "unknown" if rate is None else f"{rate:6.1%} [{low:.1%}, {high:.1%}]"
        parts.append(said + (f" of {count:.0f}" if count else ""))
    return " | ".join(parts)


def main() -> None:
    """Measure and print the results; exit with status 1 if a rate is off by more than 2 percentage points."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    print("planted | right answers turned down | wrong answers accepted")
    farthest = 0.0
    for noise in PLANTED:
        figures = measured(noise, options.batches)
        print(_row(noise, figures))
        farthest = max(
            farthest,
            *(abs(figures[name] - noise) for name in (FALSE_REJECTS, FALSE_ACCEPTS)),
        )
    print(f"farthest from what was planted: {100 * farthest:.2f} points")
    for noise in (PLANTED[0], PLANTED[-1]) if options.steps else ():
        logs, share = run(noise, options.steps)
        print(
            f"{options.steps} steps of the bundled model: {_row(noise, logs[-1]).strip()}; {share:.2%} of the time"
        )
    raise SystemExit(farthest > 0.02)


if __name__ == "__main__":
    main()
