"""The mix under the trainer: TRL's aggregation modes, schedules, dead groups, routing, evaluation, RLOO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from environment_run import Counting, scored_by_environments, tool_tokenizer
from planted import Positions, collected, expected_advantages, rich_mix, term
from trl import GRPOTrainer, RLOOConfig, RLOOTrainer

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Scorecard,
    Verdict,
    VerifiedGRPOTrainer,
    Verifier,
)
from trl_grpo_ext.mix import linear
from trl_grpo_ext.mix.reward_mix import UnscoredError
from trl_grpo_ext.rewards import MathVerifier, ThinkFormatVerifier
from trl_grpo_ext.trainer import verified_grpo
from trl_grpo_ext.trainer.judge import without_dead_rows

Make = Callable[..., Any]


def test_advantages_are_trls_of_the_scorecard_in_evaluation_and_with_accumulation_and_several_iterations(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(
        per_device_train_batch_size=4, gradient_accumulation_steps=2, num_iterations=2, max_steps=4,
        num_generations_eval=2,
    )  # fmt: skip
    trainer = VerifiedGRPOTrainer(
        one_layer, rich_mix(), args, sums["train"], sums["test"].select(range(4))
    )
    cards = collected(trainer)
    trainer.train()
    trainer.evaluate()
    assert [(card.mode, len(card), card.samples[0].step) for card in cards] == [
        ("train", 8, 0),
        ("train", 8, 2),
        ("eval", 8, 4),
    ]
    for card in cards:
        assert card.advantages == expected_advantages(card)
    assert [card.weights["short"] for card in cards] == pytest.approx([0.5, 0.3, 0.1])


def test_the_raw_reward_stays_raw_while_the_weight_moves(
    one_layer: str, sums: Any, config: Make
) -> None:
    fading = RewardMix(
        [
            term("right", 1, 0),
            term("fading", 1, 1, 0, 1, weight=linear(1.0, 0.0, until=0.5)),
        ]
    )
    trainer = VerifiedGRPOTrainer(one_layer, fading, config(max_steps=4), sums["train"])
    cards = collected(trainer)
    trainer.train()
    steps = trainer.state.log_history[:4]
    assert [entry["verified/fading/weight"] for entry in steps] == pytest.approx(
        [1.0, 0.5, 0.0, 0.0]
    )
    assert [entry["rewards/fading/mean"] for entry in steps] == [0.75] * 4
    assert [entry["verified/fading/score"] for entry in steps] == [0.75] * 4
    assert [entry["reward"] for entry in steps] == pytest.approx([1.25, 0.875, 0.5, 0.5])
    assert trainer.reward_weights.tolist() == pytest.approx([1.0, 0.0])
    assert cards[-1].in_force == ("right",)


def test_a_resumed_run_has_the_weights_of_one_that_was_not_stopped(
    one_layer: str, sums: Any, config: Make, tmp_path: Path
) -> None:
    def weights(folder: str, resume: bool) -> dict[int, float]:
        mix = RewardMix(
            [
                term("right", 1, 0),
                term("fading", 1, 1, 0, 1, weight=linear(1.0, 0.1, begin=0.2, until=0.8)),
            ]
        )
        args = config(
            output_dir=str(tmp_path / folder),
            max_steps=6,
            save_strategy="steps",
            save_steps=3,
        )
        trainer = VerifiedGRPOTrainer(one_layer, mix, args, sums["train"])
        trainer.train(resume_from_checkpoint=resume or None)
        parts = sorted((tmp_path / folder / "scorecards").glob("verdicts-*.parquet"))
        rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
        return {row["step"]: row["weight"] for row in rows if row["term"] == "fading"}

    whole = weights("whole", resume=False)
    (tmp_path / "stopped").mkdir()
    (tmp_path / "whole" / "checkpoint-3").rename(tmp_path / "stopped" / "checkpoint-3")
    resumed = weights("stopped", resume=True)
    assert sorted(resumed) == [3, 4, 5]
    assert resumed == {step: whole[step] for step in resumed}
    assert len(set(whole.values())) > 3


class Remembering(VerifiedGRPOTrainer):
    """A trainer that keeps the outputs of TRL's scoring, as used by the loss."""

    outputs: list[dict[str, Any]]

    def _batch(self, inputs: Any) -> dict[str, Any]:
        output = super()._batch(inputs)
        self.__dict__.setdefault("outputs", []).append(output)
        return output


LIVE_THEN_DEAD = (1, 0, 0, 1, 1, 1, 1, 1)


