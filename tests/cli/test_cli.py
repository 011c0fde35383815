"""The command line as typed by users; tests of process behaviour run in subprocesses."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command_line import run_here
from environment_run import scored_by_environments
from places import ROOT
from transformers import AutoModelForCausalLM

from trl_grpo_ext.cli.main import COMMANDS, GROUPS, main
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.trainer.console import log_line

# accelerate starts several processes on one machine only for --multi_gpu; the recipe's use_cpu puts them on gloo.
LAUNCH_TWO = [
    "-m",
    "accelerate.commands.launch",
    "--multi_gpu",
    "--num_processes",
    "2",
    "--num_machines",
    "1",
]
LAUNCH_TWO += [
    "--mixed_precision",
    "no",
    "--dynamo_backend",
    "no",
    "--main_process_port",
    "0",
]

SHORT = ["--max_steps", "2", "--per_device_train_batch_size", "16", "--logging_steps", "1"]


def run(
    *command: str, cwd: Path, expect: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=os.environ | environment,
    )
    assert done.returncode == expect, done.stderr[-3000:]
    return done


def recorded(run_folder: Path) -> list[dict[str, Any]]:
    parts = sorted((run_folder / "scorecards").glob("samples-*.parquet"))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


def test_help_and_the_list_of_recipes_load_no_torch(tmp_path: Path) -> None:
    code = "import sys; from trl_grpo_ext.cli.main import main; main(sys.argv[1:]); assert 'torch' not in sys.modules"
    assert "quickstart" in run("-c", code, "recipes", cwd=tmp_path).stdout
    listed = run_here("--help", cwd=tmp_path).stdout
    for title, group in GROUPS.items():
        _, _, following = listed.partition(f"\n\n{title}:\n")
        assert [
            line.split()[0] for line in following.partition("\n\n")[0].splitlines()
        ] == list(group)
    assert "--config" in run_here("train", "--help", cwd=tmp_path).stdout


def test_unknown_commands_recipes_and_flags_end_with_status_2_and_one_line(
    tmp_path: Path,
) -> None:
    for arguments in (["train"], ["recipes", "--all"], []):
        assert "error:" in run_here(*arguments, cwd=tmp_path, expect=2).stderr
    nearest = run_here("trian", "--config", "quickstart", cwd=tmp_path, expect=2).stderr
    assert (
        nearest
        == "trl-grpo-ext: error: There is no command `trian`. Did you mean `train`?\n"
    )
    unknown = run_here("train", "--config", "quikstart", cwd=tmp_path, expect=2).stderr
    assert unknown.count("\n") == 1
    assert "Did you mean `quickstart`?" in unknown


def test_a_shipped_recipe_is_printed_as_its_file_is(tmp_path: Path) -> None:
    shown = run_here("recipes", "--show", "code", cwd=tmp_path).stdout
    assert shown == (ROOT / "recipes" / "code.yaml").read_text(encoding="utf-8")
    wrong = run_here("recipes", "--show", "cod", cwd=tmp_path, expect=2).stderr
    assert "Did you mean `code`?" in wrong


def test_every_page_is_listed_and_printed_and_a_section_alone(tmp_path: Path) -> None:
    listed = run_here("docs", cwd=tmp_path).stdout
    assert [line.split()[0] for line in listed.splitlines()] == sorted(
        path.stem for path in (ROOT / "docs").glob("*.md")
    )
    page = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
    assert run_here("docs", "lab", cwd=tmp_path).stdout == page
    section = run_here("docs", "docs/lab.md#your-own-rewards", cwd=tmp_path).stdout
    assert section.startswith("## Your own rewards\n")
    assert section.count("\n## ") == 0
    assert section in page


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("metric", "Did you mean `metrics`?"),
        ("metrics_reference#drivers", "Did you mean `driver-shares`?"),
        ("Overlong", "It is spoken of in: "),
        ("xylophone", "Valid are: `audit`, "),
    ],
)
def test_a_page_or_section_that_there_is_not_names_the_nearest_or_those_that_speak_of_it(
    reference: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", reference]) == 2
    assert told in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -u -m trl_grpo_ext docs math | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_data_of_any_language_is_printed_where_stdout_is_ascii(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(
        json.dumps({"prompt": "?", "solution": "Füße \\frac{1}{"}), encoding="utf-8"
    )
    flags = ["--config", "quickstart", "--dataset_name", str(tmp_path)]
    shown = run_here("check-data", *flags, cwd=tmp_path, expect=1, encoding="ascii").stdout
    assert "F\\xfc\\xdfe" in shown


def test_a_figure_that_rounds_to_nothing_has_no_sign() -> None:
    logs = {"reward": -1e-17, "rewards/short/mean": -0.0004, "entropy": -0.0}
    assert (
        log_line(logs, ["short"], step=1, steps=2)
        == "step 1/2 | reward 0.000 | short 0.000 | H 0.00"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_flag_that_a_command_does_not_take_names_the_command_and_the_nearest_whatever_else_is_missing(
    command: str, tmp_path: Path
) -> None:
    said = run_here(command, "--hepl", cwd=tmp_path, expect=2).stderr
    assert (
        said
        == f"trl-grpo-ext {command}: error: Unknown flag `--hepl`. Did you mean `--help`?\n"
    )


def write_data(folder: Path, *, solution: str = "2") -> None:
    (folder / "train.jsonl").write_text(
        f'{{"prompt": "1+1", "solution": "{solution}"}}\n' * 16
    )
    (folder / "test.jsonl").write_text('{"prompt": "1+1", "solution": "2"}\n' * 8)


@pytest.fixture
def halting(tmp_path: Path) -> list[str]:
    """Write a recipe with unusable golds, whose training halts; the output goes to `runs/quickstart`."""
    write_data(tmp_path, solution="?")
    recipe = (ROOT / "recipes" / "quickstart.yaml").read_text(
        encoding="utf-8"
    ) + "halt_on: [bad_data]\n"
    (tmp_path / "halts.yaml").write_text(recipe, encoding="utf-8")
    flags = [
        "--config",
        "halts.yaml",
        "--dataset_name",
        str(tmp_path),
        *SHORT,
        "--max_steps",
        "20",
    ]
    return ["train", *flags, "--max_completion_length", "8"]


@pytest.mark.slow
def test_a_run_that_a_finding_halts_ends_with_status_3_and_the_summary_says_which(
    tmp_path: Path, halting: list[str]
) -> None:
    shown = run_here(*halting, "--write_report", "false", cwd=tmp_path, expect=3).stdout
    summary = json.loads((tmp_path / "runs/quickstart/summary.json").read_text())
    assert summary["steps"] == 3  # a finding begins at the third batch
    assert list(summary["halted_by"]) == ["code", "step", "sentence"]
    assert summary["halted_by"]["code"] == "bad_data"
    assert summary["accuracy"]["after"] is None
    assert (
        "Halted after step 3 by the finding bad_data (halt_on).\n"
        + summary["halted_by"]["sentence"]
        in shown
    )
    AutoModelForCausalLM.from_pretrained(tmp_path / "runs/quickstart/checkpoint-3")


@pytest.mark.slow  # two ranks
def test_a_halted_run_of_two_processes_writes_everything_before_the_launcher_ends_them(
    tmp_path: Path, halting: list[str]
) -> None:
    done = run(
        *LAUNCH_TWO,
        "-m",
        "trl_grpo_ext",
        *halting,
        "--evaluate_before_and_after",
        "false",
        cwd=tmp_path,
        expect=1,
    )
    assert (
        "exitcode  : 3" in done.stderr
    )  # of one at least: the launcher may be quicker with the other
    assert (
        json.loads((tmp_path / "runs/quickstart/summary.json").read_text())["halted_by"][
            "code"
        ]
        == "bad_data"
    )
    assert (tmp_path / "runs/quickstart/report.html").exists()


def train_quickstart(folder: Path) -> None:
    done = run("-m", "trl_grpo_ext", "train", "--config=quickstart", *SHORT, cwd=folder)
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)


@pytest.fixture(scope="session")
def quickstart(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """Run a short quickstart once, and return its folder."""
    return made_once("quickstart", train_quickstart)


@pytest.mark.slow  # a whole run of the command
def test_the_quickstart_reports_accuracy_before_and_after_with_intervals(
    quickstart: Path,
) -> None:
    summary = json.loads((quickstart / "runs/quickstart/summary.json").read_text())
    for when in ("before", "after"):
        measured = summary["accuracy"][when]
        assert 0.0 <= measured["low"] <= measured["mean"] <= measured["high"] <= 1.0
    assert 0.3 <= summary["accuracy"]["before"]["mean"] <= 0.5
    assert summary["seconds"] > 0
    assert summary["steps"] == 2
    assert summary["halted_by"] is None
    shown = (quickstart / "stdout").read_text()
    assert f"{summary['accuracy']['after']['mean']:.3f}" in shown
    assert "thinks" in shown
    assert "step 2/2 | reward" in (quickstart / "stderr").read_text()


@pytest.mark.slow  # a whole run of the command
def test_the_quickstart_leaves_a_model_that_loads_and_scorecards_of_every_batch(
    quickstart: Path,
) -> None:
    folder = quickstart / "runs/quickstart"
    AutoModelForCausalLM.from_pretrained(folder)
    samples = [
        row
        for part in sorted((folder / "scorecards").glob("samples-*"))
        for row in pq.read_table(part).to_pylist()
    ]
    modes = [row["mode"] for row in samples]
    assert modes.count("train") == 2 * 16
    assert modes[0] == modes[-1] == "eval"


@pytest.mark.slow  # two whole runs of the command
def test_a_second_run_in_the_same_folder_keeps_the_scorecards_of_the_first(
    quickstart: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(quickstart, tmp_path / "again")
    first = sorted(path.name for path in (folder / "runs/quickstart/scorecards").iterdir())
    flags = [*SHORT, "--evaluate_before_and_after", "false"]
    done = run("-m", "trl_grpo_ext", "train", "--config", "quickstart", *flags, cwd=folder)
    assert (
        sorted(path.name for path in (folder / "runs/quickstart/scorecards.1").iterdir())
        == first
    )
    assert "scorecards.1" in done.stderr
    assert done.stderr.startswith("loading TRL and torch ...\n")
    summary = json.loads((folder / "runs/quickstart/summary.json").read_text())
    assert summary["accuracy"] == {"before": None, "after": None}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--accelerate_config", "zero"],
            "neither a file nor one of TRL's. Did you mean `zero",
        ),
        (["--num_processes", "2"], "--num_processes needs --accelerate_config NAME"),
        (
            ["--accelerate_config", "zero3", "--num_processes", "two"],
            "number of 1 or more, got 'two'",
        ),
        (
            ["--accelerate_config", "zero3", "--learning_rat", "1"],
            "Did you mean `--learning_rate`",
        ),
    ],
)
def test_processes_that_cannot_be_started_are_refused_by_the_first(
    tmp_path: Path, flags: list[str], message: str
) -> None:
    assert (
        message
        in run_here(
            "train", "--config", "quickstart", *flags, cwd=tmp_path, expect=2
        ).stderr
    )


@pytest.mark.slow  # a run of the command
@pytest.mark.parametrize(
    ("flags", "left"),
    [
        (
            [],
            "No checkpoint was saved; `save_strategy: steps` and `save_steps: N` save some.",
        ),
        (
            ["--save_strategy", "steps", "--save_steps", "1"],
            "--save_steps 1 --resume_from_checkpoint true",
        ),
    ],
)
@pytest.mark.parametrize(
    ("sent", "how", "status"),
    [(signal.SIGINT, "Interrupted", 130), (signal.SIGTERM, "Ended by SIGTERM", 143)],
)
def test_ctrl_c_or_sigterm_ends_a_training_with_its_report_how_to_go_on_and_its_status(
    tmp_path: Path, flags: list[str], left: str, sent: signal.Signals, how: str, status: int
) -> None:
    # A shell has its background jobs, and all that they start, ignore Ctrl-C.
    listening = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    )
    listening += "from trl_grpo_ext.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [
        sys.executable,
        "-c",
        listening,
        "train",
        "--config",
        "quickstart",
        "--max_steps",
        "1000",
    ]
    command += ["--evaluate_before_and_after", "false", "--output_dir", "run", *flags]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        try:
            while len(list(tmp_path.glob("run/scorecards/verdicts-*.parquet"))) < 2:
                assert run.poll() is None
                time.sleep(0.1)
            os.killpg(run.pid, sent)
            _, said = run.communicate(timeout=120)
        finally:
            run.kill()
    assert run.returncode == status
    assert "Traceback" not in said
    assert re.search(rf"^{how} after step \d+\. Report: run/report\.html\.$", said, re.M)
    assert said.rstrip().endswith(left)
    assert (tmp_path / "run/report.html").is_file()


POOL = """
import multiprocessing, time
from trl_grpo_ext.cli.train import ending_at_sigterm

