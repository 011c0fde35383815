"""The command `replay` as typed by users: output, files, refused arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import HARNESS
from replay_harness import HOLDS, NUMBER, record, term

from trl_grpo_ext.cli.main import main

TEXTS = ["1 yes", "0 yes", "0 no", "x no", "1 yes", "1 no", "1 yes", "1 no"]
OLD = [term("right", NUMBER), term("says", HOLDS, word="yes", weight=0.1)]
NEW = [
    term("right", NUMBER, weight=0.1),
    term("says", HOLDS, word="no", weight={"from": 1.0, "to": 0.0}),
]


def recipe(folder: Path, rewards: Any = NEW, **keys: Any) -> str:
    path = folder / "new.yaml"
    path.write_text(yaml.safe_dump({"rewards": rewards} | keys))
    return str(path)


@pytest.fixture
def run(tmp_path: Path) -> str:
    """Record a run of three batches."""
    record(
        tmp_path / "run",
        OLD,
        [TEXTS] * 3,
        scale_rewards="group",
        learning_rate=1e-5,
        loss_type="dapo",
    )
    return str(tmp_path / "run")


def test_it_prints_what_changes_in_plain_text(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", run, "--config", recipe(tmp_path, scale_rewards=False)]) == 0
    shown = capsys.readouterr().out
    assert "3 batches, 24 completions, steps 0 to 2" in shown
    assert "recorded" in shown
    assert "groups come alive" in shown
    assert "18 of 24 completions (75.0%) change their sign." in shown
    assert "scale_rewards: group -> none." in shown
    (says,) = [
        line for line in shown.splitlines() if line.startswith("│ says") and "->" in line
    ]
    assert "0.1 -> 1..0.8" in says
    assert "62% -> 102%" in says  # of the advantages, against which `right` pulls a little
    assert "24 differ" in says  # every verdict
    assert "text:   1 yes" in shown
    assert "\x1b" not in shown


def test_where_nothing_is_beside_the_mix_the_table_has_no_line_for_it(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing_to_teach = [term("says", HOLDS, word="never")]
    assert main(["replay", run, "--config", recipe(tmp_path, nothing_to_teach)]) == 0
    shown = capsys.readouterr().out
    assert "38% -> -" in shown
    assert "beside the mix" not in shown


def test_it_writes_the_figures_as_json_without_nan(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = recipe(tmp_path)
    assert (
        main(
            [
                "replay",
                run,
                "--config",
                config,
                "--json",
                str(tmp_path / "out.json"),
                "--steps",
                "1:",
            ]
        )
        == 0
    )
    assert "completions" in capsys.readouterr().out
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["steps"] == {"first": 1, "last": 2}
    assert written["sources"] == {"right": "recorded", "says": "judged again"}
    assert written["terms"]["says"]["changed"] == 16
    assert written["totals"]["void"] == {"old": 2, "new": 2, "both": 2}
    assert written["advantages"]["completions"] == 16
    for side in ("old", "new"):
        assert sum(written["drivers"][side]["terms"].values()) == pytest.approx(1.0)
    assert main(["replay", run, "--config", config, "--json", "-", "--steps", "1:"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed | {"seconds": 0} == written | {"seconds": 0}


def test_keys_that_do_not_count_are_said_to_be_ignored_where_they_differ(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = recipe(
        tmp_path,
        learning_rate="1e-5",
        loss_type="grpo",
        max_steps=500,
        dataset_name="d",
        save_steps=5,
    )
    assert main(["replay", run, "--config", config]) == 0
    notes = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("note:")
    ]
    (note,) = [note for note in notes if "only a new run could try" in note]
    assert "loss_type dapo -> grpo, max_steps 10 -> 500." in note
    assert "learning_rate" not in note


def test_a_shipped_recipe_is_named_as_in_train(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewards = [{"name": "accuracy", "verifier": "math"}]
    record(
        tmp_path / "run",
        rewards,
        [["4", r"\boxed{4}", "<think>2+2</think>4", "5"]],
        row={"solution": "4"},
    )
    assert main(["replay", str(tmp_path / "run"), "--config", "quickstart"]) == 0
    assert "thinks" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"rewards": None}, "`rewards:` list"),
        ({"rewards": [{"verifier": "maths"}]}, "Did you mean `math`?"),
        ({"scale_rewards": "groups"}, "Did you mean `group`?"),
        ({"scale_reward": "group"}, "Did you mean `scale_rewards`?"),
        (
            {"multi_objective_agregation": "x"},
            "Did you mean `multi_objective_aggregation`?",
        ),
        ({"reward_weights": [1, 2]}, "remove reward_weights"),
        ({"rewards": [term("right", NUMBER, weight=0)]}, "weight 0 when training starts"),
        ({"rewards": [term("math", "math")]}, "columns that the run had"),
    ],
)
def test_recipes_that_cannot_be_replayed_end_with_status_2_and_one_line(
    run: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    keys: dict[str, Any],
    problem: str,
) -> None:
    assert (
        main(["replay", run, "--config", recipe(tmp_path, **({"rewards": NEW} | keys))])
        == 2
    )
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--steps", "9:"], "no batches of the steps"),
        (["--steps", "nine"], "range such as"),
        (["--limit", "0"], "1 or more"),
        (["--examples", "-1"], "0 or more"),
        (["--mode", "eval"], "--mode train replays"),
        (["--json", "no/such/folder/out.json"], "no/such/folder"),
    ],
)
def test_arguments_that_cannot_be_end_with_status_2_and_one_line(
    run: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    assert main(["replay", run, "--config", recipe(tmp_path), *arguments]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


def test_a_folder_that_is_no_run_ends_with_what_to_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(tmp_path), "--config", recipe(tmp_path)]) == 2
    assert "Name the output_dir of a run" in capsys.readouterr().err


def test_without_examples_none_are_kept(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", run, "--config", recipe(tmp_path), "--examples", "0"]) == 0
    assert "text:" not in capsys.readouterr().out


HOSTILE = "0 yes \x1b[2J\x1b]0;owned\x07 [bold red]x[/] \u202e \ud800 \n" + "y" * 200_000


def test_hostile_text_does_nothing_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "run", OLD, [[HOSTILE, "1 [/] yes", "0 no", "1 no"]])
    assert (
        main(
            [
                "replay",
                str(tmp_path / "run"),
                "--config",
                recipe(tmp_path),
                "--examples",
                "9",
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert not set(shown) & set("\x1b\x07\u202e\ud800")
    assert r"[bold red]x[/]" in shown
    assert len(shown) < 20_000


def test_a_replay_loads_neither_torch_nor_trl(run: str, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom trl_grpo_ext.cli.main import main\n"
        f"assert main({['replay', run, '--config', recipe(tmp_path)]!r}) == 0\n"
        "assert not {'torch', 'transformers', 'trl'} & set(sys.modules)"
    )
    here = str(HARNESS)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": here},
    )
    assert done.returncode == 0, done.stderr
