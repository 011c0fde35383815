"""Prompts with pictures: a vision language model trains as under TRL, and no pixels reach the run's files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here
from isolated_verifiers import blue_in_worker
from peft import LoraConfig, get_peft_model
from PIL import Image
from read_page import data_of
from same_runs import Make, check_same
from tiny_vlm import picture, with_pictures
from transformers import AutoModelForImageTextToText, AutoProcessor

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    Scorecard,
    VerifiedGRPOTrainer,
    verifier,
)
from trl_grpo_ext.commands.eval.evaluated import prompt_figures
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.report.prompts import prompt_messages
from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.sample import prompt_key, without_pictures
from trl_grpo_ext.support.files import plain
from trl_grpo_ext.support.text import text_for_json

TOLD = re.compile(r"<image 28x28 [0-9a-f]{8}>")


@verifier
def red(sample: Sample) -> float:
    """Score the red share of the row's picture, in [0, 1]; anything but a picture raises."""
    found: Image.Image = sample.row["image"]
    return found.getpixel((0, 0))[0] / 255  # type: ignore[index,operator]


def asked(number: int) -> list[dict[str, Any]]:
    """Make a prompt in TRL's form, with text and picture."""
    blocks = [
        {"type": "image", "image": picture(number)},
        {"type": "text", "text": "What is it?"},
    ]
    return [{"role": "user", "content": blocks}]


def sample_of(number: int, group: int) -> Sample:
    return Sample(
        text="4",
        prompt=asked(number),
        row={"image": picture(number), "solution": "4"},
        group=group,
        step=0,
    )


def test_a_picture_is_told_alike_in_every_process_and_unlike_another() -> None:
    code = (
        "import PIL.Image as I; from trl_grpo_ext.support.text import text_for_json; "
        "print(text_for_json(I.new('RGB', (28, 28), 7)))"
    )
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert there == text_for_json(Image.new("RGB", (28, 28), 7))
    assert TOLD.fullmatch(there)
    assert there != text_for_json(Image.new("RGB", (28, 28), 8))


def test_pictures_of_the_same_points_in_other_colours_are_told_apart() -> None:
    one, other = (Image.new("P", (2, 2)) for _ in range(2))
    one.putpalette([255, 0, 0])
    other.putpalette([0, 0, 255])
    assert text_for_json(one) != text_for_json(other)


def test_a_picture_whose_file_is_cut_off_is_told_by_its_size(tmp_path: Path) -> None:
    Image.effect_noise((64, 64), 50).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:500])
    with Image.open(tmp_path / "cut.png") as cut:
        assert text_for_json(cut) == "<image 64x64 unreadable>"


def test_what_has_no_text_of_its_own_is_told_without_its_address() -> None:
    assert text_for_json(object()) == "<object object>"
    assert plain([bytearray(3)]) == [text_for_json(bytes(3))]
    assert len(text_for_json(b"\x89PNG" * 100_000)) < 40


def test_prompts_with_one_text_are_told_apart_by_their_pictures() -> None:
    mix = RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())])
    card = mix.score([sample_of(number, group) for group, number in enumerate((1, 2, 1))])
    for one in (card, card.without_pictures()):
        assert len(reduce_card(one, {}).prompts) == 2
        first, second, third = (figures.key for figures in prompt_figures(one, [1]))
        assert first == third != second
    assert prompt_key(asked(1)) == prompt_key(without_pictures(sample_of(1, 0)).prompt)


def test_a_sample_without_pictures_stays_the_same_object() -> None:
    sample = Sample(
        text="4",
        prompt=[{"role": "user", "content": "2+2?"}],
        row={"tests": ["a", ("b", 1)]},
    )
    assert without_pictures(sample) is sample
    card = RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())]).score([sample])
    assert card.without_pictures() is card


