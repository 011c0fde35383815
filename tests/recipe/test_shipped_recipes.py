"""Every shipped recipe: data mapping and rewards on rows shaped like its data, and a few real training steps.

The tests use flags available to users: local data instead of the Hub's, and the bundled model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from command_line import run_here
from hub_data import MACHINE, MBPP, SMALL, Row, on_disk
from walls import walls_or_skip

from trl_grpo_ext import Sample
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.file import load_recipe, shipped_recipes
from trl_grpo_ext.recipe.recipe import Recipe, parse_recipe

pytestmark = pytest.mark.usefixtures("no_cached_data")

GSM8K = [
    {
        "question": "Ann has 3 pens and buys 4. How many?",
        "answer": "3 + 4 = <<3+4=7>>7 pens.\n#### 7",
    },
    {
        "question": "A car costs 1,200 and falls by 200.",
        "answer": "1200 - 200 = <<1200-200=1000>>1000\n#### 1,000",
    },
]
DEEPMATH = [
    {
        "prompt": [{"content": "Find the limit of $\\sin(x)/x$ at 0.", "role": "user"}],
        "solution": "$1$",
    },
    {
        "prompt": [{"content": "What is 1/3 + 1/3?", "role": "user"}],
        "solution": "$\\dfrac{2}{3}$",
    },
    {"prompt": [{"content": "Is every group abelian?", "role": "user"}], "solution": "No"},
]
OPEN_R1 = [
    {
        "problem": "What is 2 + 3?",
        "solution": "2 + 3 = 4 + 1, so 5.",
        "answer": "5",
        "uuid": "a",
        "generations": ["..."],
    },
]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
JSON_MODE = [
    {
        "prompt": [
            {
                "content": f"Answer in JSON. Here's the json schema: <schema>{json.dumps(SCHEMA)}</schema>",
                "role": "system",
            },
            {"content": "Ann is here.", "role": "user"},
        ],
        "completion": '{"name": "Ann"}',
        "schema": json.dumps(SCHEMA),
    },
]


@dataclass(frozen=True)
class Case:
    """A recipe with rows shaped like its data.

    Attributes:
        datasets: Dataset name in the recipe -> rows; empty for shipped or generated data.
        config: The dataset's config name on the Hub.
        right: Writes a right completion for a row; None if the recipe's data is tested elsewhere.
        wrong: A completion that is wrong for every row.
        needs: A package from an extra.
        flags: Flags added to the recipe.
    """

    datasets: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    config: str | None = None
    right: Any = None
    wrong: str = "\\boxed{12345}"
    needs: str | None = None
    flags: Sequence[str] = ()


def boxed(row: Row) -> str:
    gold = (
        str(row.get("answer") or row["solution"]).rpartition("####")[2].strip().strip("$")
    )
    return f"So it is \\boxed{{{gold}}}."


def fenced(row: Row) -> str:
    return f"```python\n{row['code']}\n```"


def thoughtful(row: Row) -> str:
    return f"<think>Let me think about it.</think>{boxed(row)}"


BY_TASK = {"math": boxed, "code": fenced, "json": lambda row: row["completion"]}
MIXTURE = {
    "openai/gsm8k": GSM8K,
    "google-research-datasets/mbpp": MBPP,
    "interstellarninja/json-mode-dpo-prompts": JSON_MODE,
}
CASES = {
    "quickstart": Case(right=boxed),
    "code": Case(),  # tests/recipe/test_code_recipe.py
    "agent": Case(),  # tests/recipe/test_agent_recipe.py
    "python_tool": Case(),  # tests/recipe/test_agent_recipe.py
    "code_repair": Case(),  # tests/recipe/test_code_repair_recipe.py
    "smollm2": Case(right=boxed, needs="reasoning_gym"),
    "mbpp_lora": Case(
        {"mbpp": MBPP},
        config="full",
        right=fenced,
        wrong="```python\ndef double(x):\n    return 4\n```",
    ),
    "gsm8k": Case({"gsm8k": GSM8K}, config="main", right=boxed),
    "math": Case({"deepmath": DEEPMATH}, right=boxed),
    "r1": Case({"deepmath": DEEPMATH}, right=thoughtful, needs="py3langid"),
    "puzzles": Case(
        right=lambda row: f"<answer>{row['answer']}</answer>",
        wrong="<answer>1</answer>",
        needs="reasoning_gym",
    ),
    "json": Case(
        {"json": JSON_MODE},
        right=lambda row: row["completion"],
        wrong='{"name": 4}',
        needs="jsonschema",
    ),
    "mixed": Case(
        MIXTURE,
        right=lambda row: BY_TASK[row["task"]](row),
        wrong="I do not know.",
        needs="jsonschema",
    ),
}


def local(name: str, folder: Path) -> tuple[str, list[str]]:
    """Return a recipe's name or path, and the flags for local data."""
    case = CASES[name]
    if case.needs:
        pytest.importorskip(case.needs)
    if name in ("mbpp_lora", "mixed", "code"):
        walls_or_skip()
    if name != "mixed":
        splits = ("train",) if name == "json" else ("train", "test")
        names = [
            on_disk(folder / key, rows, case.config, splits)
            for key, rows in case.datasets.items()
        ]
        return name, [
            *MACHINE,
            *case.flags,
            *(flag for path in names for flag in ("--dataset_name", path)),
        ]
    keys = dict(load_recipe("mixed").keys)
    for part in keys["datasets"]:
        splits = ("train",) if part["task"] == "json" else ("train", "test")
        config = part.get("dataset_config")
        part["dataset_name"] = on_disk(
            folder / part["task"], MIXTURE[part["dataset_name"]], config, splits
        )
    (folder / "mixed.yaml").write_text(yaml.safe_dump(keys))
    return str(folder / "mixed.yaml"), list(MACHINE)


