"""A run recorded before modules moved to new packages can still be read, reported and replayed."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from places import DATA

from trl_grpo_ext.cli.main import main
from trl_grpo_ext.figures.logged import logged_figures
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.runs.recorded_run import RecordedRun

RECORDED = DATA / "earlier_run"
# Per batch: the scorecard's figures and the logs of the version that recorded the run.
BATCHES: list[dict[str, Any]] = json.loads(
    (RECORDED / "figures.json").read_text(encoding="utf-8")
)

# The last words of the names that later versions log in addition.
SINCE = {"scored"}

RECIPE = """
rewards:
  - {name: right, verifier: regex, pattern: "^[78]$"}
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "run"))


def test_every_card_is_what_it_was() -> None:
    cards = list(RecordedRun(RECORDED).cards())
    assert [(card.step, card.mode) for card in cards] == [
        (batch["step"], batch["mode"]) for batch in BATCHES
    ]
    for card, batch in zip(cards, BATCHES, strict=True):
        assert list(card.void) == batch["void"]
        assert list(card.totals) == pytest.approx(batch["totals"])


def test_every_figure_is_what_was_logged() -> None:
    run = RecordedRun(RECORDED)
    for card, batch in zip(run.cards(), BATCHES, strict=True):
        found = logged_figures(reduce_card(card, run.settings))
        wanted = {
            name: math.nan if number is None else number
            for name, number in batch["figures"].items()
        }
        assert {name: found[name] for name in wanted} == pytest.approx(wanted, nan_ok=True)
        assert {name.rpartition("/")[2] for name in found.keys() - wanted.keys()} == SINCE


def test_its_report_is_written(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").stat().st_size > 50_000
    assert main(["diagnose", str(run)]) == 0
    assert "bad_data" in capsys.readouterr().out


def test_it_is_replayed_and_the_recorded_advantages_follow_from_the_recorded_values(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE, encoding="utf-8")
    assert main(["replay", str(run), "--config", str(recipe), "--json", "-"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert replayed["batches"] == 3
    assert not any("advantages are not those" in note for note in replayed["notes"])