def test_dead_groups_leave_the_loss_if_asked(
    one_layer: str, sums: Any, config: Make
) -> None:
    mix = RewardMix([term("right", *LIVE_THEN_DEAD), term("shadow", 0, 1, weight=0)])
    args = config(max_steps=1, drop_dead_groups=True, beta=0.04)
    trainer = Remembering(one_layer, mix, args, sums["train"])
    cards = collected(trainer)
    trainer.train()
    mask = trainer.outputs[0]["completion_mask"]
    lengths = [len(sample.completion_ids or ()) for sample in cards[0].samples]
    assert mask.sum(dim=1).tolist() == lengths[:4]
    assert trainer.outputs[0]["num_items_in_batch"].item() == sum(lengths[:4])
    entry = trainer.state.log_history[0]
    assert (entry["verified/groups/live"], entry["verified/groups/all_right"]) == (0.5, 0.5)


@pytest.mark.parametrize("loss_type", ["dapo", "cispo"])
def test_dead_rows_cost_no_forward_and_backward_pass_and_the_gradient_is_that_of_masked_rows(
    one_layer: str, sums: Any, config: Make, loss_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> tuple[list[float], list[int]]:
        args = config(
            max_steps=1, drop_dead_groups=True, beta=0.04, loss_type=loss_type, optim="sgd", learning_rate=1.0,
            per_device_train_batch_size=8, gradient_accumulation_steps=2,
        )  # fmt: skip
        trainer = Remembering(
            one_layer, RewardMix([term("right", *LIVE_THEN_DEAD)]), args, sums["train"]
        )
        found = gradients(trainer)
        return found, [len(value) for value in trainer.outputs[0].values() if value.ndim]

    found, sizes = run()
    assert set(sizes) == {8}
    monkeypatch.setattr(verified_grpo, "without_dead_rows", lambda output, *_, **__: output)
    masked, whole = run()
    assert set(whole) == {16}
    assert found == pytest.approx(masked, rel=1e-4)


def test_rows_that_stay_fill_the_parts_of_a_batch_and_pictures_keep_all() -> None:
    live = [False, True, False, False, True, True, False, False]
    output = {"advantages": torch.arange(8.0), "num_items_in_batch": torch.tensor(3)}
    for parts, kept in (
        (1, [1, 4, 5]),
        (2, [0, 1, 4, 5]),
        (4, [0, 1, 4, 5]),
        (8, list(range(8))),
    ):
        found = without_dead_rows(output, live, parts=parts, most=3)
        assert found["advantages"].tolist() == kept
        assert found["num_items_in_batch"] == 3
    assert len(without_dead_rows(output, [False] * 8, parts=2, most=0)["advantages"]) == 2
    assert len(without_dead_rows(output, live, parts=2, most=5)["advantages"]) == 6
    pictures = output | {"pixel_values": torch.zeros(20, 3)}
    assert without_dead_rows(pictures, live, parts=1, most=3) is pictures
    counted = output | {"num_images": [1] * 8}
    assert without_dead_rows(counted, live, parts=1, most=3) is counted


def gradients(trainer: Any) -> list[float]:
    trainer.train()
    return [
        entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry
    ]


@pytest.mark.parametrize(
    "loss_type",
    [
        "dapo",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("grpo", "bnpo", "dr_grpo")
        ),
    ],
)
def test_a_batch_of_dead_groups_moves_nothing_once_they_are_dropped_though_kl_would(
    one_layer: str, sums: Any, config: Make, loss_type: str
) -> None:
    class LaterEqual(Positions):
        def judge_samples(self, samples: Any) -> list[Verdict]:
            scores = (1.0, 0.0) if samples[0].step == 0 else (1.0,)
            return [
                self.planted(scores[index % len(scores)]) for index in range(len(samples))
            ]

    def run(drop: bool) -> list[float]:
        args = config(
            max_steps=2,
            drop_dead_groups=drop,
            beta=0.5,
            learning_rate=1e-2,
            optim="sgd",
            loss_type=loss_type,
        )
        return gradients(VerifiedGRPOTrainer(one_layer, LaterEqual(), args, sums["train"]))

    kept, dropped = run(False), run(True)
    assert kept[1] > 0
    assert dropped[1] == 0
    assert dropped[0] == pytest.approx(kept[0])


