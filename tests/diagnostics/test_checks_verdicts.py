"""Checks of verdicts: faults that fire, and healthy look-alikes that stay silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from windows import Planted, batch, codes, needs, window_of

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status, Verdict
from trl_grpo_ext.diagnostics.checks import CHECKS, grader_trouble, noisy_verifier
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.window import Window
from trl_grpo_ext.figures.logged import SHARE_OF_STEP
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import as_verdict

UNREAD = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_boxed")
STARVED = Verdict(
    status=Status.ERROR, score=None, blame=Blame.GRADER, reason="worker_starved"
)
FOOLED = Verdict(status=Status.INCORRECT, score=0.0, reason="passes_naively")
RIGHT = Verdict(status=Status.CORRECT, score=1.0, answer="4")
WRONG = Verdict(status=Status.INCORRECT, score=0.0, answer="4")
FAILED = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason="worker_died")
UNPUNISHED = Verdict(status=Status.CORRECT, score=0.0)
MATCHED = Verdict(status=Status.CORRECT, score=1.0, answer="<think>")

MIXED = [1, 0, 1, 0, 1, 0, 1, 0] * 4


def found(window: Window, code: str) -> Finding:
    outcome = CHECKS[code](window)
    assert isinstance(outcome, Finding)
    return outcome


def test_a_worker_without_cpu_is_a_starved_grader_and_no_other_trouble() -> None:
    cards = [batch({"answer": [STARVED, *MIXED[1:]]}, step=step) for step in range(4)]
    assert codes(window_of(cards)) == ["grader_trouble"]
    assert found(window_of(cards), "grader_trouble").sentence.startswith(
        "The machine, not the model: "
    )


def test_of_an_environment_that_fails_no_verifier_is_to_be_run_by_hand() -> None:
    raised = replace(FAILED, reason="get_reward_KeyError")
    action = found(
        window_of([batch({"answer": [raised] * 16 + MIXED[16:]})]), "grader_trouble"
    ).action
    assert (
        action
        == "Run `reset` and `get_reward` of the environment by hand, and mend what they stumble over."
    )


def test_one_or_two_failures_are_nobodys_pattern() -> None:
    assert codes(window_of([batch({"answer": [FAILED, FAILED, *MIXED[2:]]})])) == []


def test_trouble_of_a_shadow_counts_and_bad_data_of_a_shadow_does_not() -> None:
    shadows = {"answer": MIXED, "grader": [FAILED] * 32, "data": [None] * 32}
    assert codes(window_of([batch(shadows, weights={"grader": 0, "data": 0})])) == [
        "grader_trouble"
    ]


def test_programs_that_would_fool_a_naive_grader_are_label_hacks() -> None:
    window = window_of(
        [batch({"tests": [FOOLED, *MIXED[1:]]}, step=step) for step in range(4)]
    )
    assert codes(window) == ["label_hacks"]


HIDDEN = replace(
    WRONG,
    reason="hidden_import",
    details={
        "why": "ModuleNotFoundError: No module named 'pandas' (line 1): installed, but programs are not shown it; "
        "to show it, set packages: [pandas]"
    },
)


def test_programs_that_import_a_hidden_package_are_told_with_its_name_and_the_setting() -> (
    None
):
    window = window_of(
        [batch({"tests": [HIDDEN, *MIXED[1:]]}, step=step) for step in range(4)]
    )
    assert codes(window) == ["grader_trouble"]
    told = found(window, "grader_trouble")
    assert (
        told.severity is Severity.WARNING
        and "`packages: [pandas]`" in told.action
        and "pandas." in told.sentence
    )


def test_tests_that_need_an_operator_of_a_returned_object_are_told_with_the_operator() -> (
    None
):
    unasked = replace(
        WRONG,
        reason="operator_not_asked",
        details={"why": "__contains__ is not asked of a returned 'Tree' object"},
    )
    window = window_of(
        [batch({"tests": [unasked, *MIXED[1:]]}, step=step) for step in range(4)]
    )
    told = found(window, "grader_trouble")
    assert "which the sandbox refuses: `__contains__`." in told.sentence
    assert "let these tests call methods instead" in told.action


def test_the_module_that_tests_lack_is_named() -> None:
    lacking = Verdict(
        status=Status.SKIPPED,
        score=None,
        blame=Blame.DATA,
        reason="tests_do_not_run",
        details={"why": "ModuleNotFoundError: No module named 'polars'"},
    )
    told = found(
        window_of([batch({"tests": [lacking] * 8 + MIXED[8:]}, step=n) for n in range(2)]),
        "bad_data",
    )
    assert "mostly `tests_do_not_run` (No module named 'polars')" in told.sentence
    assert told.action.startswith("Install that package")


def test_a_flood_that_recedes_is_a_model_that_learns_the_form() -> None:
    cards = [
        batch({"answer": [UNREAD] * (30 - 3 * step) + MIXED[30 - 3 * step :]}, step=step)
        for step in range(8)
    ]
    assert codes(window_of(cards)) == []
    assert codes(window_of(cards[:1] * 4)) == ["unparseable_flood"]


def test_a_form_that_some_answers_have_is_given_time_to_be_learned() -> None:
    def of_right(right: int, step: int) -> Scorecard:
        return batch(
            {"answer": [UNREAD] * 16 + [1] * right + [0] * (16 - right)}, step=step
        )

    assert codes(window_of([of_right(4, step) for step in range(4)])) == []
    assert codes(window_of([of_right(step // 3, step) for step in range(48)])) == []
    assert "unparseable_flood" in codes(
        window_of([of_right(4, step) for step in range(48)])
    )
    assert "unparseable_flood" in codes(window_of([of_right(0, step) for step in range(4)]))


def test_cut_completions_that_are_right_all_the_same_are_no_truncation() -> None:
    assert (
        codes(
            window_of(
                [batch({"answer": MIXED}, truncated=True)],
                settings={"max_completion_length": 9},
            )
        )
        == []
    )
    cut = window_of(
        [batch({"answer": [0] * 32}, truncated=True)], settings={"max_completion_length": 9}
    )
    assert codes(cut) == ["truncation"]


def test_where_many_completions_that_come_to_an_end_are_as_wrong_as_the_cut_ones_length_is_not_blamed() -> (
    None
):
    cut = [batch({"answer": [0] * 96}, truncated=True)]
    assert "truncation" in codes(
        window_of([*cut, batch({"answer": [0] * 16}, truncated=False)])
    )  # too few to tell by
    others = window_of([*cut, batch({"answer": [0] * 64}, truncated=False)])
    assert found(others, "truncation").action.startswith(
        "Read a prompt as the model gets it"
    )
    assert found(others, "truncation").severity is Severity.WARNING


def test_completions_of_one_token_are_always_cut() -> None:
    window = window_of(
        [batch({"answer": [0] * 32}, truncated=True)], settings={"max_completion_length": 1}
    )
    assert needs(window, "truncation") == "completions of more than one token"


def test_nobody_knows_what_was_cut() -> None:
    assert (
        needs(window_of([batch({"answer": MIXED})]), "truncation")
        == "to know which completions were cut"
    )


def test_groups_that_have_become_all_right_are_success() -> None:
    learning = [batch({"answer": MIXED}, step=step) for step in range(4)]
    solved = [batch({"answer": [1] * 32}, step=step) for step in range(4, 24)]
    assert codes(window_of([*learning, *solved])) == []
    assert codes(
        window_of([batch({"answer": [1] * 32}, step=step) for step in range(8)])
    ) == ["dead_groups"]


def test_hard_data_that_is_being_learned_is_no_finding() -> None:
    cards = [
        batch({"answer": [1] * step + [0] * (32 - step)}, step=step) for step in range(10)
    ]
    assert "dead_groups" not in codes(window_of(cards))


def test_groups_that_nobody_could_read_are_not_all_wrong() -> None:
    window = window_of([batch({"answer": [UNREAD] * 32}, step=step) for step in range(10)])
    assert codes(window) == ["unparseable_flood"]


def test_a_term_that_its_gate_has_silenced_is_not_inert() -> None:
    cards = [batch({"answer": MIXED, "small": [0] * 32}, step=step) for step in range(4)]
    assert codes(window_of(cards)) == ["inert_term"]


def test_small_terms_need_advantages_to_be_judged() -> None:
    small = {"answer": [0] * 32, "small": MIXED}
    assert needs(
        window_of([batch(small, step=step) for step in range(4)]), "wrong_driver"
    ).startswith("advantages; ")
    told = [batch(small, step=step, advantages=[1.0, -1.0] * 16) for step in range(4)]
    assert codes(window_of(told)) == ["wrong_driver"]
    assert (
        needs(window_of([batch({"answer": MIXED})]), "wrong_driver")
        == "two terms with weight for the same rows"
    )


def test_three_equal_terms_are_no_wrong_driver() -> None:
    terms = {"a": [1, 0, 0, 0] * 8, "b": [0, 1, 0, 0] * 8, "c": [0, 0, 1, 0] * 8}
    assert codes(window_of([batch(terms, step=step) for step in range(8)])) == []


def test_a_term_that_weighs_as_much_as_the_answer_and_differs_more_often_is_no_wrong_driver() -> (
    None
):
    terms = {"answer": [1, 1, 0, 0, 0, 0, 0, 0] * 4, "form": MIXED}
    for weight, is_found in ((1.0, False), (2.0, True)):
        window = window_of(
            [batch(terms, step=step, weights={"form": weight}) for step in range(8)]
        )
        assert ("wrong_driver" in codes(window)) is is_found


def test_a_second_opinion_that_differs_is_verifier_disagreement() -> None:
    pair = {"answer": [RIGHT, WRONG] * 16, "strict": [WRONG, WRONG, RIGHT, WRONG] * 8}
    cards = [batch(pair, step=step, weights={"strict": 0}) for step in range(4)]
    assert codes(window_of(cards)) == ["noisy_verifier"]


def test_a_shadow_that_asks_another_question_is_no_second_opinion() -> None:
    for other in ([0, 0, 1, 0], [MATCHED, MATCHED, MATCHED, 0]):
        pair = {"answer": [RIGHT, WRONG] * 16, "format": other * 8}
        window = window_of(
            [batch(pair, step=step, weights={"format": 0}) for step in range(4)]
        )
        assert codes(window) == []
        assert "a second opinion: `format` reads other answers" in needs(
            window, "noisy_verifier"
        )


@pytest.mark.parametrize("keyword", [[0] * 32, [1] * 32, [0, 0, 0, 1, 0, 1, 1, 0] * 4])
def test_a_keyword_beside_a_plain_function_that_is_learned_is_no_second_opinion(
    keyword: list[int],
) -> None:
    def answers(step: int) -> list[float]:
        right = 1 + step // 4
        return ([1.0] * right + [0.0] * (8 - right)) * 4

    window = window_of(
        [
            batch(
                {"right": answers(step), "polite": keyword},
                step=step,
                weights={"polite": 0},
            )
            for step in range(24)
        ]
    )
    assert "reward_hacking" not in codes(window)
    assert "passes others from the start" in needs(window, "noisy_verifier")


@pytest.mark.parametrize("score", [1e300, -1e300])
def test_scores_of_any_size_do_no_harm(score: float) -> None:
    cards = [
        batch({"answer": [score, 0.0] * 16, "small": MIXED}, step=step) for step in range(8)
    ]
    assert isinstance(
        codes(window_of(cards, [{"kl": 1.0, "entropy": 0.1, "grad_norm": 1.0}] * 8)), list
    )


def test_pairs_that_are_mostly_all_right_still_teach() -> None:
    pairs = [[1, 0] + [1] * 30, [1] * 32]  # 97 % of pairs are all right
    assert (
        codes(
            window_of(
                [
                    batch({"answer": [1, 0, 0, 1] + [1] * 28}, step=step, size=2)
                    for step in range(8)
                ]
            )
        )
        == []
    )
    easy = window_of(
        [batch({"answer": pairs[step % 2]}, step=step, size=2) for step in range(8)]
    )
    assert codes(easy) == ["dead_groups"]


@pytest.mark.slow
def test_a_slow_rise_over_many_batches_is_not_stuck() -> None:
    def slow(step: int) -> list[float]:
        right = min(8, 2 + step // 16)  # an answer of eight more every sixteen batches
        return ([1.0] * right + [0.0] * (8 - right)) * 2 + [0.0] * 48

    cards = [
        batch({"answer": slow(step), "form": [1] * 64}, step=step) for step in range(64)
    ]
    stuck = [batch({"answer": slow(0), "form": [1] * 64}, step=step) for step in range(128)]
    assert not {"dead_groups", "inert_term"} & set(codes(window_of(cards)))
    assert {"dead_groups", "inert_term"} <= set(codes(window_of(stuck)))


def test_a_term_that_weighs_more_than_the_primary_one_is_not_called_small() -> None:
    assert (
        decided_by_style(first=1, weight=5)
        == "Gate `style` by `answer`, or lower its weight below that of `answer`."
    )


def decided_by_style(*, first: int, weight: float) -> str:
    """Return the action for groups in which the term `style` alone differs; `first` is the run's first answer."""
    cards = [
        batch(
            {"answer": [0 if step else first] + [0] * 31, "style": MIXED},
            step=step,
            weights={"style": weight},
            advantages=[1.0, -1.0] * 16,
        )
        for step in range(4)
    ]
    return found(window_of(cards), "wrong_driver").action


