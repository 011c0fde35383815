"""The report file: its contents, and its robustness to any run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import report_runs as runs
from command_line import modules_after
from hypothesis import given
from hypothesis import strategies as st
from planted import Column, samples_of
from read_page import Elements, data_of

from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOTrainer
from trl_grpo_ext.cli.main import main
from trl_grpo_ext.report.page import script_json, standalone_page
from trl_grpo_ext.report.reported_run import ReportedRun
from trl_grpo_ext.report.write import write_report
from trl_grpo_ext.rewards import MathVerifier, ThinkFormatVerifier
from trl_grpo_ext.runs.run_settings import write_settings
from trl_grpo_ext.trainer.report_listener import ReportListener, one_last_report

Make = Callable[..., Any]


def run_of(path: Path) -> Any:
    return data_of(path)["runs"][0]


@pytest.fixture(scope="module")
def rich_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report of a rich run once, and return its path."""
    return write_report([runs.rich_run(tmp_path_factory.mktemp("rich") / "run")])


def test_figures_of_a_real_run_are_those_computed_from_its_parquet(
    tiny_model: str, sums: Any, config: Make, tmp_path: Path
) -> None:
    mix = RewardMix(
        [
            RewardTerm(name="accuracy", verifier=MathVerifier()),
            RewardTerm(name="thinks", verifier=ThinkFormatVerifier(), weight=0.1),
            RewardTerm(name="boxed", verifier=MathVerifier(mode="boxed_only"), weight=0.0),
        ]
    )
    args = config(
        max_steps=3, eval_strategy="steps", eval_steps=3, beta=0.04, num_generations_eval=4
    )
    trainer = VerifiedGRPOTrainer(
        tiny_model, mix, args, sums["train"], sums["test"].select(range(4))
    )
    trainer.train()
    folder = Path(args.output_dir)
    run = run_of(write_report([folder]))

    samples = [
        row
        for part in sorted(folder.glob("scorecards/samples-*"))
        for row in pq.read_table(part).to_pylist()
    ]
    verdicts = [
        row
        for part in sorted(folder.glob("scorecards/verdicts-*"))
        for row in pq.read_table(part).to_pylist()
    ]
    for step in range(3):
        here = [row for row in samples if row["step"] == step and row["mode"] == "train"]
        said = [row for row in verdicts if row["step"] == step and row["mode"] == "train"]
        accuracy = [row for row in said if row["term"] == "accuracy"]
        place = run["train"]["steps"].index(step)
        figures = run["train"]["figures"]
        assert figures["reward"][place] == pytest.approx(
            np.mean([row["total"] for row in here]), rel=1e-5
        )
        assert figures["value"]["accuracy"][place] == pytest.approx(
            np.mean([row["value"] for row in accuracy]), rel=1e-5
        )
        correct = np.mean([row["status"] == "correct" for row in accuracy])
        assert figures["status"]["accuracy"]["correct"][place] == pytest.approx(
            correct, rel=1e-5
        )
        assert figures["length"]["all"][place] == pytest.approx(
            np.mean([row["tokens"] for row in here]), rel=1e-5
        )
        totals = {
            row["group"]: {
                other["total"] for other in here if other["group"] == row["group"]
            }
            for row in here
        }
        live = np.mean([len(found) > 1 for found in totals.values()])
        assert figures["group"]["live"][place] + figures["group"]["secondary_only"][
            place
        ] == pytest.approx(live, rel=1e-5)
    assert run["eval"]["steps"] == [3]
    assert run["logs"]["steps"] == [1, 2, 3]
    assert run["completions"]["kept"] == run["completions"]["all"] == len(samples)
    shown = {
        (group["mode"], group["group"], one["text"])
        for group in run["groups"]
        for one in group["members"]
    }
    assert shown == {(row["mode"], row["group"], row["text"]) for row in samples}


@pytest.mark.slow
def test_a_report_written_in_the_middle_of_a_run_holds_the_steps_so_far(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(max_steps=2)
    trainer = VerifiedGRPOTrainer(
        one_layer,
        RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())]),
        args,
        sums["train"],
    )
    seen: list[list[int]] = []
    trainer.add_scorecard_listener(
        lambda card: seen.append(run_of(write_report([args.output_dir]))["train"]["steps"])
    )
    trainer.train()
    assert seen == [[0], [0, 1]]


@pytest.mark.parametrize("kind", runs.ODD_RUNS)
def test_any_run_has_a_report(tmp_path: Path, kind: str) -> None:
    folder = runs.ODD_RUNS[kind](tmp_path / "run")
    assert run_of(write_report([folder]))["name"] == "run"


