"""Verifiers: the decorator, TRL's reward protocol, pickling."""

from __future__ import annotations

import json
import math
import pickle
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isolated_verifiers import inline

from trl_grpo_ext import (
    Blame,
    RewardMix,
    RewardTerm,
    Sample,
    Status,
    Verdict,
    Verifier,
    verifier,
)
from trl_grpo_ext.rewards import (
    AllOf,
    BoxedVerifier,
    ConciseVerifier,
    DiversityVerifier,
    ExactTextVerifier,
    FirstScored,
    JsonVerifier,
    LanguageVerifier,
    MathVerifier,
    MultipleChoiceVerifier,
    NumericVerifier,
    OverlapVerifier,
    OverlongVerifier,
    RegexVerifier,
    RepetitionVerifier,
    TagsVerifier,
    ThinkFormatVerifier,
    TokenBudgetVerifier,
    UnitTestVerifier,
    boxed_reward,
    code_format_reward,
    exact_text_reward,
    json_reward,
    math_reward,
    multiple_choice_reward,
    numeric_reward,
    overlap_reward,
    think_format_reward,
)
from trl_grpo_ext.rewards.function import FunctionVerifier


class Length(Verifier):
    def verify(self, sample: Sample) -> Verdict:
        return Verdict(status=Status.CORRECT, score=float(len(sample.text)))


def test_a_subclass_is_a_reward_function_named_after_its_class() -> None:
    assert Length()(["a", "bcd"]) == [1.0, 3.0]
    assert Length().__name__ == "length"
    assert MathVerifier().__name__ == "math"
    assert ThinkFormatVerifier(name="thinks").__name__ == "thinks"


def test_a_subclass_without_a_constructor_of_its_own_takes_a_name() -> None:
    class Polite(Verifier):
        def verify(self, sample: Sample) -> Verdict:
            return Verdict(status=Status.CORRECT, score=1.0)

    assert [Polite().__name__, Polite(name="kind").__name__] == ["polite", "kind"]


def test_a_dataset_may_have_a_column_of_any_name() -> None:
    row = {"self": ["1"], "term": ["2"], "columns": ["3"], "solution": ["4"]}
    assert math_reward(completions=["4"], **row) == [1.0]
    (reward,) = RewardMix([RewardTerm(name="math", verifier=math_reward)]).reward_funcs()
    assert reward(completions=["4"], **row) == [1.0]


def test_a_decorated_function_is_a_verifier_that_keeps_its_name_and_doc() -> None:
    assert isinstance(inline, Verifier)
    assert (inline.__name__, inline.__doc__) == ("inline", 'True for "right".')
    assert inline(["right", "wrong"]) == [1.0, 0.0]


def test_a_decorated_function_pickles_to_itself() -> None:
    assert pickle.loads(pickle.dumps(inline)) is inline


def test_a_function_that_no_other_process_could_find_says_so_when_pickled() -> None:
    @verifier
    def local(sample: Sample) -> bool:
        return True

    with pytest.raises(pickle.PicklingError, match="top level of a module"):
        pickle.dumps(local)


@pytest.mark.parametrize("isolated", [False, True])
def test_what_is_no_function_is_refused(isolated: bool) -> None:
    class Callable:
        def __call__(self, sample: Sample) -> bool:
            return True

    for judge in (partial(isinstance, Sample), Callable(), Callable):
        with pytest.raises(
            TypeError, match="Write a function that calls it, or a subclass of Verifier"
        ):
            verifier(isolated=isolated)(judge)  # type: ignore[arg-type, unused-ignore]


def test_an_isolated_function_inside_a_function_is_refused() -> None:
    with pytest.raises(ValueError, match="Move it to a module"):

        @verifier(isolated=True)
        def local(sample: Sample) -> bool:
            return True


def test_an_isolated_function_of_the_script_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from trl_grpo_ext import verifier\n@verifier(isolated=True)\ndef mine(sample): return True\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "Move it to a module" in done.stderr


def test_an_async_function_is_refused() -> None:
    with pytest.raises(TypeError, match="async"):

        @verifier
        async def judge(sample: Sample) -> bool:
            return True


def test_an_exception_blames_the_grader_and_the_other_rows_are_judged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @verifier
    def fragile(sample: Sample) -> bool:
        return 1 / len(sample.text) > 0

    verdicts = fragile.judge(["a", "", "b", ""])
    assert [verdict.score for verdict in verdicts] == [1.0, None, 1.0, None]
    assert (verdicts[1].status, verdicts[1].blame) == (Status.ERROR, Blame.GRADER)
    assert verdicts[1].reason == "raised_ZeroDivisionError"
    assert re.fullmatch(
        r"ZeroDivisionError: division by zero \(test_protocol.py:\d+\)",
        verdicts[1].details["error"],
    )
    assert (
        caplog.text.count("'fragile' raised ZeroDivisionError") == 1
    )  # with its traceback, once
    assert "1 / len(sample.text)" in caplog.text


