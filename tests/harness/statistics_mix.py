"""A run whose verdicts are planted, with all statuses, for tests of logged figures."""

from __future__ import annotations

import itertools
from typing import Any

from planted import from_minus_one

from trl_grpo_ext import (
    Blame,
    RewardMix,
    RewardTerm,
    Sample,
    Status,
    Verdict,
    VerifiedGRPOTrainer,
    Verifier,
)
from trl_grpo_ext.mix import Gate, linear

# Figures of wall-clock time, which the parquet files cannot confirm.
TIMES = {"verified/grader/judging_seconds", "verified/grader/share_of_step"}


class Planted(Verifier):
    """A verifier that cycles through planted verdicts."""

    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts = itertools.cycle(verdicts)

    def verify(self, sample: Sample) -> Verdict:
        return next(self.verdicts)


def found(
    status: Status, score: float | None, answer: str | None = None, seconds: float = 0.5
) -> Verdict:
    blame = {Status.ERROR: Blame.GRADER, Status.SKIPPED: Blame.DATA}.get(
        status, Blame.POLICY
    )
    return Verdict(status=status, score=score, answer=answer, seconds=seconds, blame=blame)


RIGHT = found(Status.CORRECT, 1.0, "4")
ALSO_RIGHT = found(Status.CORRECT, 1.0, "4.0", seconds=1.5)
WRONG = found(Status.INCORRECT, 0.0, "5", seconds=0.25)
UNREAD = found(Status.UNPARSEABLE, 0.0, "maybe 7?")
SLOW = found(Status.TIMEOUT, 0.0, seconds=5.0)
HALF = found(Status.PARTIAL, 0.5, "2")
BROKEN = found(Status.ERROR, None, seconds=3.0)
NO_GOLD = found(Status.SKIPPED, None)


def everything() -> RewardMix:
    """Make a mix with all statuses, a gate, shape, shadow term, tie-breaker, routed term and weight schedule.

    The cycle lengths differ, so that all steps differ; groups are live, dead, or live by secondary terms only.
    """
    right = Planted(
        RIGHT,
        WRONG,
        UNREAD,
        ALSO_RIGHT,
        WRONG,
        WRONG,
        WRONG,
        WRONG,
        BROKEN,
        RIGHT,
        HALF,
        SLOW,
        RIGHT,
    )
    strict = Planted(RIGHT, WRONG, UNREAD, WRONG, RIGHT, NO_GOLD, WRONG)
    small = Planted(
        *(
            found(Status.PARTIAL, score, seconds=0.001)
            for score in (0.1, 0.9, 0.3, 0.7, 0.2)
        )
    )
    form = Planted(
        RIGHT, RIGHT, WRONG, NO_GOLD, RIGHT, WRONG, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT
    )
    return RewardMix(
        [
            RewardTerm(name="right", verifier=right, when={"task": ["sum", "gold"]}),
            RewardTerm(
                name="small",
                verifier=small,
                weight=linear(0.5, 0.1),
                gate=Gate("right", scale=0.1),
            ),
            RewardTerm(name="form", verifier=form, weight=0.2, shape=from_minus_one),
            RewardTerm(name="strict", verifier=strict, weight=0),
        ]
    )


def tasks(data: Any, size: int) -> Any:
    names = ("sum", "gold", "talk")
    return data.select(range(size)).map(
        lambda _, index: {"task": names[index % 3]}, with_indices=True
    )


def run(tiny_model: str, sums: Any, args: Any, rewards: Any = None) -> VerifiedGRPOTrainer:
    rewards = everything() if rewards is None else rewards
    trainer = VerifiedGRPOTrainer(
        tiny_model, rewards, args, tasks(sums["train"], 24), tasks(sums["test"], 4)
    )
    trainer.train()
    trainer.evaluate()
    return trainer


def logged(trainer: VerifiedGRPOTrainer) -> list[dict[str, Any]]:
    """List the logged figures of batches, one dict per batch, without the prefix `eval_`."""
    batches = []
    for entry in trainer.state.log_history:
        figures = {}
        for key, value in entry.items():
            # The weights are the optimizer's, and not a batch's.
            if "verified/" in key and "/weights/" not in key:
                figures[key.removeprefix("eval_")] = value
        if figures:
            batches.append(figures)
    return batches
