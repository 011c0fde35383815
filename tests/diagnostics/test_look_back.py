"""Looking back at a run: long, thinned out, or with a changed primary term."""

from __future__ import annotations

from pathlib import Path

import pytest
from windows import batch, card, recorded, tell

from trl_grpo_ext import Blame
from trl_grpo_ext.diagnostics.diagnosis import diagnose
from trl_grpo_ext.diagnostics.finding import Severity, read_findings
from trl_grpo_ext.diagnostics.watch import Watch
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import Recorder
from trl_grpo_ext.scorecard import Scorecard


def test_a_run_too_long_to_be_read_in_time_is_compared_with_how_it_began(
    tmp_path: Path,
) -> None:
    cards = [card(1.0, 0.0, step=0, mode="eval") for _ in range(4)]
    cards += [
        card(*[1.0] * (2 + step // 2), *[0.0] * (38 - step // 2), step=step)
        for step in range(64)
    ]
    diagnosis = diagnose(recorded(tmp_path, cards), seconds=0.0)
    assert diagnosis.batches == 4 + 16
    assert diagnosis.sentence.startswith("The score of `answer` has risen from 0.0")


@pytest.mark.slow
def test_what_was_told_while_a_run_went_on_is_told_again_though_its_batches_are_on_disk_no_more(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path, keep_every=50)
    watch = Watch(tmp_path, {})
    for step in range(160):
        one = card(
            *[Blame.GRADER if 20 <= step < 40 else 1.0] * 2, *[0.0, 1.0] * 4, step=step
        )
        recorder.on_batch(one)
        tell(watch, one)
    told = [finding.code for finding in read_findings(tmp_path)]
    diagnosis = diagnose(RecordedRun(tmp_path))
    assert told == ["grader_trouble"]
    assert [finding.code for finding in diagnosis.findings] == told
    assert "Earlier, at step 2" in diagnosis.sentence


@pytest.mark.slow
def test_a_stuck_run_is_called_so_however_few_of_its_batches_are_kept(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path, keep_every=10)
    for step in range(200):
        recorder.on_batch(batch({"answer": [1.0] + [0.0] * 31}, step=step))
    assert diagnose(RecordedRun(tmp_path)).causes[0].code == "dead_groups"


def test_where_a_schedule_puts_another_term_first_the_scores_of_the_two_are_not_compared(
    tmp_path: Path,
) -> None:
    def scheduled(step: int) -> Scorecard:
        form, right = (
            [1.0] * (16 + step) + [0.0] * (16 - step),
            [1.0] * step + [0.0] * (32 - step),
        )
        return batch(
            {"form": form, "answer": right},
            step=step,
            weights={"form": float(step < 10), "answer": 1.0},
        )

    diagnosis = diagnose(
        recorded(tmp_path, [scheduled(step) for step in range(16)] + [scheduled(16)] * 4)
    )
    assert "`form`" not in diagnosis.sentence
    assert "the score of `answer`" in diagnosis.sentence


def test_what_was_found_of_a_term_that_is_primary_no_more_is_over(tmp_path: Path) -> None:
    def scheduled(step: int) -> Scorecard:
        early = float(step < 10)
        outcomes: dict[str, list[object]] = {
            "form": [Blame.GRADER] * 8 + [1.0] * 24,
            "answer": [1.0, 0.0] * 16,
        }
        return batch(outcomes, step=step, weights={"form": early, "answer": 1.0 - early})

    diagnosis = diagnose(recorded(tmp_path, [scheduled(step) for step in range(14)]))
    assert diagnosis.findings[0].code == "grader_trouble"
    assert [
        cause.code for cause in diagnosis.causes if cause.severity is not Severity.INFO
    ] == []
