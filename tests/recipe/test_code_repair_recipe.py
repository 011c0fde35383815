"""The recipe for code repair: rows of MBPP's shape become rollouts, and a tiny model trains on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import run_here
from environment_run import scored_by_environments
from hub_data import MACHINE, MBPP, SMALL, on_disk
from walls import walls_or_skip

from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.file import load_recipe
from trl_grpo_ext.recipe.recipe import parse_recipe

pytestmark = [
    pytest.mark.usefixtures("no_cached_data"),
    pytest.mark.filterwarnings("ignore:You are using 'environment_factory'"),
    scored_by_environments,
]

SPECIAL = "def double(x):\n    return {2: 4, -1: -2}.get(x)"


def test_rows_of_mbpps_shape_are_shown_two_tests_and_judged_by_the_third(
    tmp_path: Path,
) -> None:
    walls_or_skip()
    name = on_disk(tmp_path / "mbpp", MBPP, "full")
    recipe = parse_recipe(load_recipe("code_repair"), [*MACHINE, "--dataset_name", name])
    (row, _) = load_data(recipe.data)["train"]
    assert row["prompt"][0]["content"].startswith(
        "Write a function to double a number. Submit a program"
    )
    environment = recipe.agent["environment_factory"]()
    assert (
        environment.reset(**row)
        == "\nTests:\nassert double(2) == 4\nassert double(-1) == -2"
    )
    assert environment.submit(SPECIAL).count(": passed") == 2
    assert environment.get_reward().score == 0.0
    environment.submit(f"```python\n{row['code']}\n```")
    assert environment.get_reward().score == 1.0


@pytest.mark.slow
def test_it_trains_a_few_real_steps_and_is_evaluated(tmp_path: Path) -> None:
    walls_or_skip()
    name = on_disk(tmp_path / "mbpp", MBPP, "full")
    small = [flag for key, value in SMALL.items() for flag in (f"--{key}", str(value))]
    model = (
        "--model_name_or_path",
        "bundled:tiny_pythonist",
        "--use_peft",
        "false",
        "--prompt_template",
        "{task_id}",
    )
    done = run_here(
        "train",
        "--config",
        "code_repair",
        *MACHINE,
        "--dataset_name",
        name,
        *small,
        *model,
        cwd=tmp_path,
    )
    assert "solved" in done.stdout and "price" in done.stdout
    assert (tmp_path / "run" / "summary.json").exists()
