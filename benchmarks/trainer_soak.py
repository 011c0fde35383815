"""Train two thousand steps on the lab's policy with every verifier and check, and report resources that grow.

The policy has the lab's ten actions and hardly learns, so the work stays constant. Each action stands for a kind of
completion: right, wrong, a program, JSON, a program that runs for ever, and so on. All completions are distinct, so
verifiers, workers and the sandbox work at every step, and their caches fill up. Checks, scorecards, the noise meter,
reports, evaluations and checkpoints are on. The LLM judge is an endpoint of this process.

Sampled are memory of this process and of its child processes, descriptors, threads, processes, and CPU time per step.
Medians of the last quarter are compared with the second quarter: memory may grow by 5 %, CPU time per step by 15 %,
descriptors and threads by 4, processes by 1. Values that grow more are named, and the exit status is 1.

Some growth is expected: verifiers remember verdicts up to a bound that this run does not reach, and transformers keeps
all logs of a run, with a few hundred figures each here.

    python benchmarks/trainer_soak.py --steps 2000
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import psutil
import torch
from datasets import Dataset, disable_progress_bars
from transformers import AutoModelForCausalLM, TrainerCallback

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from judge_endpoint import JudgeEndpoint, judge_endpoint  # the tests' own

from trl_grpo_ext import RewardMix, RewardTerm, Sample, VerifiedGRPOConfig, VerifiedGRPOTrainer, Verifier, rewards
from trl_grpo_ext.lab.landscape import action_of
from trl_grpo_ext.lab.policy import PROMPT, make_tokenizer, save_policy
from trl_grpo_ext.lab.training import DEFAULTS
from trl_grpo_ext.rewards.registry import SHIPPED, find_verifier
from trl_grpo_ext.trainer.console import keep_quiet

GROUP, SAMPLES = 8, 40
# The completion of every such number runs for ever, if its kind can.
HANG_EVERY = 40
TIMEOUT = 0.5
# Allowed growth: as a share of the earlier value, plus a fixed amount.
TOLERANCE: Mapping[str, tuple[float, float]] = {
    "MiB here": (0.05, 0.0),
    "MiB below": (0.05, 0.0),
    "descriptors": (0.0, 4.0),
    "threads": (0.0, 4.0),
    "processes": (0.0, 1.0),
    "ms CPU a step": (0.15, 0.0),
}


def completion(action: int, number: int) -> str:
    """Write the completion of an action; each `number` gives a different text."""
    right = f"<think>\nIt is {number}, says the sum.\n</think>\nSo it is \\boxed{{x(x + {number}) + 1}}."
    hangs = number % HANG_EVERY == 0
    code = {
        6: f"def add(a, b):\n    return a + b  # {number}",
        7: f"def add(a, b):\n    return a - b  # {number}",
        8: f"def add(a, b):\n    while {hangs}:\n        pass\n    raise ValueError({number})",
    }
    return {
        1: right,
        2: f"<think>\nI guess {number}.\n</think>\n<answer>B</answer> \\boxed{{x^2 + {number}x + 2}}",
        3: f"I think {number} is too hard",
        4: f'```json\n{{"answer": {number}, "why": ["one", "two"]}}\n```',
        5: f"<root><answer>{number}</answer></root>",
        9: f"La respuesta es el numero {number}, y no hay otra que sea mejor. Answer: \\boxed{{{number}}}",
        10: f"again and again {number} " * 20 + (r"\boxed{9^{9^{9^{9}}}}" if hangs else rf"\boxed{{{number}/7}}"),
    }.get(action) or f"```python\n{code[action]}\n```"


class Speaking(VerifiedGRPOTrainer):
    """A trainer that replaces each action by its completion."""

    said = 0

    def _samples(self, *generated: Any) -> list[Sample]:
        samples = []
        for sample in super()._samples(*generated):
            self.said += 1
            text = completion(action_of(sample.text) or 1, self.said)
            row = {**sample.row, "solution": f"x^2 + {self.said}x + 1"}
            samples.append(replace(sample, text=text, completion_ids=range(len(text) // 4), row=row))
        return samples


def verifiers(base_url: str) -> dict[str, Verifier]:
    """Build shipped verifiers by name; print the reason for each that cannot be built here."""
    maths = rewards.MathVerifier(timeout=TIMEOUT)
    llm = rewards.LlmJudgeVerifier(model="judge", base_url=base_url)
    given: dict[str, dict[str, Any]] = {
        "all_of": {"verifiers": [rewards.BoxedVerifier(), maths]},
        "any_of": {"verifiers": [rewards.BoxedVerifier(), maths]},
        "cascade": {"rules": maths, "llm": llm, "budget": 4},
        "cosine_length": {"max_len": 100, "correctness": maths},
        "calibration": {"correctness": maths},
        "first_scored": {"verifiers": [maths, rewards.BoxedVerifier()]},
        "language": {"language": "en"},
        "llm_judge": {"model": "judge", "base_url": base_url},
        "math": {"timeout": TIMEOUT},
        "multiple_choice": {"column": "choice"},
        "numeric": {"column": "number"},
        "overlong": {"max_completion_len": 100, "soft_punish_cache": 20},
        "regex": {"pattern": r"\d+"},
        "tags": {"tags": ["think", "answer"]},
        "token_budget": {"budget": 50},
        "unit_test": {"timeout": TIMEOUT, "second_opinion": True},
    }
    made: dict[str, Verifier] = {}
    for name in SHIPPED:
        try:
            made[name] = find_verifier(name)(**given.get(name, {}))  # type: ignore[operator]  # it is a class
        except ValueError as error:
            print(f"left out: {name}: {error}")
    return made


def row(number: int) -> dict[str, Any]:
    """Build a dataset row."""
    return {
        "prompt": PROMPT,
        "solution": f"x^2 + {number}x + 1",
        "number": number,
        "choice": "B",
        "tests": ["assert add(1, 2) == 3", f"assert add({number}, 1) == {number + 1}"],
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": ["{}"],
    }


class Sampling(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """A callback that samples memory, processes and CPU time during training, and stops it when time is up."""

    def __init__(self, endpoint: JudgeEndpoint, steps: int, minutes: float) -> None:
        self.samples: list[dict[str, float]] = []
        self._endpoint = endpoint
        self._every = max(1, steps // SAMPLES)
        self._until = time.monotonic() + 60 * minutes
        self._taken: list[float] = []
        self._began = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._began = time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._taken.append(time.process_time() - self._began)
        if time.monotonic() > self._until:
            control.should_training_stop = True
        if state.global_step % self._every == 0:
            self._sample(state.global_step)

    def _sample(self, step: int) -> None:
        # The endpoint keeps requests for tests; here they would count as growth.
        self._endpoint.requests.clear()
        here = psutil.Process()
        below = [child for child in here.children(recursive=True) if child.is_running()]
        sample = {
            "MiB here": here.memory_info().rss / 2**20,
            "MiB below": sum(_memory(child) for child in below) / 2**20,
            "descriptors": here.num_fds(),
            "threads": here.num_threads(),
            "processes": len(below),
            "ms CPU a step": 1000 * statistics.median(self._taken),
        }
        self._taken.clear()
        self.samples.append(sample)
        print(f"{step:5d}: " + ", ".join(f"{value:.0f} {name}" for name, value in sample.items()), flush=True)


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def train(endpoint: JudgeEndpoint, folder: str, steps: int, minutes: float) -> list[dict[str, float]]:
    """Train, and return the samples."""
    every = verifiers(endpoint.base_url)
    print(f"{len(every)} verifiers; load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}")
    terms = [RewardTerm(name=name, verifier=one, weight=float(name == "math")) for name, one in every.items()]
    settings: dict[str, Any] = {**DEFAULTS, "num_iterations": 1, "learning_rate": 1e-4, "logging_steps": 10}
    settings |= {"save_strategy": "steps", "save_steps": 250, "save_total_limit": 1}
    settings |= {"eval_strategy": "steps", "eval_steps": 250, "per_device_eval_batch_size": GROUP}
    save_policy(f"{folder}/policy")
    trainer = Speaking(
        AutoModelForCausalLM.from_pretrained(f"{folder}/policy"),
        RewardMix(terms),
        VerifiedGRPOConfig(output_dir=f"{folder}/run", max_steps=steps, per_device_train_batch_size=GROUP, **settings),
        Dataset.from_list([row(number) for number in range(steps)]),
        Dataset.from_list([row(number) for number in range(2)]),
        processing_class=make_tokenizer(),
    )
    keep_quiet(trainer)
    sampling = Sampling(endpoint, steps, minutes)
    trainer.add_callback(sampling)
    began = time.monotonic()
    trainer.train()
    print(f"{trainer.state.global_step} steps in {time.monotonic() - began:.0f} s, {trainer.said} completions")
    return sampling.samples


def grown(samples: Sequence[Mapping[str, float]]) -> list[str]:
    """List values whose median grew from the second to the last quarter beyond `TOLERANCE`."""
    quarter = len(samples) // 4
    found = []
    for name, (share, count) in TOLERANCE.items():
        before, after = (
            statistics.median(each[name] for each in part)
            for part in (samples[quarter : 2 * quarter], samples[-quarter:])
        )
        print(f"{name}: {before:.1f}, at the end {after:.1f}")
        if after > before * (1 + share) + count:
            found.append(name)
    return found


def main() -> None:
    """Train, and print grown values."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=60.0, help="end the training after so many")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    disable_progress_bars()
    with judge_endpoint() as endpoint, tempfile.TemporaryDirectory() as folder:
        samples = train(endpoint, folder, options.steps, options.minutes)
    found = grown(samples)
    print(f"Grown: {', '.join(found)}." if found else "Nothing has grown.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
