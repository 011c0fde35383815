"""A run that gets worse: its best step, what changed since, and the checkpoint to go back to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from diagnosis_cases import diagnosed
from windows import batch

from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.window import RunView
from trl_grpo_ext.figures.reduction import reduce_card


def fallen(
    folder: Path,
    *,
    weight: float = 1.0,
    evaluations: tuple[float, ...] = (),
    **settings: object,
) -> Finding:
    """Return the finding for a fall from 7 of 8 right to 2 of 8 at step 60, with a weight change at that step."""
    view = RunView(settings, folder)
    for step in range(100):
        right = 7 if step < 60 else 2
        answers, forms = ([1] * right + [0] * (8 - right)) * 8, [1, 0] * 32
        card = batch(
            {"answer": answers, "form": forms},
            step=step,
            weights={"form": 0.1 if step < 60 else weight},
        )
        view.add(reduce_card(card, {}))
        if evaluations and step % 20 == 0:
            held_out = int(evaluations[step // 20] * 64)
            held_out_card = batch(
                {"answer": [1] * held_out + [0] * (64 - held_out)}, step=step
            )
            view.add(reduce_card(replace(held_out_card, mode="eval"), {}))
    found = CHECKS["getting_worse"](view.window)
    assert isinstance(found, Finding)
    return found


def test_a_fall_names_its_best_step_what_changed_and_the_checkpoint_to_go_back_to(
    tmp_path: Path,
) -> None:
    for step in (20, 50, 90):
        (tmp_path / f"checkpoint-{step}").mkdir()
    found = fallen(tmp_path)
    assert found.severity is Severity.CRITICAL
    assert found.numbers["best"] == pytest.approx(7 / 8)
    assert found.numbers["now"] == pytest.approx(2 / 8)
    assert "the weight of `form` went from 0.1 to 1" in found.sentence
    assert (
        found.action == "Go back to checkpoint-50, with the weight of `form` kept at 0.1."
    )


def test_a_fall_without_a_checkpoint_of_that_time_says_so(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-90").mkdir()
    assert fallen(tmp_path).action.startswith("No checkpoint of that time is left")


@pytest.mark.slow
def test_a_fall_that_the_evaluation_does_not_share_is_information(tmp_path: Path) -> None:
    found = fallen(tmp_path, evaluations=(0.3, 0.4, 0.5, 0.6, 0.6))
    assert found.severity is Severity.INFO
    assert "the data may have become harder" in found.sentence
    assert (
        fallen(tmp_path, evaluations=(0.6, 0.6, 0.6, 0.4, 0.3)).severity
        is Severity.CRITICAL
    )


@pytest.mark.slow
def test_a_fall_of_rows_that_are_not_shuffled_is_information_unless_the_evaluation_has_fallen_too(
    tmp_path: Path,
) -> None:
    found = fallen(tmp_path, shuffle_dataset=False)
    assert found.severity is Severity.INFO
    assert "The rows are not shuffled" in found.sentence
    falls_too = fallen(
        tmp_path, shuffle_dataset=False, evaluations=(0.6, 0.6, 0.6, 0.4, 0.3)
    )
    assert falls_too.severity is Severity.CRITICAL


@pytest.mark.slow
def test_a_fall_that_only_the_last_evaluation_shows_is_the_answer_at_the_end() -> None:
    said = diagnosed("evaluation_peaks_training_stands")
    assert not said.diagnosis.findings  # no batch came after it
    assert said.diagnosis.sentence.startswith("The evaluation has fallen")
