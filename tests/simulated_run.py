"""A training run as it is described to the simulator: curves, terms, rows, settings; and what verifiers say."""

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

Curve = float | Sequence[tuple[float, float]]  # the same all along, or (step, level) with straight lines between

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
    """The level of a curve at a step."""
    if isinstance(curve, int | float):
        return float(curve)
    steps, levels = [when for when, _ in curve], [level for _, level in curve]
    return float(np.interp(step, steps, levels))


@dataclass(slots=True, kw_only=True)
class Draw:
    """One completion, before it is judged. What a term needs to know of it is here."""

    run: Run
    step: float
    rng: Random
    prompt: int
    row: dict[str, Any]
    true: str  # the answer that is right; the row's gold may be another
    ability: float  # how likely this prompt is solved now
    right: bool
    answer: str
    tokens: int
    cut: bool
    flags: dict[str, bool] = field(default_factory=dict)

    def flag(self, name: str) -> bool:
        """Whether this completion is one of a share; drawn once, so that terms agree on it."""
        if name not in self.flags:
            self.flags[name] = self.rng.random() < at(self.run.shares.get(name, 0.0), self.step)
        return self.flags[name]

    def of_rows(self, name: str) -> bool:
        """Whether the prompt is one of a share of the rows; the same at every step."""
        return self.run.is_row(name, self.prompt)


@dataclass(frozen=True, kw_only=True)
class Term:
    """A line of the reward: `judge` says what its verifier finds, in any form that `as_verdict` reads."""

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
        status=Status.INCORRECT, score=0.0, answer=answer, reason=reason, details={"why": why} if why else {}
    )


def unread(reason: str) -> Verdict:
    return Verdict(status=Status.UNPARSEABLE, score=0.0, reason=reason)


def lenient(draw: Draw) -> Verdict:
    """Compares the answer with the row's gold, however it is written."""
    if draw.cut:
        return unread("no_answer")
    return right(draw.answer) if draw.answer == draw.row["answer"] else wrong(draw.answer)


def accuracy(draw: Draw) -> Verdict:
    """As `lenient`; a share of answers cannot be read, of rows has no gold, of verdicts fails."""
    if draw.of_rows("no_gold"):
        return skipped("gold_unparseable")
    if draw.flag("grader"):
        return grader_error("raised_ConnectionError", seconds=3.0, error="ConnectionError: connection refused")
    if draw.flag("starved"):
        return replace(grader_error("worker_starved", seconds=10.0), status=Status.TIMEOUT)
    return unread("no_boxed") if draw.cut or draw.flag("unread") else lenient(draw)


def strict(draw: Draw) -> Verdict:
    """Accepts an answer in one spelling only: `strict` is the share that is written otherwise."""
    found = lenient(draw)
    if found.status is Status.CORRECT and draw.flag("strict"):
        return wrong(f"{draw.answer}.0", "differs")
    return found


def fooled(draw: Draw) -> Verdict:
    """As `lenient`, but a share of completions, `hack`, is accepted whatever it says."""
    return right(draw.answer) if draw.flag("hack") and not draw.cut else lenient(draw)


def unit_tests(draw: Draw) -> Verdict:
    """Runs a program; `naive` is the share of failing ones that a naive grader passes, `slow` that of endless loops."""
    program = f"def solve(x):\n    return x + {draw.answer}  # {draw.rng.randrange(10**6)}\n"
    if draw.cut:
        return unread("no_code")
    if draw.flag("slow"):
        return Verdict(status=Status.TIMEOUT, score=0.0, answer=program, reason="test_1_timeout", seconds=5.0)
    if draw.right:
        return right(program)
    naive = draw.flag("naive")
    return wrong(program, "passes_naively" if naive else "test_2_failed", "assert solve(2) == 5")


def raises(why: str) -> Any:
    """Tests whose every program ends with this error."""

    def judge(draw: Draw) -> Verdict:
        program = f"def solution(x):\n    return x + {draw.answer}  # {draw.rng.randrange(10**6)}\n"
        return unread("no_code") if draw.cut else wrong(program, "test_1_error", why)

    return judge


