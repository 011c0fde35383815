"""Checking golds before training."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import run_here
from datasets import Dataset, DatasetDict

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Verdict, Verifier, verifier
from trl_grpo_ext.cli.main import main
from trl_grpo_ext.mix.data_check import RowCheck, check_rows, describe, try_verifiers
from trl_grpo_ext.protocol import DataProblem
from trl_grpo_ext.recipe.arguments import RecipeArguments
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.file import load_recipe
from trl_grpo_ext.recipe.recipe import parse_recipe
from trl_grpo_ext.recipe.run import _refuse_useless
from trl_grpo_ext.rewards import ExactTextVerifier, MathVerifier, ThinkFormatVerifier
from trl_grpo_ext.verdict import as_verdict

GOLDS: list[tuple[Any, str]] = [
    ("4", ""),
    (4.5, ""),
    (r"2\sqrt{5}", ""),
    ("#### 7", ""),
    ("yes", ""),
    ("B", ""),
    ("(1,2)", ""),
    (["1/2", "0.5"], ""),
    ("", "gold_empty"),
    (None, "gold_missing"),
    (float("nan"), "gold_empty"),
    (r"\frac{1}{", "gold_unparseable"),
    (r"9^{9^{9^9}}+x", "gold_timeout"),
    ({"answer": "4"}, "gold_not_text"),
    ([{"role": "user", "content": "2+2?"}], "gold_not_text"),
]


def mix() -> RewardMix:
    return RewardMix(
        [
            RewardTerm(name="accuracy", verifier=MathVerifier(timeout=1.0)),
            RewardTerm(name="thinks", verifier=ThinkFormatVerifier(), weight=0.1),
        ]
    )


@pytest.mark.slow
@pytest.mark.usefixtures("any_cpu_counts")
def test_golds_that_cannot_be_judged_are_found_with_row_reason_and_advice() -> None:
    problems = check_rows(mix(), [{"solution": gold} for gold, _ in GOLDS]).problems
    assert [(problem.row, problem.reason) for problem in problems] == [
        (row, reason) for row, (_, reason) in enumerate(GOLDS) if reason
    ]
    assert {problem.term for problem in problems} == {"accuracy"}
    assert all(problem.advice for problem in problems)


def test_the_description_counts_rows_and_names_some() -> None:
    rows = [{"solution": "1"}] + [{"solution": ""}] * 20
    text = describe(check_rows(mix(), rows), rows=len(rows), where="train")
    assert "20 of 21 rows of train cannot be judged" in text
    assert (
        "gold_empty in 20 rows: rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ... (counted from 0), such as ''"
        in text
    )


@pytest.mark.slow
def test_a_check_that_takes_a_while_says_how_far_it_has_got(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Slow(Verifier):
        def verify(self, sample: Sample) -> Verdict:
            return as_verdict(True)

        def check_rows(self, rows: Any, *, thorough: bool = False) -> list[DataProblem]:
            time.sleep(0.02 * len(rows))
            return [
                DataProblem(row=n, reason="odd", value="", advice="")
                for n, row in enumerate(rows)
                if row["n"] % 2
            ]

    slow = RewardMix([RewardTerm(name="slow", verifier=Slow())])
    rows = [{"n": n} for n in range(100)]
    assert [problem.row for problem in check_rows(slow, rows).problems] == list(
        range(1, 100, 2)
    )
    assert re.search(
        r"^checking data: \d+ of 100 rows$", capsys.readouterr().err, re.MULTILINE
    )
    check = check_rows(slow, rows, at_most_seconds=0.1)
    assert 0 < check.checked < 100
    assert len(check.problems) <= check.checked
    assert (
        max(problem.row for problem in check.problems) > check.checked
    )  # a sample of all rows, not the first ones


def test_every_row_that_a_class_of_ones_own_fails_on_is_listed() -> None:
    class Dated(Verifier):
        def verify(self, sample: Sample) -> Verdict:
            return as_verdict(sample.row["date"][:4] in sample.text)

    own = RewardMix([RewardTerm(name="dated", verifier=Dated())])
    rows = [{"date": "2001"}, {"date": None}, {"date": "2002"}, {"date": None}]
    assert check_rows(own, rows).problems == []
    found = check_rows(own, rows, thorough=True).problems
    assert [(problem.row, problem.reason) for problem in found] == [
        (1, "raised_TypeError"),
        (3, "raised_TypeError"),
    ]


def test_a_row_on_which_a_verifier_fails_only_at_times_is_not_told_to_be_dropped() -> None:
    class Flaky(Verifier):
        calls = 0

        def verify(self, sample: Sample) -> Verdict:
            Flaky.calls += 1
            if Flaky.calls == 2 or sample.row["date"] is None:
                raise ConnectionError("no reply")
            return as_verdict(True)

    own = RewardMix([RewardTerm(name="flaky", verifier=Flaky())])
    first, second = check_rows(
        own, [{"date": "a"}, {"date": "b"}, {"date": None}], thorough=True
    ).problems
    assert (first.row, second.row) == (1, 2)
    assert "mend the verifier, and keep the row" in first.advice
    assert second.advice.endswith("mend the verifier, or the row if its data are at fault.")


@pytest.mark.parametrize(("golds", "status"), [(["1", "1.0"], 0), (["1", ""], 1)])
def test_the_command_ends_with_status_1_if_there_are_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golds: list[str], status: int
) -> None:
    (tmp_path / "train.jsonl").write_text(
        "\n".join(json.dumps({"prompt": "?", "solution": gold}) for gold in golds)
    )
    assert (
        main(["check-data", "--config", "quickstart", "--dataset_name", str(tmp_path)])
        == status
    )
    said = capsys.readouterr().out
    lines = f"of {tmp_path}/train.jsonl"
    assert (f"gold_empty in 1 row: line 2 {lines}" in said) is bool(status)
    assert said.startswith(
        f"train, line 1 {lines}\n  prompt: ?\n  solution: 1\ntrain, line 2 {lines}\n"
    )
    ends = "1 of 2 rows of train cannot be judged" if status else "train: 2 rows, all fine"
    assert said.splitlines()[-1] == ends


@pytest.mark.parametrize(
    ("name", "text", "flags", "named"),
    [
        (
            "d.jsonl",
            '{"prompt": "?", "solution": "1"}\n\n{"prompt": "?", "solution": ""}\n',
            [],
            "line 3 of d.jsonl",
        ),
        ("d.csv", 'prompt,solution\n"two\nlines",1\n?,\n', [], "line 4 of d.csv"),
        (
            "d.json",
            '[{"prompt": "?", "solution": "1"}, {"prompt": "?", "solution": ""}]',
            [],
            "row 1 (counted from 0)",
        ),
        (
            "d.jsonl",
            '{"prompt": "?", "solution": "1", "n": 1}\n{"prompt": "?", "solution": "", "n": 2}\n',
            ["--rows", "2"],
            "line 2 of d.jsonl",
        ),
    ],
)
def test_a_row_is_named_by_its_line_where_that_is_known_and_else_as_datasets_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    flags: list[str],
    named: str,
) -> None:
    (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert (
        main(["check-data", "--config", "quickstart", "--dataset_name", name, *flags]) == 1
    )
    (found,) = [
        line for line in capsys.readouterr().out.splitlines() if " in 1 row: " in line
    ]
    assert named in found


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_row_has_the_number_of_the_users_file_also_after_rows_are_drawn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    rows = [
        {"prompt": f"{n}?", "solution": "" if n in (7, 20) else str(n), "n": n}
        for n in range(30)
    ]
    text = json.dumps(rows) if kind == "json" else "\n".join(map(json.dumps, rows))
    (tmp_path / f"d.{kind}").write_text(text)
    recipe = {
        "dataset_name": f"d.{kind}",
        "model_name_or_path": "bundled:tiny_reasoner",
        "rewards": [{"verifier": "math"}],
        "when": {"n": list(range(3, 30))},
        "test_rows": 10,
        "rows": 17,
        "use_cpu": True,
        "bf16": False,
    }
    (tmp_path / "r.yaml").write_text(json.dumps(recipe))
    monkeypatch.chdir(tmp_path)
    assert main(["check-data", "--config", "r.yaml"]) == 1
    said = capsys.readouterr().out
    places = re.findall(r"gold_empty in .*?: (?:rows?|lines?) ([\d, ]+)", said)
    found = sorted(int(number) for part in places for number in part.split(","))
    assert found == ([7, 20] if kind == "json" else [8, 21])
    assert ("of d.jsonl" in said) is (kind == "jsonl")
    splits = load_data(parse_recipe(load_recipe("r.yaml")).data)
    assert all(rows.column_names == ["prompt", "solution", "n"] for rows in splits.values())


def test_a_gold_in_the_prompt_is_refused_since_rewards_never_see_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.yaml"
    shipped = load_recipe("quickstart").path.read_text()
    recipe.write_text(shipped.replace("verifier: math", "verifier: math, column: prompt"))
    assert main(["check-data", "--config", str(recipe)]) == 2
    assert "TRL keeps `prompt` to itself" in capsys.readouterr().err


def test_a_term_that_applies_to_no_row_is_refused_as_training_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "d.jsonl"
    data.write_text('{"prompt": "1+1", "solution": "2", "level": "easy"}\n' * 4)
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"model_name_or_path: m\ndataset_name: {data}\nrewards: [{{verifier: math, when: {{level: eazy}}}}]\n"
    )
    assert main(["check-data", "--config", str(recipe)]) == 2
    assert "`level` to be 'eazy', and the column has 'easy'" in capsys.readouterr().err


def test_the_command_says_what_is_wrong_with_a_recipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check-data", "--config", "quikstart"]) == 2
    assert "Did you mean `quickstart`?" in capsys.readouterr().err


def test_the_bundled_data_is_fine(sums: Any) -> None:
    for rows in sums.values():
        assert check_rows(mix(), rows).problems == []


OWN_VERIFIERS = """
from trl_grpo_ext import verifier

