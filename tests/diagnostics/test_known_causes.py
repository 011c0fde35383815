"""Causes that settings and logged figures of the weights know: the headline names them, with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from windows import batch, codes, diagnosis_of, window_of

from trl_grpo_ext import Scorecard, Status, Verdict
from trl_grpo_ext.diagnostics.diagnosis import Diagnosis

# A planted run a case.
pytestmark = pytest.mark.slow

CHANGED = "verified/weights/changed"
MOVED = "verified/weights/moved"
FAILS = "tools/failure_frequency"


def answered(is_right: bool, answer: str = "4", gold: str = "4") -> Verdict:
    status = Status.CORRECT if is_right else Status.INCORRECT
    return Verdict(
        status=status, score=float(is_right), answer=answer, details={"gold": gold}
    )


def scored(right: int, step: int, **options: Any) -> Scorecard:
    """Make a batch with so many right completions of 64, spread over its groups of eight."""
    verdicts = []
    for place in range(64):
        is_right = 27 * place % 64 < right
        verdicts.append(answered(is_right, "4" if is_right else str(place)))
    return batch({"answer": verdicts}, step=step, **options)


def run(
    first: int,
    last: int,
    *,
    settings: Mapping[str, Any] | None = None,
    logs: Mapping[str, float] | None = None,
    steps: int = 24,
    **options: Any,
) -> Diagnosis:
    """Diagnose a run whose batches go from `first` to `last` right completions of 64."""
    events: list[Any] = []
    for step in range(steps):
        right = first + (last - first) * step // (steps - 1)
        events.append(scored(right, step, **options))
        events.append(
            (
                step + 1,
                {"loss": 0.1, "learning_rate": 1e-4, "grad_norm": 0.5, **(logs or {})},
            )
        )
    return diagnosis_of(events, {"max_steps": steps, **(settings or {})})


@pytest.mark.parametrize(
    ("dtype", "changed", "is_told"), [("bfloat16", 0.1, True), ("bfloat16", 0.9, False)]
)
def test_updates_that_sixteen_bits_round_away_are_told_beside_a_rise_and_first_without(
    dtype: str, changed: float, is_told: bool
) -> None:
    settings, logs = {"trained_dtype": dtype}, {CHANGED: changed}
    rising, flat = (
        run(20, 40, settings=settings, logs=logs),
        run(20, 20, settings=settings, logs=logs),
    )
    assert ("Beside it: The weights are bfloat16" in rising.sentence) is is_told
    assert flat.sentence.startswith("The weights are bfloat16") is is_told


def test_a_policy_that_is_solved_or_single_precision_is_not_told_of_rounding() -> None:
    assert (
        "rounds"
        not in run(
            63, 64, settings={"trained_dtype": "bfloat16"}, logs={CHANGED: 0.1}
        ).sentence
    )
    assert (
        "rounds"
        not in run(
            20, 20, settings={"trained_dtype": "float32"}, logs={CHANGED: 0.1}
        ).sentence
    )


def test_weights_that_have_hardly_moved_are_told_where_nothing_is_learned() -> None:
    flat = run(
        20, 20, settings={"learning_rate": 1e-6}, logs={MOVED: 1e-5, "learning_rate": 1e-6}
    ).causes[0]
    assert (
        "with a learning rate of 1e-06 the weights have moved by 0.001 % in all"
        in flat.sentence
    )
    assert flat.action == "Raise the learning rate."
    other = run(
        20, 20, settings={"learning_rate": 1e-3}, logs={MOVED: 1e-5, "learning_rate": 1e-3}
    ).causes[0]
    assert other.action.startswith(
        "Take TRL's defaults for what shrinks the updates (optim,"
    )
    assert not run(20, 40, logs={MOVED: 1e-5}).causes
    assert not run(20, 20, logs={MOVED: 1e-2}).causes


@pytest.mark.parametrize(
    ("name", "value"), [("optim", "sgd"), ("max_grad_norm", 1e-9), ("adam_epsilon", 0.01)]
)
def test_a_setting_that_shrinks_the_updates_is_named_where_weights_hardly_move(
    name: str, value: object
) -> None:
    found = run(20, 20, settings={name: value}, logs={MOVED: 1e-6}).causes[0]
    assert f"{name} of {value}" in found.sentence


def test_a_warm_up_longer_than_the_run_is_known_from_the_settings_and_told_beside_a_rise() -> (
    None
):
    settings = {"warmup_steps": 3000}
    assert (
        "the warm-up takes 3000 steps and the run has 24"
        in run(20, 20, settings=settings).sentence
    )
    assert "ends at 0.8 % of what is set" in run(20, 40, settings=settings).sentence
    assert not run(20, 40, settings={"warmup_steps": 3}).causes
    assert not run(20, 40, settings={"warmup_steps": 0.1}).causes


def test_rows_that_are_never_right_are_told_beside_those_that_are_learned() -> None:
    def half(step: int) -> Scorecard:
        verdicts = [
            answered(place < 32 and place % 8 < 5 + step // 12, str(place))
            for place in range(64)
        ]
        return batch({"answer": verdicts}, step=step)

    told = diagnosis_of([half(step) for step in range(30)], {}).sentence
    assert (
        "A part of the data is never right: 50 % of the groups have no right answer" in told
    )
    unshuffled = diagnosis_of(
        [half(step) for step in range(30)], {"shuffle_dataset": False}
    ).sentence
    assert "never right" not in unshuffled


@pytest.mark.slow
def test_prompts_of_like_difficulty_are_not_told_as_never_right() -> None:
    assert "never right" not in run(6, 8, steps=100).sentence


@pytest.mark.parametrize(
    ("name", "value"), [("temperature", 3.0), ("repetition_penalty", 1.5)]
)
def test_sampling_that_the_policy_would_not_write_is_named_before_what_it_does(
    name: str, value: float
) -> None:
    found = run(1, 1, settings={name: value})
    assert found.sentence.startswith(f"The sampling, not the model: a {name} of {value:g}")
    assert found.causes[0].action == f"Set {name} to 1, TRL's default."
    assert "dead_groups" not in [cause.code for cause in found.causes]
    assert not run(20, 40, settings={name: 1.0}).causes


def test_an_evaluation_on_training_prompts_proves_nothing() -> None:
    def told(share: float | None) -> str:
        training = [scored(20 + step, step) for step in range(30)]
        events = [
            replace(scored(20, 0), mode="eval"),
            *training,
            replace(scored(50, 30), mode="eval"),
        ]
        return diagnosis_of(events, {"evaluation_in_training": share}).sentence

    assert (
        "the evaluation is not held out, 100 % of its prompts are in the training data"
        in told(1.0)
    )
    assert told(0.0).startswith("All is well") and told(None).startswith("All is well")


def test_a_rise_over_rows_that_are_not_shuffled_may_be_of_easier_rows() -> None:
    assert (
        "later ones may be easier"
        in run(20, 40, settings={"shuffle_dataset": False}).sentence
    )
    assert "easier" not in run(20, 40, settings={"shuffle_dataset": True}).sentence


def test_a_negative_weight_on_a_term_that_judges_answers_is_named_before_the_fall() -> None:
    found = run(30, 2, weights={"answer": -1.0})
    assert found.sentence.startswith(
        "Right answers are punished: `answer` judges answers, and its weight is -1."
    )
    assert found.causes[0].action == "Give `answer` the weight 1."
    assert "wrong_driver" not in codes(
        window_of([batch({"cost": [0.2, 0.7] * 32}, weights={"cost": -1.0})] * 8)
    )


@pytest.mark.parametrize("last", [0.0, 1.0])
def test_a_term_that_waits_for_its_weight_is_named(last: float) -> None:
    def card(step: int) -> Scorecard:
        outcomes = {
            "answer": [answered(place % 3 == 0) for place in range(64)],
            "brief": [0.2, 0.4] * 32,
        }
        return batch(
            outcomes, step=step, weights={"answer": last * (step > 26), "brief": 0.2}
        )

    rewards = [{"name": "answer", "schedule": {"start": 0}}, {"name": "brief"}]
    told = diagnosis_of(
        [card(step) for step in range(30)], {"rewards": rewards, "max_steps": 30}
    ).sentence
    expected = (
        "`answer` has had no weight until step 27"
        if last
        else "`answer` judges the answers and has had no weight"
    )
    assert expected in told
    assert "too strict" not in told


def test_one_prompt_for_all_rows_is_named_and_not_their_golds() -> None:
    cards = []
    for step in range(24):
        verdicts = [answered(False, "42", str(step + 100)) for _ in range(32)]
        cards.append(batch({"answer": verdicts}, step=step, prompt="What is the sum?"))
    found = diagnosis_of(cards, {}).causes
    assert (
        found[0].sentence
        == "Every row has the same prompt, and their golds differ: the question is not in the prompt."
    )
    assert [cause.code for cause in found] == ["bad_data"]


def wrong_run(answers: list[str], golds: list[str]) -> Diagnosis:
    """Diagnose a run in which each group agrees on a wrong answer; step by step the next answer and gold."""
    cards = []
    for step in range(24):
        verdict = answered(False, answers[step % len(answers)], golds[step % len(golds)])
        cards.append(batch({"answer": [verdict] * 32}, step=step))
    return diagnosis_of(cards, {})


@pytest.mark.slow
def test_groups_that_agree_on_a_wrong_answer_are_of_wrong_gold_only_where_nothing_else_explains_it() -> (
    None
):
    several = ["17", "23", "31", "44", "58"]
    assert (
        "The gold may be wrong"
        in wrong_run(several, ["23", "58", "61", "29", "19"]).sentence
    )
    far = wrong_run(several, ["2719", "4620", "3986", "5674", "3773"]).sentence
    assert "the task is beyond the model" in far and "gold may be" not in far
    of_another_column = wrong_run(
        ["170", "231", "318", "444", "580", "662"], ["3", "4", "5"]
    ).sentence
    assert (
        "The gold may be wrong" in of_another_column
        and "beyond the model" not in of_another_column
    )
    assert (
        "same answer to different questions, `7`"
        in wrong_run(["7"], ["2719", "46", "39", "5", "3773"]).sentence
    )
    assert (
        "the golds are numbers and the answers are not"
        in wrong_run(["A", "B", "C", "D"], ["1", "2", "3"]).sentence
    )
    assert (
        "100 times as much"
        in wrong_run(["1.1", "2.5", "3.7"], ["110", "250", "370"]).sentence
    )


def test_a_verifier_without_answers_that_passes_all_may_accept_anything() -> None:
    cards = [batch({"judge": [1.0] * 64}, step=step) for step in range(24)]
    found = diagnosis_of(cards, {}).causes[0]
    assert "either `judge` accepts anything, or there is little to learn" in found.sentence
    assert found.action.startswith(
        "First judge a few completions that you know to be wrong"
    )


def test_a_fall_after_a_resume_with_other_settings_names_them() -> None:
    settings = {"resumed": [{"step": 30, "changes": {"temperature": [1.0, 1.4]}}]}
    cards = [scored(40 if step < 30 else 4, step) for step in range(60)]
    told = diagnosis_of(cards, settings).causes[0]
    assert "from step 30 on: temperature 1.0 -> 1.4" in told.sentence
    assert "the earlier settings" in told.action


def test_a_penalty_that_has_lost_most_of_its_size_is_no_slow_rise() -> None:
    def card(step: int) -> Scorecard:
        size = 0.04 - 0.001 * step
        return batch(
            {
                "penalty": [
                    -1.0 if place == step else -size * (place % 3) for place in range(64)
                ]
            },
            step=step,
        )

    assert "slowly" not in diagnosis_of([card(step) for step in range(36)], {}).sentence


def test_an_evaluation_of_few_completions_that_tells_nothing_asks_for_more_rows() -> None:
    def small(right: int, step: int) -> Scorecard:
        return replace(
            batch({"answer": [float(place < right) for place in range(16)]}, step=step),
            mode="eval",
        )

    events = [small(8, 0), *(scored(20 + step, step) for step in range(30)), small(11, 30)]
    assert (
        "16 completions are too few to tell, so take more rows"
        in diagnosis_of(events, {}).sentence
    )


def test_the_commonest_error_of_a_tool_is_quoted() -> None:
    error = "ConnectionError: calculator:8080 refused the connection"
    failed = {"role": "tool", "name": "multiply", "content": "", "error": error}
    said = {
        "role": "tool",
        "name": "search",
        "content": "{'error': 'Tool search not found.'}",
    }

    def told(**of_samples: Any) -> Any:
        cards = [batch({"answer": [0] * 32}, step=step, **of_samples) for step in range(8)]
        return diagnosis_of(
            [*cards[:2], (2, {"loss": 0.0, FAILS: 1.0}), *cards[2:]], {}
        ).causes[0]

    assert f"fail, mostly of `multiply` with {error}." in told(messages=[failed]).sentence
    assert told(messages=[failed]).action.startswith("Mend the tool `multiply`")
    assert (
        "mostly of `search` with Tool search not found." in told(messages=[said]).sentence
    )
    assert told(messages=[said]).action.startswith(
        "The model calls `search`, and no tool has this name"
    )
    raised = said | {"content": "{'error': 'too long'}"}
    assert told(messages=[raised]).action.startswith("Read the errors of a few calls")


def test_a_call_of_a_tool_that_is_not_there_is_told_with_the_tools_that_are() -> None:
    said = {
        "role": "tool",
        "name": "multiply",
        "content": "{'error': 'Tool multiply not found.'}",
    }
    cards = [batch({"answer": [0] * 32}, step=step, messages=[said]) for step in range(8)]
    events = [*cards[:2], (2, {"loss": 0.0, FAILS: 1.0}), *cards[2:]]
    action = diagnosis_of(events, {"tools": ["times", "add"]}).causes[0].action
    assert action.startswith(
        "The model calls `multiply`, and the run offers `times` and `add`: give the right tool"
    )


@pytest.mark.parametrize(
    ("error", "share", "is_told"),
    [
        ("ConnectionError: refused", 0.4, True),
        ("ConnectionError: refused", 0.04, False),
        ("TimeoutError: busy", 0.3, True),
        ("ValueError: 7", 0.4, False),
    ],
)
def test_a_tool_that_does_not_reach_its_service_is_told_while_the_score_rises(
    error: str, share: float, is_told: bool
) -> None:
    failed = {"role": "tool", "name": "multiply", "content": "", "error": error}
    cards = []
    for step in range(16):
        right = [float(place < 2 + step) for place in range(32)]
        cards.append(batch({"answer": right}, step=step, messages=[failed]))
    found = diagnosis_of(
        [*cards[:2], (2, {"loss": 0.0, FAILS: share}), *cards[2:]], {}
    ).causes
    told = [
        cause.sentence
        for cause in found
        if "no result in time, mostly of `multiply`" in cause.sentence
    ]
    assert bool(told) is is_told


@pytest.mark.parametrize(("has_result", "is_told"), [(True, False), (False, True)])
def test_rollouts_that_end_since_a_result_does_not_fit_name_the_tool(
    has_result: bool, is_told: bool
) -> None:
    said = {"role": "tool", "name": "search", "content": "", "left_out": not has_result}

    def card(step: int) -> Scorecard:
        planted = batch(
            {"answer": [float(place % 3 == 1) for place in range(32)]},
            step=step,
            truncated=False,
        )
        cut = [
            replace(sample, truncated=True, messages=[said]) if place % 3 == 0 else sample
            for place, sample in enumerate(planted.samples)
        ]
        return replace(planted, samples=tuple(cut))

    events = [card(step) for step in range(8)]
    causes = diagnosis_of(events, {"max_completion_length": 48}).causes
    [cause] = [cause for cause in causes if cause.code == "truncation"]
    fits_not = "since the result of `search` does not fit in max_completion_length (48), with a mean score of 0.00"
    assert (fits_not in cause.sentence) is is_told
    assert cause.action.startswith("Make the results of `search` shorter") is is_told


@pytest.mark.parametrize(
    ("name", "value", "does"),
    [
        ("top_p", 0.05, "Set top_p to 1"),
        ("min_p", 0.9, "min_p out"),
        ("top_k", 1, "Set top_k to 0"),
        ("generation_kwargs", {"do_sample": False}, "do_sample out"),
    ],
)
def test_a_policy_that_never_explores_is_told_which_setting_to_change(
    name: str, value: Any, does: str
) -> None:
    cards = [batch({"answer": [0] * 32}, step=step) for step in range(24)]
    same = [
        replace(card, samples=tuple(replace(sample, text="x") for sample in card.samples))
        for card in cards
    ]
    assert does in diagnosis_of(same, {name: value}).causes[0].action
