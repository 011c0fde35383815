"""The command `score` as typed by users: output, files, refused arguments, remains of an interrupted run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command_line import modules_after, run_here
from datasets import Dataset

from trl_grpo_ext.commands.rows import CompletionFile
from trl_grpo_ext.recipe.arguments import RecipeArguments
from trl_grpo_ext.recipe.prompts import RecipePrompts, map_prompts
from trl_grpo_ext.runs.schema import VERDICT_COLUMNS

HALF = r"So \boxed{\frac{1}{2}}"
ROWS: list[dict[str, Any]] = [
    {"prompt": "1/2", "completion": HALF, "solution": "0.5"},
    {
        "prompt": "1/2",
        "completion": [{"role": "assistant", "content": HALF}],
        "solution": "0.5",
    },
    {
        "prompt": [{"role": "user", "content": "1+1"}],
        "completion": r"\boxed{3}",
        "solution": 2,
    },
    {"prompt": "?", "completion": "", "solution": "2"},
    {"prompt": "?", "completion": "2", "solution": None},
]
STATUSES = ["correct", "correct", "incorrect", "unparseable", "skipped"]
MODULE = """
import time
from trl_grpo_ext import verifier

@verifier
def slow(sample):
    time.sleep(0.002)
    return True

@verifier
def fails(sample):
    return 1 / sample.row["number"] > 0
"""


PLAIN = """
def short(completions, prompts, **_):
    texts = [each[0]["content"] + asked[-1]["content"] for each, asked in zip(completions, prompts)]
    return [float(len(text) < 6) for text in texts]
"""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(folder: Path, rows: list[dict[str, Any]] = ROWS, between: str = "\n") -> None:
    (folder / "in.jsonl").write_text(
        between.join(json.dumps(row) for row in rows) + "\n", encoding="utf-8"
    )
    (folder / "my_verifiers.py").write_text(MODULE, encoding="utf-8")


def score(folder: Path, *arguments: str, expect: int = 0) -> Any:
    """Run the command, and return its summary."""
    return json.loads(
        run_here(
            "score", "in.jsonl", *arguments, "--json", cwd=folder, expect=expect
        ).stdout
    )


@pytest.mark.parametrize(
    ("more", "reason"), [({"system_prompt": "Think."}, ""), ({}, "raised_TypeError")]
)
def test_a_plain_function_gets_texts_as_a_conversation_if_the_recipe_makes_conversations(
    tmp_path: Path, more: dict[str, str], reason: str
) -> None:
    (tmp_path / "rewards_to_score.py").write_text(PLAIN, encoding="utf-8")
    keys = {
        "model_name_or_path": "bundled:tiny_reasoner",
        "rewards": [{"verifier": "rewards_to_score.short"}],
        **more,
    }
    (tmp_path / "r.yaml").write_text(json.dumps(keys), encoding="utf-8")
    write(
        tmp_path,
        [
            {"prompt": "1+1?", "completion": one}
            for one in ("2", [{"role": "assistant", "content": "2"}])
        ],
    )
    status = 1 if reason else 0
    score(tmp_path, "--config", "r.yaml", "--output", "out.jsonl", expect=status)
    assert [(row["score"], row["reason"]) for row in lines(tmp_path / "out.jsonl")] == [
        (None if reason else 1.0, reason)
    ] * 2


COUNTING = """
def few_tokens(completions, completion_ids, **_):
    return [float(len(ids) < 3) for ids in completion_ids]