@verifier
def labelled(sample):
    return sample.row["label"] in sample.text

@verifier(isolated=True)
def boxed(sample):
    import re
    return re.search("boxed", sample.text).start() > 0

@verifier
def fine(sample):
    return len(sample.completion_ids) > 0 and not sample.truncated
"""


@pytest.mark.usefixtures("any_cpu_counts")
def test_a_verifier_that_fails_on_a_row_is_found_with_the_error_and_its_place(
    tmp_path: Path,
) -> None:
    (tmp_path / "own_verifiers.py").write_text(OWN_VERIFIERS)
    (tmp_path / "train.jsonl").write_text(json.dumps({"prompt": "2+2?", "solution": "4"}))
    recipe = yaml.safe_load(load_recipe("quickstart").path.read_text())
    names = ("labelled", "boxed", "fine")
    rewards = [
        {"name": "accuracy", "verifier": "math"},
        *({"verifier": f"own_verifiers.{name}"} for name in names),
    ]
    (tmp_path / "recipe.yaml").write_text(
        yaml.safe_dump(recipe | {"dataset_name": "train.jsonl", "rewards": rewards})
    )
    said = run_here("check-data", "--config", "recipe.yaml", cwd=tmp_path, expect=1)
    assert (
        "train: the verifier of 'labelled' fails on line 1 of train.jsonl: KeyError: 'label' (own_verifiers.py:6); "
        "the row has `solution`, `prompt`\n" in said.stdout
    )
    assert (
        "the verifier of 'boxed' fails on line 1 of train.jsonl: AttributeError"
        in said.stdout
    )
    assert "(own_verifiers.py:11)\n  the completion was '4'" in said.stdout
    assert "'fine'" not in said.stdout
    assert "all fine" not in said.stdout
    assert "Traceback" not in said.stderr


OWN = """
from trl_grpo_ext import Blame, Status, Verdict, verifier

