"""A declared range of scores: of a verifier, of a function, or of a term."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from trl_grpo_ext import RewardMix, RewardTerm, Sample, Status, Verifier, verifier
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.mix.reward_plan import plan_rewards
from trl_grpo_ext.rewards.function import PlainFunction
from trl_grpo_ext.runs.run_settings import described_rewards
from trl_grpo_ext.verdict import Verdict, as_verdict


@verifier(score_range=(0, 10))
def letters(sample: Sample) -> float:
    """Ten points for ten letters."""
    return float(min(10, len(sample.text)))


def length(completions: list[str], **_: Any) -> list[float]:
    """A cost, as people write it for TRL."""
    return [-float(len(completion)) for completion in completions]


class Marks(Verifier):
    """Marks by a class that has a range."""

    score_range = (1.0, 5.0)

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(float(sample.text))


def statuses(term: RewardTerm, *texts: str) -> list[Status]:
    card = RewardMix([term]).score(
        [Sample(text=text, prompt="?", group=0) for text in texts]
    )
    return [verdict.status for verdict in card.verdicts[term.name] if verdict is not None]


def test_the_top_of_a_functions_range_is_right_and_its_bottom_wrong() -> None:
    found = statuses(RewardTerm(name="letters", verifier=letters), "x" * 12, "xx", "")
    assert found == [Status.CORRECT, Status.PARTIAL, Status.INCORRECT]
    assert pickle.loads(pickle.dumps(letters)) is letters


def test_a_class_declares_its_range_as_an_attribute() -> None:
    found = statuses(RewardTerm(name="marks", verifier=Marks()), "5", "3", "1", "6")
    assert found == [Status.CORRECT, Status.PARTIAL, Status.INCORRECT, Status.SCORED]


def test_a_term_declares_the_range_of_a_plain_function() -> None:
    plain = PlainFunction(length)
    declared = RewardTerm(name="cost", verifier=plain, score_range=(-4, 0))
    assert statuses(declared, "", "xx", "xxxx") == [
        Status.CORRECT,
        Status.PARTIAL,
        Status.INCORRECT,
    ]
    assert (
        statuses(RewardTerm(name="cost", verifier=plain), "", "xxxx") == [Status.SCORED] * 2
    )


def test_a_recipe_declares_a_range_as_a_key_of_the_term(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    mix = build_mix(
        [{"verifier": "test_score_range.length", "name": "cost", "score_range": [-4, 0]}]
    )
    assert mix.terms[0].score_range == (-4.0, 0.0)
    (described,) = described_rewards(plan_rewards(mix))
    assert described["score_range"] == [-4.0, 0.0]


def test_two_ranges_that_contradict_each_other_end_at_start_up() -> None:
    with pytest.raises(
        ValueError,
        match=r"'letters' has the score_range \[0.0, 5.0\], and its verifier has \[0.0, 10.0\]",
    ):
        RewardTerm(name="letters", verifier=letters, score_range=(0, 5))
    with pytest.raises(
        ValueError,
        match="Reward term 'letters': score_range is the lowest and the highest score",
    ):
        RewardTerm(name="letters", verifier=letters, score_range=(5, 0))