@pytest.mark.parametrize("weight", [0.1, 5])
def test_no_gate_is_advised_by_a_term_that_has_never_been_above_0(weight: float) -> None:
    told = decided_by_style(first=0, weight=weight)
    assert told.startswith("Look at `answer` first, which has never been above 0")
    assert "Gate" not in told
    assert decided_by_style(first=1, weight=weight).startswith("Gate")


def test_prompts_that_are_always_right_beside_prompts_that_are_always_wrong_are_dead_groups() -> (
    None
):
    for first in range(2):  # which kind fills the odd groups
        cards = [
            batch({"answer": ([first] * 4 + [1 - first] * 4) * 4}, step=step, size=4)
            for step in range(16)
        ]
        window = window_of(cards)
        assert codes(window) == ["dead_groups"]
        assert (
            "50 % all wrong, 50 % all right, 0 % live"
            in found(window, "dead_groups").sentence
        )
        assert "prompt" not in found(window, "dead_groups").sentence
    learned = [batch({"answer": MIXED}, step=step) for step in range(4)]
    learned += [batch({"answer": [1] * 28 + [0] * 4}, step=step) for step in range(4, 24)]
    assert "dead_groups" not in codes(window_of(learned))


def test_dead_groups_of_the_same_few_prompts_are_told_as_such_before_patience_is_over() -> (
    None
):
    def seen(prompts: int) -> Window:
        rows = [([1] * 4, [0] * 4, [1, 0, 1, 0], [0] * 4)[row % 4] for row in range(32)]
        cards = []
        for step in range(24):
            parts = [
                batch(
                    {"answer": row},
                    step=step,
                    size=4,
                    prompt=f"Question {(32 * step + place) % prompts}",
                )
                for place, row in enumerate(rows)
            ]
            samples = [
                replace(one, group=place)
                for place, part in enumerate(parts)
                for one in part.samples
            ]
            cards.append(
                RewardMix([RewardTerm(name="answer", verifier=Planted("answer"))]).score(
                    samples
                )
            )
        return window_of(cards)

    assert "all of the same 8 prompts" in found(seen(8), "dead_groups").sentence
    assert found(seen(768), "dead_groups").severity is Severity.INFO


