"""Checks of TRL's logs and of completion texts: each needs two signals, and one signal alone is silent."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from windows import batch, codes, needs, window_of

from trl_grpo_ext import Status, Verdict
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.levels import RECENT_BATCHES, score_level
from trl_grpo_ext.diagnostics.watch import CLEAR, HOLD, Onsets
from trl_grpo_ext.diagnostics.window import RunView, Window
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.scorecard import Scorecard

MIXED = [1, 0, 1, 0, 1, 0, 1, 0] * 4


def run_of(scores: Sequence[Sequence[float]], **sample: Any) -> list[Scorecard]:
    return [
        batch({"answer": each}, step=step, **sample) for step, each in enumerate(scores)
    ]


def test_little_entropy_alone_is_no_collapse() -> None:
    low = (
        [{"entropy": 2.0}]
        + [{"entropy": 2.0 - 0.1 * step} for step in range(19)]
        + [{"entropy": 0.05}] * 8
    )
    rising = run_of(
        [[1] * min(32, 4 + step) + [0] * max(0, 28 - step) for step in range(24)]
    )
    assert codes(window_of(rising, low)) == []
    stuck = run_of([[0.5] * 32] * 24)
    assert "entropy_collapse" in codes(window_of(stuck, low))


def test_a_kl_divergence_that_pays_is_no_blow_up() -> None:
    high = [{"kl": 0.1 * step} for step in range(24)]
    rising = run_of(
        [[1] * min(32, 4 + 2 * step) + [0] * max(0, 28 - 2 * step) for step in range(24)]
    )
    assert codes(window_of(rising, high)) == []
    stuck = run_of([([1] + [0] * 7) * 4] * 60)
    assert "kl_blowup" in codes(window_of(stuck, high))


def test_a_leap_to_where_nearly_all_is_right_is_no_blow_up() -> None:
    def leap(right: int) -> Window:
        """Simulate a leap to a policy that is always right on some of forty prompts, and never on the rest."""
        cards = [
            batch({"answer": [1, 0, 0, 0] + [0, 0] * 38}, step=step, size=2)
            for step in range(4)
        ]
        after = [1, 1] * right + [0, 0] * (40 - right)
        cards += [batch({"answer": after}, step=step, size=2) for step in range(4, 24)]
        return window_of(
            cards, [{"kl": 0.0, "entropy": 2.0}] * 4 + [{"kl": 1.5, "entropy": 0.1}] * 20
        )

    assert "kl_blowup" not in codes(leap(36))
    assert "kl_blowup" in codes(leap(20))


def test_without_beta_no_kl_divergence_is_claimed() -> None:
    assert "beta above 0" in needs(
        window_of(run_of([MIXED]), [{"grad_norm": 1.0}]), "kl_blowup"
    )


@pytest.mark.parametrize("figure", ["learning_rate", "grad_norm"])
def test_updates_of_zero_count_only_where_there_was_something_to_teach(figure: str) -> None:
    still = [{figure: 0.0}] * 6
    assert codes(window_of(run_of([MIXED] * 4), still)) == ["zero_updates"]
    assert "zero_updates" not in codes(window_of(run_of([[0] * 32] * 4), still))


def test_a_schedule_that_ends_at_zero_is_no_finding() -> None:
    decayed = [{"learning_rate": 1e-6, "grad_norm": 1.0}] * 9 + [
        {"learning_rate": 0.0, "grad_norm": 1.0}
    ]
    assert codes(window_of(run_of([MIXED] * 4), decayed)) == []


def test_a_log_stands_for_the_steps_since_the_one_before() -> None:
    def window(*steps: int) -> Window:
        view = RunView({})
        for card in run_of([MIXED] * 8):
            view.add(reduce_card(card, {}))
        for step in steps:
            view.add_logs(step, {"loss": 0.0, "learning_rate": 0.0})
        return view.window

    assert codes(window(4, 8)) == ["zero_updates"]
    assert needs(window(8), "zero_updates") == "2 logs of TRL, of 5 optimizer steps or more"
    assert (
        needs(window(1, 2), "zero_updates") == "2 logs of TRL, of 5 optimizer steps or more"
    )


def test_a_learning_rate_next_to_0_is_found_without_a_kl_divergence_unless_it_was_larger_or_grows() -> (
    None
):
    cards = run_of([MIXED] * 20)
    assert codes(window_of(cards, [{"learning_rate": 1e-9}] * 20)) == ["zero_updates"]
    ends = [{"learning_rate": 1e-6 * (0.1**step)} for step in range(20)]
    for rates in (ends, ends[::-1], [{"learning_rate": 1e-7}] * 20):
        assert codes(window_of(cards, rates)) == []


def test_an_entropy_of_0_from_the_first_log_is_none_that_was_lost() -> None:
    assert (
        CHECKS["entropy_collapse"](
            window_of(run_of([[0.5] * 32] * 24), [{"entropy": 0.0}] * 24)
        )
        is None
    )


def test_entropies_are_compared_with_those_of_the_log_before_unless_that_is_too_long_ago() -> (
    None
):
    for distance, cliff in ((1, 0.75), (10, 0.75), (100, None)):
        view = RunView({})
        view.add_logs(distance, {"loss": 0.0, "entropy": 2.0})
        view.add_logs(2 * distance, {"loss": 0.0, "entropy": 0.5})
        assert view.window.entropy_cliff == cliff


def test_what_other_terms_pay_for_is_no_blow_up() -> None:
    def obeying(step: int, weight: float) -> Scorecard:
        return batch(
            {"answer": MIXED, "form": [float(step >= 4)] * 32},
            step=step,
            weights={"form": weight},
        )

    high = [{"kl": 0.1 * step} for step in range(24)]
    assert "kl_blowup" not in codes(
        window_of([obeying(step, 0.01) for step in range(24)], high)
    )
    assert "kl_blowup" in codes(
        window_of([obeying(step, -0.01) for step in range(24)], high)
    )


def test_a_policy_that_breaks_at_once_is_told_once_and_not_by_what_it_does_then() -> None:
    begun = batch(
        {"answer": spread(4)}, step=0, truncated=False, completion_ids=list(range(20))
    )
    broken = [
        batch({"answer": [0] * 32}, step=step, truncated=True, completion_ids=[1, 2] * 40)
        for step in range(1, 12)
    ]
    for logs in ([{"kl": 4.0}] * 12, [{"entropy": 1.0}] * 12):
        for length in range(4, 12):
            assert codes(window_of([begun, *broken[:length]], logs)) == ["kl_blowup"]
    near = window_of([begun, *broken], [{"kl": 0.01}] * 12)
    assert "kl_blowup" not in codes(near)
    assert "truncation" in codes(near)


@pytest.mark.parametrize(("weight", "is_broken"), [(1.0, False), (0.2, True)])
def test_a_score_that_falls_while_a_heavy_term_earns_more_is_that_terms_doing(
    weight: float, is_broken: bool
) -> None:
    weights = {"answer": 0.3, "sevens": weight}
    learned = {"answer": spread(5), "sevens": spread(4)}
    cards = [batch(learned, step=step, weights=weights) for step in range(4)]
    misled = {"answer": [0.0] * 32, "sevens": spread(5)}
    advantages = [2 * paid - 1 for paid in misled["sevens"]]
    for step in range(4, 28):
        cards.append(batch(misled, step=step, weights=weights, advantages=advantages))
    found = codes(window_of(cards, [{"entropy": 1.0}] * 28))
    assert ("kl_blowup" in found) is is_broken
    assert "wrong_driver" in found


@pytest.mark.slow
def test_a_policy_that_has_recovered_is_no_longer_broken() -> None:
    fallen = run_of([spread(4)] * 4 + [[0] * 32] * 12)
    logs = [{"entropy": 1.0}] * 40
    recovered = fallen + [batch({"answer": spread(4)}, step=step) for step in range(16, 32)]
    onsets = Onsets({"kl_blowup": CHECKS["kl_blowup"]})
    for _ in range(HOLD):
        onsets.look(window_of(fallen, logs))
    assert list(onsets.active) == ["kl_blowup"]
    for _ in range(CLEAR):
        onsets.look(window_of(recovered, logs))
    assert not onsets.active
    assert (
        "beta above 0" in onsets.not_checked["kl_blowup"]
    )  # which keeps no finding that is over


@pytest.mark.parametrize(
    "seeds", [range(1), pytest.param(range(1, 20), marks=pytest.mark.slow)]
)
def test_a_run_that_is_seldom_right_does_not_fall_to_nothing_by_chance(
    seeds: range,
) -> None:
    for seed in seeds:
        source = random.Random(seed)
        cards = run_of(
            [[float(source.random() < 0.04) for _ in range(32)] for _ in range(60)]
        )
        for end in range(8, 60, 8):
            assert "kl_blowup" not in codes(
                window_of(cards[:end], [{"entropy": 1.0}] * end)
            )


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_figures_that_are_no_numbers_are_found_live_and_from_disk(
    value: float | None,
) -> None:
    logs = [{"grad_norm": 1.0}] * 6 + [{"grad_norm": value}] * 2
    assert codes(window_of(run_of([MIXED] * 4), logs)) == ["nonfinite_updates"]
    assert codes(window_of(run_of([MIXED] * 4), [*logs[:6], logs[7]])) == []


@pytest.mark.parametrize(
    "code", ["nonfinite_updates", "zero_updates", "kl_blowup", "entropy_collapse"]
)
def test_before_the_first_log_of_trl_that_is_what_is_missing(code: str) -> None:
    assert needs(window_of(run_of([MIXED])), code) == "a first log of TRL (logging_steps)"


def test_a_figure_that_trl_does_not_log_is_named() -> None:
    assert needs(window_of(run_of([MIXED]), [{"grad_norm": 1.0}]), "entropy_collapse") == (
        "the entropy, which TRL has not logged"
    )


def test_longer_completions_alone_are_no_explosion() -> None:
    def tokens(count: int) -> dict[str, Any]:
        return {"completion_ids": list(range(count))}

    short = [batch({"answer": MIXED}, step=step, **tokens(20)) for step in range(4)]
    better = [
        batch({"answer": [1] * 28 + [0] * 4}, step=step, **tokens(40))
        for step in range(4, 24)
    ]
    no_better = [batch({"answer": MIXED}, step=step, **tokens(40)) for step in range(4, 24)]
    assert codes(window_of([*short, *better])) == []
    assert codes(window_of([*short, *no_better])) == ["length_explosion"]
    few = [
        batch({"answer": MIXED}, step=step, **tokens(count))
        for step, count in enumerate([13] * 4 + [20] * 20)
    ]
    assert codes(window_of(few)) == []


def test_completions_that_come_to_repeat_themselves_are_repetition() -> None:
    fresh = [
        batch({"answer": MIXED}, step=step, completion_ids=list(range(64)))
        for step in range(4)
    ]
    loops = [
        batch({"answer": MIXED}, step=step, completion_ids=[1, 2, 3, 4] * 16)
        for step in range(4, 12)
    ]
    assert codes(window_of(fresh)) == []
    assert codes(window_of([*fresh, *loops])) == ["repetition"]


def test_words_in_another_script_than_the_prompts_are_language_mixing() -> None:
    english = "First we add the two numbers and then we write down the answer."
    mixed = english + " 然后我们把两个数字相加并写下答案"
    prompt = [{"role": "user", "content": "What is the sum of these numbers?"}]
    fresh = [
        batch({"answer": MIXED}, step=step, text=english, prompt=prompt)
        for step in range(4)
    ]
    later = [
        batch({"answer": MIXED}, step=step, text=mixed, prompt=prompt)
        for step in range(4, 12)
    ]
    assert codes(window_of(fresh)) == []
    assert codes(window_of([*fresh, *later])) == ["language_mixing"]


def planted(code: str) -> Finding:
    return Finding(code=code, step=1, severity="warning", sentence="s", action="a")  # type: ignore[arg-type]


def test_a_finding_is_told_once_it_has_held_and_anew_only_after_it_was_over() -> None:
    says: list[Finding | NotChecked | None] = []
    onsets = Onsets({"bad_data": lambda window: says[-1]})
    told = []
    script = [True] * (HOLD - 1) + [False] + [True] * 6 + [False] * (CLEAR - 1) + [True] * 4
    script += [False] * CLEAR + [True] * HOLD
    for step, holds in enumerate(script):
        says.append(planted("bad_data") if holds else None)
        told += [step for _ in onsets.look(Window(settings={}))]
    assert told == [2 * HOLD - 1, len(script) - 1]


def test_a_finding_is_told_again_where_it_is_more_severe_and_asks_for_something_else() -> (
    None
):
    says: list[Finding] = []
    onsets = Onsets({"grader_trouble": lambda window: says[-1]})
    slow = planted("grader_trouble")
    worse, other = replace(slow, severity=Severity.CRITICAL), replace(slow, action="b")
    told: list[Finding] = []
    for found in (slow, worse, other, replace(worse, action="b"), slow):
        for _ in range(2 * HOLD):
            says.append(found)
            told += onsets.look(Window(settings={}))
    assert told == [slow, replace(worse, action="b")]


def test_a_check_that_lacks_something_neither_begins_nor_ends_a_finding() -> None:
    says: list[Finding | NotChecked | None] = []
    onsets = Onsets({"wrong_driver": lambda window: says[-1]})
    for found in [planted("wrong_driver")] * HOLD + [NotChecked("live groups")] * (
        2 * CLEAR
    ):
        says.append(found)
        onsets.look(Window(settings={}))
    assert list(onsets.active) == ["wrong_driver"]
    assert onsets.not_checked == {"wrong_driver": "live groups"}


def test_a_window_of_any_length_makes_no_check_fail() -> None:
    logs = [{"grad_norm": None, "kl": math.nan, "entropy": "?", "learning_rate": None}] * 3
    for length in (0, 1, 2, RECENT_BATCHES, RECENT_BATCHES + 1):
        cards = run_of([MIXED] * length) if length else []
        for entries in ([], logs):
            window = window_of(cards, entries)
            assert all(check(window) is None or check(window) for check in CHECKS.values())


def spread(share: int) -> list[float]:
    """List scores of four groups of eight, with `share` right completions per group."""
    return ([1.0] * share + [0.0] * (8 - share)) * 4


def test_lengths_that_only_scatter_are_no_explosion() -> None:
    source = random.Random(0)
    for _ in range(5):
        pairs = [
            (step, int(source.lognormvariate(4, 0.7))) for step in range(24)
        ]  # siblings are of one length
        cards = [
            batch({"answer": [1, 0]}, step=step, size=2, completion_ids=[0] * count)
            for step, count in pairs
        ]
        assert (
            needs(window_of(cards), "length_explosion")
            == "8 groups in the first 4 batches; they have 4"
        )


def test_a_policy_that_has_converged_has_collapsed_only_if_its_answers_are_wrong() -> None:
    logs = [{"entropy": 2.0}] * 4 + [{"entropy": 0.05}] * 20
    converged = [spread(1)] * 4 + [[1] * 29 + [0] * 3] * 20
    assert "entropy_collapse" not in codes(window_of(run_of(converged), logs))
    right = Verdict(status=Status.CORRECT, score=1.0, answer="4")
    wrong = Verdict(status=Status.INCORRECT, score=0.0, answer="5")
    settled = [
        batch({"answer": [right] * 16 + [wrong] * 16}, step=step) for step in range(4, 24)
    ]
    found = CHECKS["entropy_collapse"](
        window_of([*run_of([spread(1)] * 4), *settled], logs)
    )
    assert isinstance(found, Finding)
    assert (
        "50 % of the groups are all right, 50 % agree on a wrong answer" in found.sentence
    )
    assert found.action.startswith("First compare answers and gold")


def test_a_warm_up_is_no_update_of_zero() -> None:
    cards = run_of([MIXED] * 16)
    rising = [{"kl": 0.0, "learning_rate": 1e-12 * step} for step in range(1, 20)]
    steady = [{"kl": 0.0, "learning_rate": 1e-12}] * 19
    assert codes(window_of(cards, rising)) == []
    assert codes(window_of(cards, steady)) == ["zero_updates"]


def test_a_policy_that_moves_a_little_is_not_where_it_began() -> None:
    for kl, found in ((1e-9, ["zero_updates"]), (1e-3, [])):
        assert (
            codes(window_of(run_of([MIXED] * 16), [{"kl": kl, "learning_rate": 1e-6}] * 19))
            == found
        )


def test_a_gradient_that_is_zero_since_every_group_is_dead_is_no_trouble() -> None:
    converged = run_of([MIXED] * 10 + [[1] * 32] * 6)
    assert "zero_updates" not in codes(
        window_of(converged, [{"grad_norm": 1.0}] * 10 + [{"grad_norm": 0.0}] * 6)
    )


def test_a_gradient_of_zero_in_the_last_step_of_a_log_says_nothing_of_the_steps_before_it() -> (
    None
):
    def window(*batches: Any) -> Window:
        view = RunView({})
        for card in run_of([*batches]):
            view.add(reduce_card(card, {}))
        for step in (5, 10, 15, 20):
            view.add_logs(step, {"loss": 0.1, "learning_rate": 1e-6, "grad_norm": 0.0})
        return view.window

    dead = [1] * 32
    assert "zero_updates" not in codes(window(*[MIXED, MIXED, MIXED, MIXED, dead] * 4))
    assert "zero_updates" in codes(window(*[MIXED] * 20))


def test_a_kl_divergence_that_pays_in_score_while_a_weight_fades_is_no_blow_up() -> None:
    def fading(step: int) -> Scorecard:
        scores = spread(min(8, 1 + step // 3))
        return batch(
            {"answer": scores, "form": [1] * 32},
            step=step,
            weights={"form": max(0.01, 1 - step / 20)},
        )

    high = [{"kl": 0.1 * step} for step in range(24)]
    assert "kl_blowup" not in codes(window_of([fading(step) for step in range(24)], high))


def test_a_score_that_falls_to_nothing_points_to_the_verifier() -> None:
    cards = run_of([spread(1)] * 4 + [spread(6)] * 20 + [[0] * 32] * 10)
    found = CHECKS["kl_blowup"](window_of(cards, [{"kl": 1.0}] * 34))
    assert isinstance(found, Finding)
    assert "the verifier or the data broke" in found.sentence
    assert "after 0.75" in found.sentence
    assert found.action.startswith("First judge a few")


def test_the_error_of_a_score_is_that_of_its_groups() -> None:
    alike = score_level(
        [reduce_card(card, {}) for card in run_of([([1] * 8 + [0] * 8) * 2])]
    )
    mixed = score_level([reduce_card(card, {}) for card in run_of([spread(4)])])
    assert alike is not None
    assert mixed is not None
    assert alike.mean == mixed.mean
    assert alike.error > 2 * mixed.error
