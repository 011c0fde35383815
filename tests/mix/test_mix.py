"""The reward mix: terms, totals, void rows, and the values passed to TRL."""

from __future__ import annotations

import math
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from planted import Column, samples_of

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Status, Verdict
from trl_grpo_ext.group_outcome import group_outcomes
from trl_grpo_ext.rewards import MathVerifier, ThinkFormatVerifier

RIGHT, WRONG = (
    Verdict(status=Status.CORRECT, score=1.0),
    Verdict(status=Status.INCORRECT, score=0.0),
)


def mix_of(**weights: float) -> RewardMix:
    return RewardMix(
        [
            RewardTerm(name=name, verifier=Column(name), weight=w)
            for name, w in weights.items()
        ]
    )


def test_the_total_is_the_weighted_sum() -> None:
    card = mix_of(a=1.0, b=0.5).score(samples_of(a=[1.0, 0.0], b=[1.0, 0.5]))
    assert card.totals == (1.5, 0.25)
    assert card.weights == {"a": 1.0, "b": 0.5}
    assert card.void == (False, False)


@pytest.mark.parametrize("blame", [Blame.GRADER, Blame.DATA])
def test_a_row_that_a_term_with_weight_could_not_judge_is_void_for_every_term(
    blame: Blame,
) -> None:
    card = mix_of(a=1.0, b=0.5, shadow=0.0).score(
        samples_of(a=[1.0, blame], b=[1.0, 1.0], shadow=[1.0, 1.0])
    )
    assert card.void == (False, True)
    assert card.totals == (1.5, None)
    assert [card.rewards(term) for term in card.terms] == [[1.0, None]] * 3
    assert card.values["b"] == (1.0, 1.0)  # what was judged is kept


def test_a_shadow_that_fails_voids_nothing() -> None:
    card = mix_of(a=1.0, shadow=0.0).score(
        samples_of(a=[1.0, 0.0], shadow=[Blame.GRADER, 1.0])
    )
    assert card.void == (False, False)
    assert card.rewards("shadow") == [None, 1.0]


def test_a_row_that_only_shadows_have_scored_is_void() -> None:
    card = mix_of(shadow=0.0).score(samples_of(shadow=[1.0]))
    assert (card.void, card.rewards("shadow")) == ((True,), [None])


@pytest.mark.parametrize("progress", [-0.1, 1.5, math.nan])
def test_a_progress_that_is_no_share_of_the_training_is_refused(progress: float) -> None:
    with pytest.raises(ValueError, match="Progress is the share"):
        mix_of(a=1.0).weights_at(progress)


@pytest.mark.parametrize(
    ("rewards", "verdicts", "outcome"),
    [
        ([[1, 1], [1, 1]], [RIGHT, RIGHT], "all_right"),
        ([[1, 1], [1, 1]], [RIGHT, None], "tied"),
        ([[0, 0], [0, 0]], [WRONG, WRONG], "all_wrong"),
        ([[0, 0], [0, 0]], [WRONG, None], "tied"),
        ([[1, math.nan], [0, 0]], [RIGHT, WRONG], "live"),
        ([[1, math.nan], [1, 0]], [RIGHT, RIGHT], "all_right"),
        ([[math.nan, math.nan], [1, 1]], [None, RIGHT], "all_right"),
        ([[math.nan, math.nan]] * 2, [None, None], "void"),
    ],
)
def test_a_group_teaches_something_if_its_members_that_were_judged_differ(
    rewards: list[list[float]], verdicts: list[Verdict | None], outcome: str
) -> None:
    assert group_outcomes(
        np.array(rewards, dtype=float), np.ones(2), verdicts, [[0, 1]]
    ) == (outcome,)


def test_trl_gets_one_function_a_term_and_each_verifier_runs_once_a_batch() -> None:
    mix = mix_of(a=1.0, b=1.0)
    first, second = mix.reward_funcs()
    assert [first.__name__, second.__name__] == ["a", "b"]
    completions = ["x", "y"]
    assert first(completions=completions, a=[1.0, 0.0], b=[0.5, Blame.DATA]) == [1.0, None]
    assert second(completions=completions, a=[1.0, 0.0], b=[0.5, Blame.DATA]) == [0.5, None]
    assert [term.verifier.calls for term in mix.terms] == [1, 1]  # type: ignore[attr-defined]