def parsed(name: str, folder: Path, *flags: str) -> Recipe:
    recipe, local_flags = local(name, folder)
    return parse_recipe(load_recipe(recipe), [*local_flags, *flags])


def test_every_recipe_has_a_case() -> None:
    assert set(CASES) == set(shipped_recipes())


BUNDLED = {"agent", "code", "python_tool", "quickstart"}


@pytest.mark.parametrize("name", sorted(set(CASES) - BUNDLED - {"smollm2", "mbpp_lora"}))
def test_its_head_says_what_it_needs_what_to_expect_and_how_to_measure_it(
    name: str,
) -> None:
    head = shipped_recipes()[name].read_text().partition("\n\n")[0]
    assert "one GPU" in head or "same GPU" in head or "a GPU" in head
    assert "has been" in head and "measured" in head and "is sized for" in head
    assert "\n# Next: " in head and "trl-grpo-ext eval --config " + name in head


def scores(
    recipe: Recipe, rows: Sequence[Row], completions: Sequence[str]
) -> list[tuple[float | None, bool]]:
    """List (primary score, is void) of each row's completion."""
    samples = [
        Sample(
            text=text,
            prompt=row["prompt"],
            row={key: row[key] for key in row if key != "prompt"},
            group=place,
            completion_ids=[1],
        )
        for place, (row, text) in enumerate(zip(rows, completions, strict=True))
    ]
    card = recipe.mix.score(samples)
    return [
        (verdict and verdict.score, void)
        for verdict, void in zip(card.primary, card.void, strict=True)
    ]


@pytest.mark.parametrize("name", sorted(name for name, case in CASES.items() if case.right))
def test_rows_of_the_datas_shape_become_prompts_and_are_judged_by_their_golds(
    tmp_path: Path, name: str
) -> None:
    recipe = parsed(name, tmp_path)
    data = load_data(recipe.data)
    assert set(data) == ({"train"} if name == "json" else {"train", "test"})
    rows = [dict(row) for row in data["train"].select(range(min(8, len(data["train"]))))]
    recipe.mix.check_columns(data["train"].column_names)
    assert all(
        isinstance(row["prompt"], list) and row["prompt"][-1]["role"] == "user"
        for row in rows
    )
    if recipe.data.system_prompt:
        assert all(
            row["prompt"][0] == {"role": "system", "content": recipe.data.system_prompt}
            for row in rows
        )
    case = CASES[name]
    assert scores(recipe, rows, [case.right(row) for row in rows]) == [(1.0, False)] * len(
        rows
    )
    assert scores(recipe, rows, [case.wrong] * len(rows)) == [(0.0, False)] * len(rows)
    recipe.mix.close()


