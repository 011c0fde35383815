"""AllOf, AnyOf, FirstScored: combined verdicts, samples asked of each verifier, and forwarded checks."""

from __future__ import annotations

import itertools
import math
import pickle
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isolated_verifiers import inline

from trl_grpo_ext import Blame, Sample, Status, Verdict, Verifier, verifier
from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.protocol import DataProblem
from trl_grpo_ext.rewards.compositions import AllOf, AnyOf, FirstScored
from trl_grpo_ext.rewards.formats.regex import RegexVerifier
from trl_grpo_ext.rewards.formats.tags import ThinkFormatVerifier
from trl_grpo_ext.rewards.math import MathVerifier
from trl_grpo_ext.verdict import as_verdict, grader_error, skipped

COMPOSITIONS = [AllOf, AnyOf, FirstScored]
BAD_DATA, BROKEN = skipped("gold_missing"), grader_error("lost")
UNREADABLE = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_answer")
WRONG = Verdict(status=Status.INCORRECT, score=0.0, reason="no_match", answer="5")


@dataclass(frozen=True, kw_only=True)
class Says(Verifier):
    """A verifier that reads its verdict from the row's column of the same name, and records its batches."""

    name: str | None = None
    batches: list[list[str]] = field(default_factory=list, compare=False)
    closed: list[bool] = field(default_factory=list, compare=False)

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(sample.row[self.__name__])

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        self.batches.append([sample.text for sample in samples])
        return super().judge_samples(samples)

    def check_columns(self, columns: Collection[str]) -> None:
        if self.__name__ not in columns:
            raise ValueError(f"no column {self.__name__}")

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        return [
            DataProblem(row=number, reason="none", value="None", advice="Drop it.")
            for number, row in enumerate(rows)
            if row.get(self.__name__) is None
        ]

    def metrics(self, verdicts: Sequence[Verdict | None]) -> dict[str, float]:
        return {"seen": float(sum(verdict is not None for verdict in verdicts))}

    def facts(self) -> dict[str, str]:
        return {"place": "here"}

    def close(self) -> None:
        self.closed.append(True)
        if self.__name__ == "sticky":
            raise OSError("it does not close")


@verifier
def is_short(sample: Sample) -> bool:
    return len(sample.text) < 10


def of(whole: Any, **said: object) -> Verdict:
    """Compose verifiers with planted verdicts, and return the combined verdict."""
    composed = whole(verifiers=[Says(name=name) for name in said])
    verdict = composed.verify(Sample(text="x", row=said))
    assert isinstance(verdict, Verdict)
    return verdict


def outcome(verdict: Verdict) -> tuple[float | None, str]:
    return verdict.score, verdict.reason


def test_the_least_score_is_the_score_and_its_verifier_the_reason() -> None:
    assert outcome(of(AllOf, a=1, b=1)) == (1.0, "")
    assert outcome(
        of(AllOf, a=1, b=Verdict(status=Status.INCORRECT, score=0.0, reason="no"))
    ) == (0.0, "b: no")
    assert outcome(of(AllOf, a=0.7, b=0.5)) == (0.5, "b")


@pytest.mark.parametrize(
    ("results", "score", "reason"),
    [
        ((1,), 1.0, "a"),
        ((0, 1), 1.0, "b"),
        ((0.5, 0.7, 0.7), 0.7, "b"),
        ((WRONG, 0), 0.0, "a: no_match"),
        ((BAD_DATA, 1), 1.0, "b"),
        ((BROKEN, 1), 1.0, "b"),
        ((BAD_DATA, 0), None, "a: gold_missing"),
        ((0.9, BAD_DATA), None, "b: gold_missing"),
        ((BAD_DATA, BROKEN), None, "b: lost"),
    ],
)
def test_the_greatest_score_is_the_score_and_names_its_verifier(
    results: Sequence[object], score: float | None, reason: str
) -> None:
    assert outcome(of(AnyOf, **dict(zip("abc", results, strict=False)))) == (score, reason)


def test_of_two_zeros_the_one_that_could_read_the_answer_is_told() -> None:
    verdict = of(AnyOf, a=UNREADABLE, b=WRONG)
    assert (verdict.status, verdict.reason, verdict.answer) == (
        Status.INCORRECT,
        "b: no_match",
        "5",
    )