def work(sender):
    sender.send("at work")
    time.sleep(60)

with ending_at_sigterm(True):
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe()
    process = context.Process(target=work, args=(sender,))
    process.start()
    # Python forgets a signal that reaches a child within its fork.
    receiver.recv()
    process.terminate()
    process.join()
print(process.exitcode)
"""


def test_a_forked_process_of_a_training_ends_at_sigterm_without_a_word() -> None:
    command = [sys.executable, "-c", POOL]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == (f"{-signal.SIGTERM}\n", "")


REFUSING = """
from trl_grpo_ext.environments import Calculator

class Refusing(Calculator):
    resets = 0

    def reset(self, **row):
        Refusing.resets += 1
        if Refusing.resets > 16:
            raise ConnectionError("the service is gone")
        return super().reset(**row)
"""


@pytest.mark.slow  # a run of the command
@scored_by_environments
def test_a_run_that_an_error_ends_names_its_report_and_the_command_to_go_on_with(
    tmp_path: Path,
) -> None:
    (tmp_path / "refusing.py").write_text(REFUSING)
    recipe = (
        (ROOT / "recipes/agent.yaml")
        .read_text()
        .replace("trl_grpo_ext.environments.Calculator", "refusing.Refusing")
    )
    (tmp_path / "own.yaml").write_text(recipe)
    flags = [
        "--max_steps",
        "9",
        "--per_device_train_batch_size",
        "8",
        "--evaluate_before_and_after",
        "false",
    ]
    flags += [
        "--save_strategy",
        "steps",
        "--save_steps",
        "1",
        "--environment_patience",
        "2",
        "--output_dir",
        "run",
    ]
    said = run(
        "-m",
        "trl_grpo_ext",
        "train",
        "--config",
        "own.yaml",
        *flags,
        cwd=tmp_path,
        expect=1,
    ).stderr
    assert re.search(
        r"^Ended by EnvironmentsFailedError after step \d\. Report: run/report\.html\.$",
        said,
        re.M,
    )
    assert f"--config own.yaml {shlex.join(flags)} --resume_from_checkpoint true" in said
    assert (
        "Refusing.reset raised ConnectionError: the service is gone"
        in said.splitlines()[-1]
    )


def test_processes_that_a_launch_starts_know_the_command_to_go_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[str] = []

    def execv(path: str, command: list[str]) -> int:
        started.extend(command)
        return 0

    monkeypatch.setattr("os.execv", execv)
    main(
        [
            "train",
            "--config",
            "quickstart",
            "--accelerate_config",
            "multi_gpu",
            "--num_processes",
            "2",
        ]
    )
    assert (
        started[started.index("--launched_with") + 1]
        == "--accelerate_config multi_gpu --num_processes 2"
    )


@pytest.mark.slow  # two ranks
def test_two_processes_under_accelerate_train_together_and_write_once(
    tmp_path: Path,
) -> None:
    flags = [
        "--max_steps",
        "2",
        "--per_device_train_batch_size",
        "6",
        "--num_generations",
        "4",
    ]
    # 64 does not divide the 200 test prompts: accelerate fills the last batches up with prompts that were there before,
    # and these count once.
    flags += ["--per_device_eval_batch_size", "64", "--logging_steps", "1"]
    settings = {
        "distributed_type": "MULTI_GPU",
        "num_machines": 1,
        "num_processes": 4,
        "mixed_precision": "no",
    }
    (tmp_path / "two.yaml").write_text(json.dumps(settings))
    flags += ["--accelerate_config", "two.yaml", "--num_processes", "2"]
    run("-m", "trl_grpo_ext", "train", "--config", "quickstart", *flags, cwd=tmp_path)
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
    assert len(rows) - len(trained) == 2 * 400
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["prompts"], summary["completions"]) == (200, 400)


@pytest.mark.slow  # a run
def test_a_dry_run_trains_on_one_batch_and_keeps_nothing(tmp_path: Path) -> None:
    said = run_here("train", "--config", "quickstart", "--dry-run", cwd=tmp_path)
    assert "step 1/1 |" in said.stderr
    assert said.stdout.splitlines()[-1] == "One batch was trained on. Nothing was kept."
    assert tempfile.gettempdir() not in said.stdout  # what was written there is gone
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow  # a whole run of TRL's command
def test_trls_own_command_takes_the_rewards_by_name(
    tmp_path: Path, tiny_model: str, sums: Any
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "test"):
        sums[split].select(range(16)).to_json(data / f"{split}.jsonl")
    rewards = [
        "trl_grpo_ext.rewards.math_reward",
        "trl_grpo_ext.rewards.think_format_reward",
    ]
    flags = [
        "--model_name_or_path",
        tiny_model,
        "--dataset_name",
        str(data),
        "--output_dir",
        str(tmp_path / "out"),
    ]
    flags += [
        "--max_steps",
        "2",
        "--per_device_train_batch_size",
        "8",
        "--max_completion_length",
        "16",
    ]
    flags += [
        "--use_cpu",
        "--bf16",
        "false",
        "--report_to",
        "none",
        "--logging_steps",
        "1",
        "--save_strategy",
        "no",
    ]
    launcher = "from trl.cli import main; main()"
    done = run(
        "-c",
        launcher,
        "grpo",
        "--reward_funcs",
        *rewards,
        *flags,
        "--num_processes",
        "1",
        cwd=tmp_path,
    )
    assert "rewards/math_reward/mean" in done.stdout + done.stderr
    assert "rewards/think_format_reward/mean" in done.stdout + done.stderr


@pytest.mark.slow  # two whole runs of the command
def test_a_run_that_is_stopped_and_resumed_adds_to_its_scorecards_and_logs(
    tmp_path: Path,
) -> None:
    write_data(tmp_path)
    flags = [
        "--dataset_name",
        str(tmp_path),
        "--per_device_train_batch_size",
        "16",
        "--logging_steps",
        "1",
    ]
    flags += ["--save_strategy", "steps", "--save_steps", "2"]
    train = ["-m", "trl_grpo_ext", "train", "--config", "quickstart", *flags]
    run(*train, "--max_steps", "2", cwd=tmp_path)
    summary = tmp_path / "runs/quickstart/summary.json"
    first = json.loads(summary.read_text())["terms"]["accuracy"]
    resumed = run(
        *train, "--max_steps", "4", "--resume_from_checkpoint", "true", cwd=tmp_path
    )
    assert "evaluating before training" not in resumed.stderr  # that is recorded
    after = json.loads(summary.read_text())["terms"]["accuracy"]
    assert after["before"] == first["before"] and after["after"] != first["before"]
    assert "missing keys" not in resumed.stderr  # the weights that are tied to others
    folder = tmp_path / "runs/quickstart"
    trained = [row for row in recorded(folder) if row["mode"] == "train"]
    assert sorted({row["step"] for row in trained}) == [0, 1, 2, 3]
    assert len({row["group"] for row in trained}) == 8
    assert [about.step for _, about in RecordedRun(folder).parts("eval")] == [0, 2, 4], (
        "one batch each"
    )
    assert [entry["step"] for entry in RecordedRun(folder).logs if "loss" in entry] == [
        1,
        2,
        3,
        4,
    ]
    assert not (folder / "scorecards.1").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "quickstart"], "A recipe is named by a flag: `--config quickstart`."),
        (["check-data", "mine.yaml"], "A recipe is named by a flag: `--config mine.yaml`."),
        (
            ["train", "--config", "quickstart", "--bath_size", "3"],
            "Did you mean `--per_device_train_batch_size`?",
        ),
        (
            ["train", "--config", "quickstart", "more"],
            "Unexpected argument 'more': a flag is written `--name value`.",
        ),
    ],
)
def test_a_command_line_that_nearly_fits_is_refused_with_the_one_that_was_meant(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        assert main(arguments) == 2
    except SystemExit as ended:
        assert ended.code == 2
    assert said in capsys.readouterr().err
