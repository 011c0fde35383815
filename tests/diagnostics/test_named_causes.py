"""The headline names the cause, not its nearest symptom: runs that thirty practitioners' faults were planted in."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoTokenizer
from windows import batch, codes, diagnosis_of, window_of

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Scorecard, Status, Verdict
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.diagnosis import Diagnosis
from trl_grpo_ext.diagnostics.finding import Finding
from trl_grpo_ext.mix.reward_plan import plan_rewards
from trl_grpo_ext.rewards import ExactTextVerifier
from trl_grpo_ext.runs.run_settings import run_settings
from trl_grpo_ext.sample import Sample

# A planted run a case.
pytestmark = pytest.mark.slow

RIGHT = Verdict(status=Status.CORRECT, score=1.0, answer="4")
NO_TEST = Verdict(status=Status.SKIPPED, score=None, blame=Blame.DATA, reason="tests_empty")
NONE_RETURNED = Verdict(
    status=Status.SKIPPED, score=None, blame=Blame.DATA, reason="returned_none"
)


def wrong(answer: str, gold: str = "4") -> Verdict:
    return Verdict(
        status=Status.INCORRECT, score=0.0, answer=answer, details={"gold": gold}
    )


def scored(right: int, step: int, mode: str = "train", size: int = 64) -> Scorecard:
    """Make a batch with so many right completions, spread over its groups of eight."""
    scores = [float(27 * place % size < right) for place in range(size)]
    return replace(batch({"answer": scores}, step=step), mode=mode)


def rising(last: int) -> list[Scorecard]:
    return [scored(min(last, 30 + 3 * step), step) for step in range(24)]


def evaluated(before: int, after: int, training: list[Scorecard]) -> Diagnosis:
    first, last = scored(before, 0, "eval", 200), scored(after, len(training), "eval", 200)
    return diagnosis_of([first, *training, last], {})


def test_a_solved_training_whose_evaluation_stays_far_below_is_not_called_well_nor_too_easy() -> (
    None
):
    behind, close = evaluated(80, 110, rising(64)), evaluated(80, 190, rising(64))
    assert "far below training, which may learn its prompts by heart" in behind.sentence
    assert "for what carries over, take more prompts" in behind.sentence
    assert "harder data" not in behind.sentence
    assert close.sentence.startswith("All is well") and "harder data" in close.sentence


def test_an_evaluation_that_began_far_below_the_first_batch_has_other_rows() -> None:
    assert "compare their golds and prompts by hand" in evaluated(4, 5, rising(60)).sentence
    assert "compare their golds" not in evaluated(90, 91, rising(60)).sentence


def test_a_verifier_that_returns_none_is_to_blame_itself_and_not_the_data() -> None:
    cards = [
        batch({"answer": [RIGHT] * 3 + [NONE_RETURNED] * 5}, step=step) for step in range(8)
    ]
    found = diagnosis_of(cards, {}).causes[0]
    assert found.sentence.startswith(
        "The verifier, not the model: `answer` returns None for 62 %"
    )
    assert found.action.startswith("Return False or 0 for an answer that is wrong")


@pytest.mark.parametrize(
    ("gold", "told"),
    [("TODO", "mostly with the gold `TODO`"), ("", "mostly without a gold")],
)
def test_rows_that_a_verifier_always_returns_none_for_are_to_blame_with_their_gold(
    gold: str, told: str
) -> None:
    cards = []
    for step in range(8):
        card = batch({"answer": [RIGHT, wrong("3")] * 16 + [NONE_RETURNED] * 32}, step=step)
        samples = [
            replace(one, row={"solution": gold if place > 31 else "4"})
            for place, one in enumerate(card.samples)
        ]
        cards.append(replace(card, samples=tuple(samples)))
    found = diagnosis_of(cards, {}).causes[0]
    assert (
        "returns None for 50 % of the completions, always for all of a row"
        in found.sentence
    )
    assert told in found.sentence
    assert found.action.startswith("See which golds these rows have")


def test_a_verifier_that_returns_none_for_all_rows_is_to_blame_and_not_their_golds() -> (
    None
):
    found = diagnosis_of(
        [batch({"answer": [NONE_RETURNED] * 64}, step=step) for step in range(8)], {}
    ).causes[0]
    assert found.sentence.startswith("The verifier, not the model")


@pytest.mark.parametrize(("cut", "is_told"), [(64, True), (63, True), (48, False)])
def test_completions_that_hardly_ever_end_from_the_first_batch_on_point_to_the_end_token(
    cut: int, is_told: bool
) -> None:
    cards = []
    for card in rising(20):
        samples = [
            replace(one, truncated=place < cut) for place, one in enumerate(card.samples)
        ]
        cards.append(replace(card, samples=tuple(samples)))
    assert (
        "end token" in diagnosis_of(cards, {"max_completion_length": 48}).sentence
    ) is is_told


def test_where_completions_come_to_have_no_end_the_policy_broke_and_not_the_verifier() -> (
    None
):
    def run(truncated: bool) -> Finding:
        cards = [
            batch({"answer": [1, 0] * 16}, step=step, truncated=False) for step in range(10)
        ]
        cards += [
            batch({"answer": [0] * 32}, step=step, truncated=truncated)
            for step in range(10, 24)
        ]
        found = CHECKS["kl_blowup"](window_of(cards, [{"kl": 3.0}] * 24))
        assert isinstance(found, Finding)
        return found

    assert "verifier" in run(truncated=False).sentence
    assert "verifier" not in run(truncated=True).sentence
    assert run(truncated=True).action == "Start again with a tenth of the learning rate."


def test_a_cold_policy_is_named_before_the_kl_divergence_that_its_temperature_magnifies() -> (
    None
):
    cards = [batch({"answer": [0] * 32}, step=step) for step in range(24)]
    same = [
        replace(one, samples=tuple(replace(sample, text="x") for sample in one.samples))
        for one in cards
    ]
    window = window_of(same, [{"kl": 4.8}] * 24, {"temperature": 0.01})
    assert "kl_blowup" not in codes(window)
    assert "entropy_collapse" in codes(window)


def test_wrong_answers_that_scatter_without_a_right_one_are_a_task_beyond_the_model() -> (
    None
):
    scattered = [wrong(str(place), "9999") for place in range(32)]
    found = diagnosis_of(
        [batch({"answer": scattered}, step=step) for step in range(24)], {}
    ).causes[0]
    assert "the task is beyond the model" in found.sentence
    assert "easier data, or train on worked examples" in found.action
    some = [batch({"answer": [RIGHT, *scattered[1:]]}, step=step) for step in range(120)]
    assert "beyond" not in diagnosis_of(some, {}).sentence


def test_a_first_term_that_a_schedule_took_out_is_named_where_the_others_read_no_answers() -> (
    None
):
    def scheduled(step: int, *, reads: bool) -> Scorecard:
        other = (
            [RIGHT if place % 3 else wrong("5") for place in range(32)]
            if reads
            else [0.5, 0.6] * 16
        )
        outcomes = {"answer": [RIGHT, wrong("5")] * 16, "brief": other}
        return batch(
            outcomes, step=step, weights={"answer": float(step < 10), "brief": 0.2}
        )

    def told(*, reads: bool) -> str:
        return diagnosis_of(
            [scheduled(step, reads=reads) for step in range(40)], {}
        ).sentence

    assert (
        "`answer` judges the answers and has no weight since step 10: `brief` alone is learned."
        in told(reads=False)
    )
    assert "has no weight" not in told(reads=True)


def test_answers_that_agree_and_contain_the_gold_are_of_a_verifier_that_is_too_strict() -> (
    None
):
    def run(answer: str) -> Finding:
        cards = [batch({"answer": [wrong(answer)] * 32}, step=step) for step in range(24)]
        return diagnosis_of(cards, {}).causes[0]

    assert run(r"\boxed{4}").sentence.startswith("`answer` may be too strict")
    assert "answer_from" in run(r"\boxed{4}").action
    assert run("5").sentence.startswith("The gold may be wrong")


def test_verdicts_of_answers_tell_the_gold_so_that_a_check_can_compare_them() -> None:
    sample = Sample(text=r"\boxed{4}", row={"solution": "4"})
    verdict = ExactTextVerifier(answer_from="text").verify(sample)
    assert verdict.details == {"rule": "text", "gold": "4"}


def test_tools_that_fail_are_told_at_the_first_log_where_nothing_is_ever_right() -> None:
    def run(scores: list[int]) -> list[str]:
        return codes(
            window_of(
                [batch({"answer": scores}, step=step) for step in range(8)], [{FAILS: 1.0}]
            )
        )

    assert "grader_trouble" in run([0] * 32)
    assert "grader_trouble" not in run([1, 0] * 16)


FAILS = "tools/failure_frequency"


def test_a_repetition_penalty_is_told_since_it_samples_what_the_policy_would_not_write() -> (
    None
):
    assert (
        "a repetition_penalty of 1.5"
        in diagnosis_of(rising(50), {"repetition_penalty": 1.5}).sentence
    )
    assert (
        "repetition_penalty"
        not in diagnosis_of(rising(50), {"repetition_penalty": 1.0}).sentence
    )


def test_prompts_that_leave_the_chat_template_unused_are_told_where_nothing_is_right() -> (
    None
):
    def cause(*, is_unused: bool) -> Finding:
        cards = [
            batch({"answer": [wrong(str(place)) for place in range(32)]}, step=step)
            for step in range(24)
        ]
        return diagnosis_of(cards, {"unused_chat_template": is_unused}).causes[0]

    named = cause(is_unused=True)
    assert named.sentence.startswith(
        "Prompts are plain text, and the tokenizer has a chat template: 100 % of the groups"
    )
    assert named.action.startswith(
        "The prompts are plain text, though the tokenizer has a chat template"
    )
    unnamed = cause(is_unused=False)
    assert "template" not in unnamed.sentence + unnamed.action


@pytest.mark.parametrize(
    ("prompt", "template", "is_unused"),
    [
        ("1+1", "{{ messages }}", True),
        ("1+1", None, False),
        ([{"role": "user", "content": "1+1"}], "{{ x }}", False),
    ],
)
def test_a_run_records_whether_its_prompts_leave_the_chat_template_unused(
    prompt: object, template: str | None, is_unused: bool
) -> None:
    mix = RewardMix([RewardTerm(name="answer", verifier=ExactTextVerifier())])
    tokenizer = SimpleNamespace(chat_template=template)
    settings = run_settings(
        SimpleNamespace(),
        plan_rewards(mix),
        1,
        rows=[{"prompt": prompt}],
        tokenizer=tokenizer,
    )
    assert settings["unused_chat_template"] is is_unused


def test_a_run_that_never_ends_nor_rises_is_told_the_token_that_ends_a_turn() -> None:
    def told(last: float, token: str) -> Diagnosis:
        cards = []
        for step in range(24):
            marks = [mark_of(1 + place % 5 + last * step / 24) for place in range(32)]
            cards.append(batch({"answer": marks}, step=step, truncated=True))
        settings = {"max_completion_length": 48, "other_end_of_turn": token}
        return diagnosis_of(cards, settings)

    assert (
        "ends a turn with `<|end|>`, which is not the tokenizer's"
        in told(0, "<|end|>").sentence
    )
    assert (
        told(0, "<|end|>").causes[0].action == "Set the tokenizer's eos_token to `<|end|>`."
    )
    assert (
        told(0, "")
        .causes[0]
        .action.startswith("Read a completion. If it goes on after its answer")
    )
    assert "truncation" not in [cause.code for cause in told(20, "").causes]
    assert (
        "ends a turn with `<|end|>`, which is not the tokenizer's"
        in told(20, "<|end|>").sentence
    )


def test_a_run_records_a_chat_template_that_ends_turns_with_another_token_than_the_tokenizer() -> (
    None
):
    plan = plan_rewards(
        RewardMix([RewardTerm(name="answer", verifier=ExactTextVerifier())])
    )

    def recorded(end: str) -> str:
        tokenizer = AutoTokenizer.from_pretrained(resolve("bundled:tiny_reasoner"))
        tokenizer.chat_template = tokenizer.chat_template.replace("eos_token", "'<|end|>'")
        tokenizer.eos_token = end
        return str(
            run_settings(SimpleNamespace(), plan, 1, tokenizer=tokenizer)[
                "other_end_of_turn"
            ]
        )

    assert (recorded("<|end|>"), recorded("<|pad|>")) == ("", "<|end|>")


@pytest.mark.parametrize("has", [True, False])
def test_a_system_prompt_is_suspected_where_most_are_cut_and_the_others_were_never_right(
    has: bool,
) -> None:
    cards = []
    for step in range(24):
        card = batch({"answer": [wrong(str(place)) for place in range(64)]}, step=step)
        samples = [
            replace(one, truncated=place % 4 > 0) for place, one in enumerate(card.samples)
        ]
        cards.append(replace(card, samples=tuple(samples)))
    action = diagnosis_of(cards, {"has_system_prompt": has}).causes[0].action
    assert "more tokens do not help" in action
    assert ("Try it without the system prompt" in action) is has


@pytest.mark.parametrize(
    ("prompt", "has"),
    [
        ([{"role": "system", "content": "Add."}, {"role": "user", "content": "1+1"}], True),
        ([{"role": "user", "content": "1+1"}], False),
        ("1+1", False),
    ],
)
def test_a_run_records_whether_its_prompts_have_a_system_message(
    prompt: object, has: bool
) -> None:
    plan = plan_rewards(
        RewardMix([RewardTerm(name="answer", verifier=ExactTextVerifier())])
    )
    assert (
        run_settings(SimpleNamespace(), plan, 1, rows=[{"prompt": prompt}])[
            "has_system_prompt"
        ]
        is has
    )


@pytest.mark.parametrize(
    ("beta", "scaled", "is_told"),
    [(5.0, "group", True), (0.04, "group", False), (5.0, "none", False)],
)
def test_a_beta_far_above_the_usual_is_told_where_advantages_are_scaled(
    beta: float, scaled: str, is_told: bool
) -> None:
    sentence = diagnosis_of(rising(50), {"beta": beta, "scale_rewards": scaled}).sentence
    assert ("a beta of 5 holds the policy close to its reference" in sentence) is is_told


def test_the_term_that_decides_is_named_also_where_a_schedule_has_taken_its_weight() -> (
    None
):
    def told(weight: float) -> Finding:
        cards = []
        for step in range(8):
            weights = {"answer": 1.0, "short": 0.1, "fading": 0.5 if step < 5 else weight}
            outcomes = {
                "answer": [0.0] * 32,
                "short": [1.0] * 32,
                "fading": [0.5, 0.0] * 16,
            }
            card = batch(outcomes, step=step, weights=weights)
            cards.append(card.with_advantages([1.0, -1.0] * 16))
        found = CHECKS["wrong_driver"](window_of(cards))
        assert isinstance(found, Finding)
        return found

    assert (
        "`fading` alone decides" in told(0.5).sentence
        and "`short`" not in told(0.5).sentence
    )
    assert told(0.5).severity == "warning" and told(0.0).severity == "info"
    assert (
        "`fading` alone decides" in told(0.0).sentence
        and "until its weight was taken" in told(0.0).sentence
    )


def marks(step: int, share: float, best: float = 0.0) -> list[Verdict]:
    """Give so large a share of 64 completions the best mark, and the others -20 or something between."""
    found = []
    for place in range(64):
        is_best = 27 * place % 64 < share * 64
        score = (
            best if is_best else (-20.0 if place % 2 else -float((step + place) % 13 + 1))
        )
        found.append(Verdict(status=Status.SCORED, score=score))
    return found


def test_a_warning_stands_beside_a_clear_rise_and_a_critical_finding_before_it() -> None:
    def told(void: int) -> str:
        cards = []
        for card_ in rising(56):
            column = [
                verdict if place >= void else NO_TEST
                for place, verdict in enumerate(card_.verdicts["answer"])
            ]
            cards.append(batch({"answer": column}, step=card_.step or 0))
        return diagnosis_of(cards, {}).sentence

    few, many = told(3), told(40)
    assert (
        few.startswith("The score of `answer` has risen")
        and "Beside it: The data, not the model" in few
    )
    assert many.startswith("The data, not the model")


def test_a_highest_score_that_many_share_exactly_is_the_best_of_a_scale_without_a_range() -> (
    None
):
    solved = diagnosis_of(
        [batch({"answer": marks(step, 0.97)}, step=step) for step in range(30)], {}
    )
    assert "this data has little left to teach" in solved.sentence and not solved.causes
    spread = [
        [
            Verdict(status=Status.SCORED, score=-1 / (step * 64 + place + 1))
            for place in range(64)
        ]
        for step in range(30)
    ]
    assert not window_of(
        [batch({"answer": column}, step=step) for step, column in enumerate(spread)]
    ).scale.is_ceiled


def test_a_term_that_gives_each_group_one_mark_is_told_though_the_mean_is_at_the_ceiling() -> (
    None
):
    def mark(step: int) -> float:
        return 0.0 if step % 40 == 0 else 5.0

    cards = []
    for step in range(39):
        column = [
            Verdict(status=Status.SCORED, score=mark(step + place // 8))
            for place in range(64)
        ]
        cards.append(batch({"answer": column}, step=step))
    window = window_of(cards)
    assert window.is_solved and window.scale.is_ceiled
    assert "inert_term" in [cause.code for cause in diagnosis_of(cards, {}).causes]


def mark_of(score: float) -> Verdict:
    return Verdict(status=Status.SCORED, score=score)


@pytest.mark.parametrize(
    ("truncated", "advice"),
    [(False, "the task is too hard"), (True, "tokenizer or chat template")],
)
def test_different_completions_that_nearly_all_get_the_lowest_mark_are_too_hard_or_no_text(
    truncated: bool, advice: str
) -> None:
    cards = []
    for step in range(24):
        column = [mark_of(-8.0 if step == place == 0 else -20.0) for place in range(64)]
        cards.append(batch({"answer": column}, step=step, truncated=truncated))
    found = CHECKS["inert_term"](window_of(cards))
    assert isinstance(found, Finding) and advice in found.action


def test_different_completions_that_get_one_mark_a_prompt_point_to_a_cache() -> None:
    def advice(text: str | None) -> str:
        cards = []
        for step in range(24):
            column = [mark_of(float((step + place // 8) % 7)) for place in range(64)]
            one = batch({"answer": column}, step=step)
            if text is not None:
                one = replace(
                    one, samples=tuple(replace(sample, text=text) for sample in one.samples)
                )
            cards.append(one)
        found = CHECKS["inert_term"](window_of(cards))
        assert isinstance(found, Finding)
        return found.action

    assert "keep its marks by prompt (a cache)" in advice(None)
    assert "a comparison of completions that do not differ" in advice("the same")


@pytest.mark.parametrize(("size", "is_told"), [(1e-7, True), (1e-2, False)])
def test_scores_far_below_the_number_that_trl_adds_to_their_deviation_are_named(
    size: float, is_told: bool
) -> None:
    events: list[object] = []
    for step in range(30):
        events.append(batch({"answer": [mark_of(size), mark_of(0.0)] * 32}, step=step))
        events.append(
            (
                step + 1,
                {
                    "loss": 0.1,
                    "learning_rate": 1e-4,
                    "grad_norm": 0.5,
                    "reward_std": size / 2,
                },
            )
        )
    told = diagnosis_of(events, {"max_steps": 30})  # type: ignore[arg-type]
    assert ([cause.code for cause in told.causes] == ["zero_updates"]) is is_told
    assert ("rewards differ by 5e-08 only" in told.sentence) is is_told


@pytest.mark.parametrize(
    ("epsilon", "is_told"), [(1e-5, True), (3e-4, False), (0.2, False)]
)
def test_an_epsilon_below_any_usual_one_is_told_from_one_clipped_token_in_twenty_on(
    epsilon: float, is_told: bool
) -> None:
    cards = [scored(30, step) for step in range(6)]
    window = window_of(
        cards,
        [{"clip_ratio/region_mean": 0.15}] * 4,
        {"epsilon": epsilon, "num_iterations": 8},
    )
    found = CHECKS["kl_blowup"](window)
    assert (
        isinstance(found, Finding) and found.action == "Set epsilon to 0.2, TRL's default."
    ) is is_told


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize(("least", "is_told"), [(41, True), (5, False)])
def test_a_least_length_near_the_limit_is_told_by_the_settings_or_by_the_logs(
    least: int, is_told: bool, is_recorded: bool
) -> None:
    settings = {
        "max_completion_length": 48,
        "generation_kwargs": {"min_new_tokens": least} if is_recorded else None,
    }
    logs = [] if is_recorded else [{"completions/min_length": float(least)}] * 6
    found = CHECKS["odd_sampling"](
        window_of([scored(20, step) for step in range(20)], logs, settings)
    )
    assert (
        isinstance(found, Finding) and f"shorter than {least} tokens" in found.sentence
    ) is is_told


def test_a_fall_that_a_weight_below_zero_asks_for_is_told_by_the_weight() -> None:
    cards = []
    for step in range(40):
        column = [mark_of(float(max(0, 60 - 2 * step) + place % 5)) for place in range(64)]
        cards.append(batch({"answer": column}, step=step, weights={"answer": -1.0}))
    told = diagnosis_of(cards, {})
    assert told.sentence.startswith(
        "The weight of `answer` is -1, so its low scores are rewarded"
    )
    assert "give it the weight 1; for a cost it is as it should be" in told.causes[0].action


@pytest.mark.parametrize(
    ("generation", "told"),
    [
        (
            {"no_repeat_ngram_size": 2},
            "Take no_repeat_ngram_size out of generation_kwargs.",
        ),
        ({"typical_p": 0.2, "use_cache": True}, "Take typical_p out of generation_kwargs."),
        ({"no_repeat_ngram_size": 0, "num_beams": 1, "cache_implementation": "static"}, ""),
    ],
)
def test_a_setting_of_generation_that_bends_texts_is_told_where_the_score_does_not_rise(
    generation: dict[str, Any], told: str
) -> None:
    settings = {"generation_kwargs": generation}
    found = CHECKS["odd_sampling"](
        window_of([scored(4, step) for step in range(20)], [], settings)
    )
    assert (found.action if isinstance(found, Finding) else "") == told
    rising = window_of([scored(4 + 2 * step, step) for step in range(20)], [], settings)
    assert CHECKS["odd_sampling"](rising) is None


def test_a_run_records_the_sampling_that_its_generation_kwargs_put_in_force() -> None:
    plan = plan_rewards(
        RewardMix([RewardTerm(name="answer", verifier=ExactTextVerifier())])
    )
    args = SimpleNamespace(temperature=1.0, generation_kwargs={"temperature": 3.0})
    assert run_settings(args, plan, 1)["temperature"] == 3.0


def test_a_run_records_the_plain_values_of_its_generation_kwargs() -> None:
    plan = plan_rewards(
        RewardMix([RewardTerm(name="answer", verifier=ExactTextVerifier())])
    )
    args = SimpleNamespace(
        generation_kwargs={
            "min_new_tokens": 40,
            "do_sample": False,
            "logits_processor": object(),
        }
    )
    assert run_settings(args, plan, 1)["generation_kwargs"] == {
        "min_new_tokens": 40,
        "do_sample": False,
    }
    assert run_settings(SimpleNamespace(), plan, 1)["generation_kwargs"] == {}


@pytest.mark.parametrize(
    "functions, told", [(["style"], "style"), (["style", "length"], "style or length")]
)
def test_a_function_beside_the_terms_without_a_number_is_named(
    functions: list[str], told: str
) -> None:
    cards = []
    for step in range(12):
        card = batch({"answer": [1.0, 0.0] * 16}, step=step)
        cards.append(card.with_failed([place % 8 == 0 for place in range(32)]))
    settings = {"rewards": [{"name": name} for name in ["answer", *functions]]}
    found = diagnosis_of(cards, settings)
    assert (
        f"The grader, not the model: {told} gave NaN or infinity for 12 %"
        in found.sentence.replace("`", "")
    )
    assert (
        "gave NaN"
        not in diagnosis_of(
            [batch({"answer": [1.0, 0.0] * 16}, step=step) for step in range(12)], settings
        ).sentence
    )


def without_verdicts(card: Scorecard, rows: list[int]) -> Scorecard:
    """Return a batch in which the term `answer` does not apply to some rows."""
    verdicts, values = list(card.verdicts["answer"]), list(card.values["answer"])
    for row in rows:
        verdicts[row] = values[row] = None
    return replace(
        card, verdicts={"answer": tuple(verdicts)}, values={"answer": tuple(values)}
    )


def test_none_for_wrong_completions_is_told_and_none_for_whole_groups_is_not() -> None:
    def diagnosis(unjudged: list[int]) -> Diagnosis:
        return diagnosis_of(
            [without_verdicts(scored(40, step), unjudged) for step in range(8)], {}
        )

    told = diagnosis([row for row in range(64) if row % 2])
    assert told.sentence.startswith(
        "`answer` returns None for 50 % of the completions, and a score for others"
    )
    assert "return its lowest score for a wrong completion" in told.causes[0].action
    assert "returns None" not in diagnosis([*range(8), *range(16, 32)]).sentence


@pytest.mark.parametrize(
    ("described", "is_told"), [({}, True), ({"when": {"task": ["sum"]}}, False)]
)
def test_a_function_that_always_returns_none_is_told_early_and_a_condition_without_rows_later(
    described: dict[str, Any], is_told: bool
) -> None:
    cards = []
    for step in range(8):
        card = batch({"form": [0.0, 1.0] * 16, "answer": [1.0] * 32}, step=step)
        lone = without_verdicts(card, [*range(32)])
        cards.append(
            replace(
                card,
                verdicts={"form": card.verdicts["form"], **lone.verdicts},
                values={"form": card.values["form"], **lone.values},
            )
        )
    causes = diagnosis_of(
        cards, {"rewards": [{"name": "answer", "weight": 1.0, **described}]}
    ).causes
    told = any(
        "its function has returned None each time" in cause.sentence for cause in causes
    )
    assert told == is_told
