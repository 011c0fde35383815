"""Replays of runs with environments, an LLM judge, and group rankings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from environment_run import Counting, tool_tokenizer
from judge_endpoint import Answer, JudgeEndpoint, Request, judge_endpoint
from planted import Positions
from replay_harness import new_rewards, nothing_changed

from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOTrainer
from trl_grpo_ext.cli.main import main
from trl_grpo_ext.commands.replay.replayed_run import replay_run
from trl_grpo_ext.mix import linear
from trl_grpo_ext.rewards import (
    ConciseVerifier,
    DiversityVerifier,
    LlmJudgeVerifier,
    MathVerifier,
)
from trl_grpo_ext.rewards.llm_judge.asking import remembered_scores
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.workers.processes import close_shared

Make = Callable[..., Any]

RIGHT = RewardTerm(name="right", verifier=MathVerifier())


@pytest.fixture
def record_with_environments(
    one_layer: str, sums: Any, config: Make
) -> Callable[[RewardMix], RecordedRun]:
    """Train with environments, and return the recorded run."""

    def make(mix: RewardMix) -> RecordedRun:
        Counting.made = 0
        args = config()
        train = (
            sums["train"]
            .select(range(8))
            .map(lambda row, place: {"task": "ab"[place % 2]}, with_indices=True)
        )
        VerifiedGRPOTrainer(
            one_layer,
            mix,
            args,
            train,
            environment_factory=Counting,
            processing_class=tool_tokenizer(one_layer),
        ).train()
        return RecordedRun(Path(args.output_dir))

    return make


@pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")
def test_what_environments_gave_stays_in_the_totals_and_the_columns_they_were_reset_with_come_back(
    record_with_environments: Callable[[RewardMix], RecordedRun],
) -> None:
    fading = RewardTerm(
        name="fading",
        verifier=Positions(1, 1, 0, 1),
        weight=linear(1.0, 0.0),
        when={"task": "a"},
    )
    mix = RewardMix([RIGHT, fading])
    run = record_with_environments(mix)
    for rescore in (False, True):
        replayed = replay_run(run, new_rewards(mix), rescore=rescore)
        nothing_changed(replayed)
        assert any(
            "is on both sides, as it was recorded" in note for note in replayed.notes
        )
    assert replayed.comparison.new.shares == replayed.comparison.old.shares
    assert (replayed.comparison.new.others_share or 0) > 0


@pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")
def test_a_mix_of_shadows_may_watch_environments_in_a_replay_too(
    record_with_environments: Callable[[RewardMix], RecordedRun],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = record_with_environments(
        RewardMix([RewardTerm(name="shadow", verifier=MathVerifier(), weight=0)])
    )
    recipe = tmp_path / "shadow.yaml"
    recipe.write_text("rewards:\n  - {name: shadow, verifier: math, weight: 0}\n")
    assert main(["replay", str(run.folder), "--config", str(recipe)]) == 0
    assert "(beside the mix)" in capsys.readouterr().out


def by_length(request: Request) -> Answer:
    return Answer(f"Long, or not.\nSCORE {request.mark}: {len(request.response) % 11}")


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    """Run an endpoint whose judge scores text lengths."""
    remembered_scores.cache_clear()
    with judge_endpoint() as running:
        running.does(by_length)
        yield running
        close_shared()


@pytest.mark.slow
def test_a_judge_is_asked_again_only_for_what_it_would_say_otherwise_and_is_said_to_have_failed(
    endpoint: JudgeEndpoint, one_layer: str, sums: Any, config: Make
) -> None:
    def mix(weight: float, rubric: str | None = None) -> RewardMix:
        judge = LlmJudgeVerifier(model="judge", base_url=endpoint.base_url, rubric=rubric)
        return RewardMix([RIGHT, RewardTerm(name="nice", verifier=judge, weight=weight)])

    args = config()
    VerifiedGRPOTrainer(one_layer, mix(0.5), args, sums["train"]).train()
    run = RecordedRun(Path(args.output_dir))
    asked = len(endpoint.requests)
    assert asked > 0
    edited = replay_run(run, new_rewards(mix(1.5)))
    assert edited.sources["nice"] == "recorded"
    assert len(endpoint.requests) == asked
    again = replay_run(run, new_rewards(mix(0.5, "It is short.")))
    nothing_changed(again)
    assert len(endpoint.requests) == 2 * asked
    endpoint.does(Answer(status=400))
    failed = replay_run(run, new_rewards(mix(0.5, "It is long.")))
    assert failed.comparison.new.void > 0
    assert any(
        note.startswith(
            f"'nice' could not judge {failed.comparison.new.void} completions now (judge_http_400)"
        )
        for note in failed.notes
    )


def test_rankings_of_groups_are_made_again_behind_their_gate(
    one_layer: str, sums: Any, config: Make
) -> None:
    def mix(tolerance: float) -> RewardMix:
        short = RewardTerm(
            name="short",
            verifier=ConciseVerifier(tolerance=tolerance),
            gate="right",
            weight=0.5,
        )
        various = RewardTerm(name="various", verifier=DiversityVerifier(), weight=0.5)
        return RewardMix(
            [RewardTerm(name="right", verifier=Positions(1, 1, 1, 0)), various, short]
        )

    args = config(learning_rate=0.0)
    VerifiedGRPOTrainer(one_layer, mix(0.05), args, sums["train"]).train()
    run = RecordedRun(Path(args.output_dir))
    nothing_changed(replay_run(run, new_rewards(mix(0.05))))
    lenient = replay_run(run, new_rewards(mix(1000.0))).comparison.terms["short"]
    assert lenient.changed > 0
    assert {after for _, after in lenient.kinds} <= {"correct", "correct, other score"}
