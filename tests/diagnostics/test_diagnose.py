"""The diagnosis: `diagnose` on runs of every kind, its command, and files written by the watch."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import HARNESS
from windows import Planted, batch, card, recorded, tell, window_of

from trl_grpo_ext import (
    Blame,
    RewardMix,
    RewardTerm,
    Sample,
    Scorecard,
    Status,
    Verdict,
    VerifiedGRPOConfig,
    VerifiedGRPOTrainer,
)
from trl_grpo_ext.cli.main import main
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.diagnosis import diagnose
from trl_grpo_ext.diagnostics.finding import MERGED, Finding, append_finding, read_findings
from trl_grpo_ext.diagnostics.watch import Watch
from trl_grpo_ext.diagnostics.window import Evaluation, RunView
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.lab import ActionVerifier, run_lab, single_peak
from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import LogRecorder, Recorder
from trl_grpo_ext.support.estimate import Estimate
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.trainer.run_callback import RunCallback

Make = Callable[..., Any]


def test_a_run_without_a_batch_gives_nothing_to_go_by(tmp_path: Path) -> None:
    diagnosis = diagnose(recorded(tmp_path, []))
    assert diagnosis.sentence == "There is nothing to go by: no completion was recorded."
    assert diagnosis.batches == 0
    assert diagnosis.examples == diagnosis.causes == ()


def test_a_warm_up_longer_than_the_run_is_told_of_a_run_without_a_batch(
    tmp_path: Path,
) -> None:
    run = recorded(tmp_path, [])
    settings = {"warmup_steps": 4000, "max_steps": 25}
    (tmp_path / "scorecards" / "run.json").write_text(
        json.dumps(settings), encoding="utf-8"
    )
    nothing, _, beside = diagnose(run).sentence.partition(" Beside it: ")
    assert nothing == "There is nothing to go by: no completion was recorded."
    assert beside.startswith("The warm-up takes 4000 steps and the run has 25,")
    assert diagnose(run).causes[0].action == "Set warmup_steps well below max_steps."


def test_a_run_of_one_step_is_too_early_to_tell(tmp_path: Path) -> None:
    diagnosis = diagnose(recorded(tmp_path, [card(0.5, 0.25, 0.75, 0.0)]))
    assert (
        diagnosis.sentence
        == "It is too early to tell: the score of `answer` is 0.38 in the only batch."
    )


def test_a_run_that_was_killed_says_after_which_step_its_record_stops(
    tmp_path: Path,
) -> None:
    run = recorded(tmp_path, [card(1.0, 0.0, step=step) for step in range(7)])
    logs = LogRecorder(tmp_path)
    logs.on_log(5, {"loss": 0.1})
    (tmp_path / "scorecards" / "run.json").write_text(
        json.dumps({"max_steps": 30}), encoding="utf-8"
    )
    assert (
        "The record stops after step 6 of 30: the run still goes on, or"
        in diagnose(run).sentence
    )
    logs.on_log(7, {"train_runtime": 1.0})
    assert "record stops" not in diagnose(run).sentence


def test_a_run_that_was_killed_before_its_first_log_says_so_too(tmp_path: Path) -> None:
    run = recorded(tmp_path, [card(1.0, 0.0, step=step) for step in range(7)])
    settings: dict[str, Any] = {"max_steps": -1, "logging_steps": 10}
    (tmp_path / "scorecards" / "run.json").write_text(
        json.dumps(settings), encoding="utf-8"
    )
    assert (
        "The record stops after step 6: the run still goes on, or" in diagnose(run).sentence
    )
    settings |= {"advantage_deviation": "population"}
    (tmp_path / "scorecards" / "run.json").write_text(
        json.dumps(settings), encoding="utf-8"
    )
    assert "record stops" not in diagnose(run).sentence, (
        "AsyncGRPO's rollout loop records no logs"
    )


def test_a_run_of_one_step_whose_grader_failed_says_so(tmp_path: Path) -> None:
    diagnosis = diagnose(
        recorded(tmp_path, [card(Blame.GRADER, Blame.GRADER, Blame.GRADER, 1.0)])
    )
    assert diagnosis.causes[0].code == "grader_trouble"
    assert diagnosis.sentence.startswith("The grader, not the model: 75 %")


def test_a_run_of_void_rows_only_names_whose_fault_it_is(tmp_path: Path) -> None:
    cards = [card(*[Blame.DATA] * 4, step=step) for step in range(5)]
    diagnosis = diagnose(recorded(tmp_path, cards))
    assert diagnosis.causes[0].code == "bad_data"
    assert diagnosis.examples[0].verdicts == {"answer": "error (planted)"}


def test_a_run_in_which_no_term_applies_says_so(tmp_path: Path) -> None:
    mix = RewardMix(
        [RewardTerm(name="answer", verifier=Planted("score"), when={"task": "other"})]
    )
    samples = [Sample(text="x", row={"score": 1.0, "task": "sums"}, group=0, step=0)] * 4
    diagnosis = diagnose(recorded(tmp_path, [mix.score(samples)] * 3))
    assert diagnosis.sentence == (
        "None of the last 12 completions could be judged: no term with weight is for their rows."
    )


def test_a_run_with_no_term_in_force_can_be_diagnosed(tmp_path: Path) -> None:
    diagnosis = diagnose(
        recorded(tmp_path, [card(1.0, 0.0, step=step, weight=0) for step in range(4)])
    )
    assert "could be judged" in diagnosis.sentence


def test_a_run_of_evaluations_only_says_so(tmp_path: Path) -> None:
    diagnosis = diagnose(
        recorded(
            tmp_path, [card(1.0, 0.0, mode="eval"), card(1.0, 1.0, step=5, mode="eval")]
        )
    )
    assert (
        diagnosis.sentence
        == "Nothing was trained: there are evaluations only, the last with a score of 1.00."
    )


def test_of_two_evaluations_of_the_last_step_the_later_one_counts_as_in_the_summary() -> (
    None
):
    def evaluated(step: int, right: int) -> list[Scorecard]:
        half = [1.0] * right + [0.0] * (10 - right)
        return [card(*half, step=step, mode="eval")] * 2

    cards = [*evaluated(0, 2), card(1.0, 0.0), *evaluated(1, 4), *evaluated(1, 8)]
    window = window_of(cards, settings={"evaluated_completions": 20})
    assert [each.score.mean for each in window.evaluations] == pytest.approx([0.2, 0.8])
    unknown = window_of(cards)
    assert [each.score.mean for each in unknown.evaluations] == pytest.approx([0.2, 0.6])


def test_a_damaged_batch_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = recorded(tmp_path, [card(1.0, 0.0, step=step) for step in range(4)])
    (tmp_path / "scorecards" / "verdicts-00000001.parquet").write_bytes(b"PAR1 torn")
    (tmp_path / "scorecards" / "verdicts-00000002.parquet").unlink()
    assert diagnose(run).batches == 2
    assert "Batch 1" in caplog.text


def test_training_that_rises_while_evaluation_does_not_is_reward_hacking(
    tmp_path: Path,
) -> None:
    cards = []
    for step in range(24):
        if step % 6 == 0:
            cards.append(card(*[1.0] * 40, *[0.0] * 60, step=step, mode="eval"))
        right = min(32, 2 * step)
        cards.append(card(*[1.0] * right, *[0.0] * (40 - right), step=step))
    diagnosis = diagnose(recorded(tmp_path, cards))
    assert diagnosis.causes[0].code == "reward_hacking"
    assert "that of the evaluation by 0.00" in diagnosis.sentence


def test_what_does_not_hold_a_rising_score_back_is_told_beside_it(tmp_path: Path) -> None:
    fooled = Verdict(status=Status.INCORRECT, score=0.0, reason="passes_naively")
    cards = [
        card(*[1.0] * (4 + step), fooled, *[0.0] * (36 - step), step=step)
        for step in range(16)
    ]
    diagnosis = diagnose(recorded(tmp_path, cards))
    assert [cause.code for cause in diagnosis.causes] == ["label_hacks"]
    assert diagnosis.sentence.startswith(
        "The score of `answer` has risen from 0.13 in the first 4 batches to 0.33 in the last 12; nothing is held out. "
        "Beside it: "
    )


def test_programs_that_earn_nothing_are_told_beside_a_score_that_has_not_moved(
    tmp_path: Path,
) -> None:
    fooled = Verdict(status=Status.INCORRECT, score=0.0, reason="passes_naively")
    cards = [card(*[1.0] * 16, *[fooled] * 4, *[0.0] * 20, step=step) for step in range(12)]
    diagnosis = diagnose(recorded(tmp_path, cards))
    assert [cause.code for cause in diagnosis.causes] == ["label_hacks"]
    assert diagnosis.sentence.startswith(
        "It is too early to tell: the score of `answer` is 0.40"
    )
    assert "Beside it: 10 % of the programs fail `answer`" in diagnosis.sentence


def test_updates_that_are_no_numbers_are_named_first(tmp_path: Path) -> None:
    cards = [card(*[0.0] * 8, step=step) for step in range(12)]
    run = recorded(tmp_path, cards)
    logs = LogRecorder(tmp_path)
    for step in range(1, 13):
        logs.on_log(step, {"loss": 0.1, "grad_norm": float("nan") if step > 6 else 1.0})
    diagnosis = diagnose(run)
    assert [cause.code for cause in diagnosis.causes] == [
        "nonfinite_updates",
        "dead_groups",
    ]
    assert "grad_norm was NaN or infinite" in diagnosis.sentence


@pytest.mark.slow  # real runs
def test_what_the_watch_told_is_what_the_recording_tells(tmp_path: Path) -> None:
    mix = RewardMix(
        [
            RewardTerm(name="answer", verifier=ActionVerifier({7: 1.0, 3: None})),
            RewardTerm(
                name="small", verifier=ActionVerifier({1: 1.0, 2: 0.5}), weight=0.01
            ),
        ]
    )
    run_lab(mix, tmp_path, steps=60, write_report=False, groups=2)
    told = read_findings(tmp_path)
    assert told
    assert list(diagnose(RecordedRun(tmp_path)).findings) == told


def test_a_resumed_run_is_looked_back_on_and_nothing_is_told_twice(tmp_path: Path) -> None:
    cards = [card(*[Blame.GRADER] * 4, step=step) for step in range(12)]
    for session in (cards[:6], cards[4:]):  # the second from a checkpoint at step 4
        recorder, watch = (
            Recorder(tmp_path),
            Watch(tmp_path, {}, log_level=logging.CRITICAL),
        )
        for each in session:
            recorder.on_batch(each)
            tell(watch, each)
    assert [(finding.code, finding.step) for finding in read_findings(tmp_path)] == [
        ("grader_trouble", 2)
    ]
    assert diagnose(RecordedRun(tmp_path)).batches == 12


def test_halt_on_ends_the_run_with_a_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = run_lab(
        single_peak(7),
        tmp_path,
        steps=200,
        write_report=False,
        learning_rate=0.0,
        halt_on=["zero_updates"],
    )
    assert run.trainer.state.global_step < 40
    assert (
        tmp_path / f"checkpoint-{run.trainer.state.global_step}" / "trainer_state.json"
    ).exists()
    assert "Halted after step" in caplog.text


@pytest.mark.slow  # two ranks
def test_two_ranks_halt_together_and_tell_a_finding_once(tmp_path: Path) -> None:
    launch = [
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
    ]
    script = HARNESS / "halt_of_two.py"
    command = [
        sys.executable,
        *launch,
        "--main_process_port",
        "0",
        str(script),
        str(tmp_path),
    ]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [(tmp_path / f"stopped-{rank}").read_text() for rank in (0, 1)] == ["3", "3"]
    assert (tmp_path / "checkpoint-3").is_dir()
    assert [finding.code for finding in read_findings(tmp_path)] == ["grader_trouble"]


def test_halt_on_an_unknown_code_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Did you mean `zero_updates`"):
        VerifiedGRPOConfig(
            output_dir=str(tmp_path), use_cpu=True, bf16=False, halt_on=["zero_update"]
        )
    with pytest.raises(
        ValueError, match="'all_wrong_groups', which is a part of `dead_groups` now"
    ):
        VerifiedGRPOConfig(
            output_dir=str(tmp_path), use_cpu=True, bf16=False, halt_on=["all_wrong_groups"]
        )
    with pytest.raises(ValueError, match="list of codes"):
        VerifiedGRPOConfig(
            output_dir=str(tmp_path), use_cpu=True, bf16=False, halt_on="zero_updates"
        )
    with pytest.raises(ValueError, match="needs run_checks"):
        VerifiedGRPOConfig(
            output_dir=str(tmp_path),
            use_cpu=True,
            bf16=False,
            halt_on=["bad_data"],
            run_checks=False,
        )


def test_a_disk_that_takes_no_findings_ends_no_run_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    callback = RunCallback(is_main=True, ask_main=lambda ask: ask())
    callback.watch(Watch(tmp_path, {}, log_level=logging.CRITICAL), halts=False)
    (tmp_path / "findings.jsonl").mkdir()
    for step in range(1, 8):
        batch = card(*[Blame.GRADER] * 4, step=step)
        callback.tell(
            lambda listener, batch=batch: listener.on_batch(batch, reduce_card(batch, {}))
        )  # type: ignore[misc]
    assert caplog.text.count("Watch of a run> failed; the run goes on") == 1


@pytest.mark.parametrize(
    ("constant", "is_shown"), [(0.5, True), (0.0, False), (1.0, False)]
)
def test_a_lesser_term_with_one_value_is_shown_on_the_console_once_unless_it_is_nothing_or_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], constant: float, is_shown: bool
) -> None:
    watch = Watch(tmp_path, {})
    for step in range(8):
        one = batch({"answer": [1.0, 0.0] * 16, "polite": [constant] * 32}, step=step)
        watch.on_batch(one, reduce_card(one, {}))
    assert (
        capsys.readouterr().err.count(
            "[info] inert_term at step 3: `polite` gives every completion"
        )
        == is_shown
    )


def test_without_run_checks_nothing_is_looked_for(tmp_path: Path) -> None:
    run_lab(
        single_peak(7),
        tmp_path,
        steps=20,
        write_report=False,
        learning_rate=0.0,
        run_checks=False,
    )
    assert not (tmp_path / "findings.jsonl").exists()


def test_a_run_recorded_under_codes_that_were_merged_is_read_and_told_under_those_of_today(
    tmp_path: Path,
) -> None:
    run_lab(single_peak(7), tmp_path, steps=8, write_report=False)
    old = {
        "step": 2,
        "severity": "warning",
        "sentence": "s.",
        "action": "a.",
        "numbers": {},
    }
    lines = [json.dumps(old | {"code": code}) for code in (*MERGED, "of_a_later_version")]
    (tmp_path / "findings.jsonl").write_text("\n".join(lines))
    told = diagnose(RecordedRun(tmp_path)).findings
    assert [finding.code for finding in told] == [*MERGED.values(), "of_a_later_version"]
    assert set(MERGED.values()) <= CHECKS.keys()
    assert not MERGED.keys() & CHECKS.keys()


def test_findings_come_back_from_their_file_and_a_torn_line_is_passed_over(
    tmp_path: Path,
) -> None:
    first = Finding(
        code="bad_data",
        step=1,
        severity="warning",
        sentence="é",
        action="b",
        numbers={"share": 0.5},
    )
    second = Finding(
        code="truncation", step=None, severity="info", sentence="c", action="d"
    )
    append_finding(tmp_path, first)
    with open(tmp_path / "findings.jsonl", "ab") as file:
        file.write(b'{"code": "trunc')
    append_finding(tmp_path, second)
    assert read_findings(tmp_path) == [first, second]
    lines = (tmp_path / "findings.jsonl").read_text().splitlines()
    assert list(json.loads(lines[0])) == [
        "code",
        "step",
        "severity",
        "sentence",
        "numbers",
        "action",
        "terms",
        "docs",
    ]


def test_findings_cite_the_batches_that_they_are_about(tmp_path: Path) -> None:
    cited: list[int] = []
    watch = Watch(tmp_path, {}, cite=cited.extend, log_level=logging.CRITICAL)
    for step in range(4):
        tell(watch, card(*[Blame.GRADER] * 4, step=step))
    assert cited == [2]


def test_the_command_prints_the_sentence_the_action_and_completions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b[31m[bold]red[/bold]\n\u202eback " + "x" * 10_000
    recorded(
        tmp_path, [card(*[Blame.GRADER] * 4, step=step, text=hostile) for step in range(4)]
    )
    assert main(["diagnose", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("The grader, not the model: 100 % of the `answer` verdicts")
    assert "(trl-grpo-ext docs findings#grader_trouble)" in shown
    assert "[bold]red[/bold] back" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert max(map(len, shown.splitlines())) < 500


def test_the_command_prints_json_for_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path, [card(*[Blame.GRADER] * 4, step=step) for step in range(4)])
    assert main(["diagnose", str(tmp_path), "--json", "--examples", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["causes"][0]["code"] == "grader_trouble"
    assert len(found["examples"]) == 1


def test_the_command_refuses_a_folder_that_holds_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "holds no scorecards/" in capsys.readouterr().err
    assert main(["diagnose", str(tmp_path / "nowhere")]) == 2
    assert "There is no folder" in capsys.readouterr().err


def test_of_a_run_of_trls_own_trainer_the_command_says_what_would_record(
    tiny_model: str, sums: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from trl import GRPOConfig, GRPOTrainer

    args = GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=4, num_generations=4, max_completion_length=8,
        max_steps=1, use_cpu=True, bf16=False, report_to="none", disable_tqdm=True,
    )  # fmt: skip
    GRPOTrainer(tiny_model, MathVerifier(), args, sums["train"]).train()
    assert main(["diagnose", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    for needed in (
        "holds no scorecards/",
        "GRPOTrainer records nothing",
        "VerifiedGRPOTrainer",
        "record_scorecards",
    ):
        assert needed in said


@pytest.mark.slow
def test_completions_of_any_language_are_printed_where_stdout_is_ascii(
    tmp_path: Path,
) -> None:
    recorded(
        tmp_path,
        [card(*[Blame.GRADER] * 4, step=step, text="答案是 é 🙂") for step in range(4)],
    )
    command = [sys.executable, "-m", "trl_grpo_ext", "diagnose", str(tmp_path)]
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, check=False, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"completion: \\u7b54\\u6848\\u662f \\xe9 \\U0001f642" in done.stdout


def test_the_command_says_which_terms_the_latest_advantages_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = {"most": 3.0, "least": 1.0}
    mix = RewardMix(
        [
            RewardTerm(name=name, verifier=ActionVerifier({7: 1.0}), weight=w)
            for name, w in terms.items()
        ]
    )
    run_lab(mix, tmp_path, steps=8, write_report=False, groups=4, run_checks=False)
    assert main(["diagnose", str(tmp_path)]) == 0
    assert (
        "advantages come from: most 75 %, least 25 % (trl-grpo-ext docs metrics_reference#driver-shares)"
        in capsys.readouterr().out
    )
    assert main(["diagnose", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drivers"] == pytest.approx(
        {"most": 0.75, "least": 0.25}
    )


@given(st.text())
def test_no_text_reaches_a_terminal_that_it_would_obey(text: str) -> None:
    shown = on_one_line(text, 300)
    assert shown.isprintable()
    assert len(shown) <= 300


def test_every_code_is_explained_by_what_its_findings_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for code in CHECKS:
        finding = Finding(code=code, step=1, severity="info", sentence="a", action="b")
        assert main(finding.docs.split()[1:]) == 0
        title, _, text = capsys.readouterr().out.partition("\n")
        assert title == f"## {code}"
        assert text.strip()


@pytest.mark.slow  # real runs
def test_the_trainer_on_a_plain_trl_config_is_watched_too(
    tiny_model: str, sums: Any, tmp_path: Path
) -> None:
    from trl import GRPOConfig

    args = GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=8, num_generations=4, max_completion_length=48,
        max_steps=3, use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=1, disable_tqdm=True,
    )  # fmt: skip
    spoiled = sums["train"].map(lambda row: {"solution": "?"})
    mix = RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())])
    VerifiedGRPOTrainer(tiny_model, mix, args, spoiled).train()
    assert [finding.code for finding in read_findings(tmp_path)] == ["bad_data"]


def test_what_was_learned_before_the_first_evaluation_is_not_held_against_it(
    tmp_path: Path,
) -> None:
    cards = []
    for step in range(60):
        right = min(32, 2 * step)
        cards.append(card(*[1.0] * right, *[0.0] * (40 - right), step=step))
        if step in (40, 48, 56):
            cards.append(card(*[1.0] * 60, *[0.0] * 40, step=step, mode="eval"))
    diagnosis = diagnose(recorded(tmp_path, cards))
    assert "reward_hacking" not in [finding.code for finding in diagnosis.findings]
    assert "reward_hacking" not in diagnosis.not_checked


PASS = Verdict(status=Status.CORRECT, score=1.0)
FAIL = Verdict(status=Status.INCORRECT, score=0.0)


def test_few_live_groups_are_never_called_a_sound_signal(tmp_path: Path) -> None:
    cards = [card(*[float(step % 2)] * 8, step=step) for step in range(16)]
    diagnosis = diagnose(recorded(tmp_path / "long", cards))
    assert [cause.code for cause in diagnosis.causes] == ["dead_groups"]
    short = diagnose(
        recorded(tmp_path / "short", cards[:8])
    ).sentence  # too few groups in a half to tell
    assert "sound" not in short


def test_a_score_that_stays_is_first_a_reason_to_judge_by_hand(tmp_path: Path) -> None:
    guessed = [
        card(*[1.0, 0.0, 0.0, 1.0] * 4, step=step) for step in range(32)
    ]  # of fewer it is too early to tell
    sentence = diagnose(recorded(tmp_path, guessed)).sentence
    assert "sound (100 % of the groups are live)" in sentence
    assert "judge a few completions by hand" in sentence.split("raise the learning rate")[0]


def test_what_makes_a_run_a_waste_is_named_before_a_few_bad_rows(tmp_path: Path) -> None:
    cards = [card(Blame.DATA, *[0.0] * 27, step=step) for step in range(16)]
    diagnosis = diagnose(recorded(tmp_path, cards))
    assert [cause.code for cause in diagnosis.causes] == ["dead_groups", "bad_data"]
    assert "all wrong" in diagnosis.sentence


def test_a_shadow_that_fails_is_told_beside_what_is_said_of_the_run(tmp_path: Path) -> None:
    failed = Verdict(
        status=Status.ERROR, score=None, blame=Blame.GRADER, reason="worker_died"
    )
    cards = [
        batch(
            {"answer": [PASS, FAIL] * 4, "shadow": [failed] * 8},
            step=step,
            weights={"shadow": 0},
        )
        for step in range(16)
    ]
    diagnosis = diagnose(recorded(tmp_path, cards))
    assert (
        "Beside it: The grader, not the model: 100 % of the `shadow` verdicts"
        in diagnosis.sentence
    )
    assert diagnosis.sentence.endswith("It has no weight, and holds nothing back.")


def test_rows_that_are_quoted_show_the_finding_and_nothing_else(tmp_path: Path) -> None:
    unread = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_boxed")
    answers = [PASS] * 4 + [unread] * 4
    cards = [
        batch({"answer": answers, "form": [unread, PASS] * 4}, step=step, text="row")
        for step in range(32)
    ]
    diagnosis = diagnose(recorded(tmp_path, cards))
    assert diagnosis.causes[0].code == "unparseable_flood"
    assert {example.text for example in diagnosis.examples} <= {
        f"row {index}" for index in range(4, 8)
    }


def test_a_dispute_is_between_the_primary_verdict_and_the_second_opinion(
    tmp_path: Path,
) -> None:
    passed, failed = (replace(verdict, answer="4") for verdict in (PASS, FAIL))
    matched = replace(FAIL, answer="<think>")  # of another question: no second opinion
    answers, strict = [passed, failed] * 8, [failed, failed, passed, failed] * 4
    terms = {"answer": answers, "form": [matched] * 16, "strict": strict}
    shadows = {"form": 0.0, "strict": 0.0}
    cards = [
        batch(terms, step=step, size=16, weights=shadows, text="row") for step in range(16)
    ]
    diagnosis = diagnose(recorded(tmp_path, cards))
    assert diagnosis.causes[0].code == "noisy_verifier"
    assert {example.text for example in diagnosis.examples} <= {
        f"row {index}" for index in range(0, 16, 4)
    }


def test_training_and_evaluation_are_compared_over_the_same_steps(tmp_path: Path) -> None:
    def evaluated(late_score: float, before: float) -> Any:
        view = RunView({})
        for step in range(24):
            view.add(
                reduce_card(card(*[1.0] * (step + 8), *[0.0] * (32 - step), step=step), {})
            )
        evaluations = [
            Evaluation(10, Estimate(0.4, 0.02, 100)),
            Evaluation(16, Estimate(0.4, 0.02, 100)),
            Evaluation(23, Estimate(late_score, 0.02, 100)),
        ]
        window = replace(
            view.window,
            evaluations=evaluations,
            trained_at_first_evaluation=Estimate(before, 0.02, 100),
        )
        return CHECKS["reward_hacking"](window)

    assert isinstance(evaluated(0.4, before=0.2), Finding)
    assert evaluated(0.4, before=0.6) is None  # it had risen before
    assert evaluated(0.6, before=0.2) is None  # it follows
