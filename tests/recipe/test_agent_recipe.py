"""The recipes for agents: the bundled models learn to call the tool of their environment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from environment_run import scored_by_environments
from walls import walls_or_skip

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.runs.recorded_run import RecordedRun

pytestmark = [pytest.mark.usefixtures("no_cached_data"), scored_by_environments]


def train(folder: Path, *flags: str, recipe: str = "agent") -> dict[str, Any]:
    command = [sys.executable, "-m", "trl_grpo_ext", "train", "--config", recipe, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    summary: dict[str, Any] = json.loads(
        (folder / "runs" / recipe / "summary.json").read_text()
    )
    return summary


def test_no_product_of_the_test_is_in_the_training_data() -> None:
    rows = {
        split: [
            json.loads(line)
            for line in Path(resolve("bundled:products"), f"{split}.jsonl")
            .read_text()
            .splitlines()
        ]
        for split in ("train", "test")
    }
    asked = {
        split: {row["prompt"][0]["content"] for row in part} for split, part in rows.items()
    }
    assert (len(asked["train"]), len(asked["test"])) == (1500, 150)
    assert not asked["train"] & asked["test"]
    assert all(
        eval(row["prompt"][0]["content"]) == int(row["solution"])
        for part in rows.values()
        for row in part
    )


@pytest.mark.slow
def test_it_learns_to_call_the_tool(tmp_path: Path) -> None:
    summary = train(tmp_path, "--max_steps", "20")
    before, after = (summary["terms"]["solved"][moment] for moment in ("before", "after"))
    assert before["mean"] < 0.6 < 0.8 < after["mean"]
    cards = list(RecordedRun(tmp_path / "runs" / "agent").cards("train"))
    outcomes = [sample.outcome for card in cards for sample in card.samples]
    assert all(
        outcome is not None and outcome.environment == "Calculator" for outcome in outcomes
    )
    calls = [sample for sample in cards[-1].samples if sample.messages is not None]
    assert calls and all(
        message["role"] in ("assistant", "tool")
        for each in calls
        for message in each.messages
    )


@pytest.mark.slow
def test_it_learns_to_send_code_that_is_python(tmp_path: Path) -> None:
    walls_or_skip()
    summary = train(tmp_path, "--max_steps", "20", recipe="python_tool")
    before, after = (summary["terms"]["answer"][moment] for moment in ("before", "after"))
    assert before["mean"] < 0.3 < 0.5 < after["mean"]
    cards = list(RecordedRun(tmp_path / "runs" / "python_tool").cards("train"))
    outcomes = [sample.outcome for card in cards for sample in card.samples]
    assert all(
        outcome is not None and outcome.environment == "PythonEnvironment"
        for outcome in outcomes
    )
    assert {outcome.state["calls"] for outcome in outcomes if outcome is not None} == {0, 1}
    assert not any(outcome.state["failed"] for outcome in outcomes if outcome is not None)