@pytest.mark.parametrize(
    ("results", "score", "reason"),
    [
        ((0, 1), 0.0, "a"),
        ((UNREADABLE, 1), 0.0, "a: no_answer"),
        ((BAD_DATA, 1), 1.0, "b"),
        ((BAD_DATA, BAD_DATA, 0.5), 0.5, "c"),
        ((BROKEN, 1), None, "a: lost"),
        ((-2.5, 1), -2.5, "a"),
        ((BAD_DATA, BAD_DATA), None, "a: gold_missing"),
        ((BAD_DATA, BROKEN), None, "b: lost"),
    ],
)
def test_the_first_verdict_with_a_score_counts(
    results: Sequence[object], score: float | None, reason: str
) -> None:
    assert outcome(of(FirstScored, **dict(zip("abc", results, strict=False)))) == (
        score,
        reason,
    )


def test_who_makes_a_verifier_fail_gets_no_milder_one_unless_that_is_asked_for() -> None:
    assert of(FirstScored, a=BROKEN, b=1).blame is Blame.GRADER
    unscored = partial(FirstScored, pass_on="unscored")
    assert outcome(of(unscored, a=BROKEN, b=BAD_DATA, c=0.5)) == (0.5, "c")
    with pytest.raises(ValueError, match="Did you mean `bad_data`"):
        of(partial(FirstScored, pass_on="bad_dat"), a=1)


def test_a_known_0_decides_beside_whatever_is_unknown() -> None:
    for unknown in (BAD_DATA, BROKEN):
        assert outcome(of(AllOf, a=unknown, b=0)) == (0.0, "b")
        assert outcome(of(AllOf, a=0, b=unknown)) == (0.0, "a")


def test_without_a_0_the_unknown_stays_unknown_with_its_blame_and_the_graders_first() -> (
    None
):
    for known in (1, 0.5):
        assert of(AllOf, a=BAD_DATA, b=known).blame is Blame.DATA
        assert outcome(of(AllOf, a=BAD_DATA, b=known)) == (None, "a: gold_missing")
        assert outcome(of(AllOf, a=known, b=BROKEN)) == (None, "b: lost")
    for whole in (AllOf, AnyOf):
        both = of(whole, a=BAD_DATA, b=BROKEN)
        assert (both.blame, outcome(both)) == (Blame.GRADER, (None, "b: lost"))


@pytest.mark.parametrize("whole", [AllOf, AnyOf])
@pytest.mark.parametrize("score", [-1.0, 2.0, -1e-9])
def test_a_shaping_score_is_no_condition(whole: Any, score: float) -> None:
    verdict = of(whole, a=score)
    assert (verdict.blame, outcome(verdict)) == (
        Blame.GRADER,
        (None, "a: score_outside_0_1"),
    )


SAID = st.sampled_from([0, 0.25, 0.5, 1, BAD_DATA, BROKEN])


@given(st.lists(SAID, min_size=1, max_size=5))
def test_the_order_of_the_verifiers_changes_no_score(said: list[Any]) -> None:
    for whole in (AllOf, AnyOf):
        forwards = of(whole, **{f"v{number}": each for number, each in enumerate(said)})
        backwards = of(
            whole, **{f"v{number}": each for number, each in enumerate(reversed(said))}
        )
        assert (forwards.score, forwards.blame) == (backwards.score, backwards.blame)


@given(st.lists(SAID, min_size=1, max_size=4))
def test_a_score_is_one_that_no_value_of_the_unknown_would_change(said: list[Any]) -> None:
    known = [each for each in said if not isinstance(each, Verdict)]
    unknown = len(said) - len(known)
    for whole, combine in ((AllOf, min), (AnyOf, max)):
        possible = {
            combine([*known, *filled])
            for filled in itertools.product([0, 0.1, 1], repeat=unknown)
        }
        score = of(whole, **{f"v{number}": each for number, each in enumerate(said)}).score
        assert score == (possible.pop() if len(possible) == 1 else None)


def test_later_verifiers_are_asked_once_a_batch_and_only_about_what_is_undecided() -> None:
    first, second, third = Says(name="a"), Says(name="b"), Says(name="c")
    samples = [
        Sample(text=text, row={"a": a, "b": b, "c": 1})
        for text, a, b in [("p", 0, 1), ("q", 1, 0), ("r", 1, 1), ("s", BAD_DATA, 1)]
    ]
    verdicts = AllOf(verifiers=[first, second, third]).judge_samples(samples)
    assert [verdict.score for verdict in verdicts] == [0.0, 0.0, 1.0, None]
    assert [first.batches, second.batches, third.batches] == [
        [["p", "q", "r", "s"]],
        [["q", "r", "s"]],
        [["r", "s"]],
    ]
    last = Says(name="b")
    verdicts = AnyOf(verifiers=[Says(name="a"), last]).judge_samples(samples)
    assert [verdict.score for verdict in verdicts] == [1.0, 1.0, 1.0, 1.0]
    assert last.batches == [["p", "s"]]


