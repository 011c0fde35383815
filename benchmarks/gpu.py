"""Measure the cost of judging per step on a GPU: TRL's trainer, ours judging after model passes, ours judging early.

The model has the shape of Qwen2.5-0.5B with random weights, in bf16, unless `--model` names another. Random weights
generate nonsense, so both rewards judge other texts instead, all different: algebra for workers, and programs with
tests for the sandbox. Printed are medians over all steps but the first: wall time of a step, time waited for rewards,
its share of the step, and the GPU's peak memory; on a CPU, the process's peak memory, which never falls, so only the
first line's counts.

Steps of the three runs differ by about 5 % by chance, so compare waiting times, not whole steps. Figures of an H100
are in docs/metrics_reference.md.

    python benchmarks/gpu.py --completions 256
    python benchmarks/gpu.py --device cpu --tiny
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from datasets import Dataset
from diagnostics_overhead import Steps, Times, fresh_times, timed
from scale import TESTS, formula, program
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from trl_grpo_ext import Sample, Verdict, VerifiedGRPOConfig, VerifiedGRPOTrainer, Verifier
from trl_grpo_ext.rewards import MathVerifier, UnitTestVerifier
from trl_grpo_ext.trainer.console import keep_quiet

SHAPE = {
    "vocab_size": 151_936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
TINY = SHAPE | {
    "vocab_size": 512,
    "hidden_size": 56,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
}
PROMPT = " ".join(f"w{number}" for number in range(3, 67))


class Working(Verifier):
    """A verifier that judges a unique text instead of the completion, so that every verdict costs work."""

    judged = 0

    def __init__(self, inner: Verifier) -> None:
        self.inner = inner
        self.name = inner.__name__

    def verify(self, sample: Sample) -> Verdict:
        return self.judge_samples([sample])[0]

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        return self.inner.judge_samples([self._work(sample) for sample in samples])

    def _work(self, sample: Sample) -> Sample:
        self.judged += 1
        is_code = isinstance(self.inner, UnitTestVerifier)
        text = program(self.judged, "gpu") if is_code else formula(self.judged)
        # Mixed verdicts give groups with advantages.
        wrong = self.judged % 3 == 0
        row = {
            "solution": f"x^2 + {self.judged}x + {1 + wrong}",
            "tests": [*TESTS, "assert False"] if wrong else TESTS,
        }
        return replace(sample, text=text, row=row)


class Waiting(GRPOTrainer):  # type: ignore[misc]  # TRL ships no types
    """A trainer that times how long each step waits for rewards."""

    times: Times

    def _calculate_rewards(self, *arguments: Any, **settings: Any) -> Any:
        with timed(self.times, "rewards"):
            return super()._calculate_rewards(*arguments, **settings)


class Verified(Waiting, VerifiedGRPOTrainer):
    """Our trainer, with the same timer."""


def save_random_model(folder: str, shape: dict[str, Any]) -> None:
    """Save a model of this shape with random weights, and a tokenizer of meaningless words."""
    torch.manual_seed(0)
    words = {f"w{number}": number for number in range(shape["vocab_size"])}
    tokenizer = Tokenizer(models.WordLevel(words, "w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"unk_token": "w0", "bos_token": "w1", "eos_token": "w2", "pad_token": "w2"}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, padding_side="left", **names
    ).save_pretrained(folder)
    config = Qwen2Config(**shape, bos_token_id=1, eos_token_id=2, pad_token_id=2)
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def train(
    options: argparse.Namespace, model: str, *, ours: bool, early: bool = False
) -> Times:
    """Train once, and return step times."""
    on_cpu, times = options.device == "cpu", fresh_times()
    own = {"judge_early": early, "write_report": False} if ours else {}
    with tempfile.TemporaryDirectory() as folder:
        args = (VerifiedGRPOConfig if ours else GRPOConfig)(
            output_dir=folder, per_device_train_batch_size=options.completions // options.accumulate,
            gradient_accumulation_steps=options.accumulate, num_generations=8, max_steps=options.steps,
            max_completion_length=options.tokens, beta=0.04, use_cpu=on_cpu, bf16=not on_cpu,
            report_to="none", save_strategy="no", logging_steps=1, disable_tqdm=True,
            model_init_kwargs={"dtype": "float32" if on_cpu else "bfloat16"}, **own,
        )  # fmt: skip
        rewards = [Working(MathVerifier()), Working(UnitTestVerifier())]
        data = Dataset.from_list([{"prompt": PROMPT}] * options.completions)
        trainer = (Verified if ours else Waiting)(model, rewards, args, data)
        keep_quiet(trainer)
        trainer.times = times
        trainer.add_callback(Steps(times))
        trainer.train()
    return times


def peak_gib() -> float:
    """Return the GPU's peak memory in GiB since the last call; without a GPU, this process's peak."""
    if not torch.cuda.is_available():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    peak = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return peak


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--model", help="a folder with a model, in the place of the random one"
    )
    parser.add_argument(
        "--tiny", action="store_true", help="a small model, few completions: a smoke test"
    )
    parser.add_argument("--completions", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument(
        "--accumulate",
        type=int,
        default=8,
        help="parts that a batch goes through the model in",
    )
    options = parser.parse_args()
    if options.tiny:
        options.completions, options.tokens, options.steps, options.accumulate = 16, 8, 3, 2
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here; see --device cpu --tiny")
    logging.disable(logging.WARNING)
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(
        f"{where}, {options.completions} completions of {options.tokens} tokens, {time.strftime('%Y-%m-%d')}"
    )
    kinds: dict[str, dict[str, bool]] = {
        "TRL": {"ours": False},
        "ours, judging after the passes": {"ours": True},
        "ours, judging beside the passes": {"ours": True, "early": True},
    }
    with tempfile.TemporaryDirectory() as folder:
        if not options.model:
            save_random_model(folder, TINY if options.tiny else SHAPE)
        for name, settings in kinds.items():
            times = train(options, options.model or folder, **settings)
            step, waited = (
                statistics.median(wall for _, wall in times[part][1:])
                for part in ("step", "rewards")
            )
            share, peak = f"{waited / step:5.1%}", f"{peak_gib():.2f} GiB"
            print(
                f"{name:32} a step {step:7.3f} s, waits {waited:6.3f} s ({share}), peak {peak}",
                flush=True,
            )


if __name__ == "__main__":
    main()
