"""Training on rows that are drawn for what they may teach: swaps, figures, resumption, refusals."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from planted import collected

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    Scorecard,
    Verdict,
    VerifiedGRPOTrainer,
    verifier,
)
from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.successes import Successes, read_successes, write_rates
from trl_grpo_ext.sample import prompt_key
from trl_grpo_ext.trainer.rows.learnable_rows import FILE

ROWS = 12


def mix() -> RewardMix:
    return RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())])


@pytest.fixture
def data(sums: Any) -> Dataset:
    """Rows of the bundled sums, with their number and a level."""
    rows = sums["train"].select(range(ROWS))
    return rows.add_column("number", list(range(ROWS))).add_column(
        "level", ["easy", "hard"] * (ROWS // 2)
    )


def trainer_of(
    tiny_model: str, args: Any, data: Any, *, reward: Any = None, **more: Any
) -> VerifiedGRPOTrainer:
    return VerifiedGRPOTrainer(
        tiny_model, mix() if reward is None else reward, args, data, **more
    )


def rows_of(card: Scorecard) -> list[int]:
    """The row number of each group, whose members must share it."""
    numbers = [
        {card.samples[row].row["number"] for row in members} for members in card.members
    ]
    assert all(len(one) == 1 for one in numbers)
    return [number for one in numbers for number in one]


def equal_states(first: VerifiedGRPOTrainer, second: VerifiedGRPOTrainer) -> bool:
    assert first.learnable_rows is not None and second.learnable_rows is not None
    states = [one.learnable_rows.posteriors.state() for one in (first, second)]  # type: ignore[union-attr]
    return all(np.array_equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.slow
def test_groups_are_whole_no_batch_has_a_row_twice_and_evaluations_have_the_rows_that_were_given(
    tiny_model: str, config: Any, data: Any
) -> None:
    args = config(
        learnable_rows=True,
        max_steps=4,
        per_device_train_batch_size=16,
        eval_strategy="steps",
        eval_steps=2,
    )
    trainer = trainer_of(tiny_model, args, data, eval_dataset=data.select(range(2)))
    cards = collected(trainer)
    trainer.train()
    for card in cards:
        if card.mode == "train":
            assert len(set(rows_of(card))) == 4
            assert card.drawn == (False,) * 4 + (True,) * 12
        else:
            assert card.drawn is None
            assert rows_of(card) == [0, 1]


def test_a_new_generation_batch_is_drawn_only_when_trl_generates(
    tiny_model: str, config: Any, data: Any
) -> None:
    args = config(
        learnable_rows=True,
        rows_by="level",
        max_steps=8,
        steps_per_generation=2,
        num_iterations=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=1,
    )
    trainer = trainer_of(tiny_model, args, data)
    cards = collected(trainer)
    trainer.train()
    assert [card.step for card in cards] == [0, 4]
    assert trainer.learnable_rows is not None
    assert trainer.learnable_rows.posteriors.batch == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_workers_that_fetch_rows_ahead_do_not_delay_what_is_learned(
    tiny_model: str, config: Any, data: Any, tmp_path: Path
) -> None:
    found = []
    for workers in ({}, {"dataloader_num_workers": 2, "dataloader_prefetch_factor": 2}):
        args = config(
            learnable_rows=True,
            rows_by="level",
            max_steps=3,
            output_dir=str(tmp_path / str(len(found))),
            **workers,
        )
        trainer = trainer_of(tiny_model, args, data)
        cards = collected(trainer)
        trainer.train()
        found.append([rows_of(card) for card in cards])
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_run_that_resumes_draws_trains_and_knows_what_an_uninterrupted_run_does(
    tiny_model: str, config: Any, data: Any
) -> None:
    args = config(
        learnable_rows=True,
        max_steps=6,
        save_strategy="steps",
        save_steps=3,
        rows_by="level",
    )
    whole = trainer_of(tiny_model, args, data)
    cards = collected(whole)
    whole.train()
    again = trainer_of(tiny_model, args, data)
    resumed = collected(again)
    again.train(resume_from_checkpoint=str(Path(args.output_dir) / "checkpoint-3"))
    assert [rows_of(card) for card in cards[3:]] == [rows_of(card) for card in resumed]
    assert equal_states(whole, again)
    for first, second in zip(
        whole.model.parameters(), again.model.parameters(), strict=True
    ):
        assert first.equal(second)


@pytest.mark.slow
def test_a_checkpoint_without_posteriors_begins_with_nothing_known_and_says_so(
    tiny_model: str, config: Any, data: Any, caplog: Any
) -> None:
    trainer_of(tiny_model, config(save_strategy="steps", save_steps=1), data).train()
    args = config(learnable_rows=True, rows_by="level", max_steps=3)
    with caplog.at_level(logging.WARNING, "trl_grpo_ext"):
        trainer_of(tiny_model, args, data).train(
            resume_from_checkpoint=str(Path(args.output_dir) / "checkpoint-2")
        )
    assert f"has no {FILE}: nothing is known of any row" in caplog.text


def test_void_rows_teach_nothing(tiny_model: str, config: Any, data: Any) -> None:
    @verifier
    def often_down(sample: Sample) -> bool:
        if sample.row["number"] % 2:
            raise RuntimeError("down")
        return "4" in sample.text

    args = config(learnable_rows=True, max_steps=4, per_device_train_batch_size=16)
    reward = RewardMix([RewardTerm(name="shaky", verifier=often_down)])
    trainer = trainer_of(tiny_model, args, data, reward=reward)
    trainer.train()
    assert trainer.learnable_rows is not None
    posteriors = trainer.learnable_rows.posteriors
    counts = posteriors.right + posteriors.wrong
    assert not counts[1::2].any()
    assert counts[::2].any()
    assert posteriors.unjudged[1::2].any() and not posteriors.unjudged[::2].any()


def test_each_completion_has_a_row_of_its_own(
    tiny_model: str, config: Any, data: Any
) -> None:
    """TRL writes the fields of a `rollout_func` into the rows."""
    trainer = trainer_of(tiny_model, config(learnable_rows=True, rows_by="level"), data)
    assert trainer.learnable_rows is not None
    rows = trainer.learnable_rows.swap([{}] * 8)
    rows[0]["steps"] = 1
    rows[0]["prompt"][0]["content"] = "changed"
    assert [("steps" in row, row["prompt"][0]["content"] == "changed") for row in rows] == [
        (True, True),
        *[(False, False)] * 7,
    ]


@verifier
def by_row(sample: Sample) -> bool:
    """A stand-in for a task: some rows are never solved, others half of the time."""
    return sample.row["number"] >= ROWS // 2 and len(sample.text) % 2 == 0


@pytest.mark.slow
def test_logs_console_and_record_are_of_the_floor_and_drawn_rows_are_shown_apart(
    tiny_model: str, config: Any, data: Any
) -> None:
    args = config(
        learnable_rows=True, max_steps=6, per_device_train_batch_size=16, rows_floor=0.5
    )
    trainer = trainer_of(
        tiny_model,
        args,
        data,
        reward=RewardMix([RewardTerm(name="right", verifier=by_row)]),
    )
    cards = collected(trainer)
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    for card, entry in zip(cards, logs, strict=True):
        floor = [row for row, drawn in enumerate(card.drawn or ()) if not drawn]
        assert len(floor) == 8
        right = float(np.mean([card.values["right"][row] for row in floor]))  # type: ignore[arg-type]
        for name in (
            "reward",
            "rewards/right/mean",
            "verified/right/score",
            "verified/pass_at_1",
        ):
            assert entry[name] == pytest.approx(right)
        assert entry["verified/groups/live"] == pytest.approx(card.live[:2].mean())
        assert entry["verified/rows/drawn_live"] == pytest.approx(card.live[2:].mean())
        assert (
            0
            <= entry["verified/rows/expected_rate_low"]
            <= entry["verified/rows/expected_rate_high"]
            <= 1
        )
    recorded = list(RecordedRun(Path(args.output_dir)).cards("train"))
    assert [card.drawn for card in recorded] == [card.drawn for card in cards]


def test_a_run_knows_its_rows_from_an_earlier_run_or_from_a_file_of_rates(
    tiny_model: str, config: Any, data: Any, tmp_path: Path
) -> None:
    trainer_of(tiny_model, config(output_dir=str(tmp_path / "earlier")), data).train()
    found = read_successes(tmp_path / "earlier")
    assert sum(one.judged for one in found.values()) == 16
    write_rates(tmp_path / "rates.jsonl", found)
    assert read_successes(tmp_path / "rates.jsonl") == found
    for source in ("earlier", "rates.jsonl"):
        args = config(learnable_rows=True, rows_from=str(tmp_path / source))
        trainer = trainer_of(tiny_model, args, data)
        assert trainer.learnable_rows is not None
        posteriors = trainer.learnable_rows.posteriors
        known = np.flatnonzero(posteriors.right + posteriors.wrong)
        keys = [prompt_key(prompt) for prompt in data["prompt"]]
        assert {keys[row] for row in known} == set(found)
        right, _ = posteriors._faded(known)
        assert right.tolist() == pytest.approx(
            [found[keys[row]].right / 2 for row in known]
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows_floor": 0.0}, "rows_floor is a share above 0"),
        ({"rows_by": "levle"}, r"no column `levle` \(rows_by\). Did you mean `level`"),
        ({"rows_by": "prompt"}, "holds lists"),
        ({"rows_by": "solution", "rows": 40}, "different values, too many"),
        ({"rows_from": "nowhere"}, r"There is no file or folder 'nowhere' \(rows_from\)"),
        (
            {"per_device_train_batch_size": 128},
            "draws 32 different rows a batch, and train_dataset has 12",
        ),
        ({"learnable_rows": False, "rows_by": "level"}, "rows_by is for learnable_rows"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_the_model_is_loaded(
    settings: dict[str, Any], message: str, config: Any, data: Any, sums: Any
) -> None:
    rows = settings.pop("rows", 0)
    with pytest.raises(ValueError, match=message):
        args = config(**{"learnable_rows": True} | settings)
        trainer_of("no model", args, sums["train"].select(range(rows)) if rows else data)


def test_streams_owned_data_and_plain_functions_are_refused(config: Any, data: Any) -> None:
    args = config(learnable_rows=True)
    with pytest.raises(ValueError, match=r"a stream .* has no numbers"):
        trainer_of("no model", args, data.to_iterable_dataset())
    with pytest.raises(ValueError, match="plain reward functions have none"):
        trainer_of(
            "no model", args, data, reward=lambda completions, **_: [0.0] * len(completions)
        )
    with pytest.raises(ValueError, match="environments own this run's data"):
        own = RewardMix([RewardTerm(name="right", verifier=by_row)])
        trainer_of("no model", args, None, reward=own, environment_factory=Owner)


class Owner:
    """An environment that owns its data."""

    def reset(self, **_: Any) -> str:
        return "1+1"

    def get_reward(self) -> float:
        return 1.0


def test_an_earlier_run_of_other_prompts_is_refused(
    config: Any, data: Any, tmp_path: Path
) -> None:
    write_rates(tmp_path / "rates.jsonl", {7: Successes(1.0, 8.0)})
    with pytest.raises(ValueError, match="knows none of the prompts"):
        trainer_of(
            "no model",
            config(learnable_rows=True, rows_from=str(tmp_path / "rates.jsonl")),
            data,
        )
    (tmp_path / "rates.jsonl").write_text("nothing\n")
    with pytest.raises(ValueError, match="has no rates of rows"):
        trainer_of(
            "no model",
            config(learnable_rows=True, rows_from=str(tmp_path / "rates.jsonl")),
            data,
        )


@pytest.mark.parametrize(
    ("settings", "is_warned"),
    [({}, True), ({"rows_by": "level"}, False), ({"max_steps": 9}, False)],
)
def test_a_run_whose_rows_will_not_come_back_does_not_choose_rows_and_says_so_before_it_begins(
    settings: dict[str, Any],
    is_warned: bool,
    tiny_model: str,
    config: Any,
    data: Any,
    caplog: Any,
) -> None:
    with caplog.at_level(logging.WARNING, "trl_grpo_ext"):
        trainer = trainer_of(tiny_model, config(learnable_rows=True, **settings), data)
    assert (trainer.learnable_rows is None) == is_warned
    assert ("each row is seen 0.33 times" in caplog.text) == is_warned


def test_a_column_of_many_numbers_is_cut_into_fifths_and_missing_numbers_stand_apart() -> (
    None
):
    from trl_grpo_ext.trainer.rows.start import buckets_of

    rows = Dataset.from_dict({"length": [*map(float, range(100)), None]})
    assert np.bincount(buckets_of(rows, "length")).tolist() == [20, 20, 20, 20, 20, 1]


def test_a_verdict_without_a_range_teaches_nothing() -> None:
    from trl_grpo_ext.figures.success_rates import success
    from trl_grpo_ext.verdict import Status

    assert success(Verdict(status=Status.SCORED, score=37.5)) is None
    assert success(Verdict(status=Status.PARTIAL, score=0.25)) == 0.25
