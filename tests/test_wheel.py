"""The built wheel: its contents, and its use in a fresh environment."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from places import ROOT

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from the source distribution, like a package index."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def test_it_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    packed = {
        name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name
    }
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    expected = set()
    for name in listed:
        top = name.partition("/")[0]
        if top == "trl_grpo_ext" and not (ROOT / name).is_symlink():
            expected.add(name)
        elif top in ("rewards", "recipes") or (top == "docs" and name.count("/") == 1):
            expected.add(f"trl_grpo_ext/{name}")
    assert packed == expected


PROBE = """
import importlib.util, sys
from pathlib import Path
import trl_grpo_ext
from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.rewards import math_reward
from trl_grpo_ext.programs.sandbox.isolation import IsolationError
assert Path(sys.prefix) in Path(trl_grpo_ext.__file__).parents, trl_grpo_ext.__file__
assert importlib.util.find_spec("rewards") is None
assert importlib.util.find_spec("recipes") is None
assert math_reward(["It is $4$."], solution=["4"]) == [1.0]
from trl_grpo_ext.rewards import unit_test_reward
try:
    assert unit_test_reward(["def f(): return 4"], tests=[["assert f() == 4"]]) == [1.0]
except IsolationError:  # this machine has nothing to run programs behind
    pass
from transformers import AutoModelForCausalLM
from trl_grpo_ext.assets import resolve
AutoModelForCausalLM.from_pretrained(resolve("bundled:tiny_reasoner"))
"""


def test_it_works_in_an_empty_environment_and_leaks_no_module_called_rewards_or_recipes(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    bin_folder = environment / "bin"
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run(
        [bin_folder / "pip", "install", "--quiet", *constraints, wheel],
        check=True,
        cwd=tmp_path,
    )

    def run(*command: str) -> str:
        done = subprocess.run(
            [str(bin_folder / command[0]), *command[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("python", "-c", PROBE)
    assert "bad_data" in run("trl-grpo-ext", "docs", "findings#bad_data")
    listed = [line.split()[0] for line in run("trl-grpo-ext", "recipes").splitlines()]
    assert listed == sorted(path.stem for path in (ROOT / "recipes").glob("*.yaml"))
    run(
        "trl-grpo-ext",
        "train",
        "--config",
        "quickstart",
        "--max_steps",
        "1",
        "--evaluate_before_and_after",
        "false",
    )
    assert (tmp_path / "runs/quickstart/summary.json").exists()
    assert "<html" in (tmp_path / "runs/quickstart/report.html").read_text()[:1000]
