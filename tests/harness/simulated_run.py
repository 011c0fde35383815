"""Describe a training run to the simulator: curves, terms, rows, settings and simulated verifiers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from trl_grpo_ext import Status, Verdict
from trl_grpo_ext.mix.schedule import Weight
from trl_grpo_ext.mix.shape import Shape
from trl_grpo_ext.verdict import UNIT, as_verdict, grader_error, skipped

# A constant, or (step, level) points joined by straight lines.
Curve = float | Sequence[tuple[float, float]]

DEFAULTS: Mapping[str, Any] = {
    "num_generations": 8,
    "num_generations_eval": 4,
    "scale_rewards": "group",
    "multi_objective_aggregation": "sum_then_normalize",
    "loss_type": "dapo",
    "beta": 0.0,
    "epsilon": 0.2,
    "learning_rate": 1e-6,
    "num_iterations": 1,
    "temperature": 1.0,
    "max_completion_length": 512,
    "mask_truncated_completions": False,
    "drop_dead_groups": False,
    "logging_steps": 1,
    "save_steps": 50,
    "seed": 42,
    "world_size": 1,
}


def at(curve: Curve, step: float) -> float:
    """Interpolate a curve at a step."""
    if isinstance(curve, int | float):
        return float(curve)
    steps, levels = [when for when, _ in curve], [level for _, level in curve]
    return float(np.interp(step, steps, levels))


@dataclass(slots=True, kw_only=True)
class Draw:
    """A simulated completion before judging, with all data that terms need.

    `true` is the right answer, although the row's gold may differ; `ability` is the current probability of solving the
    prompt.
    """

    run: Run
    step: float
    rng: Random
    prompt: int
    row: dict[str, Any]
    true: str
    ability: float
    right: bool
    answer: str
    tokens: int
    cut: bool
    flags: dict[str, bool] = field(default_factory=dict)

    def flag(self, name: str) -> bool:
        """Draw membership of a share of completions, once per completion, so that all terms agree."""
        if name not in self.flags:
            self.flags[name] = self.rng.random() < at(
                self.run.shares.get(name, 0.0), self.step
            )
        return self.flags[name]

    def of_rows(self, name: str) -> bool:
        """Look up the prompt's membership of a share of rows, equal at every step."""
        return self.run.is_row(name, self.prompt)


@dataclass(frozen=True, kw_only=True)
class Term:
    """A reward term with a simulated verifier: `judge` returns any value that `as_verdict` accepts."""

    name: str
    judge: Callable[[Draw], object]
    weight: Weight = 1.0
    gate: str | None = None
    when: Mapping[str, Any] | None = None
    seconds: Curve = 0.002
    score_range: tuple[float, float] | None = None
    shape: Shape | None = None


def right(answer: str | None = None) -> Verdict:
    return Verdict(status=Status.CORRECT, score=1.0, answer=answer)


def wrong(answer: str | None = None, reason: str = "differs", why: str = "") -> Verdict:
    return Verdict(
        status=Status.INCORRECT,
        score=0.0,
        answer=answer,
        reason=reason,
        details={"why": why} if why else {},
    )


def unread(reason: str) -> Verdict:
    return Verdict(status=Status.UNPARSEABLE, score=0.0, reason=reason)


def lenient(draw: Draw) -> Verdict:
    """Compare the answer with the row's gold, in any spelling."""
    if draw.cut:
        return unread("no_answer")
    return right(draw.answer) if draw.answer == draw.row["answer"] else wrong(draw.answer)


def accuracy(draw: Draw) -> Verdict:
    """Judge like `lenient`, with shares of unreadable answers, rows without gold, and grader errors."""
    if draw.of_rows("no_gold"):
        return skipped("gold_unparseable")
    if draw.flag("grader"):
        return grader_error(
            "raised_ConnectionError",
            seconds=3.0,
            error="ConnectionError: connection refused",
        )
    if draw.flag("starved"):
        return replace(grader_error("worker_starved", seconds=10.0), status=Status.TIMEOUT)
    return unread("no_boxed") if draw.cut or draw.flag("unread") else lenient(draw)


def strict(draw: Draw) -> Verdict:
    """Judge like `lenient`, but reject the share `strict` of right answers for their spelling."""
    found = lenient(draw)
    if found.status is Status.CORRECT and draw.flag("strict"):
        return wrong(f"{draw.answer}.0", "differs")
    return found


def fooled(draw: Draw) -> Verdict:
    """Judge like `lenient`, but accept the share `hack` of completions with any answer."""
    return right(draw.answer) if draw.flag("hack") and not draw.cut else lenient(draw)


def unit_tests(draw: Draw) -> Verdict:
    """Simulate unit tests; `naive` is the share of failures that a naive grader passes, `slow` of endless loops."""
    program = (
        f"def solve(x):\n    return x + {draw.answer}  # {draw.rng.randrange(10**6)}\n"
    )
    if draw.cut:
        return unread("no_code")
    if draw.flag("slow"):
        return Verdict(
            status=Status.TIMEOUT,
            score=0.0,
            answer=program,
            reason="test_1_timeout",
            seconds=5.0,
        )
    if draw.right:
        return right(program)
    naive = draw.flag("naive")
    return wrong(
        program, "passes_naively" if naive else "test_2_failed", "assert solve(2) == 5"
    )


def raises(why: str) -> Any:
    """Make simulated tests that fail every program with this error."""

    def judge(draw: Draw) -> Verdict:
        program = f"def solution(x):\n    return x + {draw.answer}  # {draw.rng.randrange(10**6)}\n"
        return unread("no_code") if draw.cut else wrong(program, "test_1_error", why)

    return judge


