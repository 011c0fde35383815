"""Diversity: the share of n-grams or answers unique within a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status, Verdict
from trl_grpo_ext.rewards.repetition import DiversityVerifier, diversity_reward


def judged(*completions: Sequence[int] | None, ngram_size: int = 2) -> list[Verdict]:
    samples = [Sample(text="", completion_ids=ids, group=0) for ids in completions]
    return DiversityVerifier(ngram_size=ngram_size).judge_samples(samples)


def scores(*completions: Sequence[int] | None, ngram_size: int = 2) -> list[float | None]:
    return [verdict.score for verdict in judged(*completions, ngram_size=ngram_size)]


def test_copies_score_0_and_texts_with_nothing_in_common_score_1() -> None:
    assert scores([1, 2, 3], [1, 2, 3], [1, 2, 3]) == [0.0, 0.0, 0.0]
    assert scores([1, 2, 3], [4, 5, 6], [7, 8, 9]) == [1.0, 1.0, 1.0]


def test_each_ngram_counts_with_the_share_of_the_others_that_lack_it() -> None:
    quarter = [0, 1, 2, 3, 4], [0, 1, 9, 8, 7]
    assert scores(*quarter) == [0.75, 0.75]
    assert scores([1, 2], [1, 2], [5, 6]) == [0.5, 0.5, 1.0]


def test_the_verdict_says_what_was_found() -> None:
    same, part, alone = (
        judged([1, 2], [1, 2])[0],
        judged([1, 2, 3], [1, 2, 4])[0],
        judged([1, 2])[0],
    )
    assert (same.status, same.reason) == (Status.INCORRECT, "same_as_others")
    assert (part.status, part.reason) == (Status.PARTIAL, "")
    assert (alone.status, alone.score, alone.reason) == (Status.PARTIAL, 0.5, "no_others")
    assert judged([1, 2], [3, 4])[0].status is Status.CORRECT


def test_saying_it_twice_makes_it_no_more_diverse() -> None:
    once, twice = (
        scores([1, 2, 3, 4], [1, 2, 9, 8]),
        scores([1, 2, 1, 2, 3, 4], [1, 2, 9, 8]),
    )
    assert once == [pytest.approx(2 / 3), pytest.approx(2 / 3)]
    assert twice[0] == pytest.approx(3 / 4)


def test_a_completion_shorter_than_an_ngram_is_one() -> None:
    assert scores([1], [1], [2], ngram_size=4) == [0.5, 0.5, 1.0]


def test_a_completion_of_no_tokens_scores_0() -> None:
    empty, full = judged([], [1, 2, 3])
    assert (empty.score, empty.reason) == (0.0, "empty")
    assert full.reason == "no_others"


def test_tokens_that_nobody_knows_are_the_graders_fault_and_no_others() -> None:
    unknown, known = judged(None, [1, 2, 3])
    assert (unknown.score, unknown.blame, unknown.reason) == (
        None,
        Blame.GRADER,
        "tokens_unknown",
    )
    assert known.reason == "no_others"


def test_answers_can_be_compared_instead() -> None:
    texts = [
        r"So \boxed{4}.",
        r"<think>\boxed{9}</think>It is \boxed{4}.",
        r"\boxed{5}",
        "<think>perhaps 4",
    ]
    verdicts = DiversityVerifier(of="answer").judge_samples(
        [Sample(text=text, group=0) for text in texts]
    )
    assert [verdict.score for verdict in verdicts] == [0.5, 0.5, 1.0, 0.0]
    assert (verdicts[3].status, verdicts[3].reason) == (
        Status.UNPARSEABLE,
        "unclosed_think",
    )


def test_a_think_block_that_the_prompt_opens_is_no_answer() -> None:
    samples = [
        Sample(text="perhaps 4", prefill="<think>", group=0),
        Sample(text="4", prefill="", group=0),
    ]
    assert (
        DiversityVerifier(of="answer").judge_samples(samples)[0].reason == "unclosed_think"
    )


@given(
    group=st.lists(st.lists(st.integers(0, 3), max_size=30), min_size=1, max_size=8),
    size=st.integers(1, 5),
)
def test_every_score_lies_between_0_and_1_and_does_not_depend_on_the_order(
    group: list[list[int]], size: int
) -> None:
    found = scores(*group, ngram_size=size)
    assert all(score is not None and 0 <= score <= 1 for score in found)
    assert scores(*reversed(group), ngram_size=size) == found[::-1]


@given(text=st.text(st.characters()))
def test_any_text_has_one_score(text: str) -> None:
    samples = [Sample(text=text, group=0), Sample(text="4", group=0)]
    assert all(
        0 <= verdict.score <= 1
        for verdict in DiversityVerifier(of="answer").judge_samples(samples)
    )  # type: ignore[operator]


def test_a_big_group_of_long_completions_takes_time_that_is_linear_in_its_tokens() -> None:
    # 64 completions of 8000 tokens: comparing each with each, n-gram by n-gram, would not end.
    group = [list(range(start, start + 8000)) for start in range(0, 64_000, 1000)]
    assert all(
        score is not None and 0.7 < score < 1 for score in scores(*group, ngram_size=4)
    )


def test_it_works_as_a_term_and_refuses_to_be_a_plain_reward_function() -> None:
    samples = [Sample(text="", completion_ids=[n], group=0) for n in (1, 2)]
    mix = RewardMix([RewardTerm(name="diversity", verifier=diversity_reward)])
    assert mix.score(samples).totals == (1.0, 1.0)
    with pytest.raises(ValueError, match="RewardMix"):
        diversity_reward(["a", "b"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": "answers"}, "Did you mean `answer`"),
        ({"ngram_size": 0}, "1 or more; got 0"),
        ({"mode": "boxed_onyl"}, "Did you mean `boxed_only`"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        DiversityVerifier(**arguments)
