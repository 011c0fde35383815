"""Measure the local Python of a rollout: calls, starts, a soak, and a batch in which every rollout times out.

    python benchmarks/python_session.py [--rollouts 1000] [--calls 10] [--batch 64]

The first part times calls: of a session, of the tool without memory, and of the usual way, a Python process a call,
which has no walls. The second runs rollouts, a tenth of their calls hostile: memory, processes and descriptors may not
grow. The third trains a step in which all rollouts call `while True: pass`, with a second a call, and compares its time
with the stated bound: rollouts over cores, rounded up, times one call.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import psutil

from trl_grpo_ext.environments import PythonEnvironment, python_tool
from trl_grpo_ext.programs.sandbox.session import SESSION_LIMITS, PythonSession
from trl_grpo_ext.workers.pool import usable_cores

# As many environments as a batch has rollouts; TRL uses them again for the next batch.
POOL = 16
CELLS = (
    "import math\nx = 40",
    "x + 2",
    "def f(n):\n    return sum(i * i for i in range(n))",
    "print(f(1000))",
    "[f(n) for n in range(9)]",
    "1 / 0",
)
HOSTILE = (
    "while True: pass",
    "import os; os._exit(0)",
    "import os\nwhile True: os.fork()",
    "l = []\nwhile True: l.append(bytearray(1 << 20))",
    "print('x' * 9_000_000)",
    "import threading, time\nfor _ in range(99): threading.Thread(target=time.sleep, args=(99,)).start()",
    "import os; os.closerange(0, 99)",
    "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass",
)


class Soaked(PythonEnvironment):
    """A Python whose calls end after half a second."""

    limits = replace(SESSION_LIMITS, wall_seconds=0.5, memory_mb=128)


def seconds_of(call: Callable[[], Any]) -> float:
    """Time a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def quantiles(seconds: Sequence[float]) -> str:
    """Format the median and the 99th percentile in milliseconds."""
    ordered = sorted(seconds)
    return f"p50 {1000 * statistics.median(ordered):7.2f} ms, p99 {1000 * ordered[int(0.99 * len(ordered))]:7.2f} ms"


def time_calls(count: int) -> None:
    """Print the time of a call, here and in the usual way."""
    code = "sum(i * i for i in range(100))"
    session = PythonSession()
    session.run("1")
    few = count // 10
    command = [sys.executable, "-I", "-c", code]

    def restart() -> None:
        session.close()
        session.run("1")

    for name, times, call in (
        ("a call of a session", count, lambda: session.run(code)),
        ("an end and a start of a session", few, restart),
        ("a call of the tool without memory", few, lambda: python_tool(code)),
        (
            "python -I -c CODE, without walls",
            few,
            lambda: subprocess.run(command, check=True),
        ),
    ):
        print(f"{name:<34} {quantiles([seconds_of(call) for _ in range(times)])}")
    session.close()


def state() -> str:
    """Describe values that must not grow: memory, descriptors and processes."""
    process = psutil.Process()
    below = process.children(recursive=True)
    memory = sum(child.memory_info().rss for child in below if child.is_running())
    return (
        f"{process.memory_info().rss >> 20:5d} MiB here, {memory >> 20:4d} MiB below, "
        f"{process.num_fds():3d} descriptors, {len(below):3d} processes"
    )


def soak(rollouts: int, calls: int) -> None:
    """Run rollouts one after another, and print the time of harmless calls and what may not grow."""
    environments = [Soaked() for _ in range(POOL)]
    for start in range(0, rollouts, 100):
        seconds: list[float] = []
        for rollout in range(start, min(start + 100, rollouts)):
            environment = environments[rollout % POOL]
            environment.reset()
            for number in range(calls):
                place = rollout * calls + number
                hostile = place % 10 == 9
                code = (
                    HOSTILE[place // 10 % len(HOSTILE)]
                    if hostile
                    else CELLS[number % len(CELLS)]
                )
                took = seconds_of(
                    lambda environment=environment, code=code: environment.python(code)
                )  # type: ignore[misc]
                seconds += [] if hostile else [took]
            # Sixteen rollouts run at a time, as in a batch.
            if rollout % POOL == POOL - 1:
                for each in environments:
                    each._end_rollout()
        for each in environments:
            each._end_rollout()
        print(f"{start + 100:6d} rollouts: {quantiles(seconds)}, {state()}", flush=True)


def train_on_timeouts(batch: int, *, parallel: bool) -> float:
    """Train a step in which each rollout calls `while True: pass` once; return the seconds of the tool calls."""
    from datasets import load_dataset

    from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOConfig, VerifiedGRPOTrainer
    from trl_grpo_ext.assets import resolve
    from trl_grpo_ext.rewards import MathVerifier

    class Spinning(PythonEnvironment):
        limits = replace(SESSION_LIMITS, wall_seconds=1.0)
        parallel_calls = parallel

    class Scripted(VerifiedGRPOTrainer):
        says: ClassVar = [
            '<call>{"name": "python", "arguments": {"code": "while True: pass"}}</call>',
            "\\boxed{1}",
        ]
        seconds = 0.0

        def _generate(self, prompts: Any) -> Any:
            self._turn = 0
            return super()._generate(prompts)

        def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
            text = self.says[self._turn]
            self._turn += 1
            tokenizer = self.processing_class
            return [
                [*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for _ in prompt_ids
            ], None

        def _tool_call_loop(self, *arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            result = super()._tool_call_loop(*arguments, **named)
            self.seconds = time.perf_counter() - began
            return result

    with tempfile.TemporaryDirectory() as folder:
        trainer = Scripted(
            resolve("bundled:tiny_pythonist"),
            RewardMix([RewardTerm(name="answer", verifier=MathVerifier())]),
            VerifiedGRPOConfig(
                output_dir=folder, max_steps=1, per_device_train_batch_size=batch, num_generations=8,
                max_completion_length=96, use_cpu=True, bf16=False, report_to="none", save_strategy="no",
                record_scorecards=False,
            ),
            load_dataset(resolve("bundled:products"))["train"],
            environment_factory=Spinning,
        )  # fmt: skip
        trainer.train()
    return trainer.seconds


def main() -> None:
    """Print all measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rollouts", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    arguments = parser.parse_args()
    cores = usable_cores()
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f}")
    time_calls(1000)
    soak(arguments.rollouts, arguments.calls)
    bound = math.ceil(arguments.batch / cores)
    seconds = train_on_timeouts(arguments.batch, parallel=True)
    print(
        f"{arguments.batch} rollouts that time out after 1 s: {seconds:.1f} s, the bound is {bound} s and the ends"
    )
    few = max(8, arguments.batch // 8)
    print(
        f"{few} of them as TRL calls tools, one after another: {train_on_timeouts(few, parallel=False):.1f} s"
    )


if __name__ == "__main__":
    main()
