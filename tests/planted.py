"""Verifiers whose verdicts are planted, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Scorecard, Status, Verdict, Verifier
from trl_grpo_ext.lab import ActionVerifier
from trl_grpo_ext.mix import Affine, Gate, linear, product
from trl_grpo_ext.rewards import ConciseVerifier, DiversityVerifier, MathVerifier
from trl_grpo_ext.verdict import as_verdict

if TYPE_CHECKING:
    from trl_grpo_ext import VerifiedGRPOTrainer

MODES: list[dict[str, Any]] = [  # TRL's ways to make advantages
    {"scale_rewards": "group"},
    {"scale_rewards": "batch"},
    {"scale_rewards": "none"},
    {"multi_objective_aggregation": "normalize_then_sum"},
]
MODE_NAMES = [next(iter(mode.values())) for mode in MODES]


class Column(Verifier):
    """Reads its verdicts from a dataset column: a number is a score, a blame is a verdict without one."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.calls = 0
        self.seen: list[Sample] = []

    def judge_samples(self, samples: Any) -> list[Verdict]:
        self.calls += 1
        self.seen += samples
        return super().judge_samples(samples)

    def verify(self, sample: Sample) -> Verdict:
        value = sample.row[self.column]
        if isinstance(value, Blame):
            status = Status.SKIPPED if value is Blame.DATA else Status.ERROR
            return Verdict(status=status, score=None, blame=value, reason="planted")
        return Verdict(status=Status.CORRECT, score=value)


def samples_of(**columns: list[Any]) -> list[Sample]:
    """A sample a row of these columns."""
    return [Sample(text="", row=dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


class Wrapping(Verifier):
    """Made of other verifiers."""

    def __init__(self, parts: list[Verifier]) -> None:
        self.parts = parts

    def verify(self, sample: Sample) -> Verdict:
        return self.parts[0].verify(sample)


class Positions(Verifier):
    """Hands out planted scores by the position in the batch; None is the grader's fault."""

    def __init__(self, *scores: float | None) -> None:
        self.scores = scores

    def judge_samples(self, samples: Any) -> list[Verdict]:
        return [self.planted(self.scores[index % len(self.scores)]) for index in range(len(samples))]

    def planted(self, score: float | None) -> Verdict:
        if score is None:
            return Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason="planted")
        status = Status.CORRECT if score == 1 else Status.PARTIAL if score > 0 else Status.INCORRECT
        return Verdict(status=status, score=score)

    def verify(self, sample: Sample) -> Verdict:
        raise AssertionError("judged by batch")


def term(name: str, *scores: float | None, **settings: Any) -> RewardTerm:
    """A term with planted scores by the position in the batch."""
    return RewardTerm(name=name, verifier=Positions(*scores), **settings)


def rich_mix() -> RewardMix:
    """Everything at once: void rows, a gate, a shape, a shadow, a combination, a weight that moves, a dead group."""
    return RewardMix(
        [
            term("right", 1, 0, 0, 1, 0, 0, 0, 0, weight=1.0),
            term("short", 0.2, 0.9, 0.4, 0.3, 0.7, 0.7, 0.7, 0.7, weight=linear(0.5, 0.1), gate=Gate("right")),
            term("form", 1, 1, None, 0, 1, 1, 1, 1, weight=0.2, shape=Affine(2.0, -1.0)),
            term("shadow", 0, 1, None, 1, 1, 0, weight=0),
            RewardTerm(name="both", combine=product("right", "form"), weight=-0.3),
            RewardTerm(name="real", verifier=MathVerifier(), weight=0.7),
            RewardTerm(name="brief", verifier=ConciseVerifier(), weight=0.1, gate="real"),
            RewardTerm(name="various", verifier=DiversityVerifier(), weight=0.05),
        ]
    )


def collected(trainer: VerifiedGRPOTrainer) -> list[Scorecard]:
    """The scorecards of the batches to come."""
    cards: list[Scorecard] = []
    trainer.add_scorecard_listener(cards.append)
    return cards


class Gold(Verifier):
    """Whether the lab's action is the row's gold answer."""

    def verify(self, sample: Sample) -> Verdict:
        action = sample.text.strip()
        return replace(as_verdict(action == sample.row["gold"]), answer=action)


def lab_term(name: str, outcomes: dict[int, object], default: object = 0.0, **settings: Any) -> RewardTerm:
    """A term with a verdict for each of the lab's actions."""
    return RewardTerm(name=name, verifier=ActionVerifier(outcomes, default=default), **settings)


def card_of(
    columns: Mapping[str, Sequence[Verdict | None]],
    weights: Sequence[float],
    *,
    size: int = 4,
    lengths: Sequence[int] | None = None,
) -> Scorecard:
    """A card of these verdicts in groups of `size`, void where a term in force is without a score."""
    names, rows = list(columns), range(len(next(iter(columns.values()))))
    values = {name: tuple(None if v is None else v.score for v in column) for name, column in columns.items()}
    by_name = dict(zip(names, weights, strict=True))
    return Scorecard(
        samples=tuple(
            Sample(text="", group=row // size, completion_ids=[1] * (lengths[row] if lengths else row), truncated=False)
            for row in rows
        ),
        weights=by_name,
        verdicts={name: tuple(column) for name, column in columns.items()},
        values=values,
        gated={name: (False,) * len(rows) for name in names},
    )