def test_what_is_damaged_or_half_written_is_passed_over(tmp_path: Path) -> None:
    folder = runs.record(
        tmp_path / "run", *(runs.card(step, runs.any_verdict) for step in range(4))
    )
    scorecards = folder / "scorecards"
    (scorecards / "samples-00000000.parquet").write_bytes(b"PAR1 torn")
    (scorecards / "verdicts-00000001.parquet").write_bytes(b"")
    (scorecards / "verdicts-00000002.parquet").unlink()
    (scorecards / "samples-00000009.parquet.unfinished").write_bytes(b"PAR1")
    (scorecards / "samples-notes.parquet").write_bytes(b"not ours")
    with open(scorecards / "log.jsonl", "a", encoding="utf-8") as file:
        file.write('{"step": 9, "sess')
    run = run_of(write_report([folder]))
    assert run["train"]["steps"] == [3]
    assert run["unreadable"] == 2
    assert {"unparseable_flood", "reward_hacking"} <= {
        found["code"] for found in run["findings"]
    }


def test_runs_whose_terms_changed_between_batches_show_what_each_batch_had(
    tmp_path: Path,
) -> None:
    other = RewardMix([RewardTerm(name="novel", verifier=runs.Planted("accuracy"))])
    first = runs.card(0, runs.any_verdict)
    samples = [runs.Sample(text="x", row={"accuracy": runs.RIGHT}, group=7, step=1)] * 2
    run = run_of(
        write_report([runs.record(tmp_path / "run", first, other.score(samples, step=1))])
    )
    assert run["terms"] == ["accuracy", "thinks", "short", "strict", "novel"]
    assert run["train"]["figures"]["value"]["novel"] == [None, 1.0]


def test_hostile_texts_reach_the_page_as_they_are_and_add_no_element(
    tmp_path: Path, rich_page: Path
) -> None:
    plain = write_report([runs.record(tmp_path / "plain", runs.card(0, runs.any_verdict))])
    pages = [page.read_text(encoding="ascii") for page in (plain, rich_page)]
    tags = [[tag for tag, _ in Elements(page).tags] for page in pages]
    assert tags[0] == tags[1]
    groups = run_of(rich_page)["groups"]
    texts = {
        one["text"]
        for group in groups
        if group["mode"] == "train"
        for one in group["members"]
    }
    assert texts == {
        text.encode("utf-8", "backslashreplace").decode("utf-8") for text in runs.HOSTILE
    }


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_data_is_one_inert_piece_of_ascii_that_reads_back_the_same(data: Any) -> None:
    text = script_json(data)
    assert text.isascii()
    assert not set(text) & set("<>&")
    assert json.loads(text) == data


@given(st.text())
def test_a_title_may_be_any_text(title: str) -> None:
    page = standalone_page(
        title=title, data=None, scripts=["theme.js"], styles=["theme.css"]
    )
    assert [tag for tag, _ in Elements(page).tags].count("script") == 2


def test_only_the_scripts_and_styles_of_the_page_are_allowed_by_its_policy(
    rich_page: Path,
) -> None:
    page = rich_page.read_text(encoding="ascii")
    elements = Elements(page)
    policy = next(
        given["content"] for tag, given in elements.tags if given.get("http-equiv")
    )
    style, _, script = elements.texts
    for kind, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in str(policy)
    assert "default-src 'none'" in str(policy)
    assert "unsafe" not in str(policy)
    assert not [
        given
        for _, given in elements.tags
        if {"src", "href", "onload", "onclick"} & set(given)
    ]


def test_the_page_names_no_folder_of_the_machine(rich_page: Path) -> None:
    assert str(rich_page.parents[1]) not in rich_page.read_text(encoding="ascii")


@pytest.mark.slow
def test_of_a_run_too_large_whole_groups_that_matter_are_kept_and_a_sample(
    tmp_path: Path,
) -> None:
    def mostly_right(rng: Any) -> Any:
        return (
            runs.HACK
            if rng.random() < 0.01
            else runs.BROKEN
            if rng.random() < 0.01
            else runs.RIGHT
        )

    cards = [runs.card(step, mostly_right, groups=5) for step in range(60)]
    folder = runs.record(tmp_path / "run", *cards)
    run = run_of(write_report([folder], completions=200))
    assert run["completions"]["all"] == 1200
    assert 180 <= run["completions"]["kept"] <= 240
    assert all(len(group["members"]) == runs.GROUP for group in run["groups"])
    assert run["train"]["steps"] == list(range(60))  # figures are of all
    kept = [one for group in run["groups"] for one in group["members"]]
    assert any(one["hack"] for one in kept)
    assert any(one["void"] for one in kept)
    assert any(one["disagrees"] for one in kept)
    highest = max(abs(advantage) for one in cards for advantage in one.advantages or ())
    assert max(abs(one["advantage"]) for one in kept) == pytest.approx(highest)
    assert {3, 6} <= {group["step"] for group in run["groups"]}  # those of the findings
    assert len({group["step"] for group in run["groups"]}) > 20
    again = run_of(write_report([folder], tmp_path / "again.html", completions=200))
    assert again["groups"] == run["groups"]