def test_an_error_says_which_line_of_the_users_led_to_it_and_fits_into_any_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class SecretiveError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    @verifier
    def fragile(sample: Sample) -> bool:
        match sample.text:
            case "library":
                json.loads("{")
            case "long":
                raise ValueError("a\n" * 1000 + "\udcff")
            case "odd":
                raise ValueError("\udcff")
        raise SecretiveError

    library, long, odd, secretive = (
        verdict.details["error"]
        for verdict in fragile.judge(["library", "long", "odd", "secretive"])
    )
    assert re.fullmatch(r"JSONDecodeError: Expecting .* \(test_protocol.py:\d+\)", library)
    assert re.fullmatch(r"ValueError: [a ]+ \(test_protocol.py:\d+\)", long)
    assert len(long) == 300
    assert odd.startswith(r"ValueError: \udcff (")
    assert secretive.startswith("SecretiveError (")
    assert "\\udcff" in caplog.text
    assert caplog.text.encode()  # neither does the log hold half a surrogate


def test_a_verifier_may_look_at_columns_and_prompts() -> None:
    @verifier
    def echo(sample: Sample) -> bool:
        return sample.text == f"{sample.prompt}{sample.row['suffix']}"

    assert echo(["ab", "ab"], prompts=["a", "a"], suffix=["b", "c"]) == [1.0, 0.0]


class Broken(Verifier):
    def verify(self, sample: Sample) -> Verdict:
        raise KeyError(sample.text)


def test_seconds_are_measured_of_a_verifier_that_raises_too() -> None:
    assert inline.judge(["right"])[0].seconds > 0
    assert Broken().judge(["right"])[0].seconds > 0


def test_verdicts_reach_trls_logs_with_every_key_on_every_call() -> None:
    columns: dict[str, list[Any]] = {}
    metrics: dict[str, float] = {}
    for completions in (["right", "wrong"], []):
        columns.clear()
        metrics.clear()
        inline(completions, log_extra=columns.__setitem__, log_metric=metrics.__setitem__)
        assert list(columns) == [
            "inline/status",
            "inline/answer",
            "inline/reason",
            "inline/details",
        ]
        assert all(len(values) == len(completions) for values in columns.values())
        assert list(metrics) == [f"verified/inline/{status}" for status in Status]
    inline(["right", "wrong"], log_metric=metrics.__setitem__)
    assert (metrics["verified/inline/correct"], metrics["verified/inline/incorrect"]) == (
        0.5,
        0.5,
    )


SHIPPED = [
    math_reward,
    think_format_reward,
    RegexVerifier(pattern="(a|b)+c?"),
    boxed_reward,
    code_format_reward,
    exact_text_reward,
    json_reward,
    multiple_choice_reward,
    numeric_reward,
    overlap_reward,
    LanguageVerifier(language="en"),
    TagsVerifier(tags=["think", "answer"]),
    AllOf(verifiers=[BoxedVerifier(), MathVerifier()]),
    FirstScored(verifiers=[MathVerifier(), BoxedVerifier()]),
    inline,
]


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda shipped: shipped.__name__)
@given(
    st.lists(
        st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")),
        max_size=3,
    )
)
def test_every_verifier_returns_one_finite_float_or_none_a_completion(
    shipped: FunctionVerifier, completions: list[str]
) -> None:
    scores = shipped(completions, solution=["1/2"] * len(completions))
    assert len(scores) == len(completions)
    assert all(score is None or math.isfinite(score) for score in scores)


CONFIGURED = [
    ConciseVerifier(tolerance=0.1),
    DiversityVerifier(of="answer"),
    ExactTextVerifier(column="gold", ignore_case=True),
    JsonVerifier(schema={"type": "object"}),
    MultipleChoiceVerifier(column="gold", index_base=1),
    NumericVerifier(relative=0.01, units=["km"]),
    OverlapVerifier(measure="recall", max_items=3),
    OverlongVerifier(max_completion_len=100, soft_punish_cache=20),
    RegexVerifier(pattern="a", match="count", at_most=2),
    RepetitionVerifier(name="loops"),
    TagsVerifier(tags=["a", "a/b+"]),
    TokenBudgetVerifier(column="budget", name="length"),
]


@pytest.mark.parametrize(
    "shipped", SHIPPED + CONFIGURED, ids=lambda shipped: shipped.__name__
)
def test_every_verifier_survives_pickling_also_after_use(shipped: Verifier) -> None:
    shipped.judge_samples([Sample(text="<think>c</think>ab", row={"solution": "2"})])
    assert pickle.loads(pickle.dumps(shipped)) == shipped


def called_decorator(sample: Sample) -> bool:
    return True


def test_a_verifier_under_another_name_than_its_functions_says_so_when_it_would_matter() -> (
    None
):
    plain, isolated = verifier(called_decorator), verifier(isolated=True)(called_decorator)
    assert plain(["x"]) == [1.0]
    with pytest.raises(pickle.PicklingError, match="with @verifier on it"):
        pickle.dumps(plain)
    with pytest.raises(ValueError, match="with @verifier on it"):
        isolated(["x"])


def test_a_column_of_another_length_than_the_completions_is_named() -> None:
    with pytest.raises(ValueError, match="`solution` has 1 values for 2 completions"):
        math_reward(["1", "2"], solution=["1"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: JsonVerifier(max_depth=True),
        lambda: TagsVerifier(tags=["a"], min_chars=True),
        lambda: ThinkFormatVerifier(min_chars=True),
        lambda: MathVerifier(decimals=True),
        lambda: UnitTestVerifier(workers=True),
    ],
)
def test_true_is_no_number_for_a_setting(make: Any) -> None:
    with pytest.raises(ValueError, match="got True"):
        make()
