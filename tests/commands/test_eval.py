"""Evaluations: figures against brute force, the command on real models, and refused arguments."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run_here
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from planted import card_of
from rich.console import Console
from safetensors.torch import load_file

from trl_grpo_ext import Blame, Sample, Scorecard, Status, Verdict
from trl_grpo_ext.commands.eval.evaluated import Evaluated, majority, prompt_figures
from trl_grpo_ext.commands.eval.paired_evaluations import (
    compare,
    paired_difference,
    sentence,
)
from trl_grpo_ext.commands.eval.printed import print_evaluations
from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.runs.recorded_run import RecordedRun

ABOUT = {
    "model": "there",
    "recipe": "r",
    "dataset": None,
    "split": "test",
    "prompts": 2,
    "samples": 2,
    "temperature": 1.0,
}
COLUMNS = ("weights", "verdicts", "values", "gated")
RIGHT = Verdict(status=Status.CORRECT, score=1.0, answer="4")
WRONG = Verdict(status=Status.INCORRECT, score=0.0, answer="5")
OTHER = Verdict(status=Status.INCORRECT, score=0.0, answer="6")
UNREAD = Verdict(status=Status.UNPARSEABLE, score=0.0, answer="???")
FAILED = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER)


def judged(*groups: Sequence[Verdict]) -> Scorecard:
    """Make a batch with one term, and these verdicts per prompt."""
    card = card_of({"accuracy": [verdict for group in groups for verdict in group]}, [1.0])
    samples = tuple(
        Sample(
            text="",
            prompt=f"prompt {number}",
            group=number,
            completion_ids=[0] * (number + 1),
        )
        for number, group in enumerate(groups)
        for _ in group
    )
    return replace(card, samples=samples, mode="eval")


def figures(*groups: Sequence[Verdict], ks: Sequence[int]) -> list[dict[str, float]]:
    return [dict(one.values) for one in prompt_figures(judged(*groups), ks)]


def evaluated(
    label: str, *groups: Sequence[Verdict], ks: Sequence[int] = (1,)
) -> Evaluated:
    return Evaluated(
        {"label": label}, ks, prompts=list(prompt_figures(judged(*groups), ks))
    )


# ---------------------------------------------------------------------------------------------
# the figures
# ---------------------------------------------------------------------------------------------


def test_a_rollout_whose_environment_failed_is_no_wrong_answer() -> None:
    card = judged([RIGHT, WRONG, WRONG])
    error = Outcome(
        environment="Shop", verdict=replace(FAILED, details={"error": "reset failed"})
    )
    samples = (*card.samples[:2], replace(card.samples[2], outcome=error))
    failed = replace(card, samples=samples).with_failed((False, False, True))
    (found,) = prompt_figures(failed, [1])
    assert found.values["pass@1"] == 1 / 2


@pytest.mark.parametrize("size", range(1, 8))
def test_pass_at_k_is_the_share_of_all_choices_of_k_completions_that_hold_a_right_one(
    size: int,
) -> None:
    for right, k in itertools.product(range(size + 1), range(1, size + 1)):
        (found,) = figures([RIGHT] * right + [WRONG] * (size - right), ks=[k])
        choices = list(itertools.combinations([True] * right + [False] * (size - right), k))
        assert found[f"pass@{k}"] == pytest.approx(sum(map(any, choices)) / len(choices))


def test_what_could_not_be_judged_is_in_no_pass_at_k_and_a_prompt_with_too_few_is_left_out_of_it() -> (
    None
):
    groups = [RIGHT, FAILED, WRONG, FAILED], [FAILED] * 4, [RIGHT] * 4
    first, second, third = figures(*groups, ks=[1, 2, 4])
    assert (first["pass@1"], first["pass@2"]) == (0.5, 1.0)
    assert "pass@4" not in first and "maj@4" not in first
    assert not {"pass@1", "pass@2", "score/accuracy"} & set(second)
    assert third["pass@4"] == 1.0
    found = evaluated("A", *groups, ks=(1, 4))
    pass_at_1, pass_at_4 = found.mean("pass@1"), found.mean("pass@4")
    assert pass_at_1 is not None and pass_at_4 is not None
    assert (pass_at_1["mean"], pass_at_1["prompts"], pass_at_1["left_out"]) == (0.75, 2, 1)
    assert 0 < pass_at_1["low"] < 0.75 < pass_at_1["high"] < 1
    assert (pass_at_4["mean"], pass_at_4["prompts"], pass_at_4["left_out"]) == (1.0, 1, 2)
    assert found.mean("pass@7") is None


@given(st.lists(st.sampled_from([RIGHT, WRONG, OTHER, UNREAD]), min_size=1, max_size=9))
def test_a_majority_is_what_drawing_one_of_the_most_frequent_answers_comes_to(
    verdicts: list[Verdict],
) -> None:
    said = [
        verdict.answer for verdict in verdicts if verdict.status is not Status.UNPARSEABLE
    ]
    most = [
        answer
        for answer, count in Counter(said).items()
        if count == max(Counter(said).values())
    ]
    (found,) = figures(verdicts, ks=[len(verdicts)])
    assert (f"maj@{len(verdicts)}" in found) is (len(verdicts) > 2)
    if len(verdicts) > 2:
        assert found[f"maj@{len(verdicts)}"] == pytest.approx(
            sum(answer == "4" for answer in most) / max(1, len(most))
        )
        assert found[f"tied@{len(verdicts)}"] == (len(most) > 1)


def test_a_majority_of_fewer_than_all_is_a_mean_over_votes_that_share_no_completion() -> (
    None
):
    (found,) = figures([RIGHT, RIGHT, WRONG, WRONG, WRONG, RIGHT, OTHER], ks=[3])
    assert (
        found["maj@3"] == 0.5
    )  # right, right, wrong; wrong, wrong, right; and one is left
    assert majority([]) == (0.0, False)


# ---------------------------------------------------------------------------------------------
# two models
# ---------------------------------------------------------------------------------------------


def test_a_difference_is_told_only_where_it_is_more_than_chance() -> None:
    better = paired_difference([0.5] * 30 + [0.0] * 60 + [-0.25] * 10)
    assert better.can_be_told and better.interval.mean == pytest.approx(0.125)
    assert sentence("A", "B", better).startswith("B beats A by 0.125 [0.0")
    worse = paired_difference([-0.5] * 30 + [0.0] * 60 + [0.25] * 10)
    assert sentence("A", "B", worse).startswith("A beats B by 0.125 [0.0")
    assert not paired_difference([0.0] * 100).can_be_told
    assert not paired_difference([1.0] * 5).can_be_told  # by chance in 6 % of cases
    assert paired_difference([1.0] * 6).can_be_told


@pytest.mark.slow
def test_of_two_equal_models_one_beats_the_other_in_about_5_percent_of_evaluations() -> (
    None
):
    random = np.random.default_rng(1)
    rates = random.beta(0.5, 0.5, size=(200, 100))  # prompts are easy or hard, for both
    differences = random.binomial(4, rates) / 4 - random.binomial(4, rates) / 4
    told = sum(paired_difference(row.tolist()).can_be_told for row in differences)
    assert (
        2 <= told <= 22
    )  # of 200; 10 expected, and each bound is passed by chance in less than 1 of 1000 cases


def test_two_are_paired_by_prompt_whatever_their_order_and_only_on_those_that_both_have() -> (
    None
):
    one = evaluated("A", [RIGHT, WRONG], [WRONG, WRONG], [RIGHT, RIGHT])
    other = evaluated("B", [RIGHT, RIGHT], [RIGHT, WRONG])
    other.prompts.reverse()
    difference = compare(one, other)["pass@1"]
    assert (difference.prompts, difference.interval.mean) == (2, 0.5)
    other.prompts.clear()
    with pytest.raises(ValueError, match="different prompts"):
        compare(one, other)


def test_a_prompt_that_is_there_twice_is_paired_twice() -> None:
    one, other = evaluated("A", [RIGHT], [WRONG]), evaluated("B", [RIGHT], [RIGHT])
    for found in (one, other):
        found.prompts += found.prompts[:1]
    assert compare(one, other)["pass@1"].prompts == 3


def test_an_interval_is_never_broken_however_long_the_names_are() -> None:
    name, models = "a_term_that_has_a_very_long_name_indeed", []
    for label in ("Qwen2.5-0.5B-Instruct-with-a-long-name", "trained"):
        card = judged([RIGHT, WRONG], [RIGHT, RIGHT])
        card = replace(
            card, **{what: {name: getattr(card, what)["accuracy"]} for what in COLUMNS}
        )
        models.append(
            Evaluated(
                {"label": label, **ABOUT}, (1,), prompts=list(prompt_figures(card, (1,)))
            )
        )
        models[-1].tally.add(card)
    printed = io.StringIO()
    print_evaluations(models, compare(*models), Console(file=printed, width=80))
    lines = printed.getvalue().splitlines()
    table = lines[1 : lines.index("Qwen2.5-0.5B-Instruct-with-a-long-name (there):")]
    assert max(map(len, table)) <= 80
    assert all(line.count("[") == line.count("]") for line in table)
    assert any(
        line.startswith("pass@1") and line.count("[") == 3 for line in map(str.strip, table)
    )
    assert [line.split()[0] for line in table[6:10]] == [
        "a_term_",
        "that_has_",
        "a_very_",
        "long_",
    ], "at marks"


def test_a_name_of_nine_letters_is_not_broken_beside_a_difference_with_three_signs() -> (
    None
):
    models = []
    for label, cells in (
        ("before", [[RIGHT, WRONG], [WRONG, WRONG]] * 40),
        ("after", [[WRONG, WRONG]] * 80),
    ):
        card = judged(*cells)
        models.append(
            Evaluated(
                {"label": label, **ABOUT}, (1,), prompts=list(prompt_figures(card, (1,)))
            )
        )
        models[-1].tally.add(card)
    printed = io.StringIO()
    print_evaluations(models, compare(*models), Console(file=printed, width=80))
    (line,) = [
        line
        for line in printed.getvalue().splitlines()
        if line.strip().startswith("accuracy ")
    ]
    assert len(line) <= 80
    assert line.count("-") == 3


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (["before", "after"], r"-0\.38 \[-0\.49, -0\.26\] +-0\.38 \[-0\.49, -0\.26\]"),
        (["before"], r"-0\.375 \[-0\.493, -0\.257\]"),
    ],
)
def test_a_name_is_whole_beside_scores_below_zero(labels: list[str], shown: str) -> None:
    below = Verdict(status=Status.INCORRECT, score=-0.75)
    models = []
    for label in labels:
        card = judged(*[[below, below], [WRONG, WRONG]] * 20)
        found = list(prompt_figures(card, (1,)))
        models.append(Evaluated({"label": label, **ABOUT}, (1,), prompts=found))
        models[-1].tally.add(card)
    printed = io.StringIO()
    differences = compare(*models) if len(models) == 2 else {}
    print_evaluations(models, differences, Console(file=printed, width=80))
    assert re.search(rf"^ *accuracy +{shown}", printed.getvalue(), re.MULTILINE)


def test_a_name_is_whole_beside_long_completions() -> None:
    short = judged(*[[RIGHT, WRONG]] * 40)
    lengths = range(100, 8_100, 100)
    long = [
        replace(sample, completion_ids=range(length))
        for sample, length in zip(short.samples, lengths, strict=True)
    ]
    models = []
    for label in ("before", "after"):
        card = replace(short, samples=tuple(long))
        models.append(
            Evaluated(
                {"label": label, **ABOUT}, (1,), prompts=list(prompt_figures(card, (1,)))
            )
        )
        models[-1].tally.add(card)
    printed = io.StringIO()
    print_evaluations(models, compare(*models), Console(file=printed, width=80))
    assert re.search(r"^ *accuracy .*\].*\].*\] *$", printed.getvalue(), re.MULTILINE)
    assert re.search(r"^ *tokens +4050 \[\d{4}, \d{4}\]", printed.getvalue(), re.MULTILINE)


# ---------------------------------------------------------------------------------------------
# the command
# ---------------------------------------------------------------------------------------------


def ask(folder: Path, *flags: str) -> dict[str, Any]:
    """Run the command on 21 prompts, with an incomplete last batch, and return its figures."""
    fixed = [
        "--limit",
        "21",
        "--per_device_eval_batch_size",
        "16",
        "--disable_tqdm",
        "true",
        "--json",
    ]
    said = run_here("eval", "--config", "quickstart", *fixed, *flags, cwd=folder)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def train_and_evaluate(folder: Path) -> None:
    short = [
        "--max_steps",
        "12",
        "--evaluate_before_and_after",
        "false",
        "--output_dir",
        "trained",
    ]
    run_here(
        "train", "--config", "quickstart", *short, "--write_report", "false", cwd=folder
    )
    found = ask(
        folder,
        "--model",
        "bundled:tiny_reasoner",
        "trained",
        "--samples",
        "3",
        "--k",
        "1,3",
    )
    (folder / "found.json").write_text(json.dumps(found))


@pytest.fixture(scope="session")
def two(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """Evaluate the bundled model before and after a short training, once, and return the folder with the output."""
    return made_once("eval", train_and_evaluate)


@pytest.mark.slow  # real runs
def test_a_model_is_better_after_training_and_the_sentence_says_by_how_much(
    two: Path,
) -> None:
    found = json.loads((two / "found.json").read_text())
    before, after = found["models"]
    assert 0.2 < before["pass@1"]["mean"] < 0.6 < after["pass@1"]["mean"]
    difference = found["differences"]["pass@1"]
    assert difference["mean"] == pytest.approx(
        after["pass@1"]["mean"] - before["pass@1"]["mean"]
    )
    assert found["sentence"].startswith("trained beats tiny_reasoner by")
    assert found["sentence"].endswith("in pass@1 over 21 prompts.")
    for model in found["models"]:
        assert model["pass@1"]["mean"] <= model["pass@3"]["mean"]
        assert model["terms"]["accuracy"]["score"]["mean"] == pytest.approx(
            model["pass@1"]["mean"]
        )
        assert (
            sum(model["terms"]["accuracy"]["statuses"].values())
            == model["completions"]
            == 63
        )
        assert (model["unjudged"], model["cut"]) == (0, 0.0)
        assert (
            model["tokens"]["p10"]
            <= model["tokens"]["p50"]
            <= model["tokens"]["p90"]
            <= model["tokens"]["max"]
        )
    assert (two / found["report"]).name == "tiny_reasoner-vs-trained.html"
    assert (two / found["report"]).stat().st_size > 50_000
    stored = json.loads((two / found["report"]).with_suffix(".json").read_text())
    # Another test may have read the evaluation again, by absolute paths.
    assert (two / stored["report"]).samefile(two / found["report"])
    assert stored | {"report": found["report"]} == found


@pytest.mark.slow  # its fixture is real runs
def test_every_prompt_gets_exactly_as_many_completions_as_were_asked_for(two: Path) -> None:
    folders = [two / "runs/quickstart-eval" / name for name in ("tiny_reasoner", "trained")]
    asked = []
    for folder in folders:
        cards = list(RecordedRun(folder).cards())
        assert [len(card) for card in cards] == [
            15,
            15,
            15,
            15,
            3,
        ]  # whole groups, at most 16 completions at a time
        assert {card.mode for card in cards} == {"eval"}
        prompts = Counter(
            json.dumps(sample.prompt) for card in cards for sample in card.samples
        )
        assert len(prompts) == 21 and set(prompts.values()) == {3}
        asked.append(set(prompts))
    assert asked[0] == asked[1]


@pytest.mark.slow  # its fixture is real runs
def test_earlier_evaluations_are_read_again_and_nothing_is_generated(two: Path) -> None:
    folders = [
        str(two / "runs/quickstart-eval" / name) for name in ("tiny_reasoner", "trained")
    ]
    before = {path: path.stat().st_mtime_ns for path in two.rglob("*.parquet")}
    again = ask(two, "--model", *folders, "--k", "1,3")
    first = json.loads((two / "found.json").read_text())
    assert (again["sentence"], again["models"]) == (first["sentence"], first["models"])
    twice = ask(two, "--model", folders[0], folders[0])
    assert [model["label"] for model in twice["models"]] == [
        f"quickstart-eval-tiny_reasoner-{n}" for n in (1, 2)
    ]
    assert twice["sentence"].startswith(
        "quickstart-eval-tiny_reasoner-1 and quickstart-eval-tiny_reasoner-2 are equal"
    )
    (by_two,) = ask(two, "--model", folders[0], "--k", "2")["models"]
    assert (
        "pass@2" in by_two and "pass@3" not in by_two
    )  # which an earlier reading has left beside the evaluation
    assert {path: path.stat().st_mtime_ns for path in two.rglob("*.parquet")} == before


@pytest.mark.slow  # its fixture is real runs
def test_an_evaluation_of_which_a_part_is_gone_is_refused(
    two: Path, tmp_path: Path
) -> None:
    shutil.copytree(two / "runs/quickstart-eval/trained", tmp_path / "trained")
    next((tmp_path / "trained/scorecards").glob("samples-*.parquet")).unlink()
    said = run_here(
        "eval",
        "--config",
        "quickstart",
        "--model",
        str(tmp_path / "trained"),
        cwd=tmp_path,
        expect=2,
    )
    assert "of the 63 completions of its evaluation; make it again" in said.stderr


@pytest.mark.slow
def test_a_file_of_rows_and_a_stream_can_be_evaluated_on_and_the_temperature_is_a_flag(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.jsonl").write_text('{"prompt": "2+2", "solution": "4"}')
    flags = ["--samples", "2", "--temperature", "0.5", "--write_report", "false"]
    (model,) = ask(tmp_path, "--dataset_name", "mine.jsonl", *flags)["models"]
    assert (model["prompts"], model["completions"], model["temperature"]) == (1, 2, 0.5)
    settings = RecordedRun(tmp_path / "runs/quickstart-eval/tiny_reasoner").settings
    assert settings["dataset"] == "mine.jsonl"  # datasets calls it `json`
    (model,) = ask(tmp_path, "--dataset_streaming", "true", *flags)["models"]
    assert (model["prompts"], model["completions"]) == (21, 42)
    said = run_here(
        "eval",
        "--config",
        "quickstart",
        "--dataset_streaming",
        "true",
        cwd=tmp_path,
        expect=2,
    )
    assert "set --limit, the number of prompts" in said.stderr


@pytest.mark.slow  # two processes, each of which imports torch
def test_on_two_ranks_no_completion_of_a_prompt_is_dropped_or_counted_twice(
    tmp_path: Path,
) -> None:
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        "2",
    ]  # on gloo
    plain = [
        "--num_machines",
        "1",
        "--mixed_precision",
        "no",
        "--dynamo_backend",
        "no",
        "--main_process_port",
        "0",
    ]
    flags = [
        "--limit",
        "7",
        "--samples",
        "3",
        "--per_device_eval_batch_size",
        "6",
        "--json",
        "--write_report",
        "false",
    ]
    command = [
        *launch,
        *plain,
        "-m",
        "trl_grpo_ext",
        "eval",
        "--config",
        "quickstart",
        "--output_dir",
        "out",
        *flags,
    ]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (model,) = json.loads(done.stdout)["models"]
    assert (
        model["completions"],
        model["pass@3"]["prompts"],
        model["pass@3"]["left_out"],
    ) == (21, 7, 0)
    cards = list(RecordedRun(tmp_path / "out/tiny_reasoner").cards("eval"))
    prompts = [json.dumps(sample.prompt) for card in cards for sample in card.samples]
    assert len(prompts) == 21  # the 3 that fill up the last batch are prompts once more
    assert set(Counter(prompts).values()) == {3}


@pytest.mark.slow  # a training run and two evaluations
def test_an_adapter_is_evaluated_with_the_model_that_it_is_of_and_greedily(
    tmp_path: Path,
) -> None:
    lora = [
        "--use_peft",
        "true",
        "--lora_r",
        "4",
        "--learning_rate",
        "3e-3",
        "--max_steps",
        "3",
    ]
    quiet = [
        "--evaluate_before_and_after",
        "false",
        "--write_report",
        "false",
        "--output_dir",
        "lora",
    ]
    run_here("train", "--config", "quickstart", *lora, *quiet, cwd=tmp_path)
    assert (tmp_path / "lora/adapter_model.safetensors").exists() and not (
        tmp_path / "lora/config.json"
    ).exists()
    flags = [
        "--model",
        "bundled:tiny_reasoner",
        "lora",
        "--temperature",
        "0",
        "--write_report",
        "false",
    ]
    found = ask(tmp_path, *flags)
    assert [model["temperature"] for model in found["models"]] == [0.0, 0.0]
    assert [model["samples"] for model in found["models"]] == [1, 1]
    assert found["differences"]["score/thinks"]["can_be_told"]  # the adapter is in use
    assert found["report"] is None
    again = ask(tmp_path, *flags, "--seed", "7")
    assert [model["tokens"] for model in again["models"]] == [
        model["tokens"] for model in found["models"]
    ]
    on = [
        "--model_name_or_path",
        "lora",
        "--beta",
        "0.04",
        "--learning_rate",
        "3e-3",
        "--max_steps",
        "1",
    ]
    run_here(
        "train", "--config", "quickstart", *on, *quiet[:-1], "on", cwd=tmp_path
    )  # it goes on being trained
    before, after = (
        load_file(tmp_path / run / "adapter_model.safetensors") for run in ("lora", "on")
    )
    assert before.keys() == after.keys() and not any(
        before[name].equal(after[name]) for name in before
    )


@pytest.mark.slow  # its fixture is real runs
def test_for_people_it_prints_the_sentence_first_and_then_a_table(two: Path) -> None:
    folders = [
        str(two / "runs/quickstart-eval" / name) for name in ("tiny_reasoner", "trained")
    ]
    said = run_here(
        "eval", "--config", "quickstart", "--model", *folders, "--k", "1,3", cwd=two
    )
    lines = said.stdout.splitlines()
    assert lines[0].startswith("trained beats tiny_reasoner by 0.")
    assert (
        lines[1]
        == "21 prompts of bundled:sums (test), 3 completions each, at temperature 1"
    )
    assert max(map(len, lines[:20])) <= 80
    names = [line.split()[0] for line in lines if line.split()]
    begin = names.index("pass@1")
    assert names[begin : begin + 4] == ["pass@1", "pass@3", "maj@3", "accuracy"]
    assert "  63 completions; 0 of them could not be judged by accuracy." in lines
    assert lines[-1].startswith("The completions are in ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--model", "/no/such/model"],
            "There is no folder /no/such/model to load the model from (--model).",
        ),
        (["--model", "a", "b", "c"], "takes one model, or two to compare; got 3"),
        (
            ["--model_name_or_path", "/no/such/model"],
            "There is no folder /no/such/model to load the model from",
        ),
        (["--model", "bundled:tiny_resoner"], "Did you mean `bundled:tiny_reasoner`"),
        (
            ["--model", "runs/none"],
            "The model 'runs/none' (--model) is no folder here, and cannot be loaded",
        ),
        (
            ["--split", "tset"],
            "no split 'tset' to evaluate on (--split). Did you mean `test`",
        ),
        (["--dataset_name", "./none"], "There is no file or folder './none'"),
        (
            ["--samples", "2", "--k", "1,4"],
            "pass@4 needs as many completions a prompt (--samples), and there are 2",
        ),
        (
            ["--samples", "2", "--temperature", "0"],
            "the completions of a prompt are all the same",
        ),
        (["--temperature", "-1"], "`temperature` must be above 0"),
        (["--learning_rat", "1"], "Did you mean `--learning_rate`"),
        (["--sampels", "4"], "Unknown flag `--sampels`. Did you mean `--samples`?"),
        (
            ["--accelerate_config", "zero2"],
            "`--accelerate_config` is a flag of `train`, not of `eval`.",
        ),
        (["--samples", "0"], "'0' is not a number of 1 or more"),
        (["--k", "1,x"], "'x' is not a number of 1 or more"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_in_one_sentence(
    tmp_path: Path, flags: list[str], message: str
) -> None:
    said = run_here("eval", "--config", "quickstart", *flags, cwd=tmp_path, expect=2)
    assert message in said.stderr
    assert "Traceback" not in said.stderr
    assert not list(tmp_path.iterdir())


def test_what_the_arguments_alone_show_to_be_wrong_is_found_before_anything_heavy_is_imported(
    tmp_path: Path,
) -> None:
    wrong = (
        "--model /no/such/model",
        "--model_name_or_path ./no_model",
        "--dataset_name /no/such/data",
        "--samples 2 --temperature 0",
    )
    code = (
        "import sys; from trl_grpo_ext.cli.main import main\n"
        "for flags in sys.argv[1:]:\n"
        "    status = main(['eval', '--config', 'quickstart', *flags.split()])\n"
        "    print(status, [name for name in ('torch', 'transformers', 'trl') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *wrong],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == ["2 []"] * len(wrong), done.stderr


@pytest.mark.slow  # real runs
def test_an_evaluation_says_of_a_trained_model_what_its_training_has_said(
    tmp_path: Path,
) -> None:
    flags = [
        "--rows",
        "40",
        "--per_device_train_batch_size",
        "16",
        "--write_report",
        "false",
    ]
    train = [
        "--max_steps",
        "2",
        "--evaluate_before_and_after",
        "true",
        "--output_dir",
        "trained",
        *flags,
    ]
    shipped = (ROOT / "recipes" / "quickstart.yaml").read_text()
    (tmp_path / "gated.yaml").write_text(
        shipped.replace("name: thinks", "name: thinks, gate: accuracy")
    )
    run_here("train", "--config", "gated.yaml", *train, cwd=tmp_path)
    summary = json.loads((tmp_path / "trained/summary.json").read_text())
    said = run_here(
        "eval",
        "--config",
        "gated.yaml",
        "--model",
        "trained",
        "--json",
        *flags,
        cwd=tmp_path,
    )
    (found,) = json.loads(said.stdout)["models"]
    for term in ("accuracy", "thinks"):
        assert found["terms"][term]["score"]["mean"] == pytest.approx(
            summary["terms"][term]["after"]["mean"]
        )
    assert found["tokens"]["mean"] == pytest.approx(summary["tokens"]["after"])