def test_a_second_batch_in_the_same_list_object_is_judged_anew() -> None:
    first, second = mix_of(a=1.0, b=1.0).reward_funcs()
    completions = ["x"]
    for score in (0.0, 1.0):
        assert first(completions=completions, a=[score], b=[1.0]) == [score]
        assert second(completions=completions, a=[score], b=[1.0]) == [1.0]
    for score in (0.0, 1.0):  # though not every term has read the one before
        assert first(completions=completions, a=[score], b=[1.0]) == [score]


def test_batches_in_several_threads_do_not_mix() -> None:
    functions = mix_of(a=1.0, b=1.0).reward_funcs()
    results: dict[int, list[list[float | None]]] = {}

    def work(number: int) -> None:
        completions = [str(number)] * 3
        columns = {"a": [float(number)] * 3, "b": [float(-number)] * 3}
        results[number] = [
            function(completions=completions, **columns) for function in functions
        ]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [[float(n)] * 3, [float(-n)] * 3] for n in range(20)}


def test_a_batch_that_every_term_has_read_is_let_go() -> None:
    functions = mix_of(a=1.0, b=1.0).reward_funcs()
    completions = ["x"]
    for function in functions:
        function(completions=completions, a=[1.0], b=[1.0])
    assert not functions[0].scorer._batches


def test_batches_that_were_never_read_to_the_end_do_not_pile_up() -> None:
    first, _ = mix_of(a=1.0, b=1.0).reward_funcs()
    for _ in range(1000):
        first(completions=["x"], a=[1.0], b=[1.0])
    assert len(first.scorer._batches) <= 256


def test_the_functions_survive_pickling_together() -> None:
    first, second = pickle.loads(pickle.dumps(mix_of(a=1.0, b=1.0).reward_funcs()))
    assert first.scorer is second.scorer
    assert first(completions=["x"], a=[1.0], b=[0.0]) == [1.0]


def test_verdicts_and_void_share_are_logged_once_a_batch_under_the_terms_names() -> None:
    functions = mix_of(a=1.0, b=1.0).reward_funcs()
    completions = ["x", "y"]
    columns: dict[str, list[Any]] = {}
    metrics: list[tuple[str, float]] = []
    for function in functions:
        function(
            completions=completions,
            a=[1.0, Blame.GRADER],
            b=[1.0, 1.0],
            log_extra=columns.__setitem__,
            log_metric=lambda name, value: metrics.append((name, value)),
        )
    assert columns["a/status"] == ["correct", "error"]
    assert dict(metrics)["verified/void"] == 0.5
    assert (
        len(metrics)
        == len(dict(metrics))
        == 2 * (len(Status) + len(("score", "coverage", "gated", "weight"))) + 1
    )


@pytest.mark.parametrize(
    "weight", ["heavy", "1", None, True, math.nan, math.inf, 10**400, [1.0]]
)
def test_a_weight_that_is_no_finite_number_is_refused_by_name(weight: Any) -> None:
    with pytest.raises(ValueError, match="'accuracy' must be a finite number"):
        RewardTerm(name="accuracy", verifier=MathVerifier(), weight=weight)


@pytest.mark.parametrize("name", ["", "a b", "rewards/a", None, 3])
def test_a_name_that_cannot_be_a_key_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="name must be"):
        RewardTerm(name=name, verifier=MathVerifier())


@pytest.mark.parametrize("verifier", [len, MathVerifier, "math", None])
def test_what_is_no_verifier_is_refused_with_what_to_do(verifier: Any) -> None:
    with pytest.raises(TypeError, match="@verifier"):
        RewardTerm(name="a", verifier=verifier)


def test_two_terms_with_one_name_are_refused() -> None:
    terms = [
        RewardTerm(name="a", verifier=MathVerifier()),
        RewardTerm(name="a", verifier=ThinkFormatVerifier()),
    ]
    with pytest.raises(ValueError, match="Two reward terms have the name 'a'"):
        RewardMix(terms)


def test_no_terms_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        RewardMix([])


def test_a_missing_column_names_the_term_the_column_and_what_there_is() -> None:
    mix = RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())])
    with pytest.raises(ValueError, match=r"'accuracy'.*`solution` or `answer`.*`prompt`"):
        mix.check_columns(["prompt"])


@pytest.mark.parametrize("advantages", [[], [1.0], [1.0, -1.0, 0.0]])
def test_a_scorecard_takes_as_many_advantages_as_it_has_samples(
    advantages: list[float],
) -> None:
    card = mix_of(a=1.0).score(samples_of(a=[1.0, 0.0]))
    assert card.with_advantages([1.0, -1.0]).advantages == (1.0, -1.0)
    with pytest.raises(ValueError, match="2 samples need as many advantages"):
        card.with_advantages(advantages)