def test_a_page_shows_a_prompts_pictures_and_texts_in_order() -> None:
    prompt = without_pictures(sample_of(1, 0)).prompt
    assert prompt_messages(prompt) == [["user", f"{text_for_json(picture(1))}What is it?"]]
    blocks = [
        {"type": "image", "image": "<image>", "text": None},
        {"type": "text", "text": "What?", "image": None},
    ]
    assert prompt_messages([{"role": "user", "content": blocks}]) == [
        ["user", "<image>What?"]
    ]


@pytest.fixture(scope="session")
def pictured(sums: Any) -> dict[str, Any]:
    """Load sums with one picture per row."""
    return {split: with_pictures(rows.select(range(16))) for split, rows in sums.items()}


def mix() -> RewardMix:
    """Make a mix of accuracy and the picture's red and blue shares; blue also depends on the text."""
    return RewardMix(
        [
            RewardTerm(name="accuracy", verifier=MathVerifier()),
            RewardTerm(name="blue", verifier=blue_in_worker, weight=0.5),
            RewardTerm(name="red", verifier=red, weight=0.25),
        ]
    )


def trained(vlm: str, pictured: dict[str, Any], args: Any) -> list[Scorecard]:
    """Train with pictures, and return the scorecards received by a listener."""
    cards: list[Scorecard] = []
    data = {
        "train_dataset": pictured["train"],
        "eval_dataset": pictured["test"].select(range(4)),
    }
    trainer = VerifiedGRPOTrainer(vlm, mix(), args, **data)
    trainer.add_scorecard_listener(cards.append)
    trainer.train()
    return cards


@pytest.mark.slow
def test_verifiers_see_pictures_and_files_hold_only_what_tells_them_apart(
    vlm: str, pictured: dict[str, Any], config: Make, tmp_path: Path
) -> None:
    cards = trained(vlm, pictured, config())
    recorded = list(RecordedRun(tmp_path / "run").cards())
    assert len(cards) == len(recorded) == 2
    for card, read in zip(cards, recorded, strict=True):
        assert [sample.row for sample in card.samples] == [
            dict(sample.row) for sample in read.samples
        ]
        assert [sample.prompt for sample in card.samples] == [
            sample.prompt for sample in read.samples
        ]
        assert all(
            verdict is not None and verdict.score is not None
            for verdict in card.verdicts["red"]
        )
        assert any(
            verdict is not None and verdict.score for verdict in card.verdicts["blue"]
        )
        firsts = [card.samples[rows[0]] for rows in card.members]
        assert len(reduce_card(card, {}).prompts) == len(firsts) == 2
        for sample in card.samples:
            assert TOLD.fullmatch(sample.row["image"])
            assert sample.prompt[0]["content"][0] == {
                "type": "image",
                "image": sample.row["image"],
            }  # type: ignore


def test_data_with_pictures_is_checked_and_its_rows_are_shown(
    pictured: dict[str, Any], tmp_path: Path
) -> None:
    pictured["train"].to_parquet(tmp_path / "train.parquet")
    rewards = "rewards: [{name: accuracy, verifier: math}, {name: blue, verifier: isolated_verifiers.blue_in_worker}]"
    (tmp_path / "recipe.yaml").write_text(
        f"model_name_or_path: there\ndataset_name: train.parquet\n{rewards}\n"
    )
    said = run_here("check-data", "--config", "recipe.yaml", cwd=tmp_path).stdout
    assert said.count("\n  image: <image 28x28 ") == 3
    assert "train: 16 rows, all fine" in said


@pytest.mark.slow
def test_an_adapter_of_a_vision_language_model_is_evaluated(
    vlm: str, pictured: Any, tmp_path: Path
) -> None:
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        target_modules="all-linear",
        lora_alpha=99,
        init_lora_weights=False,
    )
    adapted = get_peft_model(AutoModelForImageTextToText.from_pretrained(vlm), lora)
    adapted.save_pretrained(tmp_path / "adapter")
    AutoProcessor.from_pretrained(vlm).save_pretrained(tmp_path / "adapter")
    pictured["test"].select(range(4)).to_parquet(tmp_path / "test.parquet")
    flags = [
        "--dataset_name",
        "test.parquet",
        "--per_device_eval_batch_size",
        "8",
        "--write_report",
        "false",
        "--json",
    ]
    models = ["--model", vlm, "adapter", "--temperature", "0"]
    said = run_here("eval", "--config", "quickstart", *models, *flags, cwd=tmp_path).stdout
    plain, adapter = json.loads(said)["models"]
    assert plain["completions"] == adapter["completions"] == 4
    assert plain["tokens"] != adapter["tokens"]  # the adapter is in use