def test_dead_groups_are_counted_by_cause(one_layer: str, sums: Any, config: Make) -> None:
    def outcome(*scores: float | None, **mode: Any) -> dict[str, float]:
        args = config(max_steps=1, **mode)
        trainer = VerifiedGRPOTrainer(
            one_layer, RewardMix([term("right", *scores)]), args, sums["train"]
        )
        trainer.train()
        prefix = "verified/groups/"
        entry = trainer.state.log_history[0]
        return {
            k.removeprefix(prefix): v
            for k, v in entry.items()
            if k.startswith(prefix) and v
        }

    assert outcome(1, 1, 1, 1, 0, 0, 0, 0, scale_rewards="batch") == {
        "all_right": 0.5,
        "all_wrong": 0.5,
    }
    assert outcome(0.5, 0.5, 0.5, 0.5, 1, 0, 1, 0) == {"tied": 0.5, "live": 0.5}
    assert outcome(None, None, None, None, 1, 1, 1, None) == {"void": 0.5, "all_right": 0.5}


def test_dead_groups_of_plain_functions_are_seen_too(
    one_layer: str, sums: Any, config: Make
) -> None:
    def constant(completions: list[Any], **_: Any) -> list[float]:
        return [1.0] * len(completions)

    args = config(max_steps=1, drop_dead_groups=True)
    trainer = Remembering(one_layer, constant, args, sums["train"])
    trainer.train()
    assert trainer.outputs[0]["completion_mask"].sum() == 0
    assert len(trainer.outputs[0]["completion_mask"]) == 1
    assert (
        trainer.state.log_history[0]["verified/groups/tied"]
        == trainer.state.log_history[0]["reward"]
        == 1.0
    )


def test_a_mix_for_several_tasks_scores_each_row_by_its_own_terms(
    one_layer: str, sums: Any, config: Make
) -> None:
    train = (
        sums["train"]
        .select(range(8))
        .map(lambda row, i: {"task": "sum" if i % 2 else "talk"}, with_indices=True)
    )
    mix = RewardMix(
        [
            RewardTerm(name="accuracy", verifier=MathVerifier(), when={"task": "sum"}),
            RewardTerm(
                name="thinks",
                verifier=ThinkFormatVerifier(),
                when={"task": "talk"},
                weight=0.5,
            ),
        ]
    )
    trainer = VerifiedGRPOTrainer(one_layer, mix, config(), train)
    cards = collected(trainer)
    trainer.train()
    for card in cards:
        assert not any(card.void)
        for index, sample in enumerate(card.samples):
            applies = [
                card.verdicts[name][index] is not None for name in ("accuracy", "thinks")
            ]
            assert applies == [sample.row["task"] == "sum", sample.row["task"] == "talk"]
        assert card.advantages == expected_advantages(card)


def test_routing_that_matches_no_row_is_refused_before_the_model_is_loaded(
    sums: Any, config: Make
) -> None:
    train = sums["train"].select(range(4)).map(lambda row: {"task": "sum"})
    mix = RewardMix(
        [
            RewardTerm(
                name="accuracy", verifier=MathVerifier(), when={"task": ["math", "maths"]}
            )
        ]
    )
    with pytest.raises(
        ValueError,
        match=r"'accuracy' applies to no row.*`task` to be 'math' or 'maths'.*has 'sum'",
    ):
        VerifiedGRPOTrainer("/no/such/model", mix, config(), train)


def test_a_mix_without_weight_at_the_start_is_refused(sums: Any, config: Make) -> None:
    mix = RewardMix([term("late", 1, weight=linear(0.0, 1.0))])
    with pytest.raises(ValueError, match="weight 0 when training starts"):
        VerifiedGRPOTrainer("/no/such/model", mix, config(), sums["train"])


def test_on_unscored_raise_ends_the_run_with_the_reason(
    one_layer: str, sums: Any, config: Make
) -> None:
    mix = RewardMix([term("right", 1, None, on_unscored="raise")])
    trainer = VerifiedGRPOTrainer(one_layer, mix, config(), sums["train"])
    with pytest.raises(UnscoredError, match="'right' could not judge"):
        trainer.train()


def test_rloo_takes_the_mixes_plain_functions(
    one_layer: str, sums: Any, config: Make, tmp_path: Path
) -> None:
    mix = RewardMix(
        [term("right", 1, 0, None, 0), term("short", 0.5, weight=0.2, gate="right")]
    )
    args = RLOOConfig(
        output_dir=str(tmp_path / "rloo"), per_device_train_batch_size=8, num_generations=4, max_completion_length=8,
        max_steps=1, use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=1,
        disable_tqdm=True, reward_weights=mix.weights, beta=0.0,
    )  # fmt: skip
    trainer = RLOOTrainer(
        model=one_layer,
        reward_funcs=mix.reward_funcs(),
        args=args,
        train_dataset=sums["train"],
    )
    trainer.train()
    entry = trainer.state.log_history[0]
    assert entry["verified/short/gated"] == 0.5
    assert entry["rewards/right/mean"] == pytest.approx(1 / 3)
    assert torch.isfinite(torch.tensor(entry["loss"]))


