"""The headline names the cause: faults of blind runs that an earlier version missed or told vaguely."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from windows import Planted, batch, diagnosis_of, window_of

from trl_grpo_ext import RewardMix, RewardTerm, Scorecard, Status, Verdict
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.finding import Finding
from trl_grpo_ext.mix.reward_plan import plan_rewards
from trl_grpo_ext.rewards import ExactTextVerifier
from trl_grpo_ext.runs.run_settings import run_settings
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Mode

# A planted run a case.
pytestmark = pytest.mark.slow


def live(step: int) -> Scorecard:
    return batch({"answer": [0.0, 1.0] * 16}, step=step)


def told(code: str, *args: object) -> Finding:
    found = CHECKS[code](window_of(*args))  # type: ignore[arg-type]
    assert isinstance(found, Finding)
    return found


def test_programs_that_all_fail_by_one_error_are_not_beyond_the_model() -> None:
    why = "IndentationError: unexpected indent (line 1)"
    verdicts = [
        Verdict(
            status=Status.INCORRECT,
            score=0.0,
            answer=str(place),
            reason="compile_error",
            details={"why": why},
        )
        for place in range(32)
    ]
    found = diagnosis_of(
        [batch({"tests": verdicts}, step=step) for step in range(24)], {}
    ).causes[0]
    assert found.code == "dead_groups"
    assert f"fail for one reason, `{why}`" in found.sentence
    assert "beyond" not in found.sentence
    assert "reference_fails" in found.action
    assert "entry point" in found.action


@pytest.mark.parametrize(
    ("alpha", "does"),
    [(0, "Set lora_alpha"), (32, "frozen layers"), (None, "frozen layers")],
)
def test_an_adapter_that_is_multiplied_by_0_is_named_where_the_gradient_is_0(
    alpha: int | None, does: str
) -> None:
    cards = [live(step) for step in range(20)]
    logs = [{"grad_norm": 0.0, "learning_rate": 1e-4}] * 20
    assert does in told("zero_updates", cards, logs, {"lora_alpha": alpha}).action


@pytest.mark.parametrize(
    ("dropout", "first", "does"),
    [
        ({"attention_dropout": 0.3}, 9.0, "Set attention_dropout to 0"),
        (
            {"attention_dropout": 0.3},
            0.01,
            "Start again with a tenth of the learning rate.",
        ),
        ({}, 9.0, "Start again with a tenth of the learning rate."),
    ],
)
def test_dropout_is_named_where_the_policy_is_far_from_the_first_log_on(
    dropout: dict[str, float], first: float, does: str
) -> None:
    cards = [live(step) for step in range(24)]
    logs = [{"kl": first}, *[{"kl": 9.0}] * 23]
    assert told("kl_blowup", cards, logs, {"dropout": dropout}).action.startswith(does)


def test_a_run_records_the_factor_of_its_adapter_and_the_dropouts_of_its_model() -> None:
    plan = plan_rewards(
        RewardMix([RewardTerm(name="answer", verifier=ExactTextVerifier())])
    )
    values = {
        "attention_dropout": 0.3,
        "resid_pdrop": 0.0,
        "classifier_dropout": None,
        "vocab_size": 9,
    }
    model = SimpleNamespace(
        config=SimpleNamespace(to_dict=lambda: values),
        peft_config={"default": SimpleNamespace(lora_alpha=0)},
    )
    found = run_settings(SimpleNamespace(), plan, 1, model)
    assert (found["lora_alpha"], found["dropout"]) == (0, {"attention_dropout": 0.3})
    bare = run_settings(SimpleNamespace(), plan, 1)
    assert (bare["lora_alpha"], bare["dropout"]) == (None, {})


def test_answers_that_are_the_number_of_the_gold_written_otherwise_are_of_a_verifier_of_texts() -> (
    None
):
    def told_of(gold: str) -> str:
        cards = []
        for step in range(24):
            verdict = Verdict(
                status=Status.INCORRECT,
                score=0.0,
                answer=f"{step}",
                details={"gold": f"{step}{gold}"},
            )
            cards.append(batch({"answer": [verdict] * 32}, step=step))
        return diagnosis_of(cards, {}).sentence

    assert told_of(".0").startswith("`answer` compares texts, not numbers")
    assert "compares texts" not in told_of("7")


def ending_on(
    answers: list[str], golds: list[str], scores: list[float], step: int
) -> Scorecard:
    """Make a batch without answers in its verdicts: a group a gold, all of whose completions end on one number."""
    verdicts = [
        Verdict(status=Status.SCORED, score=scores[place // 8])
        for place in range(8 * len(scores))
    ]
    card = batch({"distance": verdicts}, step=step)
    samples = []
    for place, sample in enumerate(card.samples):
        row = {**sample.row, "solution": golds[place // 8]}
        samples.append(replace(sample, text=f"so it is {answers[place // 8]}", row=row))
    return replace(card, samples=tuple(samples))


@pytest.mark.parametrize(
    ("golds", "scores", "is_told"),
    [
        (["0.44", "0.61", "0.07", "0.32"], [-44.0, -61.0, -7.0, -1.0], True),
        # The verifier converts the golds.
        (["0.44", "0.61", "0.07", "0.32"], [0.0, 0.0, 0.0, 0.0], False),
        (["44", "61", "7", "32"], [-44.0, -61.0, -7.0, -1.0], False),
        (["45", "31", "9", "51"], [-44.0, -61.0, -7.0, -1.0], False),
        (["A", "B", "C", "D"], [-44.0, -61.0, -7.0, -1.0], False),
    ],
)
def test_golds_in_another_unit_are_told_where_no_verdict_has_an_answer(
    golds: list[str], scores: list[float], is_told: bool
) -> None:
    cards = [ending_on(["44", "61", "7", "32"], golds, scores, step) for step in range(12)]
    told_sentences = [cause.sentence for cause in diagnosis_of(cards, {}).causes]
    found = [
        said
        for said in told_sentences
        if "answered `44`, and the gold is `0.44`: a 100th of it" in said
    ]
    assert bool(found) is is_told


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("+17+10", "The prompts are cut: 100 %"),
        ("17+10", ""),
        ("17+10+", "The prompts are cut: 100 % of them end inside a text, like `17+10+`"),
        ("print(", ""),
        (" ", "The prompts lack their question: 100 %"),
        ([{"role": "user", "content": ""}], "The prompts lack their question: 100 %"),
        ([{"role": "user", "content": [{"type": "image"}]}], ""),
        (None, ""),
    ],
)
def test_prompts_that_are_empty_or_begin_or_end_inside_a_text_are_told(
    prompt: Any, told: str
) -> None:
    cards = [
        batch({"answer": [0.0, 1.0] * 16}, step=step, prompt=prompt) for step in range(12)
    ]
    sentences = [
        cause.sentence
        for cause in diagnosis_of(cards, {}).causes
        if "The prompts" in cause.sentence
    ]
    assert bool(sentences) is bool(told)
    assert all(sentence.startswith(told) for sentence in sentences)


@pytest.mark.parametrize(
    ("results", "is_told"),
    [
        (["", " \n"], True),
        (["", "42"], False),
        (["None"], True),
        (["None", "7"], False),
        ([[{"type": "image"}]], False),
    ],
)
def test_a_tool_whose_results_are_all_empty_is_named(
    results: list[object], is_told: bool
) -> None:
    messages = [
        {"role": "tool", "name": "multiply", "content": content} for content in results
    ]
    cards = [
        batch({"answer": [0.0, 1.0] * 16}, step=step, messages=messages)
        for step in range(12)
    ]
    causes = diagnosis_of(cards, {}).causes
    assert (
        any("The tool `multiply` returns nothing" in cause.sentence for cause in causes)
        is is_told
    )


@pytest.mark.parametrize(
    ("results", "is_told"),
    [
        (["Error: service unavailable (503)"], True),
        (["ValueError: no such city", "17"], True),
        (["The error of the estimate is 3"], False),
        (["42", "41"], False),
    ],
)
def test_a_tool_whose_results_mostly_tell_an_error_is_named(
    results: list[str], is_told: bool
) -> None:
    messages = [
        {"role": "tool", "name": "multiply", "content": content} for content in results
    ]
    cards = [
        batch({"answer": [0.0, 0.0, 0.0, 1.0] * 8}, step=step, messages=messages)
        for step in range(12)
    ]
    causes = diagnosis_of(cards, {}).causes
    told = f"of the results of `multiply` tell an error, mostly `{results[0]}`"
    assert any(told in cause.sentence for cause in causes) is is_told


@pytest.mark.parametrize(
    ("matched", "severity"), [(8, "critical"), (40, "warning"), (56, None)]
)
def test_rows_that_no_term_is_for_are_told_by_the_when_that_leaves_them_out(
    matched: int, severity: str | None
) -> None:
    term = RewardTerm(name="answer", verifier=Planted("answer"), when={"task": "sums"})
    cards = []
    for step in range(16):
        samples = []
        for place in range(64):
            row = {"answer": place % 3 == 0, "task": "sums" if place < matched else "Sums"}
            samples.append(
                Sample(text=f"x {place}", row=row, group=100 * step + place // 8, step=step)
            )
        cards.append(RewardMix([term]).score(samples))
    settings = {"rewards": [{"name": "answer", "when": {"task": ["sums"]}}]}
    told = [
        cause for cause in diagnosis_of(cards, settings).causes if cause.code == "bad_data"
    ]
    assert [cause.severity.value for cause in told] == ([severity] if severity else [])
    for cause in told:
        assert (
            "wants `task` to be `'sums'`, and these rows mostly have `'Sums'`"
            in cause.sentence
        )


def judged_ends(
    ends: list[tuple[str, Verdict]], gold: str, step: int, mode: Mode = "train"
) -> Scorecard:
    """Make a batch of groups that have this gold and the same completions, each an end of a text and its verdict."""
    card = batch(
        {"answer": [verdict for _, verdict in ends] * 4}, step=step, size=len(ends)
    )
    samples = []
    for place, sample in enumerate(card.samples):
        text = f"so it is {ends[place % len(ends)][0]}"
        samples.append(replace(sample, text=text, row={**sample.row, "solution": gold}))
    return replace(card, samples=tuple(samples), mode=mode)


def scored(score: float) -> Verdict:
    return Verdict(status=Status.SCORED, score=score)


def wrong(answer: str) -> Verdict:
    return Verdict(status=Status.INCORRECT, score=0.0, answer=answer)


def right(answer: str) -> Verdict:
    return Verdict(status=Status.CORRECT, score=1.0, answer=answer)


def first_cause(ends: list[tuple[str, Verdict]], gold: str) -> Finding | None:
    causes = diagnosis_of([judged_ends(ends, gold, step) for step in range(12)], {}).causes
    return causes[0] if causes else None


def test_golds_that_hold_their_solution_are_the_cause_where_right_answers_are_turned_down() -> (
    None
):
    ends = [
        ("44", wrong("44")),
        ("44", wrong("44")),
        ("51", wrong("51")),
        ("9", wrong("9")),
    ] * 2
    found = first_cause(ends, "15 + 29 = 44\n#### 44")
    assert found is not None
    assert found.sentence.startswith(
        "The verifier, not the model: `answer` turns down 100 % of the"
    )
    assert "with the gold `15 + 29 = 44 #### 44`" in found.sentence
    assert "whether it compares with the whole gold, which holds more" in found.action


@pytest.mark.parametrize(
    ("scores", "is_told"),
    [
        # Distances to the gold.
        ([0.0, 7.0, 35.0, 50.0], True),
        # Another completion is as good.
        ([0.0, 0.0, 35.0, 50.0], False),
        # Costs.
        ([0.0, -7.0, -35.0, -50.0], False),
    ],
)
def test_a_reward_that_gives_right_answers_its_lowest_score_is_turned_around(
    scores: list[float], is_told: bool
) -> None:
    ends = [
        (end, scored(score))
        for end, score in zip(("44", "51", "9", "7"), scores, strict=True)
    ] * 2
    found = first_cause(ends, "44")
    is_named = found is not None and found.sentence.startswith(
        "The reward is turned around: of"
    )
    assert is_named is is_told


@pytest.mark.parametrize(
    ("answer", "gold", "is_told"),
    [
        ("54", "60", True),
        ("59", "60", False),
        ("0.6", "60", False),
        ("sixty", "60", False),
        ("54", "many", False),
    ],
)
def test_answers_that_are_paid_though_they_are_another_number_than_the_gold_are_told(
    answer: str, gold: str, is_told: bool
) -> None:
    ends = [(answer, right(answer)), ("3", wrong("3"))] * 4
    found = first_cause(ends, gold)
    is_named = (
        found is not None
        and "are another number than the gold, such as `54` for the gold `60`"
        in found.sentence
    )
    assert is_named is is_told


@pytest.mark.parametrize(
    ("paid", "unpaid", "gold", "is_told"),
    [
        # A tolerance, or a reward for the form alone.
        ("so 54", "3", "60", True),
        # The gold stands in the completion: the last number is no answer.
        ("60 m^2", "3", "60", False),
        # Most wrong answers are not paid, and few of the paid ones are wrong.
        ("60", "54", "60", False),
        # The form of an answer may differ from the gold's.
        ("so 1/2", "3", "0.5", False),
    ],
)
def test_a_function_that_pays_completions_without_their_gold_is_told(
    paid: str, unpaid: str, gold: str, is_told: bool
) -> None:
    found = first_cause(
        [(paid, scored(1.0)), (unpaid, scored(0.0)), (paid, scored(1.0))] * 3, gold
    )
    is_named = found is not None and found.sentence.startswith(
        "The reward is not to be trusted: of"
    )
    assert is_named is is_told


@pytest.mark.parametrize(("evaluated", "is_told"), [("51", True), ("scattered", False)])
def test_golds_of_an_evaluation_are_doubted_where_its_answers_agree_far_below_training(
    evaluated: str, is_told: bool
) -> None:
    trained = [
        ("44", right("44")),
        ("44", right("44")),
        ("44", right("44")),
        ("9", wrong("9")),
    ] * 2
    ends = [(evaluated, wrong(evaluated if is_told else str(place))) for place in range(8)]
    cards = []
    for step in range(24):
        cards.append(judged_ends(trained, "44", step))
        if step in (8, 16, 23):
            cards += [judged_ends(ends, "44", step, mode="eval") for _ in range(3)]
    told = [
        cause.sentence
        for cause in diagnosis_of(cards, {}).causes
        if "golds of the evaluation" in cause.sentence
    ]
    assert bool(told) is is_told


def test_few_right_answers_by_chance_do_not_hide_golds_of_other_rows() -> None:
    cards = []
    for step in range(48):
        column = []
        for group in range(4):
            agreed, *guesses = (
                100 + (17 * step + 23 * group + 31 * place) % 89 for place in range(6)
            )
            column += [wrong(str(agreed))] * 4 + [wrong(str(guess)) for guess in guesses]
        if step > 24:
            column[-1] = right("7")
        cards.append(batch({"answer": column}, step=step, size=9))
    sentence = diagnosis_of(cards, {}).sentence
    assert "of the groups are all wrong and teach nothing" in sentence
    assert "the gold may be wrong, or of other rows" in sentence


@pytest.mark.parametrize(
    ("begins", "is_told"),
    [(200.0, True), (4.0, False)],
)
def test_a_schedule_that_begins_after_the_run_is_told_beside_a_term_that_is_solved(
    begins: float, is_told: bool
) -> None:
    cards = []
    for step in range(24):
        answers = [right("4") if place % 3 else wrong("5") for place in range(32)]
        card = batch(
            {"answer": answers, "format": [right("x")] * 32},
            step=step,
            weights={"answer": 0.0, "format": 0.5},
        )
        cards.append(card)
    schedule = {"points": [[begins, 0.0], [400.0, 1.0]], "curve": "linear", "unit": "step"}
    rewards = [{"name": "answer", "weight": 0.0, "schedule": schedule}, {"name": "format"}]
    causes = diagnosis_of(cards, {"rewards": rewards, "max_steps": 24}).causes
    told = [
        cause for cause in causes if "its schedule begins at step 200" in cause.sentence
    ]
    assert bool(told) is is_told