def test_a_gate_that_never_opens_is_an_inert_term_and_one_of_a_hard_term_is_not() -> None:
    def gated(answer: list[int], term: str, by: str) -> Window:
        names = ("answer", "form")
        cards = []
        for step in range(8):
            terms = [
                RewardTerm(
                    name=name, verifier=Planted(name), gate=by if name == term else None
                )
                for name in names
            ]
            samples = [
                Sample(text="x", row={"answer": one, "form": 0}, group=row // 8, step=step)
                for row, one in enumerate(answer)
            ]
            cards.append(RewardMix(terms).score(samples))
        return window_of(cards)

    closed = found(gated(MIXED, "answer", "form"), "inert_term")
    assert closed.sentence.startswith(
        "The gate of `answer`, by `form`, never opens: it is closed for 100 %"
    )
    assert closed.severity is Severity.CRITICAL
    assert "inert_term" not in codes(gated([0] * 32, "form", "answer"))


def test_timeouts_that_completions_cause_are_not_laid_on_the_grader() -> None:
    slow = Verdict(status=Status.TIMEOUT, score=0.0, reason="timeout", seconds=5.0)
    late = Verdict(
        status=Status.TIMEOUT, score=None, blame=Blame.GRADER, reason="judge_timeout"
    )
    policys, graders = (
        found(window_of([batch({"answer": [one] * 8 + MIXED[8:]})]), "grader_trouble")
        for one in (slow, late)
    )
    assert policys.sentence.startswith("The completions, not the grader: 25 %")
    assert "longer timeout" not in policys.action
    assert policys.severity is Severity.WARNING
    assert graders.sentence.startswith("The grader, not the model: 25 %")
    assert "longer timeout" in graders.action
    each = [
        batch({"answer": [late if step % 2 else slow, *MIXED[1:]]}, step=step)
        for step in range(6)
    ]
    assert codes(window_of(each)) == []  # three of each kind are too few of either
    assert (
        grader_trouble.timeouts_of_the_policy(
            window_of([batch({"answer": [late] * 8 + MIXED[8:]})])
        )
        is None
    )


@pytest.mark.parametrize(
    ("limit", "late", "who"),
    [(0.2, 24, "The limit"), (5.0, 24, "The completions"), (0.2, 8, "The completions")],
)
def test_a_limit_below_a_second_that_most_completions_exhaust_is_the_cause(
    limit: float, late: int, who: str
) -> None:
    slow = Verdict(status=Status.TIMEOUT, score=0.0, reason="test_1_timeout", seconds=limit)
    settings = {"rewards": [{"name": "answer", "settings": {"timeout": limit}}]}
    finding = found(
        window_of([batch({"answer": [slow] * late + MIXED[late:]})], [], settings),
        "grader_trouble",
    )
    assert finding.sentence.startswith(who)
    assert ("Raise the timeout of `answer`" in finding.action) is (who == "The limit")


def test_a_verifier_that_raises_is_told_with_its_error() -> None:
    said = {"error": "KeyError: 'gold' (mine.py:6)"}
    raised = Verdict(
        status=Status.ERROR,
        score=None,
        blame=Blame.GRADER,
        reason="raised_KeyError",
        details=said,
    )
    finding = found(
        window_of(
            [batch({"answer": [raised] * 8 + MIXED[8:]}, step=step) for step in range(3)]
        ),
        "grader_trouble",
    )
    assert (
        "mostly `raised_KeyError`, such as KeyError: 'gold' (mine.py:6)."
        in finding.sentence
    )


@pytest.mark.parametrize(("share", "told"), [(0.2, []), (0.8, ["grader_trouble"])])
def test_a_grader_that_takes_most_of_a_step_is_told_and_one_that_takes_little_is_not(
    share: float, told: list[str]
) -> None:
    cards = [batch({"answer": MIXED}, step=step) for step in range(4)]
    assert codes(window_of(cards, [{SHARE_OF_STEP: share}] * 4)) == told


def test_completions_that_are_all_empty_are_no_answers_in_another_form() -> None:
    ended = found(
        window_of([batch({"answer": [UNREAD] * 32}, completion_ids=[2])]),
        "unparseable_flood",
    )
    assert (
        ended.sentence.startswith("The model says nothing")
        and ended.numbers["share"] == 1.0
    )
    spoken = found(
        window_of([batch({"answer": [UNREAD] * 32}, completion_ids=[9, 2])]),
        "unparseable_flood",
    )
    assert spoken.sentence.startswith("The model answers")


def test_the_reason_of_a_flood_is_that_of_the_primary_verdicts() -> None:
    other = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_think_tag")
    window = window_of([batch({"answer": [UNREAD] * 16 + [0] * 16, "form": [other] * 32})])
    assert "mostly `no_boxed`" in found(window, "unparseable_flood").sentence


def test_groups_that_are_all_wrong_are_told_with_an_answer_beside_its_gold() -> None:
    answers = ["44"] * 5 + ["45"] * 3 + [str(row) for row in range(24)]
    wrong = [replace(WRONG, answer=answer, details={"gold": "row-0"}) for answer in answers]
    cards = [batch({"answer": wrong}, step=step) for step in range(8)]
    assert found(window_of(cards), "dead_groups").sentence.endswith(
        "answered `44`, and the gold is `row-0`."
    )
    agreeing = [batch({"answer": wrong[:1] * 32}, step=step) for step in range(8)]
    assert found(window_of(agreeing), "bad_data").sentence.endswith(
        "answered `44`, and the gold is `row-0`."
    )
    told_by_none = [batch({"answer": [0] * 32}, step=step) for step in range(8)]
    assert "the gold is" not in found(window_of(told_by_none), "dead_groups").sentence


@pytest.mark.parametrize(
    ("temperature", "told"),
    [(0.05, ["entropy_collapse"]), (1.0, ["bad_data", "dead_groups"])],
)
def test_siblings_that_are_mostly_the_same_at_a_low_temperature_do_not_explore_and_no_gold_is_blamed(
    temperature: float, told: list[str]
) -> None:
    def same_but_one(step: int) -> Scorecard:
        card = batch({"answer": [WRONG] * 32}, step=step)
        samples = [
            replace(one, text=f"{row // 8} {row % 8 == 0}")
            for row, one in enumerate(card.samples)
        ]
        return replace(card, samples=tuple(samples))

    cards = [same_but_one(step) for step in range(8)]
    assert codes(window_of(cards, settings={"temperature": temperature})) == told


@pytest.mark.parametrize(
    ("on_unscored", "told"),
    [
        ("void_row", "they are left out of training."),
        ("zero", "they count as 0, as on_unscored is `zero`."),
    ],
)
def test_what_becomes_of_rows_without_gold_is_told_as_it_is(
    on_unscored: Any, told: str
) -> None:
    term = RewardTerm(name="answer", verifier=Planted("answer"), on_unscored=on_unscored)
    rows = [{"answer": None if row < 16 else row % 2} for row in range(32)]
    samples = [
        Sample(text=str(place), row=row, group=place // 8) for place, row in enumerate(rows)
    ]
    window = window_of([RewardMix([term]).score(samples)] * 4)
    assert found(window, "bad_data").sentence.endswith(told)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["helper"], "`NameError: name 'helper' is not defined`"),
        (["add", "sub", "mul"], "`NameError: name ... is not defined`"),
    ],
)
def test_a_name_that_is_not_defined_is_told_where_all_lack_the_same(
    names: list[str], told: str
) -> None:
    def lacks(name: str) -> Verdict:
        why = f"NameError: name '{name}' is not defined"
        return Verdict(
            status=Status.INCORRECT, score=0.0, reason="test_1_error", details={"why": why}
        )

    cards = [
        batch({"tests": [lacks(names[row % len(names)]) for row in range(32)]}, step=step)
        for step in range(8)
    ]
    assert told in found(window_of(cards), "dead_groups").sentence