def share_of_tests(draw: Draw) -> Verdict:
    """Simulate partial credit: the share of passed tests out of eight."""
    passed = sum(draw.rng.random() < draw.ability for _ in range(8))
    status = (
        Status.CORRECT if passed == 8 else Status.PARTIAL if passed else Status.INCORRECT
    )
    reason = "" if passed == 8 else f"test_{passed + 1}_failed"
    return Verdict(
        status=status,
        score=passed / 8,
        answer=f"def solve(x): return {draw.answer}",
        reason=reason,
    )


def opinion(noise: float) -> Any:
    """Make a simulated LLM judge: a noisy score in (0, 1) around the prompt's ability."""

    def judge(draw: Draw) -> float:
        return min(0.99, max(0.01, draw.ability + draw.rng.gauss(0, noise)))

    return judge


def form(draw: Draw) -> Verdict:
    """Simulate a tag format check."""
    return wrong(reason="no_think") if draw.cut or draw.flag("untagged") else right()


def brevity(draw: Draw) -> float:
    """Simulate a length penalty: 0 at 0 tokens, -1 at 200 tokens."""
    return -draw.tokens / 200


def style(draw: Draw) -> float:
    """Simulate a style score, independent of correctness."""
    mean = 0.3 + 0.5 * draw.flag("stylish")
    return min(1.0, max(0.0, draw.rng.gauss(mean, 0.15)))


def no_penalty(draw: Draw) -> Verdict:
    """Simulate a repetition penalty without any repetition."""
    return Verdict(status=Status.CORRECT, score=0.0)


def on_scale(run: Run, low: float, high: float, *, declared: bool) -> Run:
    """The same run, whose terms give scores from `low` to `high`, and declare these bounds or only give numbers."""
    return replace(
        run,
        terms=tuple(_on_scale(term, low, high, declared=declared) for term in run.terms),
    )


def _on_scale(term: Term, low: float, high: float, *, declared: bool) -> Term:
    def judge(draw: Draw) -> Verdict:
        found = as_verdict(term.judge(draw), UNIT)
        if found.score is None:
            return found
        says_what_is_right = found.status in (
            Status.CORRECT,
            Status.PARTIAL,
            Status.INCORRECT,
        )
        status = Status.SCORED if says_what_is_right else found.status
        return replace(found, status=status, score=low + (high - low) * found.score)

    return replace(term, judge=judge, score_range=(low, high) if declared else None)


ACCURACY = Term(name="accuracy", judge=accuracy)
FORMAT = Term(name="format", judge=form, weight=0.2)
BREVITY = Term(name="brevity", judge=brevity)


@dataclass(frozen=True, kw_only=True)
class Run:
    """The description of a simulated run.

    Attributes:
        score: The probability of a correct completion; a mapping gives one curve per `task` of the rows.
        terms: The reward terms, the primary term first.
        steps: The number of training steps.
        groups: The number of groups per batch.
        tokens: The mean completion length in tokens.
        shares: Name -> share of completions with `Draw.flag` true; `cut` completions end at the length limit, and
            `common` is the share of wrong answers equal to the group's usual wrong answer.
        rows: Name -> share of prompts with `Draw.of_rows` true; `gold` rows have another row's gold.
        logs: TRL's log name -> curve that replaces the value of a healthy run.
        noise: The relative noise of logged values.
        spread: The spread of prompt difficulty, in logits.
        sway: The spread of difficulty between batches, in logits.
        pool: The number of prompts in the dataset.
        evaluation: The probability of a correct completion at evaluations, each of 32 prompts.
        every: The number of steps between evaluations.
        greedy: True to make all completions of a group equal.
        short: True for completions that consist of the answer alone.
        looping: The share of completions that repeat a single token.
        row: Extra row columns by prompt and step.
        options: Settings that differ from `DEFAULTS`.
    """

    score: Curve | Mapping[str, Curve]
    terms: tuple[Term, ...] = (ACCURACY,)
    steps: int = 120
    groups: int = 8
    tokens: Curve = 180.0
    shares: Mapping[str, Curve] = field(default_factory=dict)
    rows: Mapping[str, float] = field(default_factory=dict)
    logs: Mapping[str, Curve] = field(default_factory=dict)
    noise: float = 0.15
    spread: Curve = 1.5
    sway: float = 0.0
    pool: int = 2000
    evaluation: Curve | None = None
    every: int = 20
    greedy: bool = False
    short: bool = False
    looping: Curve = 0.0
    row: Callable[[int, float], dict[str, Any]] = lambda prompt, step: {}
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The run's settings in the form of `run_settings`."""
        names = [term.name for term in self.terms]
        rewards = [
            {"name": term.name, "score_range": term.score_range} for term in self.terms
        ]
        described = {"reward_functions": names, "verifiers": {}, "rewards": rewards}
        return {**DEFAULTS, "max_steps": self.steps, **described, **self.options}

    def is_row(self, name: str, prompt: int) -> bool:
        return Random(f"{name} of {prompt}").random() < self.rows.get(name, 0.0)

    def chance(
        self,
        prompt: int,
        row: Mapping[str, Any],
        step: float,
        shift: float,
        *,
        evaluation: bool,
    ) -> float:
        """Compute a prompt's probability of a correct completion; the mean over prompts follows the curve."""
        curve = (
            self.evaluation if evaluation and self.evaluation is not None else self.score
        )
        level = at(curve[row["task"]] if isinstance(curve, Mapping) else curve, step)
        if not 0 < level < 1:
            return level
        spread = at(self.spread, step)
        centre = math.log(level / (1 - level)) * math.sqrt(
            1 + math.pi / 8 * (spread**2 + self.sway**2)
        )
        return 1 / (
            1
            + math.exp(-centre - shift - spread * Random(f"difficulty of {prompt}").gauss())
        )
