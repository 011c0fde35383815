"""Verifiers with planted verdicts, and scorecards and mixes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from trl_grpo_ext import (
    Blame,
    RewardMix,
    RewardTerm,
    Sample,
    Scorecard,
    Status,
    Verdict,
    Verifier,
)
from trl_grpo_ext.figures.advantages import AdvantageSettings, advantages_of
from trl_grpo_ext.lab import ActionVerifier
from trl_grpo_ext.mix import Gate, linear, product
from trl_grpo_ext.rewards import ConciseVerifier, DiversityVerifier, MathVerifier
from trl_grpo_ext.verdict import as_verdict

if TYPE_CHECKING:
    from trl_grpo_ext import VerifiedGRPOTrainer

# TRL's settings for computing advantages.
MODES: list[dict[str, Any]] = [
    {"scale_rewards": "group"},
    {"scale_rewards": "batch"},
    {"scale_rewards": "none"},
    {"multi_objective_aggregation": "normalize_then_sum"},
]
MODE_NAMES = [next(iter(mode.values())) for mode in MODES]


def from_minus_one(value: float, verdict: Verdict) -> float:
    """A shape that puts a score of 0 to 1 on -1 to 1."""
    return 2.0 * value - 1.0


class Column(Verifier):
    """A verifier that reads its verdict from a dataset column: a number is a score, a `Blame` an unscored verdict."""

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
    """Make one sample per row of the columns."""
    return [
        Sample(text="", row=dict(zip(columns, row, strict=True)))
        for row in zip(*columns.values(), strict=True)
    ]


class Wrapping(Verifier):
    """A verifier made of other verifiers."""

    def __init__(self, parts: list[Verifier]) -> None:
        self.parts = parts

    def verify(self, sample: Sample) -> Verdict:
        return self.parts[0].verify(sample)


class Positions(Verifier):
    """A verifier with planted scores by batch position; None is a grader error."""

    def __init__(self, *scores: float | None) -> None:
        self.scores = scores

    def judge_samples(self, samples: Any) -> list[Verdict]:
        return [
            self.planted(self.scores[index % len(self.scores)])
            for index in range(len(samples))
        ]

    def planted(self, score: float | None) -> Verdict:
        if score is None:
            return Verdict(
                status=Status.ERROR, score=None, blame=Blame.GRADER, reason="planted"
            )
        status = (
            Status.CORRECT
            if score == 1
            else Status.PARTIAL
            if score > 0
            else Status.INCORRECT
        )
        return Verdict(status=status, score=score)

    def verify(self, sample: Sample) -> Verdict:
        raise AssertionError("judged by batch")


def term(name: str, *scores: float | None, **settings: Any) -> RewardTerm:
    """Make a term with planted scores by batch position."""
    return RewardTerm(name=name, verifier=Positions(*scores), **settings)


def rich_mix() -> RewardMix:
    """Make a mix with every feature: void rows, gate, shape, shadow term, combination, schedule, dead group."""
    return RewardMix(
        [
            term("right", 1, 0, 0, 1, 0, 0, 0, 0, weight=1.0),
            term(
                "short",
                0.2,
                0.9,
                0.4,
                0.3,
                0.7,
                0.7,
                0.7,
                0.7,
                weight=linear(0.5, 0.1),
                gate=Gate("right"),
            ),
            term("form", 1, 1, None, 0, 1, 1, 1, 1, weight=0.2, shape=from_minus_one),
            term("shadow", 0, 1, None, 1, 1, 0, weight=0),
            RewardTerm(name="both", combine=product("right", "form"), weight=-0.3),
            RewardTerm(name="real", verifier=MathVerifier(), weight=0.7),
            RewardTerm(name="brief", verifier=ConciseVerifier(), weight=0.1, gate="real"),
            RewardTerm(name="various", verifier=DiversityVerifier(), weight=0.05),
        ]
    )


def collected(trainer: VerifiedGRPOTrainer) -> list[Scorecard]:
    """Collect the scorecards of a trainer's future batches in a list."""
    cards: list[Scorecard] = []
    trainer.add_scorecard_listener(cards.append)
    return cards


class Gold(Verifier):
    """A verifier that compares the lab's action with the row's gold answer."""

    def verify(self, sample: Sample) -> Verdict:
        action = sample.text.strip()
        return replace(as_verdict(action == sample.row["gold"]), answer=action)


def lab_term(
    name: str, outcomes: dict[int, object], default: object = 0.0, **settings: Any
) -> RewardTerm:
    """Make a term with one planted verdict per lab action."""
    return RewardTerm(
        name=name, verifier=ActionVerifier(outcomes, default=default), **settings
    )


def card_of(
    columns: Mapping[str, Sequence[Verdict | None]],
    weights: Sequence[float],
    *,
    size: int = 4,
    lengths: Sequence[int] | None = None,
) -> Scorecard:
    """Make a scorecard of these verdicts in groups of `size`; a row is void if a weighted term has no score."""
    names, rows = list(columns), range(len(next(iter(columns.values()))))
    values = {
        name: tuple(None if v is None else v.score for v in column)
        for name, column in columns.items()
    }
    by_name = dict(zip(names, weights, strict=True))
    return Scorecard(
        samples=tuple(
            Sample(
                text="",
                group=row // size,
                completion_ids=[1] * (lengths[row] if lengths else row),
                truncated=False,
            )
            for row in rows
        ),
        weights=by_name,
        verdicts={name: tuple(column) for name, column in columns.items()},
        values=values,
        gated={name: (False,) * len(rows) for name in names},
    )


def expected_advantages(card: Scorecard) -> Any:
    return pytest.approx(advantages_of(card, AdvantageSettings()).values.tolist(), abs=1e-5)
