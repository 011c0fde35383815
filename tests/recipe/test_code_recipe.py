"""The code recipes: the bundled recipe runs; the GPU recipe maps and judges rows shaped like its datasets."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from datasets import Dataset, load_dataset
from hub_data import on_disk

from trl_grpo_ext import Status
from trl_grpo_ext.assets import resolve
from trl_grpo_ext.mix.data_check import RowCheck
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.file import load_recipe
from trl_grpo_ext.recipe.recipe import Recipe, parse_recipe
from trl_grpo_ext.recipe.run import _try_references
from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.verdict import Verdict

Row = dict[str, Any]
pytestmark = pytest.mark.usefixtures("no_cached_data")


@pytest.fixture(scope="module")
def functions() -> Any:
    """Load the bundled data."""
    return load_dataset(resolve("bundled:functions"))


def train(*flags: str, config: str, cwd: Path) -> None:
    command = [sys.executable, "-m", "trl_grpo_ext", "train", "--config", config, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]


def verdicts_of(run_folder: Path, term: str) -> list[Row]:
    parts = sorted((run_folder / "scorecards").glob("verdicts-*.parquet"))
    return [
        row
        for part in parts
        for row in pq.read_table(part).to_pylist()
        if row["term"] == term
    ]


# ---------------------------------------------------------------------------------------------
# code
# ---------------------------------------------------------------------------------------------


def anonymous(row: Row) -> str:
    """Return the solution with numbered arguments, so that equal behaviour gives equal code."""
    code: str = row["prompt"].splitlines()[0] + row["canonical_solution"]
    for number, name in enumerate(
        re.findall(r"\w+", code.partition("(")[2].partition(")")[0])
    ):
        code = re.sub(rf"\b{name}\b", f"argument_{number}", code)
    return code


def test_no_function_is_asked_for_twice_and_none_of_test_in_train(functions: Any) -> None:
    codes = {split: [anonymous(row) for row in rows] for split, rows in functions.items()}
    assert (len(codes["train"]), len(codes["test"])) == (800, 200)
    assert len({*codes["train"], *codes["test"]}) == 1000


def test_the_tests_pass_their_solution_and_nothing_that_solves_nothing(
    functions: Any,
) -> None:
    rows = functions["test"].select(range(0, 200, 50)).to_list()
    assert UnitTestVerifier().check_rows(rows, thorough=True) == []
    assert all(
        row["test"].count("assert") >= 4 for split in functions.values() for row in split
    )


def train_a_little(folder: Path) -> None:
    flags = [
        "--max_steps",
        "3",
        "--per_device_train_batch_size",
        "32",
        "--logging_steps",
        "1",
    ]
    train(*flags, config="code", cwd=folder)


@pytest.fixture(scope="session")
def short_run(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """Run the recipe `code` briefly, once, and return the run folder."""
    return made_once("code", train_a_little) / "runs/code"


@pytest.mark.slow  # a whole run of the command
def test_the_recipe_starts_from_a_model_that_passes_less_than_half_of_the_tests(
    short_run: Path,
) -> None:
    summary = json.loads((short_run / "summary.json").read_text())
    assert summary["primary_term"] == "tests"
    assert 0.3 <= summary["accuracy"]["before"]["mean"] <= 0.5
    assert summary["void"] == {"before": 0, "after": 0}


@pytest.mark.slow  # a whole run of the command
def test_its_scorecards_say_what_became_of_every_program(short_run: Path) -> None:
    verdicts = verdicts_of(short_run, "tests")
    counts = Counter(verdict["mode"] for verdict in verdicts)
    assert counts == {"train": 3 * 32, "eval": 2 * 400}
    reasons = {
        verdict["reason"] for verdict in verdicts if verdict["status"] == "incorrect"
    }
    assert {"test_1_failed", "passes_naively"} <= reasons
    programs = [verdict for verdict in verdicts if verdict["reason"] != "no_code"]
    assert len(programs) > 0.9 * len(verdicts)
    for verdict in programs:
        details = json.loads(verdict["details"])
        assert {"ending", "isolation", "tests"} <= set(details)
        assert (
            (verdict["status"] == "correct")
            == (verdict["score"] == 1.0)
            == (details["ending"] == "passed")
        )
        assert (
            verdict["answer"] and verdict["seconds"] >= 0 and verdict["blame"] == "policy"
        )


@pytest.mark.slow  # a whole run of the command
def test_a_program_that_leaves_is_wrong_and_named_as_one_that_a_naive_grader_passes(
    short_run: Path,
) -> None:
    left = [
        row
        for row in verdicts_of(short_run, "tests")
        if row["answer"] == "    raise SystemExit(0)\n"
    ]
    assert left
    assert {(row["status"], row["reason"], row["score"]) for row in left} == {
        ("incorrect", "passes_naively", 0.0)
    }
    assert all(json.loads(row["details"])["naive_grader"] == "passed" for row in left)


# ---------------------------------------------------------------------------------------------
# mbpp_lora
# ---------------------------------------------------------------------------------------------

FULL: list[Row] = [
    {
        "task_id": 901,
        "text": "Write a function to count the vowels {a, e, i, o, u} of a word.",
        "code": "def vowels(word): \r\n\treturn sum(c in 'aeiou' for c in word)",
        "test_list": [
            "assert vowels('banana') == 3",
            "assert vowels('rhythm') == 0",
            "assert vowels('audio') == 4",
        ],
        "test_setup_code": "",
        "challenge_test_list": [],
    },
    {
        "task_id": 902,
        "text": "Write a function to add up a nested list.",
        "code": "def deep(xs):\r\n  return sum(deep(x) if type(x) is list else x for x in xs)",
        "test_list": [
            "assert deep(tree) == 6",
            "assert deep([]) == 0",
            "assert deep([tree, [tree]]) == 12",
        ],
        "test_setup_code": "tree = [1, [2, [3]]]",
        "challenge_test_list": ["assert deep([[[]]]) == 0"],
    },
]
SANITIZED: list[Row] = [
    {
        "source_file": "Benchmark Questions Verification V2.ipynb",
        "task_id": 903,
        "prompt": "Write a function to find the area of a circle.",
        "code": "import math\ndef circle(r):\n  return math.pi * r ** 2",
        "test_imports": ["import math"],
        "test_list": [
            "assert math.isclose(circle(2), 12.566370, rel_tol=0.001)",
            "assert math.isclose(circle(0), 0.0, rel_tol=0.001)",
            "assert math.isclose(circle(1), 3.141592, rel_tol=0.001)",
        ],
    },
]
CONTEST: list[Row] = [
    {
        "source": "apps",
        "task_type": "verifiable_code",
        "in_source_id": "4",
        "problem_statement": "Read $n$ and print the sum of 1 to $n$.\n-----Input-----\nOne number {n}.",
        "gold_standard_solution": "```python\nn = int(input())\nprint(n * (n + 1) // 2)\n```",
        "problem_id": "vfc_1",
        "metadata": {"difficulty": "easy", "memory_limit": None, "time_limit": "1 second"},
        "verification_info": {
            "language": "python",
            "test_cases": [
                {"fn_name": None, "input": "4\n", "output": "10\n", "type": "stdin_stdout"},
                {
                    "fn_name": None,
                    "input": "100\n",
                    "output": "5050\n",
                    "type": "stdin_stdout",
                },
            ],
        },
    },
    {
        "source": "apps",
        "task_type": "verifiable_code",
        "in_source_id": "5",
        "problem_statement": "Write a function `turn` that turns a word round.",
        "gold_standard_solution": "```python\ndef turn(word):\n    return word[::-1]\n```",
        "problem_id": "vfc_2",
        "metadata": {"difficulty": None, "memory_limit": None, "time_limit": None},
        "verification_info": {
            "language": "python",
            "test_cases": [
                {
                    "fn_name": "turn",
                    "input": '"abc"',
                    "output": '"cba"',
                    "type": "function_call",
                },
                {
                    "fn_name": "turn",
                    "input": '"xy"',
                    "output": '"yx"',
                    "type": "function_call",
                },
            ],
        },
    },
]
BY_HEART = {
    901: "def vowels(word):\n    return 3",
    902: "def deep(xs):\n    return 6",
    903: "def circle(r):\n    return 12.56637",
    "vfc_1": "print(10)",
    "vfc_2": "def turn(word):\n    return 'cba'",
}


def recipe_for(folder: Path, config: str, rows: list[Row], *flags: str) -> Recipe:
    name = on_disk(folder, rows, config)
    machine = ["--use_cpu", "true", "--bf16", "false", "--output_dir", str(folder / "run")]
    data = ["--dataset_name", name, "--dataset_config", config]
    return parse_recipe(load_recipe("mbpp_lora"), [*machine, *data, *flags])


def judge(recipe: Recipe, rows: Any, code_of: Callable[[Row], str]) -> list[Verdict]:
    completions = [
        [{"role": "assistant", "content": f"Here it is:\n```python\n{code_of(row)}\n```"}]
        for row in rows
    ]
    columns = {name: list(rows[name]) for name in rows.column_names if name != "prompt"}
    verifier = recipe.mix.terms[0].verifier
    return verifier.judge(completions, prompts=list(rows["prompt"]), **columns)


SANITIZED_FLAGS = ("--prompt_template", "{prompt}\n{test_list[0]}")
CONTEST_FLAGS = ("--prompt_template", "{problem_statement}")
SHAPES = [
    pytest.param("full", FULL, (), "code", id="mbpp full"),
    pytest.param("sanitized", SANITIZED, SANITIZED_FLAGS, "code", id="mbpp sanitized"),
    pytest.param(
        "default", CONTEST, CONTEST_FLAGS, "gold_standard_solution", id="open-r1 as it is"
    ),
    pytest.param(
        "default",
        [
            row | {"verification_info": json.dumps(row["verification_info"])}
            for row in CONTEST
        ],
        CONTEST_FLAGS,
        "gold_standard_solution",
        id="verification_info as JSON",
    ),
]


@pytest.mark.parametrize(("config", "rows", "flags", "reference"), SHAPES)
def test_rows_of_the_hubs_shape_become_prompts_and_can_be_judged(
    tmp_path: Path, config: str, rows: list[Row], flags: tuple[str, ...], reference: str
) -> None:
    recipe = recipe_for(tmp_path / "data", config, rows, *flags)
    data = load_data(recipe.data)
    assert set(data) == {"train", "test"}
    mapped = data["train"].select(range(len(rows)))  # where each stands twice
    for row, made in zip(rows, mapped, strict=True):
        system, user = made["prompt"]
        assert (system["role"], user["role"]) == ("system", "user")
        assert (
            row.get("text", row.get("prompt", row.get("problem_statement")))
            in user["content"]
        )
        assert "{test_list" not in user["content"]
        if "test_list" in row:
            first, *others = row["test_list"]
            assert user["content"].endswith(first)
            assert not any(other in user["content"] for other in others)
    right = judge(
        recipe,
        mapped,
        lambda row: row[reference].replace("```python\n", "").replace("```", ""),
    )
    assert [verdict.status for verdict in right] == [Status.CORRECT] * len(rows)
    wrong = judge(
        recipe, mapped, lambda row: BY_HEART[row.get("task_id") or row["problem_id"]]
    )
    assert [(verdict.status, verdict.reason) for verdict in wrong] == [
        (Status.INCORRECT, "test_2_failed")
    ] * len(rows)
    assert recipe.mix.terms[0].verifier.check_rows(mapped.to_list(), thorough=True) == []


def test_training_warns_of_references_that_fail_their_tests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    row = {
        "prompt": "Write f.",
        "tests": ["assert f(1) == 2"],
        "solution": "def f(x): return x",
    }
    mix = build_mix([{"verifier": "unit_test"}])
    rows = [row, row | {"solution": "def f(x): return x + 1"}] * 2
    _try_references(mix, Dataset.from_list(rows), RowCheck([], len(rows)))
    assert "reference_fails in 2 rows: rows 0, 2 (counted from 0)" in caplog.text
    assert "check-data` tries all rows" in caplog.text