@pytest.mark.slow
def test_a_run_with_pictures_is_evaluated_reported_replayed_and_diagnosed(
    vlm: str, pictured: dict[str, Any], config: Make, tmp_path: Path
) -> None:
    settings = {
        "max_steps": 3,
        "eval_strategy": "steps",
        "eval_steps": 1,
        "save_strategy": "steps",
        "save_steps": 3,
    }
    kept = {"drop_dead_groups": True, "judge_early": True, "write_report": True}
    trained(vlm, pictured, config(**settings, **kept))
    run = tmp_path / "run"
    evaluated: dict[int | None, set[str]] = {}
    for card in RecordedRun(run).cards("eval"):
        evaluated.setdefault(card.step, set()).update(
            figures.key for figures in prompt_figures(card, [1])
        )
    first, *others = evaluated.values()
    assert len(first) == 4
    assert others == [first] * 2  # so evaluations can be compared by prompt
    (tmp_path / "mix.yaml").write_text("rewards: [{name: accuracy, verifier: math}]\n")
    said = [
        run_here(*command, cwd=tmp_path).stdout
        for command in (
            ("report", "run"),
            ("replay", "run", "--config", "mix.yaml"),
            ("diagnose", "run", "--json"),
        )
    ]
    assert all(
        "PIL." not in text
        for text in [*said, *(file.read_text() for file in run.glob("*.*[nlm]"))]
    )
    assert all(part.stat().st_size < 30_000 for part in run.glob("scorecards/*.parquet"))
    (shown,) = data_of(run / "report.html")["runs"]
    assert len(shown["prompt_texts"]) == 3 * 2 + 4
    assert all(TOLD.match(text) for ((_, text),) in shown["prompt_texts"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"judge_early": True},
        {"beta": 0.04, "num_iterations": 2, "max_steps": 4},
        {"eval_strategy": "steps"},
    ],
    ids=str,
)
def test_with_pictures_too_losses_rewards_and_weights_are_those_of_trls_trainer(
    vlm: str, pictured: Any, config: Make, tmp_path: Path, setting: dict[str, Any]
) -> None:
    shared = {
        "learning_rate": 1e-3,
        "seed": 7,
        "max_completion_length": 32,
        "eval_steps": 1,
    }
    check_same(vlm, pictured, config, tmp_path, setting | shared)


@pytest.mark.slow
def test_learnable_rows_keep_each_prompt_with_its_own_picture(
    vlm: str, pictured: dict[str, Any], config: Make
) -> None:
    found: list[bool] = []

    @verifier
    def belongs(sample: Sample) -> bool:
        blocks = [block for message in sample.prompt or () for block in message["content"]]  # type: ignore[index]
        (shown,) = [block["image"] for block in blocks if block["type"] == "image"]
        found.append(shown.tobytes() == sample.row["image"].tobytes())
        return len(sample.text) % 2 == 0

    rows = pictured["train"].add_column("number", list(range(16)))
    args = config(learnable_rows=True, rows_by="number", max_steps=3)
    trainer = VerifiedGRPOTrainer(
        vlm, RewardMix([RewardTerm(name="belongs", verifier=belongs)]), args, rows
    )
    cards: list[Scorecard] = []
    trainer.add_scorecard_listener(cards.append)
    trainer.train()
    assert found == [True] * 24
    for card in cards:
        for members in card.members:
            assert len({card.samples[row].row["number"] for row in members}) == 1