@verifier
def dated(sample):
    if sample.row["date"].endswith("-30"):
        return Verdict(status=Status.SKIPPED, score=None, blame=Blame.DATA, reason="no_such_date")
    return sample.row["date"] in sample.text
"""


def test_rows_that_a_function_cannot_judge_and_rows_without_a_prompt_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "own_dates.py").write_text(OWN)
    rows = [
        {"prompt": "when?", "date": "2001-02-27"},
        {"prompt": "when?", "date": "2001-02-30"},
    ]
    rows += [{"prompt": None, "date": "2001-02-28"}, {"prompt": "when?", "date": None}]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recipe = {
        "dataset_name": "d.jsonl",
        "prompt_column": "prompt",
        "model_name_or_path": "bundled:tiny_reasoner",
        "rewards": [{"name": "dated", "verifier": "own_dates.dated"}],
    }
    (tmp_path / "r.yaml").write_text(json.dumps(recipe))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_dates", raising=False)
    assert main(["check-data", "--config", "r.yaml"]) == 1
    said = capsys.readouterr().out
    (warning,) = [
        record.message
        for record in caplog.records
        if "raised AttributeError" in record.message
    ]
    assert re.search(
        r'Traceback \(most recent call last\):\n  File ".*own_dates\.py", line 6', warning
    )
    assert "prompt: prompt_empty in 1 row: line 3 of d.jsonl" in said
    assert "dated: no_such_date in 1 row: line 2 of d.jsonl" in said
    assert (
        "dated: raised_AttributeError in 1 row: line 4 of d.jsonl, such as 'when?'" in said
    )
    assert "'NoneType' object has no attribute 'endswith' (own_dates.py:6)" in said
    assert "3 of 4 rows of train cannot be judged" in said
    assert "prompt: None" not in said  # a prompt that is missing is no word


def test_rows_on_which_a_plain_function_raises_or_gives_nan_are_named_and_its_none_is_no_fault() -> (
    None
):
    def share(completions: list[str], total: list[int], **_: Any) -> list[float | None]:
        return [None if each < 0 else 1 / each for each in total]

    def unknown(completions: list[str], total: list[int], **_: Any) -> list[float]:
        return [math.nan if each == 5 else 1.0 for each in total]

    mix = RewardMix(
        [RewardTerm(name=each.__name__, verifier=each) for each in (share, unknown)]
    )
    rows = [{"prompt": "?", "total": total} for total in (1, 2, -3, 4, 0, 5)]
    found = check_rows(mix, rows, thorough=True).problems
    assert [(problem.term, problem.row, problem.reason) for problem in found] == [
        ("share", 4, "raised_ZeroDivisionError"),
        ("unknown", 5, "score_not_finite"),
    ]


def test_a_plain_function_that_gives_none_on_each_row_applies_to_none_and_is_named() -> (
    None
):
    def forgets(completions: list[str], **_: Any) -> list[float | None]:
        return [None] * len(completions)

    mix = RewardMix([RewardTerm(name="forgets", verifier=forgets)])
    found = check_rows(mix, [{"prompt": "?"}] * 3, thorough=True).problems
    assert [(problem.row, problem.reason) for problem in found] == [
        (row, "does_not_apply") for row in range(3)
    ]
    assert "as if the reward applied to none" in found[0].advice


def test_a_date_in_json_stays_the_text_of_its_file_and_one_that_is_no_text_is_the_datas_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        {"prompt": "when?", "date": "1917-10-28", "all": [{"at": "2020-01-02T03:04:05Z"}]}
    ]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows * 2)))
    (tmp_path / "d.json").write_text(json.dumps(rows))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name in ("d.jsonl", "d.json"):
        assert (
            load_data(RecipeArguments(dataset_name=str(tmp_path / name)))["train"][0]
            == rows[0]
        )
    assert not caplog.records
    row = load_data(RecipeArguments(dataset_name=str(tmp_path / "folder")))["train"][0]
    assert "datasets has made dates of texts in `date`, `all`" in caplog.text
    verdicts = ExactTextVerifier(column="date").judge(
        [r"\boxed{1917-10-28}"], date=[row["date"]]
    )
    assert [(verdict.blame, verdict.reason) for verdict in verdicts] == [
        (Blame.DATA, "gold_not_text")
    ]
    assert (
        MathVerifier(column="date").judge(["1917"], date=[row["date"]])[0].reason
        == "gold_not_text"
    )


def test_texts_that_a_parquet_file_has_as_bytes_are_texts_and_other_bytes_stay(
    tmp_path: Path,
) -> None:
    texts, other = [b"2+2?", "é?".encode()], [b"4", b"\xff\xd8"]
    rows = Dataset.from_dict({"prompt": texts, "solution": [b"4", None], "scan": other})
    rows.to_parquet(tmp_path / "d.parquet")
    loaded = load_data(RecipeArguments(dataset_name=str(tmp_path / "d.parquet")))["train"]
    assert loaded[:] == {"prompt": ["2+2?", "é?"], "solution": ["4", None], "scan": other}


def test_data_that_save_to_disk_has_written_is_read_split_by_split(tmp_path: Path) -> None:
    rows = Dataset.from_dict({"prompt": ["2+2?"], "solution": ["4"]})
    rows.save_to_disk(tmp_path / "one")
    DatasetDict({"mine": rows, "held_out": rows}).save_to_disk(tmp_path / "two")
    assert (
        load_data(RecipeArguments(dataset_name=str(tmp_path / "one")))["train"][:]
        == rows[:]
    )
    named = RecipeArguments(dataset_name=str(tmp_path / "two"), dataset_train_split="mine")
    assert load_data(named).keys() == {"mine", "held_out"}


def test_a_column_that_is_empty_in_a_few_rows_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"prompt": "when?", "date": "2001-02-27", "seldom": None if row else "x"}
        for row in range(12)
    ]
    (tmp_path / "d.jsonl").write_text(
        "\n".join(map(json.dumps, [*rows, {**rows[0], "date": None}]))
    )
    recipe = {
        "dataset_name": "d.jsonl",
        "model_name_or_path": "bundled:tiny_reasoner",
        "rewards": [{"name": "digits", "verifier": "regex", "pattern": "[0-9]"}],
    }
    (tmp_path / "r.yaml").write_text(json.dumps(recipe))
    monkeypatch.chdir(tmp_path)
    assert main(["check-data", "--config", "r.yaml"]) == 0
    said = capsys.readouterr().out
    assert "train: the column `date` is empty in line 13 of d.jsonl" in said
    assert "`seldom` is empty" not in said
    assert (
        said.splitlines()[-1]
        == "train: 13 rows, and the verifiers find no fault other than the above"
    )


@pytest.mark.parametrize(
    ("golds", "told"),
    [
        (
            ["4", "N/A", "1/2", "nan", "$7"],
            "may lack a gold in lines 2, 4 of d.jsonl: 'N/A', 'nan', while 3 of the 3",
        ),
        (
            ["4", "TODO", "unknown", "null", "5", "6"],
            "lines 2, 3, 4 of d.jsonl: 'TODO', 'unknown', 'null'",
        ),
        (["yes", "no", "unknown"], ""),
        (["4", "none of them", "5"], ""),
    ],
)
def test_golds_that_look_like_missing_values_among_numbers_are_noted_and_no_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    golds: list[str],
    told: str,
) -> None:
    rows = [{"prompt": f"{number}?", "solution": gold} for number, gold in enumerate(golds)]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.chdir(tmp_path)
    assert main(["check-data", "--config", "quickstart", "--dataset_name", "d.jsonl"]) == 0
    said = capsys.readouterr().out
    assert told in said
    assert ("may lack a gold" in said) is bool(told)
    end = "and the verifiers find no fault other than the above" if told else "all fine"
    assert said.splitlines()[-1] == f"train: {len(golds)} rows, {end}"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            [("2+2?", "4"), ("1+1?", "2"), ("2+2?", "5")],
            "1 prompt has several golds in `solution`: '4' and '5'",
        ),
        ([("1/2?", "1/2"), ("1/2?", "0.5")], ""),
        (
            [(f"{number}+0?", "0") for number in range(8)],
            "the gold of each row is '0' in `solution`",
        ),
        ([("0+0?", "0")] * 8, ""),
    ],
)
def test_golds_that_contradict_each_other_or_never_change_are_noted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rows: list[tuple[str, str]],
    told: str,
) -> None:
    lines = [json.dumps({"prompt": prompt, "solution": gold}) for prompt, gold in rows]
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    assert main(["check-data", "--config", "quickstart", "--dataset_name", "d.jsonl"]) == 0
    said = capsys.readouterr().out
    assert told in said
    assert ("all fine" in said) is not bool(told)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("", "of 2 of 2 rows"),
        (", reference_column: right", "of 1 of 2 rows"),
        (", when: {level: 1}", "of 1 of 2 rows"),
    ],
)
def test_rows_whose_tests_no_right_program_has_tried_are_told_and_not_called_fine(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: str,
    told: str,
) -> None:
    right = "def add(x):\n    return x + 1"
    rows = [
        {
            "prompt": "Add 1.",
            "tests": ["assert add(1) == 2"],
            "level": number,
            "right": reference,
        }
        for number, reference in enumerate([right, None])
    ]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "code.yaml").write_text(
        "dataset_name: d.jsonl\nmodel_name_or_path: bundled:tiny_coder\noutput_dir: out\n"
        f"rewards:\n  - {{name: tests, verifier: unit_test{settings}}}\n"
    )
    monkeypatch.chdir(tmp_path)
    main(["check-data", "--config", "code.yaml"])
    said = capsys.readouterr().out
    assert f"train, tests: no right program was run on the tests {told}." in said
    assert "all fine" not in said


def test_the_command_checks_a_sample_of_what_takes_longer_than_it_may(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        json.dumps({"prompt": f"{number}?", "solution": str(number)})
        for number in range(50)
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(rows))
    command = ["check-data", "--config", "quickstart", "--dataset_name", str(tmp_path)]
    assert main([*command, "--seconds", "0"]) == 0
    said = capsys.readouterr().out
    assert "checked a random sample, 4 of 50 rows, in 0 s (--seconds inf: all)" in said
    assert "train: 4 rows, all fine" in said
    assert main([*command, "--seconds", "inf"]) == 0
    assert "train: 50 rows, all fine" in capsys.readouterr().out


def test_a_row_that_only_a_shadow_cannot_judge_is_told_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.jsonl").write_text(
        json.dumps({"prompt": "2+2?", "solution": "4", "other": ""})
    )
    watched = {"name": "watched", "verifier": "math", "column": "other", "weight": 0}
    rewards = [{"name": "accuracy", "verifier": "math"}, watched]
    recipe = {
        "dataset_name": "d.jsonl",
        "model_name_or_path": "bundled:tiny_reasoner",
        "rewards": rewards,
    }
    (tmp_path / "r.yaml").write_text(json.dumps(recipe))
    monkeypatch.chdir(tmp_path)
    assert main(["check-data", "--config", "r.yaml"]) == 0
    said = capsys.readouterr().out
    assert "0 of 1 rows of train cannot be judged:" in said
    assert "watched (weight 0): gold_empty in 1 row" in said


def test_a_row_with_several_problems_of_one_kind_is_counted_once() -> None:
    problem = DataProblem(
        row=3,
        reason="non_solution_passes",
        value="the constant 0: passed",
        advice="Add tests.",
    )
    problems = [
        replace(problem, term="tests"),
        replace(problem, term="tests", value="the constant 1: passed"),
    ]
    described = describe(RowCheck(problems, 5), rows=5, where="train")
    assert "non_solution_passes in 1 row: row 3 (counted from 0)" in described


@pytest.mark.usefixtures("any_cpu_counts")
def test_training_refuses_a_verifier_that_fails_on_all_that_is_tried_and_keeps_an_earlier_record(
    tmp_path: Path,
) -> None:
    (tmp_path / "own_verifiers.py").write_text(OWN_VERIFIERS)
    (tmp_path / "train.jsonl").write_text(
        (json.dumps({"prompt": "2+2?", "solution": "4"}) + "\n") * 8
    )
    recipe = yaml.safe_load(load_recipe("quickstart").path.read_text())
    rewards = [
        {"name": "accuracy", "verifier": "math"},
        {"verifier": "own_verifiers.labelled"},
    ]
    settings = {
        "dataset_name": "train.jsonl",
        "rewards": rewards,
        "evaluate_before_and_after": False,
    }
    (tmp_path / "recipe.yaml").write_text(
        yaml.safe_dump(recipe | settings | {"output_dir": "run"})
    )
    earlier = tmp_path / "run" / "scorecards" / "log.jsonl"
    earlier.parent.mkdir(parents=True)
    earlier.touch()
    said = run_here("train", "--config", "recipe.yaml", cwd=tmp_path, expect=2)
    assert earlier.exists()
    assert "The verifier of 'labelled' fails on all that was tried" in said.stderr
    assert "KeyError: 'label' (own_verifiers.py:6)" in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("scores", [[1.0], 1.0])
def test_a_function_with_one_score_for_a_whole_batch_is_refused_before_training(
    scores: Any, sums: Any
) -> None:
    def whole_batch(completions: list[Any], **_: Any) -> Any:
        return scores

    own = RewardMix([RewardTerm(name="short", verifier=whole_batch)])
    (failure,) = try_verifiers(own, sums["train"])
    assert failure.always
    with pytest.raises(ValueError) as refused:
        _refuse_useless(own, failure)
    assert re.search(
        r"1 score for 2 completions\. Mend|one number per completion\. Mend",
        str(refused.value),
    )


def test_a_verifier_that_reads_the_gold_only_beside_a_boxed_answer_is_tried_with_one() -> (
    None
):
    @verifier
    def boxed(sample: Sample) -> bool | None:
        answer = re.search(r"\\boxed\{(.*)\}", sample.text)
        return answer is not None and float(answer[1]) == float(sample.row["gold"])

    mix = RewardMix([RewardTerm(name="boxed", verifier=boxed)])
    rows = [{"prompt": "2+2?", "gold": "4"}, {"prompt": "Solve 2x = 14x^2.", "gold": "7x"}]
    assert [problem.row for problem in check_rows(mix, rows, thorough=True).problems] == [1]
    (failure,) = try_verifiers(mix, [{"prompt": "2+2?"}])
    assert failure.reason == "raised_KeyError"