def test_a_verifier_that_would_be_asked_about_nothing_is_not_asked() -> None:
    second = Says(name="b")
    whole = AllOf(verifiers=[Says(name="a"), second])
    assert whole.judge_samples([Sample(text="x", row={"a": 0})])[0].score == 0.0
    assert whole.judge_samples([]) == []
    assert second.batches == []


def test_the_details_tell_what_each_verifier_said_and_the_seconds_add_up() -> None:
    said = {
        "a": Verdict(
            status=Status.CORRECT,
            score=1.0,
            seconds=1.5,
            answer="4",
            details={"rule": "boxed"},
        ),
        "b": Verdict(status=Status.TIMEOUT, score=0.0, reason="timeout", seconds=2.0),
    }
    verdict = of(AllOf, **said)
    assert (verdict.status, verdict.answer, verdict.seconds) == (Status.TIMEOUT, None, 3.5)
    assert verdict.details == {
        "a": "correct 1",
        "a.answer": "4",
        "a.rule": "boxed",
        "b": "timeout 0 (timeout)",
    }


@pytest.mark.parametrize("whole", COMPOSITIONS)
def test_the_verdict_is_a_record_like_any_other(whole: Any) -> None:
    verdict = of(whole, a=0.5, b=1)
    record = verdict.to_record()
    assert Verdict(**record).to_record() == record
    assert pickle.loads(pickle.dumps(verdict)) == verdict


class Fails(Verifier):
    name = "fails"

    def verify(self, sample: Sample) -> Verdict:
        raise RuntimeError

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        raise RuntimeError


class Loses(Verifier):
    name = "loses"

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(True)

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        return []


@pytest.mark.parametrize("whole", COMPOSITIONS)
def test_a_verifier_that_breaks_its_word_is_the_graders_fault(whole: Any) -> None:
    assert outcome(whole(verifiers=[Fails()]).verify(Sample(text=""))) == (
        None,
        "fails: raised_RuntimeError",
    )
    assert outcome(whole(verifiers=[Loses()]).verify(Sample(text=""))) == (
        None,
        "loses: wrong_number_of_verdicts",
    )


@pytest.mark.parametrize("whole", COMPOSITIONS)
def test_decorated_functions_and_other_compositions_may_be_parts_and_all_of_it_pickles(
    whole: Any,
) -> None:
    inner = AnyOf(verifiers=[MathVerifier(), RegexVerifier(pattern="four")])
    composed = whole(verifiers=[inline, inner])
    again = pickle.loads(pickle.dumps(composed))
    texts, golds = ["right", "4", "it is so very four", "5"], ["4"] * 4
    assert again(texts, solution=golds) == composed(texts, solution=golds)


def test_a_decorated_function_judges_inline() -> None:
    assert AllOf(verifiers=[is_short, ThinkFormatVerifier()])(
        ["<think>2</think>4", "4"]
    ) == [0.0, 0.0]
    assert AnyOf(verifiers=[is_short, ThinkFormatVerifier()])(
        ["<think>2</think>4", "4"]
    ) == [1.0, 1.0]


@pytest.mark.parametrize("whole", COMPOSITIONS)
def test_it_is_called_what_a_recipe_calls_it_or_what_it_is_told(whole: Any) -> None:
    parts = [ThinkFormatVerifier()]
    assert whole(verifiers=parts).__name__ in ("all_of", "any_of", "first_scored")
    assert whole(verifiers=parts, name="mine").__name__ == "mine"


@pytest.mark.parametrize("whole", COMPOSITIONS)
def test_it_judges_off_the_main_thread(whole: Any) -> None:
    found: list[Any] = []
    composed = whole(verifiers=[RegexVerifier(pattern="4"), MathVerifier()])
    thread = threading.Thread(target=lambda: found.append(composed(["4"], solution=["4"])))
    thread.start()
    thread.join()
    assert found == [[1.0]]


def test_columns_that_one_verifier_lacks_are_refused_by_name() -> None:
    whole = AllOf(verifiers=[Says(name="a"), Says(name="b")])
    whole.check_columns(["a", "b"])
    with pytest.raises(ValueError, match="verifier 'b': no column b"):
        whole.check_columns(["a"])


def test_rows_that_one_verifier_cannot_judge_are_listed() -> None:
    found = AllOf(verifiers=[Says(name="a"), Says(name="b")]).check_rows(
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}]
    )
    assert [(problem.row, problem.reason) for problem in found] == [
        (0, "b: none"),
        (1, "a: none"),
    ]


