"""Several starts in one folder: the last session's result of each step counts, live and read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from trl_grpo_ext import VerifiedGRPOTrainer
from trl_grpo_ext.commands.replay.recorded_batches import RunClock
from trl_grpo_ext.diagnostics.finding import read_findings
from trl_grpo_ext.lab import LabRun, run_lab, single_peak
from trl_grpo_ext.lab.policy import make_tokenizer
from trl_grpo_ext.lab.training import REFERENCE
from trl_grpo_ext.rewards import think_format_reward
from trl_grpo_ext.runs.recorded_run import RecordedRun

# The lab uses each batch for two steps.
EVALUATED: dict[str, Any] = {
    "eval_rows": [{}],
    "eval_strategy": "steps",
    "eval_steps": 4,
    "eval_on_start": True,
}


def trainer_of_another_process(run: LabRun) -> VerifiedGRPOTrainer:
    """Make a trainer that knows the run only by its folder."""
    model, trainer = (
        AutoModelForCausalLM.from_pretrained(run.folder / REFERENCE),
        run.trainer,
    )
    data = (trainer.train_dataset, trainer.eval_dataset)
    return VerifiedGRPOTrainer(
        model, single_peak(7).mix, trainer.args, *data, processing_class=make_tokenizer()
    )


def batches(folder: Path) -> list[tuple[str, int | None]]:
    return [(card.mode, card.step) for card in RecordedRun(folder).cards()]


def logged(folder: Path) -> list[int]:
    return [entry["step"] for entry in RecordedRun(folder).logs if "loss" in entry]


@pytest.mark.slow  # two real runs
def test_two_runs_of_one_script_in_one_folder_are_read_as_the_later_one(
    tmp_path: Path,
) -> None:
    run_lab(single_peak(7), tmp_path / "twice", steps=40, learning_rate=0.0, **EVALUATED)
    assert [finding.code for finding in read_findings(tmp_path / "twice")] == [
        "zero_updates"
    ]
    for folder in ("twice", "once"):
        run_lab(single_peak(7), tmp_path / folder, steps=8, **EVALUATED)
    assert batches(tmp_path / "twice") == batches(tmp_path / "once")
    assert ("eval", 0) in batches(tmp_path / "once")
    assert logged(tmp_path / "twice") == list(range(1, 9))
    assert read_findings(tmp_path / "twice") == []
    assert (tmp_path / "twice" / "findings.1.jsonl").exists()


@pytest.mark.slow
def test_a_script_run_in_the_folder_of_a_recipe_keeps_the_recipes_summary_under_another_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "summary.json").write_text('{"steps": 40}')
    run_lab(single_peak(7), tmp_path, steps=2)
    assert not (tmp_path / "summary.json").exists()
    assert (tmp_path / "summary.1.json").read_text() == '{"steps": 40}'


@pytest.mark.slow  # two real runs
def test_a_trainer_that_is_trained_twice_is_read_as_what_it_did_last(
    tmp_path: Path,
) -> None:
    run = run_lab(single_peak(7), tmp_path, steps=4)
    run.trainer.train()
    assert batches(tmp_path) == [("train", 0), ("train", 2)]
    assert logged(tmp_path) == [1, 2, 3, 4]


def test_a_training_that_was_cut_short_in_its_first_batch_and_begun_again_has_that_batch_once(
    one_layer: str, sums: Any, config: Callable[..., Any], tmp_path: Path
) -> None:
    trainer = VerifiedGRPOTrainer(
        one_layer, think_format_reward, config(max_steps=1), sums["train"]
    )
    trainer.train()
    trainer.train()
    assert batches(tmp_path / "run") == [("train", 0)]


@pytest.mark.slow
def test_an_evaluation_in_a_process_of_its_own_takes_nothings_place(tmp_path: Path) -> None:
    run = run_lab(single_peak(7), tmp_path, steps=8, **EVALUATED)
    before = batches(tmp_path)
    trainer_of_another_process(run).evaluate()
    assert batches(tmp_path) == [*before, ("eval", 0)]
    assert logged(tmp_path) == list(range(1, 9))
    assert RunClock.of(RecordedRun(tmp_path), {}).ended


@pytest.mark.slow  # two real runs
def test_a_resume_that_evaluates_first_has_all_logs_and_batches_once(
    tmp_path: Path,
) -> None:
    run = run_lab(
        single_peak(7), tmp_path, steps=8, save_strategy="steps", save_steps=4, **EVALUATED
    )
    again = trainer_of_another_process(run)
    again.evaluate()
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert logged(tmp_path) == list(range(1, 9))
    assert [step for mode, step in batches(tmp_path) if mode == "train"] == [0, 2, 4, 6]


@pytest.mark.slow  # real runs
def test_a_halt_ends_the_training_that_goes_on_and_no_later_one(tmp_path: Path) -> None:
    halting = run_lab(
        single_peak(7), tmp_path, steps=60, learning_rate=0.0, halt_on=["zero_updates"]
    ).trainer
    halted_at = halting.state.global_step
    assert 1 < halted_at < 40
    assert halting.run_callback.has_halted
    halting.train(resume_from_checkpoint=True)  # who goes on has seen why it was halted
    assert halting.state.global_step == 60
    assert not halting.run_callback.has_halted
    halting.train()  # from the beginning: it is found again
    assert halting.state.global_step == halted_at
    assert [finding.code for finding in read_findings(tmp_path)] == ["zero_updates"]