"""


@pytest.mark.parametrize(
    ("more", "judged"),
    [({}, (None, "tokens_unknown")), ({"completion_ids": [1, 2]}, (1.0, ""))],
)
def test_a_plain_function_that_takes_tokens_judges_no_completion_of_unknown_tokens(
    tmp_path: Path, more: dict[str, Any], judged: tuple[float | None, str]
) -> None:
    (tmp_path / "rewards_of_tokens.py").write_text(COUNTING, encoding="utf-8")
    keys = {
        "model_name_or_path": "bundled:tiny_reasoner",
        "rewards": [{"verifier": "rewards_of_tokens.few_tokens"}],
    }
    (tmp_path / "r.yaml").write_text(json.dumps(keys), encoding="utf-8")
    write(tmp_path, [{"prompt": "1+1?", "completion": "2", **more}])
    status = 1 if judged[1] else 0
    score(tmp_path, "--config", "r.yaml", "--output", "out.jsonl", expect=status)
    (row,) = lines(tmp_path / "out.jsonl")
    assert (row["score"], row["reason"]) == judged


ASKED = {
    "subject": "the capital",
    "question": "Which is the capital?\n\nA) Rome\nB) Oslo",
    "answer": "A",
}
RECIPES = {
    "column": {"prompt_column": "question"},
    "template": {"prompt_template": "{question}\n\nName {subject}."},
    "mixture": {
        "datasets": [{"task": "cities", "dataset_name": "any", "prompt_column": "question"}]
    },
}


@pytest.mark.parametrize("keys", RECIPES.values(), ids=RECIPES)
def test_prompts_are_made_of_the_rows_as_training_makes_them(
    tmp_path: Path, keys: dict[str, Any]
) -> None:
    rows = [
        ASKED | {"completion": said, "task": "cities"}
        for said in ("The capital is Rome.", "It's Oslo.")
    ]
    recipe = {
        "model_name_or_path": "bundled:tiny_reasoner",
        "rewards": [{"verifier": "multiple_choice"}],
        **keys,
    }
    (tmp_path / "r.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    write(tmp_path, rows)
    score(tmp_path, "--config", "r.yaml", "--output", "out.jsonl")
    assert [row["score"] for row in lines(tmp_path / "out.jsonl")] == [1.0, 0.0]


def test_a_file_and_a_dataset_get_the_same_prompts() -> None:
    keys = {"prompt_template": "{question} {subject}", "system_prompt": "Think."}
    arguments = RecipeArguments(dataset_name="any", **keys)
    (trained,) = map_prompts(Dataset.from_list([ASKED]), arguments)
    assert RecipePrompts.of(keys).fill(ASKED) == trained
    # A conversation was made already.
    assert RecipePrompts.of(keys).fill(trained) == trained


def test_prompts_in_another_column_are_told_and_read_by_the_option_prompt(
    tmp_path: Path,
) -> None:
    asked = "How far is it, in metres? Give the number with its unit."
    write(
        tmp_path,
        [{"question": asked, "completion": r"\boxed{5\text{ km}}", "solution": "5"}] * 2,
    )
    command = ("score", "in.jsonl", "--verifier", "math", "--json")
    blind = run_here(*command, cwd=tmp_path)
    assert "2 of 2 rows have no `prompt`" in blind.stderr
    assert "--prompt question" in blind.stderr
    seeing = run_here(*command, "--prompt", "question", cwd=tmp_path)
    assert "prompt" not in seeing.stderr
    accuracies = [json.loads(said.stdout)["terms"]["math"] for said in (blind, seeing)]
    assert accuracies[0] != accuracies[1]


def test_rows_without_the_columns_of_the_recipe_s_prompts_are_told(tmp_path: Path) -> None:
    recipe = {
        "model_name_or_path": "bundled:tiny_reasoner",
        "rewards": [{"verifier": "math"}],
        **RECIPES["column"],
    }
    (tmp_path / "r.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    write(
        tmp_path,
        [
            {"completion": "2", "solution": "2"},
            {"completion": "2", "solution": "2", "prompt": "1+1?"},
        ],
    )
    said = run_here("score", "in.jsonl", "--config", "r.yaml", cwd=tmp_path).stderr
    assert (
        "1 of 2 rows have neither a `prompt` nor the columns that prompts are made of (`question`)"
        in said
    )


def test_texts_and_conversations_get_verdicts_and_empty_lines_are_no_rows(
    tmp_path: Path,
) -> None:
    write(tmp_path, between="\n\n")
    summary = score(tmp_path, "--verifier", "math", "--output", "out.jsonl")
    written = lines(tmp_path / "out.jsonl")
    assert [row["status"] for row in written] == STATUSES
    assert [row["sample"] for row in written] == [0, 1, 2, 3, 4]
    assert [row["group"] for row in written] == [0, 0, 1, 2, 2]
    assert [row["total"] for row in written] == [1.0, 1.0, 0.0, 0.0, None]
    assert written[0]["details"]["rule"] == "boxed"
    assert (summary["rows"], summary["void"], summary["grader_failed"]) == (5, 1, 0)
    assert summary["terms"]["math"]["score"]["mean"] == 0.5
    assert summary["terms"]["math"]["statuses"] == {
        status: STATUSES.count(status)
        for status in (
            "correct",
            "partial",
            "incorrect",
            "scored",
            "unparseable",
            "timeout",
            "error",
            "skipped",
        )
    }
    assert summary["terms"]["math"]["reasons"] == {
        "not_equal": 1,
        "no_answer": 1,
        "gold_missing": 1,
    }
    assert summary["terms"]["math"]["lines"] == {"gold_missing": [9]}


def test_parquet_holds_what_json_lines_hold_in_the_columns_of_scorecards(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    for name in ("out.jsonl", "out.parquet"):
        score(tmp_path, "--config", "quickstart", "--output", name)
    table = pq.read_table(tmp_path / "out.parquet")
    own = {column.name: column.type for column in VERDICT_COLUMNS}
    types = {field.name: field.type for field in table.schema}
    assert set(types) - set(own) == {"total", "void"}
    assert set(own) - set(types) == {"step", "mode"}
    assert all(own[name] == kind for name, kind in types.items() if name in own)
    read = [row | {"details": json.loads(row["details"])} for row in table.to_pylist()]
    untimed = {"seconds": 0.0}
    assert [row | untimed for row in read] == [
        row | untimed for row in lines(tmp_path / "out.jsonl")
    ]
    assert [row["term"] for row in read] == ["accuracy", "thinks"] * 5


def test_verifiers_take_arguments_as_in_a_recipe_and_the_table_is_for_people(
    tmp_path: Path,
) -> None:
    write(tmp_path, [row | {"said": row["completion"]} for row in ROWS])
    strict = "{verifier: math, mode: boxed_only, name: strict, weight: 0}"
    options = ["--verifier", "math", "--verifier", strict, "--completion", "said"]
    shown = run_here("score", "in.jsonl", *options, cwd=tmp_path).stdout
    assert "│ strict │      0 │ 0.500 [0.125, 0.875] │ 2 correct, 1 incorrect, 1" in shown
    assert "strict: 1 not_equal; 1 no_boxed; 1 gold_missing (line 5)\n" in shown
    assert "5 rows in" in shown
    assert "1 of them void (20.0%)." in shown


def test_the_interval_allows_for_completions_of_one_prompt_being_alike(
    tmp_path: Path,
) -> None:
    widths = []
    for prompts in (8, 80):
        rows = [
            {"prompt": str(row * prompts // 80), "completion": "4", "solution": "4"}
            for row in range(80)
        ]
        write(tmp_path, rows)
        score_of_all = score(tmp_path, "--verifier", "math")["terms"]["math"]["score"]
        widths.append(score_of_all["high"] - score_of_all["low"])
    assert widths[0] > 3 * widths[1]


def test_a_group_is_judged_whole_where_a_term_compares_its_members(tmp_path: Path) -> None:
    rows = [
        {"prompt": str(row // 3), "completion": "x", "completion_ids": [1, 2, 3]}
        for row in range(9)
    ]
    write(tmp_path, rows)
    file = CompletionFile.check(tmp_path / "in.jsonl")
    assert [len(batch) for batch in file.batches(4)] == [4, 4, 1]
    assert [len(batch) for batch in file.batches(4, whole_groups=True)] == [6, 3]
    assert [sample.group for batch in file.batches(4) for sample in batch] == [
        0,
        0,
        0,
        1,
        1,
        1,
        2,
        2,
        2,
    ]
    assert score(tmp_path, "--verifier", "diversity")["terms"]["diversity"]["reasons"] == {
        "same_as_others": 9
    }
    write(tmp_path, [{"completion": "x"}] * 2)
    refused = run_here(
        "score", "in.jsonl", "--verifier", "diversity", cwd=tmp_path, expect=2
    ).stderr
    assert "the file has no column `prompt`" in refused


GOOD = json.dumps(ROWS[0]) + "\n"


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        (
            GOOD * 2 + "{oops\n" + GOOD,
            [],
            "line 3: the line is not JSON: Expecting property name",
        ),
        (
            GOOD + "[1]\n",
            [],
            "line 2: the line must be a JSON object with a column `completion`, got a list.",
        ),
        (
            GOOD + '{"response": "4", "solution": "4"}\n',
            [],
            "with --completion. Did you mean `response`?",
        ),
        (
            GOOD + '{"completon": "4"}\n',
            [],
            "line 2: the row has no column `completion`; name the column with",
        ),
        (
            GOOD + '{"completion": null}\n',
            [],
            "line 2: `completion` must be a text or a conversation",
        ),
        (
            GOOD + '{"completion": "4", "prompt": 3}\n',
            [],
            "line 2: `prompt` must be a text or a conversation",
        ),
        (b"PAR1\xff\xfe", [], "line 1: the line is not UTF-8 text"),
        ("\n\n", [], "has no rows"),
        (None, [], "does not exist"),
        ('{"completion": "4"}\n', [], "needs the dataset column `solution` or `answer`"),
        (
            GOOD,
            ["--verifier", "maths"],
            "--verifier 2: there is no verifier 'maths'. Did you mean `math`?",
        ),
        (GOOD, ["--verifier", "math"], "Two reward terms have the name 'math'"),
        (GOOD, ["--verifier", "math:mode=boxed"], "'{verifier: math, mode: boxed_only}'"),
        (
            GOOD,
            ["--verifier", "{verifier: math, mod: boxed}"],
            "unknown key `mod`. Did you mean `mode`?",
        ),
        (GOOD, ["--verifier", "{verifier: math"], "neither a name nor valid YAML"),
        (GOOD, ["--verifier", "no_such_module.judge"], "cannot be imported"),
        (GOOD, ["--output", "out.csv"], "must end in .jsonl or .parquet"),
        (GOOD, ["--output", "missing/out.jsonl"], "There is no folder 'missing'"),
        (GOOD, ["--output", "in.jsonl/out.jsonl"], "There is no folder 'in.jsonl'"),
        (GOOD, ["--output", "in.jsonl", "--overwrite"], "is the file of the completions"),
        (GOOD, ["--config", "quickstart"], "not allowed with argument --verifier"),
    ],
)
def test_what_cannot_be_scored_ends_with_status_2_and_a_sentence(
    tmp_path: Path, content: str | bytes | None, arguments: list[str], sentence: str
) -> None:
    if content is not None:
        (tmp_path / "in.jsonl").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    said = run_here(
        "score", "in.jsonl", "--verifier", "math", *arguments, cwd=tmp_path, expect=2
    )
    assert sentence in said.stderr.splitlines()[-1]
    assert said.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == (
        [] if content is None else ["in.jsonl"]
    )


def test_an_output_that_exists_is_replaced_only_if_the_user_says_so(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "out.jsonl").write_text("mine")
    command = ["score", "in.jsonl", "--verifier", "math", "--output", "out.jsonl"]
    assert "--overwrite replaces it" in run_here(*command, cwd=tmp_path, expect=2).stderr
    assert (tmp_path / "out.jsonl").read_text() == "mine"
    run_here(*command, "--overwrite", cwd=tmp_path)
    assert len(lines(tmp_path / "out.jsonl")) == 5


def test_a_grader_that_fails_on_more_than_a_tenth_of_the_rows_is_status_1(
    tmp_path: Path,
) -> None:
    for failing, status in ((1, 0), (2, 1)):
        write(
            tmp_path,
            [{"completion": "x", "number": int(row >= failing)} for row in range(10)],
        )
        summary = score(tmp_path, "--verifier", "my_verifiers.fails", expect=status)
        assert summary["grader_failed"] == summary["void"] == failing
        assert summary["terms"]["fails"]["reasons"] == {"raised_ZeroDivisionError": failing}
        assert summary["terms"]["fails"]["lines"] == {
            "raised_ZeroDivisionError": list(range(1, failing + 1))
        }


def test_a_term_that_is_to_raise_on_what_it_cannot_judge_ends_with_status_1_and_a_sentence(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    entry = "{verifier: math, on_unscored: raise}"
    said = run_here("score", "in.jsonl", "--verifier", entry, cwd=tmp_path, expect=1).stderr
    assert "'math' could not judge a completion (skipped, gold_missing" in said


@pytest.mark.parametrize("kind", ["jsonl", pytest.param("parquet", marks=pytest.mark.slow)])
def test_ctrl_c_leaves_what_there_is_marked_unfinished_with_status_130_and_one_line(
    tmp_path: Path, kind: str
) -> None:
    process, unfinished = begin(tmp_path, kind)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.count("\n") == 1
    judged = len(lines(unfinished) if kind == "jsonl" else pq.read_table(unfinished))
    assert err.startswith(
        f"Interrupted: {judged:,} of 20,000 rows are judged, slow 1.000; their verdicts are in "
    )
    assert err.strip().endswith(f"{unfinished.name}.")
    assert 0 < judged < 20_000
    assert not (tmp_path / f"out.{kind}").exists()


def test_what_is_killed_leaves_no_output_that_looks_whole(tmp_path: Path) -> None:
    process, unfinished = begin(tmp_path, "jsonl")
    process.kill()
    process.communicate(timeout=60)
    assert not (tmp_path / "out.jsonl").exists()
    assert unfinished.read_bytes().splitlines()[0].startswith(b'{"group"')


def begin(folder: Path, kind: str) -> tuple[subprocess.Popen[str], Path]:
    """Start a process on many rows, wait until some are judged, and return process and output file."""
    write(folder, [{"completion": "x"}] * 20_000)
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from trl_grpo_ext.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = [
        "score",
        "in.jsonl",
        "--verifier",
        "my_verifiers.slow",
        "--output",
        f"out.{kind}",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    unfinished = folder / f"out.{kind}.{process.pid}.unfinished"
    ends = time.monotonic() + 60
    while (
        not (unfinished.exists() and unfinished.stat().st_size > 1000)
        and time.monotonic() < ends
    ):
        assert process.poll() is None
        time.sleep(0.02)
    return process, unfinished


@pytest.mark.slow
def test_a_disk_that_is_full_ends_with_status_2_and_says_how_far_it_came(
    tmp_path: Path,
) -> None:
    write(tmp_path, [{"completion": "x"}] * 2000)
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
    code += "from trl_grpo_ext.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["score", "in.jsonl", "--verifier", "boxed", "--output", "out.jsonl"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (
        "of 2,000 rows are judged, boxed 0.000; then: [Errno 27] File too large"
        in done.stderr
    )
    assert not (tmp_path / "out.jsonl").exists()


def test_scoring_loads_no_torch(tmp_path: Path) -> None:
    write(tmp_path)
    arguments = ["score", str(tmp_path / "in.jsonl"), "--config", "quickstart"]
    assert "torch" not in modules_after(
        f"from trl_grpo_ext.cli.main import main; main({arguments!r})"
    )


def test_a_file_of_which_nothing_can_be_judged_ends_with_status_1(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"completion": "\\\\boxed{1}", "solution": null}\n')
    said = run_here("score", "in.jsonl", "--verifier", "math", cwd=tmp_path, expect=1)
    assert "no completion could be judged by `math`." in said.stderr


def test_rows_that_no_program_can_be_judged_by_are_told_with_the_code_of_their_reason(
    tmp_path: Path,
) -> None:
    unknown = [{"other": ["1", "2"]}, {"other": [["1"], "2"], "third": "3"}]
    write(tmp_path, [{"completion": "print(1)", "tests": tests} for tests in unknown])
    shown = run_here(
        "score", "in.jsonl", "--verifier", "unit_test", cwd=tmp_path, expect=1
    ).stdout
    assert "unit_test: 1 tests_unknown_form: {...: [" in shown