def test_a_text_without_end_is_cut_in_the_middle_and_says_so(tmp_path: Path) -> None:
    folder = runs.record(
        tmp_path / "run", runs.card(0, runs.any_verdict, texts=["a" * 900_000 + "the end"])
    )
    path = write_report([folder])
    (text,) = {one["text"] for group in run_of(path)["groups"] for one in group["members"]}
    assert "characters left out" in text
    assert text.endswith("the end")
    assert path.stat().st_size < 4_000_000


def test_a_step_of_several_batches_is_one_point(tmp_path: Path) -> None:
    cards = [runs.card(step // 2, runs.any_verdict, groups=1) for step in range(6)]
    steps = run_of(write_report([runs.record(tmp_path / "run", *cards)]))["train"]["steps"]
    assert steps == [0, 1, 2]


def test_terms_are_correlated_within_groups_over_all_batches() -> None:
    terms = [
        RewardTerm(name=name, verifier=Column(name)) for name in ("one", "other", "same")
    ]
    values = (
        np.random.default_rng(0).random((2, 3, 2, 4)).round(3)
    )  # batches, terms, groups, members
    values[:, 2] = 0.5
    run = ReportedRun("a run")
    for step, batch in enumerate(values):
        samples = samples_of(
            **{
                term.name: column.ravel().tolist()
                for term, column in zip(terms, batch, strict=True)
            }
        )
        run.add(
            RewardMix(terms).score(
                [replace(one, step=step, group=i // 4) for i, one in enumerate(samples)]
            )
        )
    one, other, _ = (
        (values - values.mean(axis=-1, keepdims=True)).swapaxes(0, 1).reshape(3, -1)
    )
    found = {
        (pair["first"], pair["second"]): pair["correlation"]
        for pair in run.page_data()["correlations"]
    }
    assert found["one", "other"] == pytest.approx(
        one @ other / np.sqrt((one @ one) * (other @ other)), abs=1e-3
    )
    assert found["one", "same"] is found["other", "same"] is None


def test_a_term_that_has_faded_is_no_shadow(tmp_path: Path) -> None:
    cards = [runs.card(step, runs.any_verdict, progress=step / 4) for step in range(4)]
    run = run_of(write_report([runs.record(tmp_path / "run", *cards)]))
    assert [found["term"] for found in run["shadows"]] == ["strict"]
    (table,) = (found["table"] for found in run["shadows"])
    assert run["train"]["figures"]["weight"]["thinks"] == pytest.approx(
        [0.3, 0.15, 0.0, 0.0]
    )
    assert table[2] == 0  # whatever `strict` passes, `accuracy` passes
    assert table[1] > 0


def test_two_runs_are_laid_side_by_side_by_names_that_differ(tmp_path: Path) -> None:
    first, second = (
        runs.rich_run(tmp_path / name / "run", seed=place)
        for place, name in enumerate("ab")
    )
    path = write_report([first, second])
    assert path == first / "report-vs-run.html"
    both = data_of(path)["runs"]
    assert [run["name"] for run in both] == ["a/run", "b/run"]
    assert [run["groups"] for run in both] == [[], []]
    with pytest.raises(ValueError, match="got 3"):
        write_report([first, second, first])


def scored_run(folder: Path, share: float, **settings: Any) -> Path:
    """Record a run with this share of right completions, in training and in a final evaluation."""

    def draw(rng: Any) -> Any:
        return runs.RIGHT if rng.random() < share else runs.WRONG

    cards = [runs.card(step, draw, groups=10) for step in range(10)]
    runs.record(folder, *cards, runs.card(10, draw, groups=20, mode="eval"))
    write_settings(
        folder, {"num_generations": runs.GROUP, "learning_rate": 1e-5} | settings
    )
    return folder


@pytest.mark.slow
def test_the_page_of_two_runs_says_which_is_ahead_by_how_much_and_in_what_they_differ(
    tmp_path: Path,
) -> None:
    good, bad = (
        scored_run(tmp_path / "good", 0.8),
        scored_run(tmp_path / "bad", 0.4, learning_rate=1e-6, beta=0.0),
    )
    said = data_of(write_report([bad, good]))["comparison"]
    assert re.fullmatch(
        r"good beats bad by 0\.\d{3} \[0\.\d{3}, 0\.\d{3}\] in the last evaluation: 0\.\d{3} against 0\.\d{3}\. "
        r"They differ in learning_rate \(1e-06, 1e-05\), beta \(0, none\)\.",
        said,
    )
    like = scored_run(tmp_path / "like", 0.8)
    said = data_of(write_report([good, like]))["comparison"]
    assert "the two are equal as far as can be told" in said and said.endswith(
        "No setting differs."
    )
    assert data_of(write_report([good]))["comparison"] is None


def test_two_runs_without_an_evaluation_are_compared_by_the_end_of_training_and_nothing_known_is_told(
    tmp_path: Path,
) -> None:
    rich, empty = runs.rich_run(tmp_path / "rich"), runs.record(tmp_path / "empty")
    assert (
        "is unknown: not both have scores"
        in data_of(write_report([rich, empty]))["comparison"]
    )
    weights = runs.record(tmp_path / "first", runs.card(0, runs.any_verdict))
    later = runs.record(tmp_path / "later", runs.card(4, runs.any_verdict, progress=0.5))
    said = data_of(write_report([weights, later]))["comparison"]
    assert "t the end of training" in said and "the weight of thinks (0.3, 0)" in said


@pytest.mark.slow
def test_the_command_writes_reports_and_ends_with_status_2_and_one_line_where_it_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = runs.rich_run(tmp_path / "run")
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    assert (
        main(["report", str(folder), str(folder), "--output", str(tmp_path / "two.html")])
        == 0
    )
    capsys.readouterr()
    for wrong in ([str(tmp_path)], [str(folder)] * 3, [str(folder), "--completions", "0"]):
        assert main(["report", *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_command_loads_no_torch(tmp_path: Path) -> None:
    folder = str(runs.record(tmp_path / "run", runs.card(0, runs.any_verdict)))
    loaded = modules_after(
        f"from trl_grpo_ext.cli.main import main; assert main(['report', {folder!r}]) == 0"
    )
    assert "torch" not in loaded


def wait_for(report: ReportListener, path: Path) -> None:
    for _ in range(600):
        report.poke()
        if path.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"no {path.name} after a minute")


@pytest.mark.slow
def test_while_a_run_goes_on_its_report_is_written_beside_it(tmp_path: Path) -> None:
    folder = runs.rich_run(tmp_path / "run")
    report = ReportListener(folder, first_after=0.0)
    wait_for(report, folder / "report.html")
    assert run_of(folder / "report.html")["batches"] == 10
    report.close()
    (folder / "report.html").unlink()
    report.poke()
    time.sleep(0.2)
    assert not (folder / "report.html").exists()  # closed is closed


def test_a_report_beside_a_run_never_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = ReportListener(tmp_path, first_after=0.0)
    for _ in range(3):
        report.poke()
    report.close()
    monkeypatch.setattr(sys, "executable", "/nowhere")
    report = ReportListener(tmp_path, first_after=0.0)
    report.poke()
    report.poke()
    report.close()
    assert report.finish() is None


@pytest.mark.slow  # real runs
def test_training_says_where_its_report_is_and_a_later_evaluation_is_in_it(
    one_layer: str, sums: Any, config: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    args = config(
        max_steps=1, write_report=True, disable_tqdm=False, num_generations_eval=4
    )
    mix = RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())])
    trainer = VerifiedGRPOTrainer(
        one_layer, mix, args, sums["train"], sums["test"].select(range(2))
    )
    path = Path(args.output_dir) / "report.html"
    trainer.evaluate()
    assert not path.exists()
    trainer.train()
    assert run_of(path)["eval"]["steps"] == [0]
    trainer.evaluate()
    assert run_of(path)["eval"]["steps"] == [0, 1]
    assert capfd.readouterr().err.count(f"Report: {path}\n") == 1


@pytest.mark.slow  # real runs
def test_training_and_the_evaluation_after_it_may_have_one_report(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(max_steps=1, write_report=True, num_generations_eval=4)
    mix = RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())])
    trainer = VerifiedGRPOTrainer(
        one_layer, mix, args, sums["train"], sums["test"].select(range(2))
    )
    path = Path(args.output_dir) / "report.html"
    with one_last_report(trainer):
        trainer.train()
        trainer.evaluate()
        assert not path.exists()
    assert run_of(path)["eval"]["steps"] == [1]


def test_a_finding_stands_in_the_page_with_what_the_documentation_says_of_it(
    rich_page: Path,
) -> None:
    run = run_of(rich_page)
    about = {found["code"]: " ".join(found["about"]) for found in run["findings"]}
    assert "Say in the prompt which form the answer must have" in about["unparseable_flood"]


def test_the_answer_and_what_could_not_be_checked_stand_in_the_page(tmp_path: Path) -> None:
    cards = [runs.card(step, lambda rng: runs.UNREAD) for step in range(12)]
    run = run_of(write_report([runs.record(tmp_path / "run", *cards, findings=False)]))
    assert "no_boxed" in run["sentence"]
    assert "unparseable_flood" in [
        found["code"] for found in run["findings"] if found["holds"]
    ]
    assert run["not_checked"]