@pytest.mark.parametrize(
    ("code", "settings"),
    [
        ("grader_trouble", {"status": Status.ERROR, "score": None, "blame": Blame.GRADER}),
        ("unparseable_flood", {"status": Status.UNPARSEABLE, "score": 0.0}),
    ],
)
def test_a_reason_of_any_length_and_kind_is_cut_and_made_safe(
    code: str, settings: dict[str, Any]
) -> None:
    hostile = Verdict(reason="\x1b[31m" + "loud " * 50_000, **settings)
    sentence = found(
        window_of([batch({"answer": [hostile] * 16 + [0] * 16})]), code
    ).sentence
    assert sentence.isprintable()
    assert len(sentence) < 300


def test_a_wrong_driver_may_be_the_right_term_in_the_wrong_place() -> None:
    terms = {"form": [0, 0, 0, 1] * 8, "answer": [0, 1, 0, 1] * 8}
    cards = [batch(terms, step=step, weights={"form": 0.1}) for step in range(8)]
    assert found(window_of(cards), "wrong_driver").action.endswith(
        "if `form` is not what you want taught, put the right term first."
    )


@pytest.mark.parametrize(
    ("code", "one", "count"),
    [
        ("grader_trouble", FAILED, 10),
        ("grader_trouble", STARVED, 10),
        ("bad_data", None, 10),
        ("label_hacks", FOOLED, 15),
    ],
)
def test_a_burst_in_one_batch_is_over_by_itself_and_trouble_in_two_is_not(
    code: str, one: object, count: int
) -> None:
    def found_in(*batches: int) -> list[str]:
        spoiled = [one] * count + MIXED[count:]
        return codes(
            window_of(
                [
                    batch({"answer": spoiled if n in batches else MIXED}, step=n)
                    for n in range(8)
                ]
            )
        )

    assert found_in(3) == []
    assert found_in(3, 4) == [code]


