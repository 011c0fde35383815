"""The repetition penalty: TRL's formula over token ids."""

from __future__ import annotations

from typing import Any

import pytest
import trl.rewards
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Blame, Status
from trl_grpo_ext.rewards.repetition import RepetitionVerifier


@pytest.mark.parametrize(
    ("tokens", "score", "status", "reason"),
    [
        ([1, 2, 3, 4], 0.0, Status.CORRECT, ""),
        ([5, 5, 5, 5, 5], -0.75, Status.INCORRECT, "repeated_ngrams"),
        ([5], 0.0, Status.CORRECT, ""),
        ([], 0.0, Status.CORRECT, ""),
    ],
)
def test_repeated_ngrams_are_punished_by_their_share(
    tokens: list[int], score: float, status: Status, reason: str
) -> None:
    (verdict,) = RepetitionVerifier(ngram_size=2).judge(["text"], completion_ids=[tokens])
    assert (verdict.score, verdict.status, verdict.reason) == (score, status, reason)


def test_the_lowest_score_is_a_setting() -> None:
    assert RepetitionVerifier(ngram_size=1, max_penalty=-4.0)(
        ["x"], completion_ids=[[1, 1]]
    ) == [-2.0]
    assert RepetitionVerifier(max_penalty=0.0)(["x"], completion_ids=[[1] * 9]) == [0.0]


@pytest.mark.skipif(
    "get_repetition_penalty_reward" not in dir(trl.rewards), reason="TRL has it from 1.7 on"
)
@given(tokens=st.lists(st.integers(0, 5), max_size=60), size=st.integers(1, 70))
def test_every_score_is_that_of_trl(tokens: list[int], size: int) -> None:
    ours = RepetitionVerifier(ngram_size=size)(["x"], completion_ids=[tokens])
    assert ours == trl.rewards.get_repetition_penalty_reward(size)(completion_ids=[tokens])


def test_tokens_that_nobody_knows_are_the_graders_fault() -> None:
    (verdict,) = RepetitionVerifier().judge(["text"])
    assert (verdict.score, verdict.blame, verdict.reason) == (
        None,
        Blame.GRADER,
        "tokens_unknown",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ngram_size": 0}, "ngram_size is a number of tokens, 1 or more; got 0"),
        ({"ngram_size": 2.0}, "ngram_size is a number of tokens"),
        ({"max_penalty": 0.1}, "lowest score, up to 0; got 0.1"),
        ({"max_penalty": float("-inf")}, "lowest score, up to 0; got -inf"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RepetitionVerifier(**arguments)
