"""The reward card: its contents, hidden secrets, and no failure of the run."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    VerifiedGRPOTrainer,
    Verifier,
    verifier,
)
from trl_grpo_ext.diagnostics.finding import Finding, append_finding
from trl_grpo_ext.mix.schedule import linear
from trl_grpo_ext.report.write import comparison
from trl_grpo_ext.rewards import AllOf, LlmJudgeVerifier, MathVerifier, RegexVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.run_settings import described_verifier
from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.trainer.reward_card import (
    BEGIN,
    END,
    FILE,
    escaped,
    measured,
    section,
    with_section,
)

Make = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Ours(MathVerifier):
    """A user's verifier with secret arguments."""

    password: str = "xyzzy"

    def facts(self) -> dict[str, str]:
        return {"place": "https://me:xyzzy@host/v1?key=xyzzy"}


@verifier
def long_enough(sample: Sample) -> bool:
    return len(sample.text) > 10


def a_mix(judge: Verifier | None = None, **options: Any) -> RewardMix:
    return RewardMix(
        [
            RewardTerm(name="accuracy", verifier=judge or MathVerifier(mode="boxed_only")),
            RewardTerm(
                name="digits",
                verifier=RegexVerifier(pattern="[0-9]|x"),
                weight=linear(0.5, 0.0, until=0.5),
                gate="accuracy",
                when={"task": ["sums", "a|b"]},
                **options,
            ),
            RewardTerm(name="length", verifier=long_enough, weight=0.1),
        ]
    )


def trained(model: str, sums: Any, args: Any, mix: Any = None) -> VerifiedGRPOTrainer:
    rows = {
        split: sums[split].select(range(8)).map(lambda _: {"task": "sums"})
        for split in ("train", "test")
    }
    trainer = VerifiedGRPOTrainer(
        model, a_mix() if mix is None else mix, args, rows["train"], rows["test"]
    )
    trainer.train()
    return trainer


def card_of(args: Any) -> dict[str, Any]:
    return json.loads((Path(args.output_dir) / FILE).read_text())