def test_one_column_that_can_be_judged_by_is_enough() -> None:
    whole = FirstScored(
        verifiers=[MathVerifier(), MathVerifier(column="gold", name="other")]
    )
    whole.check_columns(["gold"])
    assert whole(["4", "4"], gold=["4", "5"]) == [1.0, 0.0]
    with pytest.raises(
        ValueError, match=r"None of the verifiers of first_scored.*`solution`.*`gold`"
    ):
        whole.check_columns(["text"])


def test_only_rows_that_no_verifier_can_judge_are_listed() -> None:
    rows = [
        {"solution": "4", "gold": None},
        {"solution": None, "gold": None},
        {"solution": None, "gold": "5"},
    ]
    math, other = MathVerifier(), MathVerifier(column="gold", name="other")
    found = FirstScored(verifiers=[math, other]).check_rows(rows)
    assert [(problem.row, problem.reason) for problem in found] == [
        (1, "math: gold_missing")
    ]
    assert FirstScored(verifiers=[math, RegexVerifier(pattern="4")]).check_rows(rows) == []


def test_a_verifier_whose_column_the_dataset_lacks_has_no_say_in_which_rows_are_good() -> (
    None
):
    lacking = FirstScored(verifiers=[RegexlessColumn(column="nowhere"), MathVerifier()])
    found = lacking.check_rows([{"solution": None}, {"solution": "4"}])
    assert [(problem.row, problem.reason) for problem in found] == [
        (0, "math: gold_missing")
    ]


class RegexlessColumn(MathVerifier):
    """A verifier that reports no bad rows, although it can judge none."""

    def check_rows(self, rows: Any, *, thorough: bool = False) -> list[Any]:
        return []


def test_facts_and_metrics_bear_the_verifiers_names_and_the_same_keys_for_every_batch() -> (
    None
):
    whole = AllOf(verifiers=[Says(name="a"), Says(name="b")])
    assert whole.facts() == {"a/place": "here", "b/place": "here"}
    verdicts = whole.judge_samples(
        [Sample(text="", row={"a": a, "b": BROKEN}) for a in (0, 1, 0.5, BAD_DATA)]
    )
    figures = whole.metrics(verdicts)
    assert figures == {
        "a/asked": 1.0, "a/unscored": 0.25, "a/seen": 4.0,
        "b/asked": 0.75, "b/unscored": 0.75, "b/seen": 3.0,
    }  # fmt: skip
    assert list(whole.metrics([None])) == list(whole.metrics([])) == list(figures)
    assert all(math.isfinite(figure) for figure in whole.metrics([]).values())


@pytest.mark.parametrize("whole", COMPOSITIONS)
def test_closing_closes_every_verifier_even_if_one_does_not_close(whole: Any) -> None:
    parts = [Says(name="a"), Says(name="sticky"), Says(name="b")]
    with pytest.raises(OSError, match="does not close"):
        whole(verifiers=parts).close()
    assert [part.closed for part in parts] == [[True]] * 3


class Shortest(GroupVerifier):
    def verify_group(self, samples: Sequence[Sample]) -> list[Verdict]:
        return [as_verdict(True) for _ in samples]


@pytest.mark.parametrize("whole", COMPOSITIONS)
@pytest.mark.parametrize(
    ("verifiers", "message"),
    [
        ([], "at least one"),
        ("math", "needs a list"),
        (MathVerifier(), "needs a list"),
        ([MathVerifier], r"make a verifier of it: MathVerifier\(\)"),
        ([len], "@verifier"),
        ([MathVerifier(), MathVerifier(mode="boxed")], "two verifiers called 'math'"),
        ([Shortest()], "compares the completions of a group"),
        (["math"], r"in a recipe, write a mapping such as \{verifier: math\}"),
        ([{"pattern": "4"}], "write a mapping"),
    ],
)
def test_what_cannot_be_composed_is_refused(
    whole: Any, verifiers: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        whole(verifiers=verifiers)


@pytest.mark.parametrize("whole", COMPOSITIONS)
def test_a_recipe_composes_by_mappings(whole: Any) -> None:
    path = f"{whole.__module__}.{whole.__qualname__}"
    entries = [
        {"verifier": "think_format"},
        {"verifier": "regex", "pattern": "4", "name": "four"},
    ]
    (term,) = build_mix([{"name": "right", "verifier": path, "verifiers": entries}]).terms
    assert isinstance(term.verifier, whole)
    assert list(term.verifier.members) == ["think_format", "four"]