@scored_by_environments
@pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")
def test_rewards_of_environments_add_to_the_mix_whose_weights_move(
    one_layer: str, sums: Any, config: Make
) -> None:
    mix = RewardMix(
        [term("right", 1, 0, 0, None), term("fading", 1, 1, 0, 1, weight=linear(1.0, 0.0))]
    )
    Counting.made = 0
    trainer = VerifiedGRPOTrainer(
        one_layer,
        mix,
        config(),
        sums["train"],
        environment_factory=Counting,
        processing_class=tool_tokenizer(one_layer),
    )
    cards = collected(trainer)
    trainer.train()
    assert trainer.reward_weights.tolist() == pytest.approx([1.0, 0.5, 1.0])
    for card, fading in zip(cards, (1.0, 0.5), strict=True):
        own = [1 + fading, fading, 0.0]
        totals = torch.tensor([value + index % 2 for index, value in enumerate(own)])
        wanted = ((totals - totals.mean()) / (totals.std() + 1e-4)).tolist()
        assert card.advantages == pytest.approx([*wanted, 0.0] * 2, abs=1e-5)


class Asking(Counting):
    """An environment that asks its own question, without a dataset."""

    def reset(self, **_: Any) -> str:
        return "What is 1 + 1?"


@pytest.mark.skipif(
    "owns" not in (GRPOTrainer.__doc__ or ""), reason="this TRL needs a train_dataset"
)
@pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")
def test_an_environment_that_owns_the_data_needs_no_dataset_and_verifiers_that_read_one_are_refused(
    one_layer: str, config: Make
) -> None:
    def make(verifier: Verifier) -> VerifiedGRPOTrainer:
        mix = RewardMix([RewardTerm(name="own", verifier=verifier)])
        tokenizer = tool_tokenizer(one_layer)
        args = config(max_steps=1)
        return VerifiedGRPOTrainer(
            one_layer, mix, args, environment_factory=Asking, processing_class=tokenizer
        )

    trainer = make(ThinkFormatVerifier())
    cards = collected(trainer)
    trainer.train()
    assert len(cards) == 1
    with pytest.raises(ValueError, match="Reward term 'own'"):
        make(MathVerifier())


def sometimes(completions: list[Any], **_: Any) -> list[float | None]:
    """Score 1 for the first of every four completions and 0 for the last two; None for the second."""
    return [
        None if index % 4 == 1 else float(index % 4 == 0)
        for index in range(len(completions))
    ]


def test_a_shadow_changes_no_advantage_beside_a_function_that_leaves_rows_out_too(
    one_layer: str, sums: Any, config: Make
) -> None:
    train = (
        sums["train"]
        .select(range(8))
        .map(lambda row, i: {"task": "ab"[i % 2]}, with_indices=True)
    )

    def run(*terms: RewardTerm) -> Scorecard:
        trainer = VerifiedGRPOTrainer(
            one_layer, [RewardMix(terms), sometimes], config(max_steps=1), train
        )
        cards = collected(trainer)
        trainer.train()
        return cards[0]

    main = term("main", 1, 0, 0, 0, when={"task": "a"})
    without, watched = run(main), run(main, term("shadow", 0.7, weight=0))
    assert watched.advantages == without.advantages
    nobody = [
        sample.row["task"] == "b" and index % 4 == 1
        for index, sample in enumerate(without.samples)
    ]
    assert list(watched.void) == list(without.void) == nobody


@scored_by_environments
@pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")
def test_rows_that_only_an_environment_scores_are_not_void_and_a_mix_of_shadows_may_watch_it(
    one_layer: str, sums: Any, config: Make
) -> None:
    train = sums["train"].select(range(8)).map(lambda row: {"task": "b"})
    Counting.made = 0
    trainer = VerifiedGRPOTrainer(
        one_layer, RewardMix([term("shadow", 0, weight=0)]), config(max_steps=1), train,
        environment_factory=Counting, processing_class=tool_tokenizer(one_layer),
    )  # fmt: skip
    cards = collected(trainer)
    trainer.train()
    assert not any(cards[0].void)
    assert trainer.state.log_history[0]["verified/void"] == 0
    assert all(advantage != 0 for advantage in cards[0].advantages or ())
