"""Terms: gates, routing, shapes, combinations, unscored samples, and start-up errors."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import pytest
from planted import Column, from_minus_one, samples_of
from windows import diagnosis_of, window_of

from trl_grpo_ext import (
    Blame,
    RewardMix,
    RewardTerm,
    Sample,
    Scorecard,
    Status,
    Verdict,
    Verifier,
    verifier,
)
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.finding import Finding
from trl_grpo_ext.figures.logged import verdict_figures
from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix import (
    Clip,
    Gate,
    Schedule,
    Threshold,
    first,
    minimum,
    piecewise,
    product,
)
from trl_grpo_ext.mix.reward_mix import UnscoredError
from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.verdict import as_verdict


def term(name: str, **settings: Any) -> RewardTerm:
    return RewardTerm(name=name, verifier=Column(name), **settings)


def score(*terms: RewardTerm, **columns: list[Any]) -> Scorecard:
    return RewardMix(terms).score(samples_of(**columns))


RIGHT_AND_WRONG = {"right": [1.0, 0.0], "long": [-0.5, -0.5]}


def test_a_closed_gate_sets_the_value_to_zero_and_keeps_the_raw_score() -> None:
    card = score(term("right"), term("long", gate="right"), **RIGHT_AND_WRONG)
    assert card.values["long"] == (-0.5, 0.0)
    assert card.gated["long"] == (False, True)
    assert [verdict.score for verdict in card.verdicts["long"] if verdict] == [-0.5, -0.5]
    assert card.totals == (0.5, 0.0)


def test_a_closed_gate_may_scale_or_floor_instead() -> None:
    card = score(
        term("right"), term("long", gate=Gate("right", scale=0.1)), **RIGHT_AND_WRONG
    )
    assert card.values["long"] == (-0.5, -0.05)
    card = score(
        term("right"), term("long", gate=Gate("right", floor=-1.0)), **RIGHT_AND_WRONG
    )
    assert card.values["long"] == (-0.5, -1.0)


def test_a_gate_opens_at_its_threshold() -> None:
    card = score(
        term("right"),
        term("long", gate=Gate("right", at_least=0.5)),
        right=[0.49, 0.5, 1.0],
        long=[1.0, 1.0, 1.0],
    )
    assert card.values["long"] == (0.0, 1.0, 1.0)


def test_a_shadow_may_be_a_gate_and_gates_may_stand_before_what_they_name() -> None:
    card = score(term("long", gate="right"), term("right", weight=0), **RIGHT_AND_WRONG)
    assert card.values["long"] == (-0.5, 0.0)
    assert card.terms == ("long", "right")


def test_a_gate_that_could_not_be_judged_leaves_its_term_without_a_value_and_voids_the_row() -> (
    None
):
    card = score(
        term("right", weight=0),
        term("long", gate="right"),
        right=[Blame.GRADER, 1.0],
        long=[-0.5, -0.5],
    )
    assert card.values["long"] == (None, -0.5)
    assert card.void == (True, False)


def test_where_a_gate_does_not_apply_neither_does_its_term() -> None:
    card = score(
        term("right", when={"task": "math"}),
        term("long", gate="right"),
        term("other"),
        task=["math", "code"],
        right=[1.0, 1.0],
        long=[0.5, 0.5],
        other=[0.0, 0.0],
    )
    assert [verdict is None for verdict in card.verdicts["long"]] == [False, True]
    assert card.void == (False, False)


def test_gates_see_values_after_shape_and_gate() -> None:
    card = score(
        term("a"),
        term("b", gate="a", shape=lambda value, verdict: 2 * value),
        term("c", gate=Gate("b", at_least=2.0)),
        a=[1.0, 0.0],
        b=[1.0, 1.0],
        c=[1.0, 1.0],
    )
    assert card.values["b"] == (2.0, 0.0)
    assert card.values["c"] == (1.0, 0.0)


def test_a_term_judges_only_the_rows_it_is_for() -> None:
    math_term, code_term = (
        term("math", when={"task": "math"}),
        term("code", when={"task": ["code", "sql"]}),
    )
    card = score(
        math_term,
        code_term,
        task=["math", "code", "sql"],
        math=[1.0, None, None],
        code=[None, 0.5, 0.25],
    )
    assert card.totals == (1.0, 0.5, 0.25)
    assert card.values == {"math": (1.0, None, None), "code": (None, 0.5, 0.25)}
    assert [len(v.seen) for v in (math_term.verifier, code_term.verifier)] == [1, 2]  # type: ignore[union-attr]


def test_a_row_that_no_term_in_force_is_for_is_void_though_a_shadow_has_scored_it() -> None:
    mix = RewardMix([term("math", when={"task": "math"}), term("shadow", weight=0)])
    samples = samples_of(task=["math", "code"], math=[1.0, 1.0], shadow=[1.0, 1.0])
    card, beside_others = (mix.score(samples, alone=alone) for alone in (True, False))
    assert card.void == (False, True)
    assert card.rewards("shadow") == [1.0, None]
    assert beside_others.void == (
        False,
        False,
    )  # another reward function may have scored it
    assert beside_others.rewards("shadow") == [1.0, 1.0]


def test_several_columns_must_all_match() -> None:
    card = score(
        term("a", when={"task": "math", "level": [1, 2]}), term("b"), task=["math", "math", "code"], level=[2, 3, 1],
        a=[1.0] * 3, b=[0.0] * 3,
    )  # fmt: skip
    assert card.values["a"] == (1.0, None, None)


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        (Clip(low=-0.5), (-0.5, 0.0, 0.25, 3.0)),
        (Clip(-1.0, 1.0), (-1.0, 0.0, 0.25, 1.0)),
        (Threshold(0.25), (0.0, 0.0, 1.0, 1.0)),
        (from_minus_one, (-5.0, -1.0, -0.5, 5.0)),
        ([from_minus_one, Clip(-1.0, 1.0)], (-1.0, -1.0, -0.5, 1.0)),
        (lambda value, verdict: value * value, (4.0, 0.0, 0.0625, 9.0)),
    ],
)
def test_a_shape_makes_values_of_scores(shape: Any, values: tuple[float, ...]) -> None:
    assert score(term("a", shape=shape), a=[-2.0, 0.0, 0.25, 3.0]).values["a"] == values


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        (lambda value, verdict: math.nan, "the shape of `a` returned nan"),
        (lambda value, verdict: None, "the shape of `a` returned None"),
        (lambda value: value, "the shape of `a` raised TypeError: "),
        (lambda value, verdict: 1 / 0, "the shape of `a` raised ZeroDivisionError: "),
        (lambda value, verdict: 1e308 * value, "the shape of `a` returned inf"),
    ],
)
def test_a_shape_that_makes_no_finite_number_is_the_graders_fault(
    shape: Any, error: str, caplog: Any
) -> None:
    with caplog.at_level(logging.CRITICAL):
        card = score(term("a", shape=shape), a=[10.0] * 8)
    assert card.values["a"] == (None,) * 8
    assert card.void == (True,) * 8
    verdict = card.verdicts["a"][0]
    assert verdict is not None
    assert (verdict.blame, verdict.reason) == (Blame.GRADER, "shape_failed")
    assert verdict.details["error"].startswith(error)
    told = CHECKS["grader_trouble"](window_of([card] * 4))
    assert isinstance(told, Finding)
    assert error in told.sentence
    assert told.action.startswith("Mend the shape of `a`")


def test_the_unscored_void_the_row_or_count_zero_or_end_the_run_as_asked() -> None:
    columns = {"a": [Blame.GRADER, 1.0], "b": [1.0, 1.0]}
    assert score(term("a"), term("b"), **columns).totals == (None, 2.0)
    card = score(term("a", on_unscored="zero"), term("b"), **columns)
    assert (card.totals, card.void) == ((1.0, 2.0), (False, False))
    assert card.verdicts["a"][0] is not None
    assert card.verdicts["a"][0].score is None  # the verdict stays what it was
    with pytest.raises(
        UnscoredError, match=r"'a' could not judge.*planted.*fault of the grader.*The row:"
    ):
        score(term("a", on_unscored="raise"), term("b"), **columns)
    assert score(term("a", on_unscored="raise", weight=0), term("b"), **columns).totals == (
        1.0,
        1.0,
    )


def combined(combination: Any, **columns: list[Any]) -> Scorecard:
    parts = [term(name, weight=0, when={f"{name}_on": True}) for name in ("a", "b")]
    return score(*parts, RewardTerm(name="both", combine=combination), **columns)


PARTS = {
    "a_on": [True] * 4,
    "b_on": [True, True, True, False],
    "a": [1.0, 0.5, -1.0, 0.5],
    "b": [0.5, 0.0, 1.0, 1.0],
}


@pytest.mark.parametrize(
    ("combination", "values"),
    [
        (product("a", "b"), (0.5, 0.0, -1.0, 0.5)),
        (minimum("a", "b"), (0.5, 0.0, -1.0, 0.5)),
        (first("b", "a"), (0.5, 0.0, 1.0, 0.5)),
        (first("a", "b"), (1.0, 0.5, -1.0, 0.5)),
    ],
)
def test_a_combination_makes_one_value_of_several(
    combination: Any, values: tuple[float, ...]
) -> None:
    card = combined(combination, **PARTS)
    assert card.values["both"] == card.totals == values


def test_a_combination_of_what_could_not_be_judged_is_void_and_says_which_part() -> None:
    columns = {
        "a_on": [True, True],
        "b_on": [True, False],
        "a": [1.0, 1.0],
        "b": [Blame.DATA, 1.0],
    }
    card = combined(product("a", "b"), **columns)
    assert card.void == (True, False)
    verdict = card.verdicts["both"][0]
    assert verdict is not None
    assert (verdict.blame, verdict.status, verdict.reason) == (
        Blame.DATA,
        Status.SKIPPED,
        "b_unscored",
    )


def test_a_term_behind_a_gate_that_could_not_be_judged_passes_the_blame_on() -> None:
    gated = term("b", weight=0, gate="a")
    both = RewardTerm(name="both", combine=product("b"))
    card = score(term("a", weight=0), gated, both, a=[Blame.DATA, 1.0], b=[1.0, 1.0])
    assert card.void == (True, False)
    for name, reason in (("b", "a_unscored"), ("both", "b_unscored")):
        verdict = card.verdicts[name][0]
        assert verdict is not None
        assert (verdict.blame, verdict.status, verdict.reason) == (
            Blame.DATA,
            Status.SKIPPED,
            reason,
        )


def none_for_even_rows(
    completions: list[str], number: list[int], **_: Any
) -> list[float | None]:
    return [None if each % 2 == 0 else 0.5 for each in number]


def test_a_plain_function_of_trl_is_a_term_and_its_none_does_not_apply() -> None:
    mix = RewardMix(
        [term("a"), RewardTerm(name="plain", verifier=none_for_even_rows, weight=2.0)]
    )
    rows = [{"number": 1, "a": 1.0}, {"number": 2, "a": 1.0}]
    card = mix.score([Sample(text="x", prompt="?", row=row) for row in rows])
    assert card.values["plain"] == (0.5, None)
    assert card.totals == (2.0, 1.0)
    with pytest.raises(
        TypeError, match="'none_for_even_rows' is a plain reward function of TRL"
    ):
        verifier(none_for_even_rows)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="or a function that takes `completions`"):
        RewardTerm(name="other", verifier=len)  # type: ignore[arg-type]


def test_a_product_that_overflows_is_the_graders_fault_with_its_reason() -> None:
    verdict = product("a", "b").verdict([(as_verdict(1.0), 1e200)] * 2)
    assert verdict is not None
    assert (verdict.score, verdict.blame, verdict.reason) == (
        None,
        Blame.GRADER,
        "score_not_finite",
    )


def test_of_two_parts_without_a_score_the_graders_fault_is_told() -> None:
    parts = score(
        term("a", weight=0), term("b", weight=0), a=[Blame.DATA], b=[Blame.GRADER]
    ).verdicts
    verdict = product("a", "b").verdict([(parts["a"][0], None), (parts["b"][0], None)])
    assert verdict is not None
    assert (verdict.blame, verdict.status, verdict.reason) == (
        Blame.GRADER,
        Status.ERROR,
        "b_unscored",
    )


def test_a_combination_of_nothing_that_applies_does_not_apply() -> None:
    card = combined(minimum("a", "b"), a_on=[False], b_on=[False], a=[1.0], b=[1.0])
    assert card.verdicts["both"] == (None,)
    assert card.void == (True,)


class Shortest(GroupVerifier):
    """A group verifier that scores 1 for the shortest completion, else 0."""

    def verify_group(self, samples: Any) -> list[Verdict]:
        least = min(len(sample.text) for sample in samples)
        return [as_verdict(len(sample.text) == least) for sample in samples]


def grouped(texts: list[str], groups: list[int], right: list[Any]) -> list[Sample]:
    return [
        Sample(text=text, group=group, row={"right": score})
        for text, group, score in zip(texts, groups, right, strict=True)
    ]


def test_the_time_that_a_comparison_takes_is_shared_by_those_compared() -> None:
    verdicts = Shortest().judge_samples(grouped(["a", "bbb", "cc"], [0, 0, 1], [1.0] * 3))
    assert verdicts[0].seconds == verdicts[1].seconds > 0
    assert verdicts[2].seconds > 0


def test_a_group_relative_term_compares_only_what_its_gate_lets_through() -> None:
    mix = RewardMix(
        [term("right"), RewardTerm(name="short", verifier=Shortest(), gate="right")]
    )
    samples = grouped(
        ["a", "bbb", "cc", "dddd"], [0, 0, 0, 1], [0.0, 1.0, 1.0, Blame.GRADER]
    )
    card = mix.score(samples)
    assert card.values["short"] == (0.0, 0.0, 1.0, None)  # the shortest, "a", is wrong
    assert [v.reason for v in card.verdicts["short"] if v] == [
        "gate_closed",
        "",
        "",
        "right_unscored",
    ]
    assert card.void == (False, False, False, True)


@pytest.mark.parametrize("gated_by", [Blame.DATA, Blame.GRADER])
def test_a_group_relative_term_has_the_blame_of_the_gate_that_it_waits_for(
    gated_by: Blame,
) -> None:
    mix = RewardMix(
        [term("right"), RewardTerm(name="short", verifier=Shortest(), gate="right")]
    )
    card = mix.score(grouped(["a", "bbb"], [0, 0], [gated_by, gated_by]))
    assert [(one.blame, one.reason) for one in card.verdicts["short"] if one] == [
        (gated_by, "right_unscored")
    ] * 2


def test_the_headline_of_golds_that_are_missing_names_the_data_and_the_term_not_the_one_that_waits_for_it() -> (
    None
):
    mix = RewardMix(
        [
            RewardTerm(name="short", verifier=Shortest(), gate="right", weight=0.5),
            term("right"),
        ]
    )
    cards = [
        mix.score(
            [
                replace(one, step=step)
                for one in grouped(["a", "bbb"] * 8, [0] * 8 + [1] * 8, [Blame.DATA] * 16)
            ]
        )
        for step in range(8)
    ]
    told = diagnosis_of(cards, {}).sentence
    assert told.startswith(
        "The data, not the model: 100 % of the completions have nothing that `right` could judge"
    )


def test_a_group_that_is_split_between_ranks_is_compared_whole() -> None:
    mix = RewardMix(
        [term("right"), RewardTerm(name="short", verifier=Shortest(), gate="right")]
    )
    samples = grouped(["aaaa", "bbb", "cc", "d"], [0, 0, 0, 0], [1.0, 1.0, 1.0, 0.0])
    whole = mix.score(samples)
    halves: list[Any] = []
    mix.score(samples[:2], gather=lambda items: halves.extend(items) or (items, 0))
    mix.score(samples[2:], gather=lambda items: halves.extend(items) or (items, 0))
    parts = [
        mix.score(samples[:2], gather=lambda items: (halves, 0)),
        mix.score(samples[2:], gather=lambda items: (halves, 2)),
    ]
    assert (
        parts[0].values["short"] + parts[1].values["short"]
        == whole.values["short"]
        == (0.0, 0.0, 1.0, 0.0)
    )


def test_plain_trl_refuses_a_group_relative_term() -> None:
    mix = RewardMix([RewardTerm(name="short", verifier=Shortest())])
    with pytest.raises(
        ValueError,
        match=r"'short' compares the completions of a group.*VerifiedGRPOTrainer",
    ):
        mix.reward_funcs()
    with pytest.raises(ValueError, match="plain TRL does not tell"):
        Shortest()(["a", "b"])


class Broken(Verifier):
    def __init__(self, result: Any) -> None:
        self.result = result

    def verify(self, sample: Sample) -> Verdict:
        raise AssertionError

    def judge_samples(self, samples: Any) -> Any:
        return 1 / 0 if self.result is None else self.result


@pytest.mark.parametrize("result", [None, []])
def test_a_verifier_that_breaks_its_contract_is_the_graders_fault(
    result: Any, caplog: Any
) -> None:
    with caplog.at_level(logging.CRITICAL):
        card = RewardMix([RewardTerm(name="broken", verifier=Broken(result))]).score(
            samples_of(a=[1.0, 1.0])
        )
    assert card.void == (True, True)
    assert {verdict.blame for verdict in card.verdicts["broken"] if verdict} == {
        Blame.GRADER
    }


def test_terms_that_wait_for_each_other_are_refused_with_the_circle() -> None:
    with pytest.raises(ValueError, match=r"in a circle: (a -> b -> a|b -> a -> b)"):
        RewardMix([term("a", gate="b"), term("b", gate="a")])
    with pytest.raises(ValueError, match="in a circle: a -> a"):
        RewardMix([term("a", gate="a")])
    with pytest.raises(ValueError, match="in a circle"):
        RewardMix([term("a", gate="both"), RewardTerm(name="both", combine=product("a"))])


def test_a_name_that_the_mix_does_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"'long' names the term 'accurcy'.*Did you mean `accuracy`"
    ):
        RewardMix([term("accuracy"), term("long", gate="accurcy")])
    with pytest.raises(ValueError, match="'both' names the term 'c'"):
        RewardMix([term("a"), RewardTerm(name="both", combine=product("a", "c"))])


def test_a_routing_column_that_the_data_does_not_have_is_refused_by_term() -> None:
    mix = RewardMix(
        [RewardTerm(name="accuracy", verifier=MathVerifier(), when={"tasks": "math"})]
    )
    with pytest.raises(
        ValueError, match=r"'accuracy': `when` looks at.*`tasks`.*Did you mean `task`"
    ):
        mix.check_columns(["solution", "task"])


@pytest.mark.parametrize(
    ("error", "message", "settings"),
    [
        (ValueError, "both", lambda: {"gate": Gate("a", scale=1.0, floor=0.0)}),
        (
            ValueError,
            "`at_least` must be a finite number",
            lambda: {"gate": Gate("a", at_least=math.nan)},
        ),
        (ValueError, "name of another term", lambda: {"gate": ""}),
        (TypeError, "'x' is a Gate or a term's name", lambda: {"gate": 3}),
        (ValueError, "'x': `when` maps dataset columns", lambda: {"when": "math"}),
        (ValueError, "'x': `when` lists no value", lambda: {"when": {"task": []}}),
        (TypeError, "shape of the reward term 'x'", lambda: {"shape": "clip"}),
        (TypeError, "shape of the reward term 'x'", lambda: {"shape": Clip}),
        (ValueError, "`low` must not be above", lambda: {"shape": Clip(1.0, 0.0)}),
        (ValueError, "needs a `low`", lambda: {"shape": Clip()}),
        (
            ValueError,
            "shape 'threshold' needs a finite number as `at`",
            lambda: {"shape": Threshold(math.nan)},
        ),
        (
            ValueError,
            "shape 'clip' makes one value of every score.*`low` and `high`",
            lambda: {"shape": Clip(0, 0)},
        ),
        (
            ValueError,
            "shape 'threshold' makes one value",
            lambda: {"shape": Threshold(0.5, above=0.0)},
        ),
        (
            ValueError,
            "'x' has no on_unscored 'void'. Did you mean `void_row`",
            lambda: {"on_unscored": "void"},
        ),
        (
            ValueError,
            r"'x': `only` is 'eval' or left out, got \['eval'\]",
            lambda: {"only": ["eval"]},
        ),
        (
            TypeError,
            "'x' has a verifier, or else a combination",
            lambda: {"combine": product("a")},
        ),
        (ValueError, "lists a term twice", lambda: {"combine": product("a", "a")}),
        (ValueError, "list of the names", lambda: {"combine": product()}),
    ],
)
def test_a_term_that_cannot_be_is_refused_by_name(
    error: Any, message: str, settings: Any
) -> None:
    with pytest.raises(error, match=message):
        term("x", **settings())


def test_what_a_gate_leaves_out_is_in_no_share_and_no_shape_gives_it_a_value() -> None:
    one_more = lambda value, verdict: value + 1  # noqa: E731
    short = RewardTerm(
        name="short", verifier=Shortest(), gate=Gate("right", scale=0.5), shape=one_more
    )
    mix = RewardMix([term("right"), short])
    card = mix.score(grouped(["a", "bbb", "cc"], [0, 0, 0], [0.0, 1.0, 1.0]))
    assert card.values["short"] == (0.0, 1.0, 2.0)
    figures = verdict_figures(card)
    assert figures["verified/short/skipped"] == 0
    assert figures["verified/short/score"] == 0.5
    assert figures["verified/short/gated"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("error", "message", "make"),
    [
        (TypeError, "takes the names of other terms", lambda: product(["a", "b"])),
        (TypeError, "takes the names of other terms", lambda: product(term("a"))),
        (TypeError, "takes a list of terms", lambda: RewardMix(term("a"))),
        (ValueError, "finite number as `low`", lambda: Clip(low="", high=2.0)),
        (ValueError, "finite number as `low`", lambda: Clip(low=False)),
        (TypeError, "mapping of times to weights", lambda: piecewise([(0, 1), (1, 0)])),
        (ValueError, "pairs of a time and a weight", lambda: Schedule(points=(0, 1))),
        (ValueError, "whole numbers", lambda: piecewise({0: 1.0, 0.5: 0.0}, unit="step")),
        (
            ValueError,
            "'a' must be a finite number, and the function raised TypeError",
            lambda: term("a", weight=two),
        ),
        (
            ValueError,
            "raised ZeroDivisionError",
            lambda: term("a", weight=lambda p: 1 / (p - 1)),
        ),
    ],
)
def test_mistakes_in_python_say_what_is_wanted(error: Any, message: str, make: Any) -> None:
    with pytest.raises(error, match=message):
        make()


def two(progress: float, step: int) -> float:
    return 1.0
