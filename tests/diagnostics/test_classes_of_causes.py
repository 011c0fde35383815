"""The headline names the cause by class: a row a fault, of a matrix of faults by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from windows import Planted, batch, diagnosis_of

from trl_grpo_ext import RewardMix, RewardTerm, Sample, Scorecard, Status, Verdict
from trl_grpo_ext.diagnostics.diagnosis import Diagnosis

# A planted run a case.
pytestmark = pytest.mark.slow

# Answers that a policy gives to eight questions.
ANSWERS = ("43", "57", "81", "26", "72", "35", "64", "98")


def marked(score: float) -> Verdict:
    return Verdict(status=Status.SCORED, score=score)


def wrong(answer: str, gold: str) -> Verdict:
    return Verdict(
        status=Status.INCORRECT, score=0.0, answer=answer, details={"gold": gold}
    )


def with_prompts(card: Scorecard, texts: Sequence[str] = ()) -> Scorecard:
    """Give each group a prompt of its own, and completions these texts."""
    samples = [
        replace(sample, prompt=f"Question {sample.group}") for sample in card.samples
    ]
    for place, text in enumerate(texts):
        samples[place] = replace(samples[place], text=text)
    return replace(card, samples=tuple(samples))


def run_of_pairs(pairs: Sequence[tuple[str, str]]) -> Diagnosis:
    """Diagnose a run in which siblings scatter around a wrong answer that stands for each batch."""
    cards = []
    for step in range(24):
        answer, gold = pairs[step % len(pairs)]
        verdicts = [
            wrong(answer if place < 4 else f"{step}{place}", gold) for place in range(8)
        ]
        cards.append(with_prompts(batch({"answer": verdicts * 4}, step=step)))
    return diagnosis_of(cards, {})


@pytest.mark.parametrize(
    ("golds", "told"),
    [
        (
            [f"{answer}.0" for answer in ANSWERS],
            "`answer` compares texts, not numbers or words",
        ),
        (
            [f"{answer}00" for answer in ANSWERS],
            "The golds are in another unit than the answers",
        ),
        ([f"-{answer}" for answer in ANSWERS], "The golds may have another sign"),
        ([f"{answer} apples" for answer in ANSWERS], "The golds hold more than the answer"),
        ([str(round(int(answer), -1)) for answer in ANSWERS], "The golds may be rounded"),
        (
            ["3", "4"],
            "The gold may be of another column: golds are few, such as `3` and `4`",
        ),
        (["3"], "The gold is always `3`, though prompts and answers differ"),
        (
            ["41", "91", "13", "19", "44", "87", "59", "77"],
            "100 % of the groups are all wrong",
        ),
    ],
)
def test_golds_in_one_relation_to_wrong_answers_are_told(
    golds: list[str], told: str
) -> None:
    pairs = [(answer, golds[place % len(golds)]) for place, answer in enumerate(ANSWERS)]
    assert run_of_pairs(pairs).sentence.startswith(told)


def test_an_answer_in_another_case_than_its_gold_is_of_a_verifier_of_texts() -> None:
    names = ["Paris", "Rome", "Oslo", "Bern"]
    assert run_of_pairs([(name, name.upper()) for name in names]).sentence.startswith(
        "`answer` compares texts"
    )


def test_siblings_that_agree_cast_doubt_on_golds_and_prompts_and_not_on_the_model() -> None:
    def told(answers: Sequence[str]) -> str:
        cards = []
        for step in range(24):
            verdicts = [
                wrong(f"{10 + step}{group}{answer}", f"{90 - step}{group}1")
                for group in range(4)
                for answer in answers
            ]
            cards.append(batch({"answer": verdicts}, step=step))
        return diagnosis_of(cards, {}).sentence

    # A half gives one answer, which is no majority.
    assert (
        "the gold may be wrong, or of other rows, or the prompts may lack a part"
        in told("11112345")
    )
    assert "the task is beyond the model" in told("12345678")


@pytest.mark.parametrize(
    ("text", "gold", "is_told"),
    [
        (r"<think>17+5=22</think>\boxed{22}", "22", True),
        ("So it is 1,250 euros.", "1250", True),
        ("the answer is YES.", "yes", True),
        ("It is 22, and not 23.", "22", False),
        ("I know.", "no", False),
    ],
)
@pytest.mark.parametrize("refusal", [False, 0.0])
def test_a_verifier_that_turns_down_texts_that_end_on_their_gold_is_named(
    text: str, gold: str, is_told: bool, refusal: object
) -> None:
    cards = []
    for step in range(24):
        card = with_prompts(batch({"mine": [refusal] * 32}, step=step), [text] * 8)
        samples = [
            replace(sample, row={**sample.row, "solution": gold}) for sample in card.samples
        ]
        cards.append(replace(card, samples=tuple(samples)))
    sentence = diagnosis_of(cards, {}).sentence
    assert (
        sentence.startswith("The verifier, not the model: `mine` turns down 100 %")
        is is_told
    )


@pytest.mark.parametrize(("others", "is_told"), [(True, True), (False, False)])
def test_a_second_term_excuses_a_refusal_only_if_it_tells_right_endings_from_others(
    others: bool, is_told: bool
) -> None:
    cards = []
    for step in range(24):
        outcomes = {"mine": [False] * 32, "second": [True, others] * 16}
        card = with_prompts(batch(outcomes, step=step), ["so 22", "so 25"] * 16)
        samples = [
            replace(sample, row={**sample.row, "solution": "22"}) for sample in card.samples
        ]
        cards.append(replace(card, samples=tuple(samples)))
    said = [cause.sentence for cause in diagnosis_of(cards, {}).causes]
    assert any("`mine` turns down" in sentence for sentence in said) is is_told


def test_a_distance_of_0_for_texts_that_end_on_their_gold_is_no_refusal() -> None:
    distances = [
        Verdict(status=Status.SCORED, score=0.0),
        Verdict(status=Status.SCORED, score=-3.0),
    ]
    cards = []
    for step in range(24):
        card = with_prompts(
            batch({"distance": distances * 16}, step=step), ["so 22", "so 25"] * 16
        )
        samples = [
            replace(sample, row={**sample.row, "solution": "22"}) for sample in card.samples
        ]
        cards.append(replace(card, samples=tuple(samples)))
    assert "turns down" not in diagnosis_of(cards, {}).sentence


def flat(step: int) -> Scorecard:
    return batch({"answer": [0.0, 0.0, 1.0, 0.0] * 8}, step=step)


def rising(step: int) -> Scorecard:
    return batch({"answer": [float(place < step) for place in range(32)]}, step=step)


FAR = {
    "weight_decay": 1000.0,
    "adam_beta1": 0.9999,
    "adam_beta2": 0.1,
    "adam_epsilon": 1.0,
    "max_grad_norm": 1e-9,
    "epsilon": 1e-6,
    "num_iterations": 32,
    "top_entropy_quantile": 0.001,
    "entropy_coef": 10.0,
    "dropout": {"attention_dropout": 0.5},
}


@pytest.mark.parametrize("name", FAR)
def test_a_setting_far_from_what_trains_is_named_where_the_score_does_not_rise(
    name: str,
) -> None:
    found = diagnosis_of([flat(step) for step in range(24)], {name: FAR[name]}).causes[0]
    named = "attention_dropout" if name == "dropout" else name
    assert found.code == "odd_settings"
    assert f"{named} is " in found.sentence
    assert found.action.startswith(f"Set {named} to ")


def test_where_the_score_rises_no_setting_is_named() -> None:
    assert diagnosis_of([rising(step) for step in range(24)], FAR).causes == ()


@pytest.mark.parametrize(
    "settings",
    [
        # TRL's defaults, and values of papers and of adapters.
        {
            "weight_decay": 0.1,
            "adam_beta1": 0.9,
            "adam_beta2": 0.99,
            "adam_epsilon": 1e-8,
            "max_grad_norm": 0.1,
        },
        {
            "epsilon": 3e-4,
            "num_iterations": 4,
            "top_entropy_quantile": 0.2,
            "entropy_coef": 0.001,
        },
        {"max_grad_norm": 0.0, "dropout": {"resid_pdrop": 0.1}},
    ],
)
def test_usual_settings_are_no_cause(settings: Mapping[str, Any]) -> None:
    causes = diagnosis_of([flat(step) for step in range(24)], settings).causes
    assert "odd_settings" not in [cause.code for cause in causes]


@pytest.mark.parametrize(
    ("answer", "verdicts", "is_told"),
    [
        ("4400", [wrong("4400", "4361")], True),
        ("4361", [wrong("4361", "4361")], False),
        # Marks without a range: the best one is right, unless there are many.
        ("4400", [marked(0.0)], True),
        ("4400", [marked(1.0)], False),
        ("4400", [marked(1.0), marked(0.0)], False),
        ("4400", [marked(0.1), marked(0.2), marked(0.3), marked(0.4)], False),
    ],
)
def test_a_tool_whose_results_are_given_as_answers_and_are_wrong_is_named(
    answer: str, verdicts: list[Verdict], is_told: bool
) -> None:
    messages = [{"role": "tool", "name": "multiply", "content": "4400"}]
    column = verdicts * (32 // len(verdicts))
    cards = []
    for step in range(24):
        card = batch({"answer": column}, step=step, messages=messages)
        samples = [replace(sample, text=rf"\boxed{{{answer}}}") for sample in card.samples]
        cards.append(replace(card, samples=tuple(samples)))
    sentence = diagnosis_of(cards, {}).sentence
    assert sentence.startswith("The tool `multiply` may return what is wrong") is is_told


def test_a_gate_that_no_completion_opens_is_named_before_the_groups_that_it_leaves_all_wrong() -> (
    None
):
    answered = [Verdict(status=Status.CORRECT, score=1.0, answer="4"), wrong("5", "4")] * 16
    mix = RewardMix(
        [
            RewardTerm(name="tag", verifier=Planted("tag"), weight=0.1),
            RewardTerm(name="answer", verifier=Planted("answer"), gate="tag"),
        ]
    )
    cards = []
    for step in range(24):
        samples = []
        for place, verdict in enumerate(answered):
            row = {"tag": False, "answer": verdict}
            samples.append(
                Sample(text=f"x {place}", row=row, group=step * 100 + place // 8, step=step)
            )
        cards.append(mix.score(samples))
    assert diagnosis_of(cards, {}).sentence.startswith("The gate of `answer`")


def test_a_term_that_reads_answers_and_has_no_weight_is_named_where_all_is_paid() -> None:
    answered = [Verdict(status=Status.CORRECT, score=1.0, answer="4"), wrong("5", "4")] * 16
    cards = []
    for step in range(24):
        outcomes = {"answer": answered, "box": [True] * 32}
        cards.append(batch(outcomes, step=step, weights={"answer": 0.0, "box": 1.0}))
    found = diagnosis_of(cards, {}).causes[0]
    assert (
        "`box` reads no answers, and `answer`, which does, has no weight" in found.sentence
    )


def test_an_optimizer_of_another_model_is_named_where_no_weight_has_moved() -> None:
    events: list[Any] = []
    for step in range(24):
        entry = {
            "loss": 0.0,
            "grad_norm": 0.5,
            "learning_rate": 1e-4,
            "verified/weights/moved": 0.0,
        }
        events += [flat(step), (step + 1, entry)]
    found = diagnosis_of(events, {"learning_rate": 1e-4}).causes[0]
    assert "the weights have moved by 0 % in all" in found.sentence
    assert "whether the optimizer holds the parameters that are used" in found.action


def test_a_batch_that_serves_many_updates_is_told_where_few_batches_are_known() -> None:
    settings = {
        "steps_per_generation": 32,
        "gradient_accumulation_steps": 2,
        "num_iterations": 1,
    }
    assert (
        "16 updates are made with one batch of completions"
        in diagnosis_of([flat(0)], settings).sentence
    )
    assert (
        "updates"
        not in diagnosis_of(
            [flat(0)], {**settings, "gradient_accumulation_steps": 32}
        ).sentence
    )


def test_a_limit_of_generation_kwargs_is_told_in_place_of_the_limit_that_it_replaces() -> (
    None
):
    cards = [batch({"answer": [0.0] * 32}, step=step, truncated=True) for step in range(24)]
    settings = {"max_completion_length": 512, "generation_kwargs": {"max_new_tokens": 8}}
    found = diagnosis_of(cards, settings).causes[0]
    assert "cut at 8 tokens" in found.sentence


CALL = '<tool_call>{"name": "multiply", "arguments": {"a": 6}}</tool_call>'


@pytest.mark.parametrize(
    ("text", "tokens", "tools", "told"),
    [
        ("", 8, [], "hold no text, only special tokens"),
        (CALL, 8, [], 'call a tool, such as `<tool_call>{"name": "multip'),
        ('{"name": "add", "arguments": {}}', 8, [], 'call a tool, such as `{"name": "add"'),
        ("", 1, [], ""),
        ("", 8, ["multiply"], ""),
        ("", 8, None, ""),
        ('{"name": "Ann"}', 8, [], ""),
    ],
)
def test_calls_of_tools_are_named_in_a_run_that_offers_none(
    text: str, tokens: int, tools: list[str] | None, told: str
) -> None:
    cards = []
    for step in range(24):
        unread = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_answer")
        verdicts = [
            unread if place % 3 == 0 else wrong(f"{step}{place}", "42")
            for place in range(32)
        ]
        card = batch({"answer": verdicts}, step=step, completion_ids=[5] * tokens)
        samples = [
            replace(one, text=text) if place % 3 == 0 else one
            for place, one in enumerate(card.samples)
        ]
        cards.append(replace(card, samples=tuple(samples)))
    found = diagnosis_of(cards, {"tools": tools}).causes[0]
    assert (told or "beyond the model") in found.sentence
    assert ("Pass the tools that the model calls" in found.action) is bool(told)


def test_a_call_that_is_the_right_answer_lacks_no_tool() -> None:
    cards = []
    for step in range(24):
        card = batch({"answer": [1.0, 0.0] * 16}, step=step)
        samples = [
            replace(one, text=CALL) if place % 2 == 0 else one
            for place, one in enumerate(card.samples)
        ]
        cards.append(replace(card, samples=tuple(samples)))
    assert "tool" not in diagnosis_of(cards, {"tools": []}).sentence


@pytest.mark.parametrize(
    ("pool", "told", "does"),
    [
        (6, "carry over from 6 prompts, each answered 128 times.", "Take more data"),
        (1, "carry over from one prompt, answered 768 times.", "Take more data"),
        (1000, "carry over.", "Read the training completions"),
    ],
)
def test_few_prompts_that_are_learned_by_heart_are_named_with_how_often_each_was_answered(
    pool: int, told: str, does: str
) -> None:
    events = []
    for step in range(24):
        right = min(28, 2 * step)
        card = batch(
            {"answer": [float(place * 7 % 32 < right) for place in range(32)]}, step=step
        )
        samples = [
            replace(one, prompt=f"Question {(step * 4 + place // 8) % pool}")
            for place, one in enumerate(card.samples)
        ]
        events.append(replace(card, samples=tuple(samples)))
        if step in (1, 8, 16):
            held_out = batch({"answer": [1.0] + [0.0] * 63}, step=step + 1)
            events.append(replace(held_out, mode="eval"))
    [cause, *_] = diagnosis_of(events, {}).causes
    assert cause.sentence.endswith(told)
    assert cause.action.startswith(does)