def test_what_the_recipe_for_mathematics_says_of_open_r1_holds(tmp_path: Path) -> None:
    keys = dict(load_recipe("math").keys)
    for entry in keys["rewards"]:
        if entry["verifier"] == "math":
            entry["column"] = "answer"
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(keys))
    name = on_disk(tmp_path / "data", OPEN_R1, None, ["train"])
    flags = [
        *MACHINE,
        "--dataset_name",
        name,
        "--prompt_column",
        "problem",
        "--eval_strategy",
        "no",
    ]
    recipe = parse_recipe(load_recipe(str(tmp_path / "mine.yaml")), flags)
    rows = [dict(row) for row in load_data(recipe.data)["train"]]
    assert scores(recipe, rows, ["\\boxed{5}", "\\boxed{4}"]) == [
        (1.0, False),
        (0.0, False),
    ]


def test_a_mixture_has_each_tasks_rows_with_its_own_prompts_and_at_most_so_many(
    tmp_path: Path,
) -> None:
    recipe = parsed("mixed", tmp_path)
    data = load_data(recipe.data)
    assert sorted(data["train"]["task"]) == ["code"] * 2 + ["json"] * 2 + ["math"] * 4
    assert (
        sorted(data["test"]["task"]) == ["code"] * 2 + ["math"] * 4
    )  # the data for JSON has no test split
    by_task = {row["task"]: row for row in data["train"]}
    assert by_task["math"]["prompt"][0]["content"].startswith("Think step by step")
    assert by_task["code"]["prompt"][1]["content"].endswith("assert double(2) == 4")
    assert by_task["json"]["prompt"] == JSON_MODE[0]["prompt"]
    assert by_task["math"]["test_list"] is None and by_task["code"]["answer"] is None
    keys = dict(load_recipe(str(tmp_path / "mixed.yaml")).keys)
    keys["datasets"][0]["rows"] = 1
    (tmp_path / "fewer.yaml").write_text(yaml.safe_dump(keys))
    fewer = load_data(parse_recipe(load_recipe(str(tmp_path / "fewer.yaml")), MACHINE).data)
    assert sorted(fewer["train"]["task"]) == ["code"] * 2 + ["json"] * 2 + ["math"]


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ({}, "`datasets` is a list"),
        ([{"dataset_name": "a/b"}], "entry 1 needs a `task` and a `dataset_name`"),
        (
            [{"task": "a", "dataset_name": "a/b", "promt_column": "q"}],
            "entry 1 has an unknown key `promt_column`. Did you",
        ),
        (
            [{"task": "a", "dataset_name": "a/b", "rows": 0}],
            "`rows` is a number of 1 or more",
        ),
        ([{"task": "a", "dataset_name": "./none"}], "There is no file or folder './none'"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused(
    tmp_path: Path, datasets: Any, message: str
) -> None:
    keys = {
        "model_name_or_path": "m",
        "datasets": datasets,
        "rewards": [{"verifier": "math"}],
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(keys))
    assert (
        message in run_here("train", "--config", "mine.yaml", cwd=tmp_path, expect=2).stderr
    )
    keys["dataset_name"] = "a/b"
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(keys))
    assert (
        "not both"
        in run_here("train", "--config", "mine.yaml", cwd=tmp_path, expect=2).stderr
    )


