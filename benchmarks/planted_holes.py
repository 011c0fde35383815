"""Eight rewards with a known hole each, similar to rewards in tutorials, to test audits on.

Programs still run in the sandbox; only the judging is careless, as if program and tests shared a process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.programs.sandbox.job import Ending, Job, StdioCase, StdioSuite
from trl_grpo_ext.programs.suites.trials import naive_job, passed_naively
from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.sample import Sample, completion_text
from trl_grpo_ext.verdict import Verdict, as_verdict

BOX = re.compile(r"\\boxed\{([^{}]*)\}")
# Completion length in characters that earns the full reward of `longest`.
LONG = 400
DONE = "7d1f0c: every assert held"


def substring(completions: Sequence[Any], solution: Sequence[str], **_: Any) -> list[float]:
    """Score 1 if the answer occurs anywhere in the completion."""
    return [
        float(gold in completion_text(one))
        for one, gold in zip(completions, solution, strict=True)
    ]


def last_number(
    completions: Sequence[Any], solution: Sequence[str], **_: Any
) -> list[float]:
    """Score 1 if the last number equals the answer."""
    numbers = [re.findall(r"-?\d+(?:\.\d+)?", completion_text(one)) for one in completions]
    return [
        float(bool(said) and said[-1] == gold)
        for said, gold in zip(numbers, solution, strict=True)
    ]


def longest(completions: Sequence[Any], **_: Any) -> list[float]:
    """Score the completion's length, up to 1 at `LONG` characters."""
    return [min(1.0, len(completion_text(one)) / LONG) for one in completions]


def format_only(completions: Sequence[Any], **_: Any) -> list[float]:
    """Score 1 for any box, regardless of its content."""
    return [float(BOX.search(completion_text(one)) is not None) for one in completions]


def prompt_echo(
    completions: Sequence[Any], solution: Sequence[str], **_: Any
) -> list[float]:
    """Score 1 if the last box evaluates to the answer; the grader even adds up sums."""
    boxes = [BOX.findall(completion_text(one)) for one in completions]
    return [
        float(bool(said) and _sum(said[-1]) == _sum(gold))
        for said, gold in zip(boxes, solution, strict=True)
    ]


def _sum(text: str) -> float | str:
    try:
        return sum(float(part) for part in text.split("+"))
    except ValueError:
        return text


def first_tag(completions: Sequence[Any], solution: Sequence[str], **_: Any) -> list[float]:
    """Score 1 if the first box holds the answer, whatever follows."""
    boxes = [BOX.search(completion_text(one)) for one in completions]
    return [
        float(box is not None and box[1] == gold)
        for box, gold in zip(boxes, solution, strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class ExitStatus(UnitTestVerifier):
    """Score 1 if program and tests, run together, exit with status 0."""

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        tasks = [self._task(sample) for sample in samples]
        outcomes = iter(
            self.runner().run(
                [self._job(task.job) for task in tasks if not isinstance(task, Verdict)]
            )
        )
        return [
            task if isinstance(task, Verdict) else as_verdict(self._passed(next(outcomes)))
            for task in tasks
        ]

    def _job(self, job: Job) -> Job:
        together = naive_job(job)
        assert together is not None
        return together

    def _passed(self, outcome: Any) -> bool:
        return passed_naively(outcome)


@dataclass(frozen=True, kw_only=True)
class EqualObject(ExitStatus):
    """Score 1 if program and tests, run together, reach the end; asserts compare the program's own objects."""

    def _job(self, job: Job) -> Job:
        together = super()._job(job)
        program = f"{together.program}\nprint({DONE!r})\n"
        return replace(
            together,
            program=program,
            suite=StdioSuite(tests=(StdioCase(stdin="", stdout=DONE),)),
        )

    def _passed(self, outcome: Any) -> bool:
        return bool(outcome.ending is Ending.PASSED)


exit_status = ExitStatus(name="exit_status", timeout=2.0)
equal_object = EqualObject(name="equal_object", timeout=2.0)

ANSWERS = ("substring", "last_number", "longest", "format_only", "prompt_echo", "first_tag")
PROGRAMS = ("exit_status", "equal_object")