def test_failures_of_one_batch_that_are_most_of_all_there_is_are_told_at_once() -> None:
    assert codes(window_of([batch({"answer": [FAILED] * 4 + MIXED[4:]})])) == [
        "grader_trouble"
    ]


@pytest.mark.parametrize("trouble", [FAILED, STARVED])
def test_a_shadow_in_trouble_is_information_and_comes_after_a_term_in_force(
    trouble: Verdict,
) -> None:
    shadow = [
        batch({"answer": MIXED, "strict": [trouble] * 32}, step=n, weights={"strict": 0})
        for n in range(2)
    ]
    outcome = found(window_of(shadow), "grader_trouble")
    assert outcome.severity is Severity.INFO
    assert outcome.sentence.endswith("It has no weight, and holds nothing back.")
    terms = {"strict": [trouble] * 32, "answer": [trouble] * 4 + MIXED[4:]}
    both = found(
        window_of([batch(terms, step=n, weights={"strict": 0}) for n in range(2)]),
        "grader_trouble",
    )
    assert "`answer`" in both.sentence
    assert both.severity is Severity.CRITICAL


def test_hacks_that_only_a_shadow_sees_are_not_said_to_have_earned_nothing() -> None:
    terms = {"loose": MIXED, "tests": [FOOLED] * 4 + MIXED[4:]}
    outcome = found(window_of([batch(terms, weights={"tests": 0})]), "label_hacks")
    assert outcome.severity is Severity.CRITICAL
    assert outcome.sentence.endswith("`tests` has no weight: others may pay for them.")