def share_of_tests(draw: Draw) -> Verdict:
    """Partial credit, by the share of eight tests that pass."""
    passed = sum(draw.rng.random() < draw.ability for _ in range(8))
    status = Status.CORRECT if passed == 8 else Status.PARTIAL if passed else Status.INCORRECT
    reason = "" if passed == 8 else f"test_{passed + 1}_failed"
    return Verdict(status=status, score=passed / 8, answer=f"def solve(x): return {draw.answer}", reason=reason)


def opinion(noise: float) -> Any:
    """An LLM's mark between 0 and 1, about as good as the completion is."""

    def judge(draw: Draw) -> float:
        return min(0.99, max(0.01, draw.ability + draw.rng.gauss(0, noise)))

    return judge


def form(draw: Draw) -> Verdict:
    """Whether a completion has its tags."""
    return wrong(reason="no_think") if draw.cut or draw.flag("untagged") else right()


def brevity(draw: Draw) -> float:
    """A length penalty: 0 for nothing, -1 at 200 tokens."""
    return -draw.tokens / 200


def style(draw: Draw) -> float:
    """A mark for manner, which has nothing to do with what is right."""
    mean = 0.3 + 0.5 * draw.flag("stylish")
    return min(1.0, max(0.0, draw.rng.gauss(mean, 0.15)))


def no_penalty(draw: Draw) -> Verdict:
    """A penalty for repetition, where nothing is repeated."""
    return Verdict(status=Status.CORRECT, score=0.0)


def on_scale(run: Run, low: float, high: float, *, declared: bool) -> Run:
    """The same run, whose terms give scores from `low` to `high`, and declare these bounds or only give numbers."""
    return replace(run, terms=tuple(_on_scale(term, low, high, declared=declared) for term in run.terms))


def _on_scale(term: Term, low: float, high: float, *, declared: bool) -> Term:
    def judge(draw: Draw) -> Verdict:
        found = as_verdict(term.judge(draw), UNIT)
        if found.score is None:
            return found
        says_what_is_right = found.status in (Status.CORRECT, Status.PARTIAL, Status.INCORRECT)
        status = Status.SCORED if says_what_is_right else found.status
        return replace(found, status=status, score=low + (high - low) * found.score)

    return replace(term, judge=judge, score_range=(low, high) if declared else None)


ACCURACY = Term(name="accuracy", judge=accuracy)
FORMAT = Term(name="format", judge=form, weight=0.2)
BREVITY = Term(name="brevity", judge=brevity)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What happens in a run.

    Attributes:
        score: The chance that a completion is right; by the row's `task`, if rows have one.
        terms: The reward, the primary term first.
        tokens: The mean length of completions.
        shares: By name, the share of completions that `Draw.flag` is true for; `cut` ends them at the limit, `common`
            is the share of wrong answers that are the group's usual one.
        rows: By name, the share of prompts that `Draw.of_rows` is true for; `gold` have the gold of the next row.
        logs: By TRL's name, what it logs in the place of what a sound run would have.
        noise: The relative noise of what is logged.
        spread: How different the difficulty of prompts is, in logits; `sway` that of whole batches.
        pool: How many prompts the data has.
        evaluation: The chance at an evaluation, every `every` steps, of 32 prompts.
        greedy: Whether the completions of a group are one and the same.
        short: Whether a completion is its answer and nothing else.
        looping: Whether completions repeat one token.
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
        """The run's settings, as `run_settings` would give them."""
        names = [term.name for term in self.terms]
        rewards = [{"name": term.name, "score_range": term.score_range} for term in self.terms]
        described = {"reward_functions": names, "verifiers": {}, "rewards": rewards}
        return {**DEFAULTS, "max_steps": self.steps, **described, **self.options}

    def is_row(self, name: str, prompt: int) -> bool:
        return Random(f"{name} of {prompt}").random() < self.rows.get(name, 0.0)

    def chance(self, prompt: int, row: Mapping[str, Any], step: float, shift: float, *, evaluation: bool) -> float:
        """How likely a prompt is solved: the mean over prompts is the curve's, the prompts differ."""
        curve = self.evaluation if evaluation and self.evaluation is not None else self.score
        level = at(curve[row["task"]] if isinstance(curve, Mapping) else curve, step)
        if not 0 < level < 1:
            return level
        spread = at(self.spread, step)
        centre = math.log(level / (1 - level)) * math.sqrt(1 + math.pi / 8 * (spread**2 + self.sway**2))
        return 1 / (1 + math.exp(-centre - shift - spread * Random(f"difficulty of {prompt}").gauss()))
