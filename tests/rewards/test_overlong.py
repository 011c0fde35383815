"""The soft overlong penalty: TRL's formula, with verdicts and reasons."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status, VerifiedGRPOTrainer
from trl_grpo_ext.rewards import FirstScored
from trl_grpo_ext.rewards.length_limits import OverlongVerifier

VERIFIER = OverlongVerifier(max_completion_len=100, soft_punish_cache=20)


@pytest.mark.parametrize(
    ("tokens", "score", "status", "reason"),
    [
        (0, 0.0, Status.CORRECT, ""),
        (80, 0.0, Status.CORRECT, ""),
        (81, -0.05, Status.INCORRECT, "near_limit"),
        (90, -0.5, Status.INCORRECT, "near_limit"),
        (100, -1.0, Status.INCORRECT, "overlong"),
        (5000, -1.0, Status.INCORRECT, "overlong"),
    ],
)
def test_the_last_tokens_before_the_limit_are_punished_softly(
    tokens: int, score: float, status: Status, reason: str
) -> None:
    (verdict,) = VERIFIER.judge(["text"], completion_ids=[[1] * tokens])
    assert (verdict.score, verdict.status, verdict.reason) == (score, status, reason)


def test_without_a_soft_zone_only_what_is_longer_than_the_limit_is_punished() -> None:
    verifier = OverlongVerifier(max_completion_len=10, soft_punish_cache=0)
    assert verifier(["a", "b"], completion_ids=[[1] * 10, [1] * 11]) == [0.0, -1.0]


@given(limit=st.integers(1, 300), cache=st.integers(0, 300), tokens=st.integers(0, 700))
def test_every_score_is_that_of_trl(limit: int, cache: int, tokens: int) -> None:
    from trl.rewards import get_soft_overlong_punishment

    cache = min(cache, limit)
    ours = OverlongVerifier(max_completion_len=limit, soft_punish_cache=cache)(
        ["x"], completion_ids=[[7] * tokens]
    )
    assert ours == get_soft_overlong_punishment(limit, cache)(completion_ids=[[7] * tokens])


def test_a_length_that_nobody_knows_is_the_graders_fault() -> None:
    (verdict,) = VERIFIER.judge(["text"])
    assert (verdict.score, verdict.blame, verdict.reason) == (
        None,
        Blame.GRADER,
        "tokens_unknown",
    )


def test_the_text_does_not_matter() -> None:
    samples = [
        Sample(text=text, completion_ids=[1] * 90)
        for text in ("", "\ud800\0" * 99, "<think>")
    ]
    assert {verdict.score for verdict in VERIFIER.judge_samples(samples)} == {-0.5}


def test_the_limit_is_the_trainers_and_the_soft_zone_a_fifth_of_it_also_inside_a_composition() -> (
    None
):
    limited = FirstScored(verifiers=[OverlongVerifier()]).for_limit(100)
    assert limited(["a", "b"], completion_ids=[[1] * 80, [1] * 90]) == [0.0, -0.5]
    assert OverlongVerifier().for_limit(100)(
        ["a", "b"], completion_ids=[[1] * 80, [1] * 90]
    ) == [0.0, -0.5]
    assert VERIFIER.for_limit(7) is VERIFIER


def test_a_trainer_of_ours_and_a_recipe_tell_the_limit_and_plain_trl_is_refused(
    one_layer: str, sums: Any, config: Any
) -> None:
    mix = RewardMix([RewardTerm(name="overlong", verifier=OverlongVerifier())])
    trainer = VerifiedGRPOTrainer(
        one_layer, mix, config(max_completion_length=40), sums["train"]
    )
    (described,) = trainer._run_settings["rewards"]
    assert described["settings"]["max_completion_len"] == 40
    with pytest.raises(
        ValueError, match="set max_completion_len to the max_completion_length"
    ):
        OverlongVerifier()(["text"], completion_ids=[[1]])
    assert (
        OverlongVerifier().verify(Sample(text="", completion_ids=[1])).reason
        == "limit_unknown"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"max_completion_len": 0, "soft_punish_cache": 0},
            "max_completion_len is a number of tokens",
        ),
        (
            {"max_completion_len": 9.5, "soft_punish_cache": 0},
            "max_completion_len is a number of tokens",
        ),
        (
            {"max_completion_len": True, "soft_punish_cache": 0},
            "max_completion_len is a number of tokens",
        ),
        (
            {"max_completion_len": 10, "soft_punish_cache": 11},
            "from 0 to 10; got 11",
        ),
        (
            {"max_completion_len": 10, "soft_punish_cache": -1},
            "from 0 to 10; got -1",
        ),
    ],
)
def test_lengths_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        OverlongVerifier(**arguments)