def test_a_column_task_of_a_dataset_gives_way_to_the_mixtures_and_columns_that_do_not_fit_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompt = [{"role": "user", "content": "2+2?"}]
    first = on_disk(
        tmp_path / "a",
        [{"prompt": prompt, "task": "own", "solution": "4"}],
        None,
        ["train"],
    )
    second = on_disk(tmp_path / "b", [{"prompt": prompt, "level": 1}], None, ["train"])
    datasets = [
        {"task": "a", "dataset_name": first, "when": {"task": "own"}},
        {"task": "b", "dataset_name": second},
    ]
    keys: dict[str, Any] = {
        "model_name_or_path": "m",
        "datasets": datasets,
        "rewards": [{"verifier": "math"}],
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(keys))
    recipe = parse_recipe(load_recipe(str(tmp_path / "mine.yaml")), MACHINE)
    assert load_data(recipe.data)["train"]["task"][:] == ["a", "a", "b", "b"]
    assert "has a column `task` of its own, which is not in the mixture" in caplog.text
    datasets[1]["dataset_name"] = on_disk(
        tmp_path / "c", [{"prompt": prompt, "solution": 4}], None, ["train"]
    )
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(keys))
    recipe = parse_recipe(load_recipe(str(tmp_path / "mine.yaml")), MACHINE)
    with pytest.raises(
        ValueError, match=r"must hold values of one kind: .* the key solution"
    ):
        load_data(recipe.data)


def test_a_mixture_that_is_streamed_and_one_that_would_train_on_what_it_tests_on_are_refused(
    tmp_path: Path,
) -> None:
    datasets = [
        {
            "task": "a",
            "dataset_name": on_disk(tmp_path / "a", OPEN_R1, None, ["train", "held_out"]),
        }
    ]
    keys: dict[str, Any] = {
        "model_name_or_path": "m",
        "datasets": datasets,
        "rewards": [{"verifier": "math"}],
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(keys | {"dataset_streaming": True}))
    said = run_here("train", "--config", "mine.yaml", *MACHINE, cwd=tmp_path, expect=2)
    assert "cannot be streamed" in said.stderr
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump(keys | {"dataset_test_split": "train"})
    )
    recipe = parse_recipe(load_recipe(str(tmp_path / "mine.yaml")), MACHINE)
    assert len(load_data(recipe.data)["train"]) == 2 * len(
        OPEN_R1
    )  # as on disk, and not again for the other split
    datasets[0]["dataset_test_split"] = "held_out"
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump(keys | {"dataset_test_split": "train"})
    )
    recipe = parse_recipe(load_recipe(str(tmp_path / "mine.yaml")), MACHINE)
    with pytest.raises(ValueError, match="Name the mixture's splits apart"):
        load_data(recipe.data)


@pytest.mark.slow  # a whole run of the command for each recipe
@pytest.mark.parametrize(
    "name", sorted(set(CASES) - {"agent", "python_tool", "code_repair"})
)
def test_it_trains_a_few_real_steps_on_local_data_and_is_evaluated(
    tmp_path: Path, name: str
) -> None:
    recipe, flags = local(name, tmp_path)
    model = "bundled:tiny_coder" if name == "code" else "bundled:tiny_reasoner"
    small = [flag for key, value in SMALL.items() for flag in (f"--{key}", str(value))]
    if name in ("smollm2", "puzzles"):
        small += ["--dataset_name", "reasoning_gym:chain_sum?train_size=16&test_size=4"]
    said = run_here(
        "train",
        "--config",
        recipe,
        *flags,
        *small,
        "--model_name_or_path",
        model,
        cwd=tmp_path,
    )
    run = tmp_path / "run"
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["steps"], summary["nothing_learned"]) == (2, None), said.stderr[-2000:]
    trained = (
        "adapter_model.safetensors"
        if load_recipe(recipe).keys.get("use_peft")
        else "model.safetensors"
    )
    assert (run / trained).exists()
    parts = sorted((run / "scorecards").glob("samples-*.parquet"))
    samples = [
        row
        for part in parts
        for row in pq.read_table(part).to_pylist()
        if row["mode"] == "train"
    ]
    assert len(samples) == 16 and not any(row["void"] for row in samples)
    asked = ["--model", "run", "--limit", "2", "--samples", "2", "--json"]
    split = ["--split", "train"] if name == "json" else []
    command = [
        "eval",
        "--config",
        recipe,
        *flags,
        *small[: small.index("--output_dir")],
        *asked,
        *split,
    ]
    found = json.loads(run_here(*command, cwd=tmp_path).stdout)
    assert (found["models"][0]["completions"], found["models"][0]["unjudged"]) == (4, 0)
