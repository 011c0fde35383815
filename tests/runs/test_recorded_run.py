"""Runs read back from disk: equal scorecards, also for resumed and thinned-out runs."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import report_runs
from planted import Column
from windows import tell

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Scorecard
from trl_grpo_ext.diagnostics.finding import read_findings
from trl_grpo_ext.diagnostics.levels import OPENING_BATCHES, RECENT_BATCHES
from trl_grpo_ext.diagnostics.watch import Watch
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import RECENT, LogRecorder, Recorder

MIX = RewardMix(
    [
        RewardTerm(name="right", verifier=Column("right"), when={"task": "sum"}),
        RewardTerm(name="short", verifier=Column("short"), gate="right", weight=0.5),
        RewardTerm(
            name="never", verifier=Column("right"), when={"task": "code"}, weight=0.1
        ),
    ]
)


def card_of(
    step: int, *, mode: Any = "train", prompt: Any = "2+2=", group: int = 0
) -> Scorecard:
    rows = [(1.0, 0.5), (0.0, 0.5), (Blame.GRADER, 0.25), (0.5, 1.0)]
    samples = [
        Sample(
            text=f"step {step}", prompt=prompt, completion_ids=[1, 2, 3], truncated=False, group=group, step=step,
            prefill="<think>", row={"right": right, "short": short, "task": "sum"},
        )
        for right, short in rows
    ]  # fmt: skip
    return MIX.score(samples, mode=mode).with_advantages([0.5, -0.5, 0.0, 0.0])


def steps(folder: Path, mode: Any = None) -> list[int | None]:
    return [card.step for card in RecordedRun(folder).cards(mode)]


@pytest.mark.parametrize("prompt", ["[2+2]", [{"role": "user", "content": "2+2="}]])
def test_a_card_is_read_back_as_it_was_written(tmp_path: Path, prompt: Any) -> None:
    card = card_of(7, prompt=prompt)
    Recorder(tmp_path).on_batch(card)
    (read,) = RecordedRun(tmp_path).cards()
    assert [
        (s.text, s.prompt, s.completion_ids, s.prefill, s.group, s.step)
        for s in read.samples
    ] == [
        (s.text, s.prompt, s.completion_ids, s.prefill, s.group, s.step)
        for s in card.samples
    ]
    assert read.samples[0].row["task"] == "sum"
    for field in (
        "weights",
        "values",
        "gated",
        "totals",
        "void",
        "advantages",
        "mode",
        "terms",
        "in_force",
    ):
        assert getattr(read, field) == getattr(card, field), field
    plain = {
        name: [v and (v.status, v.score, v.blame, v.reason) for v in col]
        for name, col in card.verdicts.items()
    }
    assert plain == {
        name: [v and (v.status, v.score, v.blame, v.reason) for v in col]
        for name, col in read.verdicts.items()
    }


def test_a_resumed_run_counts_each_step_once_as_the_last_session_had_it(
    tmp_path: Path,
) -> None:
    first = Recorder(tmp_path)
    for step in range(4):
        first.on_batch(card_of(step))
        first.on_batch(card_of(step))  # two batches a step
    first.on_batch(card_of(2, mode="eval"))
    first.on_batch(card_of(4, mode="eval"))
    second = Recorder(tmp_path)  # from a checkpoint at step 2
    for step in range(2, 6):
        second.on_batch(card_of(step, group=9))
    run = RecordedRun(tmp_path)
    assert steps(tmp_path, "train") == [0, 0, 1, 1, 2, 3, 4, 5]
    assert [card.samples[0].group for card in run.cards("train")] == [0] * 4 + [9] * 4
    assert steps(tmp_path, "eval") == [
        2
    ]  # the evaluation at step 4 was of a model that is gone
    assert (
        len(list((tmp_path / "scorecards").glob("samples-*.parquet"))) == 14
    )  # nothing was deleted


def test_of_a_run_that_began_again_at_step_0_nothing_counts_that_was_there_before(
    tmp_path: Path,
) -> None:
    for group in (1, 2):
        recorder = Recorder(tmp_path)
        recorder.on_batch(card_of(0, mode="eval", group=group))
        for step in range(3 - group):
            recorder.on_batch(card_of(step, group=group))
        recorder.on_batch(card_of(2, mode="eval", group=group))
    found = [
        (card.mode, card.step, card.samples[0].group)
        for card in RecordedRun(tmp_path).cards()
    ]
    assert found == [("eval", 0, 2), ("train", 0, 2), ("eval", 2, 2)]


def test_older_batches_are_thinned_out_but_not_the_first_few_nor_each_nth_nor_evaluations(
    tmp_path: Path,
) -> None:
    recorder = Recorder(
        tmp_path, keep_every=10, opening=OPENING_BATCHES, cited=RECENT_BATCHES
    )
    recorder.on_batch(card_of(0, mode="eval"))
    for step in range(RECENT + 40):
        recorder.on_batch(card_of(step))
    assert steps(tmp_path, "train") == [
        *range(OPENING_BATCHES),
        10,
        20,
        30,
        *range(40, RECENT + 40),
    ]
    assert steps(tmp_path, "eval") == [0]


@pytest.mark.slow
def test_what_a_finding_has_looked_at_is_kept_and_what_came_after_it_is_not(
    tmp_path: Path,
) -> None:
    recorder = Recorder(
        tmp_path, keep_every=1000, opening=OPENING_BATCHES, cited=RECENT_BATCHES
    )
    for step in range(200):
        recorder.on_batch(card_of(step))
        if step == 50:
            recorder.cite([50])
    cited = range(51 - RECENT_BATCHES, 51)
    assert steps(tmp_path, "train") == [
        *range(OPENING_BATCHES),
        *cited,
        *range(200 - RECENT, 200),
    ]


@pytest.mark.slow
def test_what_the_findings_of_a_watch_were_made_from_is_on_disk_when_the_run_has_ended(
    tmp_path: Path,
) -> None:
    recorder = Recorder(
        tmp_path, keep_every=1000, opening=OPENING_BATCHES, cited=RECENT_BATCHES
    )
    watch = Watch(tmp_path, {}, cite=recorder.cite, log_level=logging.CRITICAL)
    for step in range(160):
        broken = 40 <= step < 60
        card = report_runs.card(
            step,
            lambda rng, broken=broken: report_runs.BROKEN if broken else report_runs.RIGHT,
        )
        recorder.on_batch(card)
        tell(watch, card)
    kept = set(steps(tmp_path, "train"))
    found = {finding.code: finding.step for finding in read_findings(tmp_path)}
    assert 40 <= found["grader_trouble"] < 60
    for step in found.values():
        assert kept >= set(range(max(0, step + 1 - RECENT_BATCHES), step + 1))
    assert not kept & set(range(62, 160 - RECENT))


@pytest.mark.slow
def test_what_was_recent_when_a_run_was_killed_is_kept_by_the_resumed_one_which_thins_its_own(
    tmp_path: Path,
) -> None:
    first = Recorder(
        tmp_path, keep_every=1000, opening=OPENING_BATCHES, cited=RECENT_BATCHES
    )
    for step in range(100):
        first.on_batch(card_of(step))
    before = [*range(OPENING_BATCHES), *range(100 - RECENT, 100)]
    assert steps(tmp_path, "train") == before
    second = Recorder(
        tmp_path, keep_every=1000, opening=OPENING_BATCHES, cited=RECENT_BATCHES
    )
    for step in range(100, 200):
        second.on_batch(card_of(step))
    assert steps(tmp_path, "train") == [*before, 100, *range(200 - RECENT, 200)]


@pytest.mark.slow
def test_a_run_that_is_resumed_before_it_has_its_first_few_batches_keeps_what_it_lacks_of_them(
    tmp_path: Path,
) -> None:
    first = Recorder(
        tmp_path, keep_every=1000, opening=OPENING_BATCHES, cited=RECENT_BATCHES
    )
    for step in range(3):
        first.on_batch(card_of(step))
    second = Recorder(
        tmp_path, keep_every=1000, opening=OPENING_BATCHES, cited=RECENT_BATCHES
    )  # from a checkpoint at step 2
    for step in range(2, 100):
        second.on_batch(card_of(step))
    kept = [*range(OPENING_BATCHES), *range(100 - RECENT, 100)]
    assert steps(tmp_path, "train") == kept
    for step in range(100):  # another run, of the same recorder
        second.on_batch(card_of(step))
    assert steps(tmp_path, "train") == kept


def test_logs_are_read_back_and_lines_that_are_no_entries_are_passed_over(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path)
    recorder.on_batch(card_of(0))
    log = LogRecorder(tmp_path)
    for step in (1, 2, 3):
        log.on_log(step, {"loss": 0.5, "entropy": float("nan")})
    again = LogRecorder(tmp_path)
    again.on_log(3, {"loss": 0.25})
    with open(tmp_path / "scorecards" / "log.jsonl", "a", encoding="utf-8") as file:
        file.write(
            '{"step": null, "session": 1}\n{"step": "4", "session": 1}\n[4]\n{"step": 4, "lo'
        )
    logs = RecordedRun(tmp_path).logs
    assert [(entry["step"], entry["loss"]) for entry in logs] == [
        (1, 0.5),
        (2, 0.5),
        (3, 0.25),
    ]
    assert logs[0]["entropy"] is None
    json.dumps(logs, allow_nan=False)


def test_a_folder_without_scorecards_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Name the output_dir of a run"):
        RecordedRun(tmp_path)


def test_damaged_batches_and_settings_are_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(tmp_path)
    for step in range(4):
        recorder.on_batch(card_of(step))
    folder = tmp_path / "scorecards"
    whole = (folder / "verdicts-00000001.parquet").read_bytes()
    (folder / "verdicts-00000001.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "verdicts-00000003.parquet").unlink()
    (folder / "run.json").write_text('{"beta": ')
    assert steps(tmp_path) == [0, 2]
    assert "Batch 1 of" in caplog.text and "Batch 3 of" in caplog.text
    assert RecordedRun(tmp_path).settings == {}
