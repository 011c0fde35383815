"""Measure each shipped verifier's cost per verdict: CPU time of the training process, and of its child processes.

The completions are of ten kinds, right, wrong and in other forms, all distinct. Workers and the sandbox start before
the measurement. The figures are means over completions. The LLM judge is an endpoint of this process and counts too.

    python benchmarks/verdict_cost.py
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

from scale import cpu_seconds

from trl_grpo_ext import Sample, Verifier, rewards
from trl_grpo_ext.rewards.registry import SHIPPED, find_verifier

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "harness"))

from judge_endpoint import judge_endpoint  # the tests' own

GROUP = 8
TIMEOUT = 0.5
KINDS = 10
# Numbers for warm-up and measurement; each number gives a completion of every kind.
WARM, MEASURED = 2 * GROUP, 8 * GROUP


def completion(kind: int, number: int) -> str:
    """Write a completion of a kind, 1 to 10; each `number` gives a different text."""
    right = f"<think>\nIt is {number}, says the sum.\n</think>\nSo it is \\boxed{{x(x + {number}) + 1}}."
    code = {
        6: f"def add(a, b):\n    return a + b  # {number}",
        7: f"def add(a, b):\n    return a - b  # {number}",
        8: f"def add(a, b):\n    raise ValueError({number})",
    }
    return {
        1: right,
        2: f"<think>\nI guess {number}.\n</think>\n<answer>B</answer> \\boxed{{x^2 + {number}x + 2}}",
        3: f"I think {number} is too hard",
        4: f'```json\n{{"answer": {number}, "why": ["one", "two"]}}\n```',
        5: f"<root><answer>{number}</answer></root>",
        9: f"La respuesta es el numero {number}, y no hay otra que sea mejor. Answer: \\boxed{{{number}}}",
        10: f"again and again {number} " * 20 + rf"\boxed{{{number}/7}}",
    }.get(kind) or f"```python\n{code[kind]}\n```"


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
        "solution": f"x^2 + {number}x + 1",
        "number": number,
        "choice": "B",
        "tests": ["assert add(1, 2) == 3", f"assert add({number}, 1) == {number + 1}"],
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": ["{}"],
    }


def samples(numbers: range) -> list[Sample]:
    """Build groups of completions, each group of a single kind and each completion with its own number."""
    return [
        Sample(
            text=completion(kind, number),
            prompt="What is it?",
            completion_ids=range(len(completion(kind, number)) // 4),
            row=row(number),
            group=kind * len(numbers) + place // GROUP,
        )
        for kind in range(1, KINDS + 1)
        for place, number in enumerate(numbers)
    ]


def line(name: str, verifier: Verifier, first: int) -> str:
    """Measure a verifier: CPU microseconds per verdict, and the range of scores; `first` is its first unused number."""
    verifier.judge_samples(samples(range(first, first + WARM)))
    judged = samples(range(first + WARM, first + WARM + MEASURED))
    (_, below_before), here_before = cpu_seconds(), time.process_time()
    verdicts = verifier.judge_samples(judged)
    here = 1e6 * (time.process_time() - here_before) / len(judged)
    below = 1e6 * (cpu_seconds()[1] - below_before) / len(judged)
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    seen = f"{min(scores):.3g} to {max(scores):.3g}" if scores else "none"
    return f"{name:20}{here:9.0f}{below:9.0f}   {seen}"


def main() -> None:
    """Print a line per verifier."""
    logging.disable(logging.WARNING)
    print(f"{'verifier':20}{'us here':>9}{'us below':>9}   scores")
    with judge_endpoint() as endpoint:
        for place, (name, verifier) in enumerate(verifiers(endpoint.base_url).items()):
            print(line(name, verifier, 1 + 1000 * place), flush=True)
            verifier.close()


if __name__ == "__main__":
    main()
