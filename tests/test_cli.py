"""The command line as a user types it, in processes of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from transformers import AutoModelForCausalLM

SHORT = ["--max_steps", "2", "--per_device_train_batch_size", "16", "--logging_steps", "1"]


def run(*command: str, cwd: Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == expect, done.stderr[-3000:]
    return done


def recorded(run_folder: Path) -> list[dict[str, Any]]:
    parts = sorted((run_folder / "scorecards").glob("samples-*.parquet"))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


def test_help_and_the_list_of_recipes_load_no_torch(tmp_path: Path) -> None:
    code = "import sys; from trl_grpo_ext.cli import main; main(sys.argv[1:]); assert 'torch' not in sys.modules"
    assert "quickstart" in run("-c", code, "recipes", cwd=tmp_path).stdout
    assert "train" in run("-m", "trl_grpo_ext", "--help", cwd=tmp_path).stdout
    assert "--config" in run("-m", "trl_grpo_ext", "train", "--help", cwd=tmp_path).stdout


def test_unknown_commands_recipes_and_flags_end_with_status_2_and_one_line(tmp_path: Path) -> None:
    for arguments in (["trian"], ["train"], ["recipes", "--all"], []):
        assert "error:" in run("-m", "trl_grpo_ext", *arguments, cwd=tmp_path, expect=2).stderr
    unknown = run("-m", "trl_grpo_ext", "train", "--config", "quikstart", cwd=tmp_path, expect=2).stderr
    assert unknown.count("\n") == 1
    assert "Did you mean `quickstart`?" in unknown


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a short quickstart has run."""
    folder = tmp_path_factory.mktemp("quickstart")
    done = run("-m", "trl_grpo_ext", "train", "--config=quickstart", *SHORT, cwd=folder)
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)
    return folder


def test_the_quickstart_reports_accuracy_before_and_after_with_intervals(quickstart: Path) -> None:
    summary = json.loads((quickstart / "runs/quickstart/summary.json").read_text())
    for when in ("before", "after"):
        measured = summary["accuracy"][when]
        assert 0.0 <= measured["low"] <= measured["mean"] <= measured["high"] <= 1.0
    assert 0.3 <= summary["accuracy"]["before"]["mean"] <= 0.5
    assert summary["seconds"] > 0
    assert summary["steps"] == 2
    shown = (quickstart / "stdout").read_text()
    assert f"{summary['accuracy']['after']['mean']:.3f}" in shown
    assert "thinks" in shown
    assert "step 2/2 | reward" in (quickstart / "stderr").read_text()


def test_the_quickstart_leaves_a_model_that_loads_and_scorecards_of_every_batch(quickstart: Path) -> None:
    folder = quickstart / "runs/quickstart"
    AutoModelForCausalLM.from_pretrained(folder)
    samples = [
        row for part in sorted((folder / "scorecards").glob("samples-*")) for row in pq.read_table(part).to_pylist()
    ]
    modes = [row["mode"] for row in samples]
    assert modes.count("train") == 2 * 16
    assert modes[0] == modes[-1] == "eval"


def test_a_second_run_in_the_same_folder_keeps_the_scorecards_of_the_first(quickstart: Path) -> None:
    first = sorted(path.name for path in (quickstart / "runs/quickstart/scorecards").iterdir())
    flags = [*SHORT, "--evaluate_before_and_after", "false"]
    done = run("-m", "trl_grpo_ext", "train", "--config", "quickstart", *flags, cwd=quickstart)
    assert sorted(path.name for path in (quickstart / "runs/quickstart/scorecards.1").iterdir()) == first
    assert "scorecards.1" in done.stderr
    summary = json.loads((quickstart / "runs/quickstart/summary.json").read_text())
    assert summary["accuracy"] == {"before": None, "after": None}


def test_two_processes_under_accelerate_train_together_and_write_once(tmp_path: Path) -> None:
    # accelerate starts several processes on one machine only for --multi_gpu; the recipe's use_cpu puts them on gloo.
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    flags = ["--max_steps", "2", "--per_device_train_batch_size", "6", "--num_generations", "4"]
    # 64 does not divide the 200 test prompts: accelerate fills the last batches up with prompts that were there before.
    flags += ["--per_device_eval_batch_size", "64", "--logging_steps", "1"]
    run(*launch, "-m", "trl_grpo_ext", "train", "--config", "quickstart", *flags, cwd=tmp_path)
    folder = tmp_path / "runs/quickstart"
    rows = recorded(folder)
    trained = [row for row in rows if row["mode"] == "train"]
    assert len(trained) == 2 * 2 * 6
    # Six completions a rank and groups of four: the middle group is split between the ranks.
    groups: dict[int, set[str]] = {}
    for row in trained:
        groups.setdefault(row["group"], set()).add(row["prompt"])
    assert len(groups) == 6
    assert all(len(prompts) == 1 for prompts in groups.values())
    assert len(rows) - len(trained) > 2 * 400
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["prompts"], summary["completions"]) == (200, 400)


def test_trls_own_command_takes_the_rewards_by_name(tmp_path: Path, tiny_model: str, sums: Any) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "test"):
        sums[split].select(range(16)).to_json(data / f"{split}.jsonl")
    rewards = ["trl_grpo_ext.rewards.math_reward", "trl_grpo_ext.rewards.think_format_reward"]
    flags = ["--model_name_or_path", tiny_model, "--dataset_name", str(data), "--output_dir", str(tmp_path / "out")]
    flags += ["--max_steps", "2", "--per_device_train_batch_size", "8", "--max_completion_length", "16"]
    flags += ["--use_cpu", "--bf16", "false", "--report_to", "none", "--logging_steps", "1", "--save_strategy", "no"]
    launcher = "from trl.cli import main; main()"
    done = run("-c", launcher, "grpo", "--reward_funcs", *rewards, *flags, "--num_processes", "1", cwd=tmp_path)
    assert "rewards/math_reward/mean" in done.stdout + done.stderr
    assert "rewards/think_format_reward/mean" in done.stdout + done.stderr


def test_a_run_that_is_stopped_and_resumed_adds_to_its_scorecards(tmp_path: Path) -> None:
    flags = ["--evaluate_before_and_after", "false", "--per_device_train_batch_size", "16", "--save_strategy", "steps"]
    flags += ["--save_steps", "2"]
    train = ["-m", "trl_grpo_ext", "train", "--config", "quickstart", *flags]
    run(*train, "--max_steps", "2", cwd=tmp_path)
    run(*train, "--max_steps", "4", "--resume_from_checkpoint", "true", cwd=tmp_path)
    rows = recorded(tmp_path / "runs/quickstart")
    assert sorted({row["step"] for row in rows}) == [0, 1, 2, 3]
    assert sorted({row["group"] for row in rows}) == list(range(8))
    assert not (tmp_path / "runs/quickstart/scorecards.1").exists()