@pytest.mark.parametrize(
    ("penalty", "weight"),
    [
        ([UNPUNISHED] * 32, 1.0),
        ([0] * 32, -1.0),
        ([-1] + [0] * 255, 1.0),
    ],
    ids=["a verdict that passes", "a weight below 0", "one completion is punished"],
)
def test_a_penalty_with_nothing_to_punish_is_as_it_should_be(
    penalty: list[object], weight: float
) -> None:
    answers = (MIXED * 8)[: len(penalty)]
    cards = [
        batch(
            {"answer": answers, "overlong": penalty}, step=n, weights={"overlong": weight}
        )
        for n in range(40)
    ]
    assert codes(window_of(cards)) == []


def test_a_penalty_that_was_needed_at_first_is_not_inert() -> None:
    cards = [
        batch({"answer": MIXED, "overlong": [-1] * 32}, step=step) for step in range(4)
    ]
    cards += [
        batch({"answer": MIXED, "overlong": [0] * 32}, step=step) for step in range(4, 24)
    ]
    assert "inert_term" not in codes(window_of(cards))


def test_a_flat_term_that_is_not_the_primary_one_is_information_with_its_reason() -> None:
    unread = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_think_tag")
    outcome = found(
        window_of(
            [batch({"answer": MIXED, "form": [unread] * 32}, step=n) for n in range(4)]
        ),
        "inert_term",
    )
    assert outcome.severity is Severity.INFO
    assert "(mean 0, mostly `no_think_tag`)" in outcome.sentence
    assert "of a penalty it is as it should be" in outcome.action
    primary = found(
        window_of([batch({"answer": [0.5 + n / 10] * 32}, step=n) for n in range(4)]),
        "inert_term",
    )
    assert primary.severity is Severity.WARNING
    assert "keep its marks by prompt" in primary.action


def test_terms_that_no_group_differs_in_once_they_are_learned_are_not_inert() -> None:
    before, after = (
        {"answer": [0.2, 0.7] * 16, "style": [0.3, 0.6] * 16},
        {"answer": [0.7] * 32, "style": [0.3] * 32},
    )
    learned = [batch(before, step=step) for step in range(4)] + [
        batch(after, step=step) for step in range(4, 24)
    ]
    broken = [batch(before, step=step) for step in range(4)]
    broken += [batch(after | {"answer": [0.2] * 32}, step=step) for step in range(4, 24)]
    assert "inert_term" not in codes(window_of(learned))
    assert "`answer`" in found(window_of(broken), "inert_term").sentence