@pytest.mark.slow
def test_a_run_has_a_card_and_the_model_card_a_section_that_is_replaced(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(save_strategy="steps", save_steps=1, eval_strategy="steps", eval_steps=1)
    trainer = trained(one_layer, sums, args)
    card = card_of(args)
    assert card["versions"].keys() >= {"trl_grpo_ext", "trl", "math-verify"}
    accuracy, digits, length = card["rewards"]
    assert (
        accuracy["verifier"].endswith(".MathVerifier")
        and accuracy["settings"]["mode"] == "boxed_only"
    )
    assert (digits["weight"], digits["weight_at_end"]) == (0.5, 0.0)
    assert digits["gate"]["term"] == "accuracy" and digits["when"] == {
        "task": ["sums", "a|b"]
    }
    assert length["verifier"].endswith("test_reward_card.long_enough")
    assert card["completions"] == {"from_step": 0, "judged": 16, "void": 0}
    assert (
        card["measured"]["by"] == "in the first and the last evaluation, at steps 1 and 2"
    )
    assert card["measured"]["after"].keys() == {"accuracy", "digits", "length"}

    readme = (Path(args.output_dir) / "README.md").read_text()
    assert (
        readme.count(BEGIN)
        == readme.count(END)
        == readme.count("### Framework versions")
        == 1
    )
    assert (
        readme.index(BEGIN)
        < readme.index("| accuracy | MathVerifier")
        < readme.index("### Framework versions")
    )
    assert readme.startswith("---\n")
    trainer.create_model_card(model_name="again")
    again = (Path(args.output_dir) / "README.md").read_text()
    assert again.count(BEGIN) == 1 and "| accuracy | MathVerifier" in again
    trainer.evaluate()  # after training, as a script may do
    assert (Path(args.output_dir) / "README.md").read_text().count(BEGIN) == 1
    (Path(args.output_dir) / FILE).unlink()
    trainer.run_callback.is_main = False  # as on every other rank
    trainer.create_model_card(model_name="again")
    assert not (Path(args.output_dir) / FILE).exists()


def test_without_logs_and_checks_nothing_is_said_of_another_runs(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(record_scorecards=False, run_checks=False)
    folder = Path(args.output_dir)
    append_finding(
        folder,
        Finding(
            code="bad_data", step=9, severity="warning", sentence="Old.", action="None."
        ),
    )
    (folder / "scorecards").mkdir()
    (folder / "scorecards" / "log.jsonl").write_text(
        '{"step": 1, "session": 0, "loss": 1, "rewards/length/mean": 7}\n'
    )
    trained(one_layer, sums, args, lambda completions, **_: [0.0] * len(completions))
    card = card_of(args)
    assert card["findings"] is None and card["measured"]["after"] == {}
    assert [reward["weight_at_end"] for reward in card["rewards"]] == [1.0]
    assert not (folder / "README.md").exists()  # TRL has written none


@pytest.mark.slow  # two trainings
def test_a_resumed_run_says_from_which_step_its_completions_are_counted(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(save_strategy="steps", save_steps=1)
    trained(one_layer, sums, args)
    rows = sums["train"].select(range(8)).map(lambda _: {"task": "sums"})
    VerifiedGRPOTrainer(one_layer, a_mix(), args, rows).train(
        resume_from_checkpoint=str(Path(args.output_dir) / "checkpoint-1")
    )
    assert card_of(args)["completions"] == {"from_step": 1, "judged": 8, "void": 0}


def test_a_run_resumed_with_other_settings_says_so_at_the_start_and_keeps_both_on_record(
    one_layer: str, sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    def weighed(weight: float) -> RewardMix:
        math = RewardTerm(name="math", verifier=MathVerifier())
        return RewardMix(
            [math, RewardTerm(name="digits", verifier=long_enough, weight=weight)]
        )

    args = config(save_strategy="steps", save_steps=1, max_steps=1)
    trained(one_layer, sums, args, weighed(0.25))
    again = config(save_strategy="steps", save_steps=1, max_steps=2, learning_rate=0.5)
    checkpoint = str(Path(args.output_dir) / "checkpoint-1")
    rows = sums["train"].select(range(8)).map(lambda _: {"task": "sums"})
    # A resume that fails, here on a checkpoint that is not there, changes no record.
    with pytest.raises((OSError, ValueError)):
        VerifiedGRPOTrainer(one_layer, weighed(0.9), again, rows).train(
            resume_from_checkpoint=f"{checkpoint}0"
        )
    assert RecordedRun(args.output_dir).settings["learning_rate"] == args.learning_rate
    VerifiedGRPOTrainer(one_layer, weighed(0.75), again, rows).train(
        resume_from_checkpoint=checkpoint
    )
    (warning,) = [
        record.message for record in caplog.records if "other settings" in record.message
    ]
    assert (
        "from step 1 on: learning_rate 0.0001 -> 0.5 (the checkpoint's holds), digits weight 0.25 -> 0.75"
        in warning
    )
    rates = [
        entry["learning_rate"]
        for entry in RecordedRun(args.output_dir).logs
        if "loss" in entry
    ]
    assert rates[-1] <= args.learning_rate
    changes = {"learning_rate": [args.learning_rate, 0.5], "digits weight": [0.25, 0.75]}
    assert RecordedRun(args.output_dir).settings["resumed"] == [
        {"step": 1, "changes": changes}
    ]
    assert RecordedRun(args.output_dir).settings["learning_rate"] == 0.5
    _, of_digits = card_of(args)["rewards"]
    assert (of_digits["weight"], of_digits["weight_at_end"]) == (0.25, 0.75)
    assert "The run was resumed with other settings from step 1 on" in section(
        card_of(args)
    )


@pytest.mark.slow
def test_a_run_resumed_with_the_same_settings_or_begun_again_says_nothing(
    one_layer: str, sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    args = config(save_strategy="steps", save_steps=1, max_steps=1)
    trained(one_layer, sums, args)
    checkpoint = str(Path(args.output_dir) / "checkpoint-1")
    rows = sums["train"].select(range(8)).map(lambda _: {"task": "sums"})
    longer = config(max_steps=2)
    VerifiedGRPOTrainer(one_layer, a_mix(), longer, rows).train(
        resume_from_checkpoint=checkpoint
    )
    VerifiedGRPOTrainer(one_layer, a_mix(), config(max_steps=1, beta=0.5), rows).train()
    assert "other settings" not in caplog.text
    assert "resumed" not in RecordedRun(args.output_dir).settings


RECIPE = """
model_name_or_path: bundled:tiny_reasoner
dataset_name: bundled:sums
evaluate_before_and_after: true
rewards:
  - {name: accuracy, verifier: math}
max_steps: 1
per_device_train_batch_size: 8
num_generations: 4
max_completion_length: 24
use_cpu: true
bf16: false
report_to: none
logging_steps: 1
write_report: false
per_device_eval_batch_size: 200
num_generations_eval: 1
output_dir: run
save_strategy: steps
save_steps: 1
"""


@pytest.mark.slow  # real runs
def test_a_recipes_card_has_its_summarys_intervals(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    run_here("train", "--config", "recipe.yaml", cwd=tmp_path)
    folder = tmp_path / "run"
    card, summary = (
        json.loads((folder / name).read_text()) for name in (FILE, "summary.json")
    )
    assert card["measured"]["by"] == "on the test split, before and after training"
    assert card["measured"]["before"]["accuracy"] == summary["terms"]["accuracy"]["before"]
    assert card["versions"] == summary["versions"]
    assert (
        str(Interval(**summary["accuracy"]["after"])) in (folder / "README.md").read_text()
    )


def test_no_secret_is_written(
    one_layer: str, sums: Any, config: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("SOME_NAME", "xyzzy")
    judge = LlmJudgeVerifier(
        model="judge",
        base_url="https://host:8000/v1",  # it refuses one with a user or a query
        api_key_env="SOME_NAME",
        rubric="It is polite.",
        extra_body={"headers": {"Authorization": "xyzzy"}},
    )
    described = described_verifier(AllOf(verifiers=[judge, Ours()]))
    (inner, own) = described["settings"]["verifiers"]
    assert (
        inner["settings"]["base_url"] == "https://host:8000/v1"
        and inner["settings"]["rubric"] == "It is polite."
    )
    assert own["settings"] == {}
    for secret in ("xyzzy", "SOME_NAME", "extra_body"):
        assert secret not in json.dumps(described)
    assert "xyzzy" not in json.dumps(described_verifier(judge))

    args = config(save_strategy="steps", save_steps=1)
    trained(one_layer, sums, args, a_mix(Ours()))
    folder = Path(args.output_dir)
    written = [
        path
        for path in folder.rglob("*")
        if path.suffix in {".json", ".jsonl", ".md"} and path.is_file()
    ]
    assert {folder / FILE, folder / "README.md", folder / "scorecards" / "run.json"} <= {
        *written
    }
    assert not [path for path in written if "xyzzy" in path.read_text()]
    assert card_of(args)["facts"] == {"accuracy": {"place": "https://host/v1"}}


def test_a_card_that_cannot_be_written_is_one_warning(
    one_layer: str, sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    args = config(save_strategy="steps", save_steps=1)
    (Path(args.output_dir) / FILE).mkdir(parents=True)  # so that no file can have the name
    with caplog.at_level(logging.WARNING):
        trainer = trained(one_layer, sums, args)
    assert trainer.state.global_step == 2
    assert (
        len([record for record in caplog.records if "RewardCard" in record.getMessage()])
        == 1
    )
    assert BEGIN not in (Path(args.output_dir) / "README.md").read_text()


def test_what_is_counted_is_of_the_latest_training(
    one_layer: str, sums: Any, config: Make
) -> None:
    args = config(max_steps=1)
    trained(one_layer, sums, args).train()
    assert card_of(args)["completions"] == {"from_step": 0, "judged": 8, "void": 0}


def a_card(**reward: Any) -> dict[str, Any]:
    """Make the part of a card that its section shows, with one reward."""
    return {
        "versions": {"trl_grpo_ext": "1", "trl": "2"},
        "rewards": [
            {"name": "a", "verifier": "m.C", "weight": 1, "weight_at_end": 1} | reward
        ],
        "measured": {"before": {}, "after": {}, "by": "in training"},
    }


def test_hostile_texts_say_nothing_in_markdown_or_html() -> None:
    hostile = (
        f"| x |\n# Title\n<script>alert(1)</script> [a](http://b) www.c.d ![i](e) {END} \x1b[31m `code` "
        + "y" * 999
    )
    card = a_card(name=hostile, settings={"pattern": hostile})
    text = with_section("# Card\n\n### Framework versions\n", section(card))
    assert (
        text.count(END) == 1
        and "\n# Title" not in text
        and "<script" not in text
        and "\x1b" not in text
    )
    shown = text.replace(BEGIN, "").replace(END, "").replace(f"`{FILE}`", "")
    assert not re.search(r"<|(?<!\\)[\[`]", shown)
    assert not re.search(r"http://|www\.", text)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}
    assert max(map(len, text.splitlines())) < 1_000


def test_before_and_after_are_of_the_best_that_there_is() -> None:
    logs: list[Mapping[str, Any]] = [
        {"step": step, "loss": 0.0, "rewards/accuracy/mean": step / 20}
        for step in range(1, 21)
    ]
    by_training = measured(["accuracy", "other"], logs, None)
    assert by_training["before"] == {"accuracy": {"mean": pytest.approx(0.125)}}
    assert by_training["after"] == {"accuracy": {"mean": pytest.approx(0.625)}}
    assert by_training["by"] == "in training, steps 1 to 4 and steps 5 to 20"
    evaluations = [
        {"step": step, "eval_reward": 1.0, "eval_rewards/accuracy/mean": 0.1}
        for step in (0, 20)
    ]
    assert measured(["accuracy"], [*logs, *evaluations], None)["by"].endswith(
        "at steps 0 and 20"
    )
    interval = {"mean": 0.5, "low": 0.4, "high": 0.6}
    summary = {"accuracy": {"before": None, "after": interval}}
    by_summary = measured(["accuracy"], [*logs, *evaluations], summary | {"terms": summary})
    assert by_summary["before"] == {} and by_summary["after"] == {"accuracy": interval}
    text = section(a_card(name="accuracy") | {"measured": by_summary})
    assert "Means are on the test split, before and after training." in text
    assert "| accuracy | C | 1, 1 |  | not measured | 0.500 [0.400, 0.600] |" in text
    assert escaped("a_b") == "a\\_b"


@pytest.mark.slow  # real runs
def test_a_report_of_two_runs_names_what_differs_in_their_verifiers_and_terms(
    one_layer: str, sums: Any, config: Make, tmp_path: Path
) -> None:
    mixes = {
        "a": a_mix(),
        "b": a_mix(MathVerifier(), only=None, on_unscored="zero"),
        "c": a_mix(long_enough),
    }
    for name, mix in mixes.items():
        trained(one_layer, sums, config(output_dir=str(tmp_path / name), max_steps=1), mix)
    first, second, third = (RecordedRun(tmp_path / name) for name in mixes)
    said = comparison([first, second], "ab")
    assert (
        "They differ in mode of accuracy (boxed_only, auto), on_unscored of digits (none, zero)."
        in said
    )
    assert "the verifier of accuracy (MathVerifier, long_enough)" in comparison(
        [first, third], "ac"
    )
    path = (
        tmp_path / "b" / "scorecards" / "run.json"
    )  # as an earlier version has written it
    path.write_text(
        json.dumps(
            {
                key: value
                for key, value in json.loads(path.read_text()).items()
                if key != "rewards"
            }
        )
    )
    assert comparison([first, second], "ab").endswith(
        "They differ in the verifier of accuracy."
    )
