"""Everyday answers: each line of `cases/*.jsonl` has a gold, an answer, the expected equality, and its reason."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import NotRequired, TypedDict

import pytest

from trl_grpo_ext import Sample
from trl_grpo_ext.answers import same_answer
from trl_grpo_ext.answers.compare.comparison import AS_WRITTEN, TABLE, Comparison, Row
from trl_grpo_ext.answers.compare.forms import plain, set_in_words
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.tree import Logic, Words
from trl_grpo_ext.rewards import MathVerifier, NumericVerifier


class Case(TypedDict):
    """A test case: gold, answer, expected equality and reason."""

    gold: str
    answer: str
    same: bool
    why: str
    prompt: NotRequired[str]


FILES = {
    path.name.removesuffix(".jsonl"): path
    for path in files("trl_grpo_ext.answers").joinpath("cases").iterdir()
    if path.name.endswith(".jsonl")
}


def cases_of(kind: str) -> list[Case]:
    return [
        json.loads(line) for line in FILES[kind].read_text(encoding="utf-8").splitlines()
    ]


@pytest.mark.parametrize("kind", sorted(FILES))
def test_an_everyday_answer_is_judged_as_its_case_says(kind: str) -> None:
    cases = cases_of(kind)
    samples = [
        Sample(
            text=case["answer"], prompt=case.get("prompt"), row={"solution": case["gold"]}
        )
        for case in cases
    ]
    verdicts = MathVerifier().judge_samples(samples)
    wrong = [
        (case["gold"], case["answer"], case["same"], verdict.reason)
        for case, verdict in zip(cases, verdicts, strict=True)
        if (verdict.score == 1.0) != case["same"]
    ]
    assert wrong == []


@pytest.mark.parametrize("kind", sorted(FILES))
def test_the_gold_of_a_case_word_for_word_is_right(kind: str) -> None:
    golds = sorted({case["gold"] for case in cases_of(kind)})
    for completions in (golds, [f"The answer is {gold}." for gold in golds]):
        verdicts = MathVerifier().judge(completions, solution=golds)
        assert [
            gold
            for gold, verdict in zip(golds, verdicts, strict=True)
            if verdict.score != 1.0
        ] == []


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("1500", "fifteen hundred"),
        ("-2", "minus two"),
        ("0.75", "three quarters"),
        ("24", "two dozen"),
    ],
)
def test_the_numeric_verifier_reads_the_same_number_phrases(gold: str, text: str) -> None:
    assert (
        NumericVerifier().judge([text, f"Answer: {text}"], answer=[gold, gold])[0].score
        == 1.0
    )


@pytest.mark.parametrize("row", [*AS_WRITTEN, *TABLE], ids=lambda row: row.name)
def test_each_row_of_the_table_of_comparisons_decides_its_own_examples(row: Row) -> None:
    # Loaded here: it takes a second, in each process that collects tests.
    from trl_grpo_ext.answers.work import Sympy

    for (gold, answer), expected in ((row.same, True), (row.other, False)):
        assert (same_answer(rf"\boxed{{{answer}}}", gold).score == 1.0) is expected
        asked, given = read(gold).node, read(answer).node
        if row in TABLE:
            asked, given = plain(asked), given if isinstance(given, Logic) else plain(given)
        if isinstance(asked, Words) != isinstance(given, Words):
            asked, given = set_in_words(asked), set_in_words(given)
        is_alike = row in AS_WRITTEN[:1]  # which leaves all others to the rows below
        assert row.decide(Comparison(Sympy()), asked, given) is (
            expected or (None if is_alike else False)
        )