def test_other_terms_that_decide_alone_while_answers_get_better_are_no_trouble() -> None:
    def of_right(right: int, step: int) -> Scorecard:
        answers = [1] * right + [0] * (32 - right)  # most groups are all right or all wrong
        return batch(
            {"answer": answers, "form": MIXED}, step=step, advantages=[1.0, -1.0] * 16
        )

    assert "wrong_driver" not in codes(
        window_of([of_right(2 * step // 3, step) for step in range(48)])
    )
    assert "wrong_driver" not in codes(
        window_of([of_right(16, step) for step in range(8)])
    )  # too early
    assert "wrong_driver" not in codes(
        window_of([of_right(31, step) for step in range(48)])
    )  # as good as can be
    assert "wrong_driver" in codes(window_of([of_right(16, step) for step in range(64)]))


def test_terms_for_rows_of_their_own_are_not_compared_with_each_other() -> None:
    def routed(form: list[int] | None, right: list[int], step: int) -> Scorecard:
        """Make a batch with a group of sums and a group of words, each with its own term, and an optional form term."""
        terms = [
            RewardTerm(name=kind, verifier=Planted("right"), when={"kind": kind})
            for kind in ("sum", "word")
        ]
        terms += (
            [RewardTerm(name="form", verifier=Planted("form"), weight=3.0)] if form else []
        )
        rows = [
            {"right": one, "form": (form or right)[n], "kind": ("sum", "word")[n // 8]}
            for n, one in enumerate(right)
        ]
        samples = [
            Sample(text=str(n), row=row, group=step * 2 + n // 8, step=step)
            for n, row in enumerate(rows)
        ]
        return RewardMix(terms).score(samples).with_advantages([1.0, -1.0] * 8)

    apart = [1, 0, 0, 0, 0, 0, 0, 0] + [1, 0] * 4
    window = window_of([routed(None, apart, step) for step in range(32)])
    assert codes(window) == []
    assert "for the same rows; each of `sum` and `word` is the first with weight" in needs(
        window, "wrong_driver"
    )
    half_dead = [routed(None, MIXED[:8] + [0] * 8, step) for step in range(32)]
    assert "inert_term" not in codes(window_of(half_dead))
    driven = found(
        window_of([routed([1, 1, 0, 0] * 4, apart, step) for step in range(32)]),
        "wrong_driver",
    )
    assert (
        "from `sum` and `word`, even where `sum` or `word` has something to say"
        in driven.sentence
    )


def test_what_is_not_checked_yet_says_how_much_it_needs_and_how_much_there_is() -> None:
    terms = {"answer": MIXED[:8] + [0] * 24, "form": [0] * 32}
    window = window_of([batch(terms, step=step) for step in range(3)])
    assert needs(window, "wrong_driver") == (
        "8 live groups in recent batches; 3 so far; "
        "4 recent batches with live groups in which the primary term differs; 3 so far"
    )


def test_masking_is_not_advised_where_it_is_on() -> None:
    cut = [
        batch({"answer": [0] * 32}, truncated=True),
        batch({"answer": MIXED}, truncated=False),
    ]
    for is_on in (True, False):
        settings = {"max_completion_length": 9, "mask_truncated_completions": is_on}
        action = found(window_of(cut, settings=settings), "truncation").action
        assert ("masked already" in action) is is_on
        assert ("set mask_truncated_completions" in action) is not is_on


def repeated(scores: list[object], **weights: float) -> Window:
    """Make batches of groups with identical texts, and these scores."""
    cards = [batch({"answer": scores}, step=step, weights=weights) for step in range(4)]
    samples = [
        [replace(sample, text="the same") for sample in card.samples] for card in cards
    ]
    return window_of(
        [
            replace(card, samples=tuple(texts))
            for card, texts in zip(cards, samples, strict=True)
        ]
    )


def test_the_same_text_with_other_scores_is_an_inconsistent_verifier() -> None:
    outcome = found(repeated(MIXED), "noisy_verifier")
    assert outcome.severity is Severity.CRITICAL
    assert outcome.numbers == {
        "share": 4 / 7,
        "repeats": 4 * 4 * 7,
    }  # compared with the first of eight, four times


def test_a_shadow_that_contradicts_itself_is_information() -> None:
    assert found(repeated(MIXED, answer=0), "noisy_verifier").severity is Severity.INFO


@pytest.mark.parametrize(
    "scores",
    [[0.75, 0.8] * 16, [Verdict(status=Status.TIMEOUT, score=0.0), 1] * 16, [1] * 32],
)
def test_scores_that_hardly_differ_and_timeouts_are_no_contradiction(
    scores: list[object],
) -> None:
    assert "noisy_verifier" not in codes(repeated(scores))


def test_wrong_groups_that_agree_on_an_answer_put_the_gold_in_doubt() -> None:
    agreed = [Verdict(status=Status.INCORRECT, score=0.0, answer="4")] * 32
    scattered = [
        Verdict(status=Status.INCORRECT, score=0.0, answer=str(index))
        for index in range(32)
    ]
    for answers, advice in (
        (agreed, "compare answers and gold"),
        (scattered, "judge a few right answers"),
    ):
        window = window_of([batch({"answer": answers}, step=step) for step in range(8)])
        assert advice in found(window, "dead_groups").action


def test_a_term_that_was_trained_on_is_no_second_opinion_once_its_weight_is_0() -> None:
    answers = [RIGHT, WRONG] * 16
    faded = [
        batch(
            {"answer": answers, "loose": [RIGHT] * 32},
            step=step,
            weights={"loose": float(step < 4)},
        )
        for step in range(16)
    ]
    shadowed = [
        batch({"answer": answers, "loose": [RIGHT] * 32}, step=step, weights={"loose": 0})
        for step in range(16)
    ]
    assert "noisy_verifier" not in codes(window_of(faded))
    assert "noisy_verifier" in codes(window_of(shadowed))


def test_a_few_groups_that_began_all_right_do_not_tell_that_all_of_the_data_is_easy() -> (
    None
):
    opening = [
        batch({"answer": [1] * 24 + [1, 0] * 4}, step=step) for step in range(4)
    ]  # 12 of 16 groups
    learned = [batch({"answer": [1] * 32}, step=step) for step in range(4, 20)]
    assert codes(window_of([*opening, *learned])) == []


@pytest.mark.parametrize("score_range", [(0.0, 1.0), None])
def test_a_reward_that_gives_no_answers_is_watched_by_a_shadow_that_reads_them(
    score_range: tuple[float, float] | None,
) -> None:
    def gamed(step: int) -> list[object]:
        # Of a plain function, no range is known.
        return [as_verdict(float(index < 8 + 2 * step), score_range) for index in range(32)]

    def strict(right: int) -> list[Verdict]:
        return [
            replace(RIGHT if index < right else WRONG, answer=str(index))
            for index in range(32)
        ]

    def watched(*right: int) -> Window:
        cards = [
            batch(
                {"loose": gamed(step), "strict": strict(count)},
                step=step,
                weights={"strict": 0},
            )
            for step, count in enumerate(right)
        ]
        return window_of(cards)

    assert "reward_hacking" in codes(watched(*[6] * 12))
    assert "reward_hacking" not in codes(
        watched(*range(2, 26, 2))
    )  # it is stricter, and rises as much


@pytest.mark.parametrize("score_range", [(0.0, 1.0), None])
def test_marks_that_rise_while_a_shadow_that_reads_answers_falls_are_told_early(
    score_range: tuple[float, float] | None,
) -> None:
    def longer(step: int) -> list[object]:
        height = 0.2 + 0.04 * step
        return [as_verdict(height + 0.01 * (index % 8), score_range) for index in range(32)]

    def strict(right: int) -> list[Verdict]:
        # At last the policy gives no answers.
        given = [replace(RIGHT if index < right else WRONG) for index in range(32)]
        return given if right else [UNREAD] * 32

    def watched(*right: int) -> Window:
        cards = [
            batch(
                {"longer": longer(step), "strict": strict(count)},
                step=step,
                weights={"strict": 0},
            )
            for step, count in enumerate(right)
        ]
        return window_of(cards)

    hacked = watched(*[26] * 4, *[8] * 3, *[0] * 12)
    assert found(hacked, "getting_worse").terms == ("strict", "longer")
    assert found(hacked, "getting_worse").severity is Severity.CRITICAL
    assert CHECKS["reward_hacking"](hacked) is None
    assert "getting_worse" not in codes(watched(*[16] * 19))
    assert "getting_worse" not in codes(watched(*range(8, 27)))


def test_a_saturated_term_is_not_judged_before_a_slow_rise_could_be_told() -> None:
    terms = {"answer": [RIGHT, *[WRONG] * 7] * 4, "form": [RIGHT] * 32}
    cards = [batch(terms, step=step) for step in range(80)]
    assert needs(window_of(cards[:31]), "inert_term").endswith(
        "a slow rise from none; 30 so far"
    )
    assert "inert_term" in codes(window_of(cards))


def test_completions_that_are_cut_more_often_while_answers_are_as_good_as_before_are_truncation() -> (
    None
):
    begun = [batch({"answer": MIXED}, step=step, truncated=False) for step in range(4)]
    grown = [
        batch({"answer": [1, 0, 0, 0] * 8}, step=step, truncated=False)
        for step in range(4, 8)
    ]
    cut = [batch({"answer": [0] * 32}, step=step, truncated=True) for step in range(8, 10)]
    assert "truncation" in codes(window_of([*begun, *grown, *cut]))


def test_prompts_that_reset_adds_to_and_rows_that_a_rollout_adds_to_are_no_mixed_groups() -> (
    None
):
    card = batch({"answer": MIXED})
    told = [replace(one, prompt=f"{row}") for row, one in enumerate(card.samples)]
    of_environment = [
        replace(one, row={"seed": 1}, outcome=Outcome(environment="Game")) for one in told
    ]
    of_rollout = [
        replace(one, prompt="same", row={"steps": row}) for row, one in enumerate(told)
    ]
    mixed = [replace(one, row={"seed": row}) for row, one in enumerate(told)]
    without_columns = [replace(one, row={}) for one in told]
    counts = [
        reduce_card(replace(card, samples=tuple(samples)), {}).mixed_groups
        for samples in (of_environment, of_rollout, mixed, without_columns)
    ]
    assert counts == [0, 0, 4, 4]


def window_of_ends(outcomes: dict[str, list[Any]], texts: list[str]) -> Window:
    """Make a window of planted verdicts on these texts, all with the gold `22`; terms beside `mine` weigh little."""
    weights = dict.fromkeys(outcomes, 0.1) | {"mine": 1.0}
    cards = []
    for step in range(6):
        card = batch(outcomes, step=step, weights=weights, advantages=[1.0, -1.0] * 16)
        samples = []
        for sample, text in zip(card.samples, texts, strict=True):
            samples.append(replace(sample, text=text, row={**sample.row, "solution": "22"}))
        cards.append(replace(card, samples=tuple(samples)))
    return window_of(cards)


# Of 32 completions, 16 end on their gold. The lesser term passes these, and one with another end.
ENDS = ["so 22", "so 25"] * 16
MOSTLY_RIGHT_ENDS = [1, 1] + [1, 0] * 15


@pytest.mark.parametrize("refusal", [0, Verdict(status=Status.SCORED, score=0.0)])
def test_right_answers_are_turned_down_though_a_small_form_is_mostly_theirs(
    refusal: object,
) -> None:
    outcomes = {"mine": [refusal] * 32, "thinks": MOSTLY_RIGHT_ENDS}
    window = window_of_ends(outcomes, ENDS)
    assert found(window, "noisy_verifier").sentence.startswith(
        "The verifier, not the model: `mine` turns down 100 %"
    )
    assert codes(window) == ["noisy_verifier"]


def test_right_answers_are_turned_down_though_wrong_ones_are_paid_by_chance() -> None:
    by_chance = [0, 0, 0, 1] + [0] * 28
    window = window_of_ends({"mine": by_chance, "thinks": MOSTLY_RIGHT_ENDS}, ENDS)
    assert "`mine` turns down 100 %" in found(window, "noisy_verifier").sentence
    assert codes(window) == ["noisy_verifier"]


@pytest.mark.parametrize(
    ("end", "details"),
    [
        # The gold stands in the text, and not at its end.
        ("22, of 25", {}),
        # The term tells golds: it compares answers, and takes 25 for the gold.
        ("so 25", {"gold": "22"}),
    ],
)
def test_a_lesser_term_that_judges_answers_excuses_a_refusal_though_it_pays_another_end(
    end: str, details: dict[str, str]
) -> None:
    passed = Verdict(status=Status.CORRECT, score=1.0, details=details)
    second = [passed if each else 0 for each in MOSTLY_RIGHT_ENDS]
    window = window_of_ends({"mine": [0] * 32, "second": second}, ["so 22", end, *ENDS[2:]])
    assert noisy_verifier.refused(window) is None
