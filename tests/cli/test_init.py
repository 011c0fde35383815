"""`init`: the new project trains unchanged, and never overwrites another project."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run_here


@pytest.fixture
def project(tmp_path: Path) -> Path:
    run_here("init", "my-sums", cwd=tmp_path)
    return tmp_path / "my-sums"


def in_project(project: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_it_has_data_a_verifier_with_its_test_a_recipe_and_scripts_under_its_own_name(
    project: Path,
) -> None:
    files = {
        str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()
    }
    assert {
        ".gitignore",
        "data/train_prompts.jsonl",
        "rewards/test_true_steps.py",
        "recipe.yaml",
        "train_grpo.py",
    } <= files
    assert not any(
        "PROJECT" in (project / name).read_text(encoding="utf-8") for name in files
    )
    assert "output_dir: runs/my-sums" in (project / "recipe.yaml").read_text(
        encoding="utf-8"
    )
    row = json.loads(
        (project / "data" / "test_prompts.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()[0]
    )
    assert sum(map(int, row["question"].split("+"))) == int(row["answer"])


@pytest.mark.parametrize("name", ["full", "a-file", "../.", "no name"])
def test_a_folder_that_holds_something_and_a_name_that_is_none_are_refused(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "a-file").write_text("mine")
    said = run_here("init", name, cwd=tmp_path, expect=2)
    assert said.stderr.startswith("trl-grpo-ext: error: ")
    assert "Traceback" not in said.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_it_trains_as_it_is_by_its_recipe_and_by_its_script_and_says_whether_it_got_better(
    project: Path,
) -> None:
    assert "2 passed" in in_project(
        project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "rewards"
    )
    assert "all fine" in in_project(
        project, "-m", "trl_grpo_ext", "check-data", "--config", "recipe.yaml"
    )
    in_project(
        project,
        "-m",
        "trl_grpo_ext",
        "train",
        "--config",
        "recipe.yaml",
        "--max_steps",
        "20",
    )
    assert "beats tiny_reasoner" in in_project(project, "eval.py", "--samples", "1")
    script = project / "train_grpo.py"
    script.write_text(
        script.read_text(encoding="utf-8").replace("max_steps=40", "max_steps=2"),
        encoding="utf-8",
    )
    model = project / "runs" / "my-sums" / "model.safetensors"
    saved = model.stat().st_mtime_ns
    in_project(project, "train_grpo.py")
    assert model.stat().st_mtime_ns > saved
