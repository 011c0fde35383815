"""Void rows as a policy's way out: found by a rising share, or by void rows beside wrong siblings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from windows import batch, codes, diagnosis_of, window_of

from trl_grpo_ext import Blame, Scorecard, Status, Verdict
from trl_grpo_ext.diagnostics.example import examples
from trl_grpo_ext.diagnostics.finding import Finding
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.figures.voids import VoidFigures
from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.trainer.run_callback import check_halt_on

BROKEN = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason="worker_lost")
GROUPS, SIZE = 8, 8

# (step, is right, random source) -> True for a completion without a verdict.
IsVoid = Callable[[int, bool, random.Random], bool]


def run(
    is_void: IsVoid, *, steps: int = 40, seed: int = 0, missing: Any = BROKEN
) -> Iterator[Scorecard]:
    """Simulate batches of easy and hard groups, with a constant success rate."""
    chance = random.Random(seed)
    for step in range(steps):
        found: list[Any] = []
        for _ in range(GROUPS):
            easy = chance.random()
            for _ in range(SIZE):
                right = chance.random() < easy
                found.append(missing if is_void(step, right, chance) else float(right))
        yield batch({"answer": found}, step=step, size=SIZE)


def found(cards: Sequence[Scorecard]) -> Finding | None:
    """Watch a run, and return its first `way_out` finding."""
    told = [
        finding for finding in diagnosis_of(cards, {}).findings if finding.code == "way_out"
    ]
    return told[0] if told else None


def more_and_more(step: int, right: bool, chance: random.Random) -> bool:
    return chance.random() < step / 160


def wrong_ones(step: int, right: bool, chance: random.Random) -> bool:
    return not right and chance.random() < 0.5


def both(step: int, right: bool, chance: random.Random) -> bool:
    return not right and chance.random() < step / 40


def test_void_rows_that_become_more_and_more_are_found() -> None:
    told = found(list(run(more_and_more)))
    assert told is not None
    assert (
        "have no verdict of `answer` (`worker_lost`) beside siblings that have one, up by"
        in told.sentence
    )
    assert told.numbers["rise"] > 0.05
    assert "on_unscored: zero" in told.action


def test_void_rows_that_stand_where_siblings_are_wrong_are_found_with_an_example() -> None:
    cards = list(run(wrong_ones))
    told = found(cards)
    assert told is not None
    assert "where their siblings score" in told.sentence
    assert told.numbers["rise"] == 0
    for shown in examples(cards, told, 3):
        assert shown.verdicts["answer"] == "error (worker_lost)"


def test_wrong_answers_that_more_and_more_have_no_verdict_are_found_and_halt_on_takes_the_code() -> (
    None
):
    told = found(list(run(both)))
    assert told is not None
    check_halt_on([told.code])


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
@pytest.mark.parametrize(
    "by_chance",
    [
        lambda step, right, chance: chance.random() < 0.1,
        lambda step, right, chance: chance.random() < 0.025,
        lambda step, right, chance: step >= 20 and chance.random() < 0.3,
        lambda step, right, chance: False,
    ],
    ids=["flaky", "seldom", "an outage", "fine"],
)
def test_a_grader_that_fails_by_chance_or_from_some_moment_on_is_no_way_out(
    by_chance: IsVoid, seed: int
) -> None:
    assert found(list(run(by_chance, seed=seed))) is None


def test_a_few_groups_are_no_evidence() -> None:
    hard, easy = [BROKEN, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]
    assert "way_out" not in codes(
        window_of([batch({"answer": hard + easy + easy}, size=4)])
    )
    assert "way_out" in codes(
        window_of([batch({"answer": (hard + easy + easy) * 16}, size=4)])
    )


def test_rows_that_cannot_be_judged_are_void_as_whole_groups_and_no_way_out() -> None:
    cards = []
    for step in range(40):
        bad = min(7, step // 5)
        rows: list[Any] = [Blame.DATA] * (SIZE * bad) + [0.0, 1.0] * (
            SIZE // 2 * (GROUPS - bad)
        )
        cards.append(batch({"answer": rows}, step=step, size=SIZE))
    assert "way_out" not in codes(window_of(cards))


def test_an_environment_that_fails_is_a_cause_of_its_own() -> None:
    lost = Outcome(environment="Game", verdict=replace(BROKEN, reason="get_reward_hangs"))
    cards = []
    for card in run(lambda *_: False):
        failed = [row % 8 < (card.step or 0) // 8 for row in range(len(card))]
        samples = [
            replace(one, outcome=lost if out else None)
            for one, out in zip(card.samples, failed, strict=True)
        ]
        cards.append(replace(card, samples=tuple(samples)).with_failed(failed))
    told = found(cards)
    assert told is not None
    assert "no verdict of the environment (`get_reward_hangs`)" in told.sentence
    assert "have `get_reward` return 0" in told.action


def test_a_batch_counts_void_rows_beside_judged_siblings_only() -> None:
    card = batch(
        {
            "answer": [
                BROKEN,
                0.0,
                0.0,
                0.0,
                BROKEN,
                BROKEN,
                BROKEN,
                BROKEN,
                1.0,
                1.0,
                1.0,
                1.0,
            ]
        },
        size=4,
    )
    ((cause, figures),) = reduce_card(card, {}).voids.items()
    assert cause == ("answer", "worker_lost")
    assert isinstance(figures, VoidFigures)
    assert figures.rows == 1
    assert figures.shares.mean == 1 / 8
    assert figures.lower.mean == pytest.approx(1 / 4 * 4 / 7 / 2)
