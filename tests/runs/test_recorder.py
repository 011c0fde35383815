"""Scorecards on disk: complete or absent, never overwritten, never NaN."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from places import HARNESS

from trl_grpo_ext import RewardMix, RewardTerm, Sample, verifier
from trl_grpo_ext.runs.recorder import Recorder
from trl_grpo_ext.runs.schema import SAMPLE_COLUMNS, VERDICT_COLUMNS, read_about
from trl_grpo_ext.scorecard import Scorecard


@verifier
def long_enough(sample: Sample) -> float | None:
    """Score the text length divided by 10; None for an empty text."""
    return len(sample.text) / 10 if sample.text else None


def card_of(*texts: str, **row: Any) -> Scorecard:
    mix = RewardMix([RewardTerm(name="length", verifier=long_enough)])
    return mix.score([Sample(text=text, row=row, group=0, step=3) for text in texts])


def read(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [
        row
        for part in sorted(folder.glob(f"{kind}-*.parquet"))
        for row in pq.read_table(part).to_pylist()
    ]


def test_each_card_becomes_a_part_of_samples_and_one_of_verdicts(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.on_batch(card_of("abc", "").with_advantages([0.0, 0.0]))
    recorder.on_batch(card_of("abcde"))
    folder = tmp_path / "scorecards"
    assert len(list(folder.iterdir())) == 4
    samples, verdicts = read(folder, "samples"), read(folder, "verdicts")
    assert [
        (row["text"], row["total"], row["advantage"], row["void"]) for row in samples
    ] == [
        ("abc", 0.3, 0.0, False),
        ("", None, 0.0, True),
        ("abcde", 0.5, None, False),
    ]
    assert [(row["status"], row["blame"], row["score"]) for row in verdicts] == [
        ("scored", "policy", 0.3),
        ("skipped", "data", None),
        ("scored", "policy", 0.5),
    ]
    assert pq.read_schema(folder / "samples-00000000.parquet").names == [
        column.name for column in SAMPLE_COLUMNS
    ]
    assert pq.read_schema(folder / "verdicts-00000000.parquet").names == [
        column.name for column in VERDICT_COLUMNS
    ]


def test_hostile_text_and_odd_columns_are_stored(tmp_path: Path) -> None:
    hostile = "\ud800 \x00 \u202e <script>" + "x" * 200_000
    Recorder(tmp_path).on_batch(
        card_of(
            hostile, gold=math.nan, nested={"a": [math.inf, object]}, surrogate="\udfff"
        )
    )
    (row,) = read(tmp_path / "scorecards", "samples")
    assert row["text"].startswith("\\ud800 \x00 \u202e <script>")
    assert json.loads(row["row"])["gold"] is None
    assert json.loads(row["row"])["nested"]["a"][0] is None


ENDLESS = """
import sys
sys.path[:0] = {folders!r}
from test_recorder import Recorder, card_of
recorder = Recorder({folder!r})
while True:
    recorder.on_batch(card_of("x" * 50_000).with_advantages([1.0]))
    print("written", flush=True)
"""


def test_a_run_that_is_killed_while_it_writes_leaves_only_whole_parts(
    tmp_path: Path,
) -> None:
    script = ENDLESS.format(
        folders=[str(Path(__file__).parent), str(HARNESS)], folder=str(tmp_path)
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
    folder = tmp_path / "scorecards"
    samples, verdicts = read(folder, "samples"), read(folder, "verdicts")
    assert len(samples) >= 20
    assert len(verdicts) in (len(samples), len(samples) + 1)
    Recorder(tmp_path).on_batch(card_of("after"))
    assert read(folder, "samples")[-1]["text"] == "after"


def test_other_peoples_files_in_the_folder_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "scorecards"
    folder.mkdir()
    (folder / "samples-all.parquet").write_text("mine")
    Recorder(tmp_path).on_batch(card_of("abc"))
    assert (folder / "samples-00000000.parquet").exists()


def test_a_resumed_run_goes_on_numbering_groups(tmp_path: Path) -> None:
    assert Recorder(tmp_path).groups_recorded() == 0
    Recorder(tmp_path).on_batch(card_of("abc"))
    assert Recorder(tmp_path).groups_recorded() == 1


def test_a_damaged_part_neither_stops_a_resumed_run_nor_hides_its_session(
    tmp_path: Path,
) -> None:
    Recorder(tmp_path).on_batch(card_of("a"))
    for kind in ("samples", "verdicts"):
        (tmp_path / "scorecards" / f"{kind}-00000001.parquet").write_bytes(b"PAR1 cut off")
    recorder = Recorder(tmp_path)
    assert recorder.groups_recorded() == 1
    recorder.on_batch(card_of("b"))
    about = read_about(tmp_path / "scorecards" / "samples-00000002.parquet")
    assert about.session == 1
