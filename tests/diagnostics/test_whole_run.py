"""What the rest of a run says of its beginning, and of how far it has come."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from windows import batch, diagnosis_of, window_of

from trl_grpo_ext import Blame, Scorecard, Status, Verdict
from trl_grpo_ext.diagnostics.batches import repeated_share
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.finding import Finding

Event = Scorecard | tuple[int, dict[str, float]]


def scored(mark: float) -> Verdict:
    return Verdict(status=Status.SCORED, score=mark)


def marks(mean: Callable[[int], float], *, has_tails: bool = False) -> list[Scorecard]:
    """Make 60 batches of marks around the mean of a step: with tails, or at most 20 away and at most 46."""
    rng = random.Random(3)
    cards = []
    for step in range(60):
        if has_tails:
            drawn = [mean(step) + rng.gauss(0, 8) for _ in range(64)]
        else:
            drawn = [min(46.0, mean(step) + rng.uniform(-20, 20)) for _ in range(64)]
        cards.append(batch({"marks": [scored(mark) for mark in drawn]}, step=step))
    return cards


def longer_first(step: int) -> Scorecard:
    """Make a batch of completions that are twice as long from step 8 on; their score rises from step 30 on."""
    right = 20 + max(0, step - 30)
    scores: list[object] = [float(27 * place % 64 < right) for place in range(64)]
    return batch(
        {"answer": scores},
        step=step,
        completion_ids=[0] * (20 if step < 8 else 40 + step % 3),
    )


def test_a_warning_that_the_rest_of_the_run_refutes_is_listed_and_not_in_the_headline() -> (
    None
):
    diagnosis = diagnosis_of([longer_first(step) for step in range(70)], {})
    assert "length_explosion" in [finding.code for finding in diagnosis.findings]
    assert "has risen" in diagnosis.sentence
    assert "Earlier" not in diagnosis.sentence


def harder(step: int) -> Scorecard:
    """Make a batch that is solved until step 32, and never after; `form` differs all the time."""
    answers: list[object] = [
        float(place % 8 < 7) if step < 32 else 0.0 for place in range(64)
    ]
    form: list[object] = [float((place + step) % 3 > 0) for place in range(64)]
    return batch(
        {"answer": answers, "form": form},
        step=step,
        weights={"form": 0.1},
        advantages=[1.0, -1.0] * 32,
    )


@pytest.mark.slow
def test_where_rows_in_their_order_became_too_hard_their_effects_are_no_causes() -> None:
    events: list[Event] = []
    for step in range(64):
        events += [harder(step), (step + 1, {"loss": 0.0, "kl": 0.05})]
    in_order = diagnosis_of(events, {"shuffle_dataset": False})
    assert [cause.code for cause in in_order.causes] == ["getting_worse"]
    assert "not shuffled" in in_order.sentence
    assert "wrong_driver" in [
        cause.code for cause in diagnosis_of(events, {"shuffle_dataset": True}).causes
    ]


def inert(outcomes: dict[str, list[object]]) -> Finding:
    weights = dict.fromkeys(outcomes, 0.0) | {"near": 1.0}
    found = CHECKS["inert_term"](
        window_of([batch(outcomes, step=step, weights=weights) for step in range(8)])
    )
    assert isinstance(found, Finding)
    return found


def test_a_flat_term_is_too_loose_where_a_shadow_tells_its_completions_apart() -> None:
    judged: list[object] = []
    for place in range(64):
        right = place % 2 == 0
        status = Status.CORRECT if right else Status.INCORRECT
        judged.append(Verdict(status=status, score=float(right), answer=str(place % 2)))
    found = inert({"near": [scored(50.0)] * 64, "exact": judged})
    assert (
        "`exact`, which has no weight, tells them apart, and passes 50 %" in found.sentence
    )
    assert "as strict as `exact`" in found.action
    unsure = inert({"near": [scored(50.0)] * 64})
    assert "exact" not in unsure.sentence + unsure.action


def test_a_term_that_is_the_same_for_completions_that_differ_is_said_to_read_none() -> None:
    assert "reads no answer" in inert({"near": [scored(-10.0)] * 64}).action


def limited(step: int, best: float) -> Scorecard:
    """Make a batch of a run in which one in four of the first completions is cut, and later ones are short."""
    is_cut = step == 0
    after = [scored(-10.0 + best * (place % 3 > 0)) for place in range(32)]
    outcomes = [scored(-10.0)] * 32 if is_cut else after
    tokens = [0] * (16 if is_cut else 9 if step < 4 else 5)
    return batch({"penalty": outcomes}, step=step, truncated=is_cut, completion_ids=tokens)


def test_a_limit_that_has_taught_a_model_to_be_short_is_named_though_hardly_any_completion_is_cut_now() -> (
    None
):
    settings = {
        "max_completion_length": 16,
        "rewards": [{"name": "penalty", "score_range": [-10, 0]}],
    }
    said = diagnosis_of([limited(step, 9.0) for step in range(40)], settings)
    assert said.sentence.startswith(
        "The length limit has taught the model to be short: 25 % of the first completions"
    )
    assert "Raise max_completion_length" in said.causes[0].action


def test_a_limit_is_not_blamed_where_the_short_answers_are_right() -> None:
    settings = {
        "max_completion_length": 16,
        "rewards": [{"name": "penalty", "score_range": [-10, -4]}],
    }
    codes = [
        cause.code
        for cause in diagnosis_of(
            [limited(step, 6.0) for step in range(40)], settings
        ).causes
    ]
    assert "truncation" in codes
    solved = [
        batch({"answer": [1.0] * 7 + [0.0]}, step=step, completion_ids=[0] * 5)
        for step in range(4, 40)
    ]
    first = [batch({"answer": [0.0] * 8}, step=0, truncated=True, completion_ids=[0] * 16)]
    first += [
        batch({"answer": [1.0] * 4 + [0.0] * 4}, step=step, completion_ids=[0] * 9)
        for step in (1, 2, 3)
    ]
    codes = [
        cause.code
        for cause in diagnosis_of([*first, *solved], {"max_completion_length": 16}).causes
    ]
    assert "truncation" not in codes


def hurried(step: int, *, status: Status, tokens: int) -> Scorecard:
    """Make a batch that thinks less from step 4 on; who thinks has `tokens` tokens and the status `status`."""
    thinking = Verdict(status=status, score=0.0, reason="timeout")
    every = 4 if step < 4 else 32
    thinks = [place % every == 0 for place in range(32)]
    card = batch(
        {
            "careful": [
                thinking if late else float(i % 8 == 1) for i, late in enumerate(thinks)
            ]
        },
        step=step,
    )
    lengths = [tokens if late else 6 for late in thinks]
    samples = [
        replace(sample, completion_ids=[0] * size)
        for sample, size in zip(card.samples, lengths, strict=True)
    ]
    return replace(card, samples=tuple(samples))


@pytest.mark.parametrize(
    ("status", "tokens", "is_told"),
    [
        (Status.TIMEOUT, 40, True),
        (Status.TIMEOUT, 5, False),
        (Status.INCORRECT, 40, False),
    ],
)
def test_a_time_limit_that_has_taught_a_model_to_be_short_is_named_though_hardly_any_verdict_is_late_now(
    status: Status, tokens: int, is_told: bool
) -> None:
    settings = {"rewards": [{"name": "careful", "settings": {"timeout": 0.3}}]}
    said = diagnosis_of(
        [hurried(step, status=status, tokens=tokens) for step in range(40)], settings
    )
    told = "The time limit of `careful` (0.3 s) has taught the model to be short: 25 % of the first completions"
    assert said.sentence.startswith(told) is is_told
    assert not is_told or "Raise the timeout of `careful`" in said.causes[0].action


def cold(step: int) -> Scorecard:
    """Make a batch of equal siblings, of which `answer` can judge one group in four."""
    judged: list[object] = [1.0] * 8 + [Blame.DATA] * 24
    card = batch({"answer": judged, "form": [1.0] * 32}, step=step, weights={"form": 0.1})
    alike = [replace(sample, text=f"x {sample.group}") for sample in card.samples]
    return replace(card, samples=tuple(alike))


def test_siblings_that_repeat_each_other_are_counted_also_where_rows_have_no_gold() -> None:
    assert repeated_share(window_of([cold(step) for step in range(8)]).batches) == 1.0


def test_marks_that_stop_rising_far_below_the_best_send_to_prompts_and_golds() -> None:
    said = diagnosis_of(marks(lambda step: 22 + min(step, 12)), {}).sentence
    assert "and rises no more, though the best score is" in said
    assert "prompt and gold" in said


def test_marks_that_still_rise_or_have_tails_are_not_held_against_the_best_one() -> None:
    rising = diagnosis_of(marks(lambda step: 22 + step / 4), {}).sentence
    tails = diagnosis_of(
        marks(lambda step: 22 + min(step, 12) / 2, has_tails=True), {}
    ).sentence
    assert "has risen" in rising and "rises no more" not in rising
    assert "has risen" in tails and "rises no more" not in tails


def test_a_policy_that_hardly_moves_is_not_called_sound_and_names_how_few_parameters_are_trained() -> (
    None
):
    events: list[Event] = []
    for step, card in enumerate(marks(lambda _: 40), start=1):
        events += [
            card,
            (step, {"loss": 0.0, "kl": 1e-5, "grad_norm": 0.1, "learning_rate": 1e-4}),
        ]
    frozen = diagnosis_of(
        events, {"trained_parameters": 896, "parameters": 653_568}
    ).sentence
    assert "the policy has hardly moved" in frozen
    assert (
        "896 of 653,568 parameters are trained" in frozen
        and "which parameters are frozen" in frozen
    )
    assert "frozen" not in diagnosis_of(events, {}).sentence
