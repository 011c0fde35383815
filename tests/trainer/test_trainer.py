"""The trainer, on real runs of the bundled model: voiding, every kind of reward, scorecards, configuration errors."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from planted import Column, Positions, collected, samples_of
from trl import GRPOConfig, GRPOTrainer

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    Scorecard,
    Status,
    VerifiedGRPOTrainer,
    verifier,
)
from trl_grpo_ext.mix.reward_plan import plan_rewards
from trl_grpo_ext.rewards import (
    MathVerifier,
    ThinkFormatVerifier,
    math_reward,
    think_format_reward,
)
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.trainer import trl_contract
from trl_grpo_ext.trainer.judge import Judge
from trl_grpo_ext.trainer.plain_functions import wrapped_functions

Make = Callable[..., Any]


def alone(rewards: list[float]) -> list[float]:
    """Compute the advantages of one group by TRL's default formula."""
    values = torch.tensor(rewards)
    return ((values - values.mean()) / (values.std() + 1e-4)).tolist()


CODE = [1.0, None, 0.0, 1.0]
FORMAT = [0.5, 1.0, 0.5, 0.0]
KEPT = [0, 2, 3]
EXPECTED = alone([CODE[i] + 0.2 * FORMAT[i] for i in KEPT])  # type: ignore[operator]


def planted_mix() -> RewardMix:
    return RewardMix(
        [
            RewardTerm(name="code", verifier=Positions(*CODE), weight=1.0),
            RewardTerm(name="format", verifier=Positions(*FORMAT), weight=0.2),
        ]
    )


def check_void_row(advantages: list[float]) -> None:
    for start in range(0, len(advantages), 4):
        group = advantages[start : start + 4]
        assert group[1] == 0.0
        assert [group[i] for i in KEPT] == pytest.approx(EXPECTED, abs=1e-5)


def test_an_unscored_row_has_advantage_0_and_its_siblings_those_they_would_have_without_it(
    tiny_model: str, sums: Any, config: Make
) -> None:
    trainer = VerifiedGRPOTrainer(tiny_model, planted_mix(), config(), sums["train"])
    cards = collected(trainer)
    trainer.train()
    assert len(cards) == 2
    for card in cards:
        assert card.advantages is not None
        check_void_row(list(card.advantages))
    assert trainer.state.log_history[0]["verified/void"] == 0.25


def test_so_it_is_in_plain_trl_by_the_mixes_reward_functions(
    tiny_model: str, sums: Any, config: Make
) -> None:
    mix = planted_mix()
    args = GRPOConfig(**plain_settings(config()), reward_weights=mix.weights)
    with pytest.raises(
        AttributeError,
        match=r"reward_funcs=mix\.reward_funcs\(\), and in their config reward_weights",
    ):
        GRPOTrainer(
            tiny_model,
            mix,
            GRPOConfig(output_dir=args.output_dir, use_cpu=True, bf16=False),
            sums["train"],
        )
    trainer = GRPOTrainer(tiny_model, mix.reward_funcs(), args, sums["train"])
    trainer.train()
    check_void_row(list(trainer._logs["advantages"]))
    assert list(trainer._logs["extra"]["code/reason"]) == ["", "planted", "", ""] * 2


def plain_settings(args: Any) -> dict[str, Any]:
    """Pick the `config` fixture's settings for TRL's own configuration."""
    names = [
        "output_dir",
        "per_device_train_batch_size",
        "num_generations",
        "max_completion_length",
        "max_steps",
    ]
    names += [
        "use_cpu",
        "bf16",
        "report_to",
        "save_strategy",
        "logging_steps",
        "disable_tqdm",
    ]
    return {name: getattr(args, name) for name in names}


def test_void_rows_are_warned_of_once_and_not_as_a_mistake(
    tiny_model: str,
    sums: Any,
    config: Make,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trl_contract._VOID_ROWS, "has_said", False)
    VerifiedGRPOTrainer(tiny_model, planted_mix(), config(), sums["train"]).train()
    warned = [
        record.getMessage()
        for record in caplog.records
        if record.name == trl_contract.TRAINER
    ]
    assert warned == [trl_contract.VOID_ROWS]


def test_rows_for_which_plain_functions_have_no_reward_are_warned_of_by_trl_itself(
    tiny_model: str, sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    def nothing(completions: list[Any], **_: Any) -> list[None]:
        return [None] * len(completions)

    for rewards in (
        planted_mix(),
        nothing,
    ):  # a run with verifiers, in the same process, changes nothing
        VerifiedGRPOTrainer(tiny_model, rewards, config(max_steps=1), sums["train"]).train()
    assert "All reward functions returned None for the following kwargs" in caplog.text


def test_a_verifiers_none_voids_the_row_for_plain_functions_too_and_theirs_does_not(
    tiny_model: str, sums: Any, config: Make
) -> None:
    def sometimes(completions: list[Any], **_: Any) -> list[float | None]:
        return [0.5, 1.0, None, 0.0] * (len(completions) // 4)

    rewards = [Positions(*CODE), sometimes]
    trainer = VerifiedGRPOTrainer(
        tiny_model, rewards, config(reward_weights=[1.0, 0.2]), sums["train"]
    )
    trainer.train()
    expected = alone(
        [1.0 + 0.2 * 0.5, 0.0, 1.0]
    )  # row 1 is void, row 2 has the verifier's 0 alone
    group = list(trainer._logs["advantages"])[:4]
    assert group[1] == 0.0
    assert [group[i] for i in KEPT] == pytest.approx(expected, abs=1e-5)


def test_the_same_rewards_work_unchanged_in_plain_trl(
    tiny_model: str, sums: Any, config: Make
) -> None:
    args = GRPOConfig(**plain_settings(config()))
    trainer = GRPOTrainer(
        tiny_model, [math_reward, think_format_reward], args, sums["train"]
    )
    trainer.train()
    assert 0.0 <= trainer.state.log_history[0]["rewards/math_reward/mean"] <= 1.0
    assert set(trainer._logs["extra"]["math_reward/status"]) <= {
        str(status) for status in Status
    }


def test_it_takes_whatever_trl_takes(
    tiny_model: str, sums: Any, config: Make, tmp_path: Path
) -> None:
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    settings = AutoConfig.from_pretrained(tiny_model, num_labels=1)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    AutoModelForSequenceClassification.from_config(settings).save_pretrained(
        tmp_path / "reward_model"
    )
    tokenizer.save_pretrained(tmp_path / "reward_model")

    def length(completions: list[Any], **_: Any) -> list[float]:
        return [-len(completion[0]["content"]) / 100 for completion in completions]

    async def slow(completions: list[Any], **_: Any) -> list[float]:
        return [0.0] * len(completions)

    rewards = [
        math_reward,
        length,
        slow,
        str(tmp_path / "reward_model"),
        think_format_reward,
    ]
    weights = [1.0, 0.1, 0.5, 0.1, 0.2]
    trainer = VerifiedGRPOTrainer(
        tiny_model, rewards, config(reward_weights=weights, max_steps=1), sums["train"]
    )
    cards = collected(trainer)
    trainer.train()
    assert trainer.reward_func_names == [
        "math_reward",
        "length",
        "slow",
        "reward_model",
        "think_format_reward",
    ]
    assert trainer.reward_weights.tolist() == pytest.approx(weights)
    # The first is the primary term, so functions stand where the user has put them.
    assert cards[0].terms == tuple(trainer.reward_func_names)
    assert (
        len(rewards) == 5
    )  # TRL appends to the list it is given; the user's is left alone


def test_a_sample_knows_its_group_step_row_and_whether_it_was_cut(
    tiny_model: str, sums: Any, config: Make
) -> None:
    trainer = VerifiedGRPOTrainer(
        tiny_model, math_reward, config(max_completion_length=4), sums["train"]
    )
    cards = collected(trainer)
    trainer.train()
    samples = [sample for card in cards for sample in card.samples]
    assert [sample.group for sample in samples] == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert [sample.step for sample in samples] == [0] * 8 + [1] * 8
    assert {sample.prefill for sample in samples} == {
        ""
    }  # the bundled template opens no think block
    known = list(sums["train"]["prompt"])
    end = trainer.processing_class.eos_token_id
    for sample in samples:
        assert sample.completion_ids is not None
        assert sample.truncated == (sample.completion_ids[-1] != end)
        assert set(sample.row) == {"solution"}
        assert sample.prompt in known
    assert any(sample.truncated for sample in samples)


def test_a_chat_template_that_prefills_the_think_tag_is_seen(
    tiny_model: str, sums: Any, config: Make
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template += "{% if add_generation_prompt %}<think>{% endif %}"
    seen: list[str | None] = []

    @verifier
    def prefill(sample: Sample) -> float:
        seen.append(sample.prefill)
        return float(len(seen) % 2)

    args = config(max_steps=1)
    VerifiedGRPOTrainer(
        tiny_model, prefill, args, sums["train"], processing_class=tokenizer
    ).train()
    assert set(seen) == {"<think>"}


@pytest.mark.parametrize("lacking", [None, [], ""])
def test_a_prompt_that_is_missing_in_any_row_is_named_at_start_up(
    tiny_model: str, config: Make, lacking: Any
) -> None:
    whole: Any = [{"role": "user", "content": "2+2?"}] if lacking == [] else "2+2?"
    data = Dataset.from_dict(
        {"prompt": [whole, whole, lacking, whole], "solution": ["4"] * 4}
    )
    with pytest.raises(
        ValueError, match=r"Row 2 of train_dataset \(counted from 0\) has no prompt"
    ):
        VerifiedGRPOTrainer(tiny_model, math_reward, config(), data)
    VerifiedGRPOTrainer(
        tiny_model, math_reward, config(max_steps=1), data.select([0, 1, 3])
    ).train()


def test_an_assistants_message_at_the_end_of_a_prompt_is_no_prefill(
    tiny_model: str, sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    def begun(row: dict[str, Any]) -> dict[str, Any]:
        return {"prompt": [*row["prompt"], {"role": "assistant", "content": "<think>"}]}

    trainer = VerifiedGRPOTrainer(
        tiny_model, math_reward, config(max_steps=1), sums["train"].map(begun)
    )
    assert "ends with a message of the assistant" in caplog.text
    cards = collected(trainer)
    trainer.train()
    assert {sample.prefill for sample in cards[0].samples} == {""}
    # The tokens that the model reads: TRL's template closes the assistant message.
    read = trainer.processing_class.batch_decode(
        trainer._tokenize_prompts([cards[0].samples[0].prompt])[0]
    )
    assert read[0].endswith("<think><|end|><|assistant|>")


def test_scorecards_are_on_disk_with_advantages_for_training_and_evaluation(
    tiny_model: str, sums: Any, config: Make
) -> None:
    mix = RewardMix(
        [
            RewardTerm(name="accuracy", verifier=MathVerifier()),
            RewardTerm(name="thinks", verifier=ThinkFormatVerifier(), weight=0.1),
        ]
    )
    args = config(num_generations_eval=2)
    trainer = VerifiedGRPOTrainer(
        tiny_model, mix, args, sums["train"], sums["test"].select(range(8))
    )
    trainer.evaluate()
    trainer.train()
    folder = Path(args.output_dir) / "scorecards"
    samples = [
        row
        for part in sorted(folder.glob("samples-*.parquet"))
        for row in pq.read_table(part).to_pylist()
    ]
    verdicts = [
        row
        for part in sorted(folder.glob("verdicts-*.parquet"))
        for row in pq.read_table(part).to_pylist()
    ]
    assert [row["mode"] for row in samples] == ["eval"] * 16 + ["train"] * 16
    assert len(verdicts) == 2 * len(samples)
    assert all(row["advantage"] is not None and not row["void"] for row in samples)
    assert json.loads(samples[0]["row"]).keys() == {"solution"}
    assert json.loads(samples[0]["prompt"])[0]["role"] == "user"
    by_sample = {
        (row["mode"], row["step"], row["group"], row["sample"]): row for row in samples
    }
    totals = dict.fromkeys(by_sample, 0.0)
    for row in verdicts:
        totals[row["mode"], row["step"], row["group"], row["sample"]] += (
            row["value"] * row["weight"]
        )
    assert totals == pytest.approx({key: row["total"] for key, row in by_sample.items()})
    assert not list(folder.glob("*.unfinished"))


def test_recording_may_be_off(tiny_model: str, sums: Any, config: Make) -> None:
    args = config(record_scorecards=False, max_steps=1)
    VerifiedGRPOTrainer(tiny_model, math_reward, args, sums["train"]).train()
    assert not (Path(args.output_dir) / "scorecards").exists()


def test_a_few_steps_with_lora_and_kl(tiny_model: str, sums: Any, config: Make) -> None:
    from peft import LoraConfig

    trainer = VerifiedGRPOTrainer(
        tiny_model,
        [math_reward, think_format_reward],
        config(beta=0.04, max_steps=3),
        sums["train"],
        peft_config=LoraConfig(r=4, target_modules="all-linear"),
    )
    trainer.train()
    assert trainer.state.global_step == 3
    assert all("kl" in entry for entry in trainer.state.log_history[:3])
    assert (
        RecordedRun(trainer.args.output_dir).settings["lora_alpha"]
        == LoraConfig().lora_alpha
    )


# Loading this model would raise another error, so the tested error comes earlier.
NO_MODEL = "/no/such/model"


def without(dataset: Dataset, column: str) -> Dataset:
    return dataset.remove_columns(column)


def test_bad_input_is_refused_before_the_model_is_loaded(
    sums: Any, config: Make, tmp_path: Path
) -> None:
    train = sums["train"]
    file = tmp_path / "file"
    file.write_text("")
    bad: list[tuple[str, Any, Any, Any]] = [
        ("no `prompt` column", math_reward, {}, without(train, "prompt")),
        (
            "needs the dataset column `solution` or `answer`",
            math_reward,
            {},
            without(train, "solution"),
        ),
        ("train_dataset is empty", math_reward, {}, train.select([])),
        ("have the name 'math_reward'", [math_reward, math_reward], {}, train),
        ("Every reward has weight 0", math_reward, {"reward_weights": [0.0]}, train),
        ("2 weights for 1", math_reward, {"reward_weights": [1.0, 1.0]}, train),
        ("brings its own weights", planted_mix(), {"reward_weights": [1.0, 1.0]}, train),
        ("two RewardMixes", [planted_mix(), planted_mix()], {}, train),
        ("remove_unused_columns", math_reward, {"remove_unused_columns": True}, train),
        ("finite numbers", math_reward, {"reward_weights": [float("nan")]}, train),
        ("`train_dataset` is required", math_reward, {}, None),
        ("from_list", math_reward, {}, [{"prompt": "2+2?", "solution": "4"}]),
        (
            "has a column `completions`",
            math_reward,
            {},
            train.select([0]).add_column("completions", ["x"]),
        ),
        (
            "texts or lists of messages",
            math_reward,
            {},
            Dataset.from_list([{"prompt": 5, "solution": "4"}]),
        ),
    ]
    for message, rewards, changes, dataset in bad:
        with pytest.raises(ValueError, match=message):
            VerifiedGRPOTrainer(NO_MODEL, rewards, config(**changes), dataset)
    with pytest.raises(TypeError, match=r"write MathVerifier\(\)"):
        VerifiedGRPOTrainer(NO_MODEL, MathVerifier, config(), train)
    with pytest.raises(TypeError, match="pass the verifier itself"):
        VerifiedGRPOTrainer(NO_MODEL, "math_reward", config(), train)
    with pytest.raises(OSError, match="takes for the name of a reward model"):
        VerifiedGRPOTrainer(NO_MODEL, [math_reward, "no/such-model"], config(), train)
    with pytest.raises(ValueError, match="must hold whole groups"):
        VerifiedGRPOTrainer(
            NO_MODEL, math_reward, config(per_device_eval_batch_size=6), train, sums["test"]
        )
    with pytest.raises(OSError, match="cannot be written to"):
        VerifiedGRPOTrainer(
            NO_MODEL, math_reward, config(output_dir=str(file / "run")), train
        )


def test_the_evaluation_data_is_checked_too(sums: Any, config: Make) -> None:
    with pytest.raises(ValueError, match=r"eval_dataset\['hard'\].*`solution`"):
        VerifiedGRPOTrainer(
            NO_MODEL,
            math_reward,
            config(),
            sums["train"],
            {"hard": without(sums["test"], "solution")},
        )


def test_plain_trl_trains_a_none_beside_a_number_as_a_wrong_answer(
    tiny_model: str, sums: Any, config: Make
) -> None:
    # The reason for void rows. If TRL changes this behaviour, change the README's second paragraph.
    args = GRPOConfig(**plain_settings(config()))
    trainer = GRPOTrainer(
        tiny_model, [Positions(1.0, None, 1.0, 1.0), Positions(0.1)], args, sums["train"]
    )
    trainer.train()
    assert list(trainer._logs["advantages"])[:4] == pytest.approx(
        [0.5, -1.5, 0.5, 0.5], abs=1e-2
    )


def test_a_shadow_beside_a_plain_function_voids_nothing(
    tiny_model: str, sums: Any, config: Make
) -> None:
    def alternating(completions: list[Any], **_: Any) -> list[float]:
        return [float(index % 2) for index in range(len(completions))]

    args = config(reward_weights=[1.0, 0.0], max_steps=1)
    trainer = VerifiedGRPOTrainer(
        tiny_model, [alternating, math_reward], args, sums["train"]
    )
    cards = collected(trainer)
    trainer.train()
    assert not any(cards[0].void)
    assert trainer.state.log_history[0]["verified/void"] == 0.0
    assert trainer.state.log_history[0]["rewards/math_reward/mean"] is not None


@pytest.mark.parametrize(("capability", "told"), [("AVX2", 1), ("AVX512", 0)])
def test_bf16_on_a_cpu_that_has_to_emulate_it_is_told_with_the_flag(
    tiny_model: str,
    sums: Any,
    config: Make,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: Any,
    capability: str,
    told: int,
) -> None:
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    monkeypatch.setenv(
        "ACCELERATE_MIXED_PRECISION", "no"
    )  # transformers 4 sets it, for all trainings to come
    VerifiedGRPOTrainer(tiny_model, math_reward, config(bf16=True), sums["train"])
    assert caplog.text.count("set bf16: false (--bf16 false)") == told


def test_rewards_without_weight_keep_no_row_from_being_void() -> None:
    def plain(completions: list[Any], **_: Any) -> list[float]:
        return [0.5] * len(completions)

    mix = RewardMix(
        [RewardTerm(name="math", verifier=Column("math"), when={"task": "math"})]
    )
    card = mix.score(samples_of(task=["math", "code"], math=[1.0, 1.0]), alone=False)
    for weight, void in ((0.1, [False, False]), (0.0, [False, True])):
        judge = Judge(
            plan_rewards([mix, plain]),
            SimpleNamespace(num_processes=1, process_index=0),
            torch.tensor([1.0, weight]),
        )
        beside = torch.tensor([[1.0, 0.5], [torch.nan, 0.5]])
        settled = judge.settle(card, beside)
        assert list(settled.void) == beside.isnan().all(dim=1).tolist() == void


def test_a_log_that_cannot_be_written_and_a_listener_that_fails_do_not_end_the_run(
    tiny_model: str, sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = VerifiedGRPOTrainer(tiny_model, math_reward, config(), sums["train"])

    def fails(card: Scorecard) -> None:
        raise OSError("planted")

    trainer.add_scorecard_listener(fails)
    (Path(trainer.args.output_dir) / "scorecards" / "log.jsonl").mkdir(parents=True)
    trainer.train()
    assert trainer.state.global_step == 2
    failed = [
        record.message
        for record in caplog.records
        if "failed; the run goes on" in record.message
    ]
    assert sorted(message.partition(" ")[0].strip("<") for message in failed) == [
        "LogRecorder",
        "RewardCard",
        "function",
    ]


def test_a_run_of_plain_functions_alone_is_recorded_and_can_be_halted(
    tiny_model: str, sums: Any, config: Make
) -> None:
    def unfinished(completions: list[Any], **_: Any) -> list[float]:
        return [math.nan] * 3 + [1.0] * (len(completions) - 3)

    args = config(halt_on=["grader_trouble"], max_steps=10)
    trainer = VerifiedGRPOTrainer(tiny_model, unfinished, args, sums["train"])
    trainer.train()
    assert trainer.state.global_step < 10
    [card, *_] = RecordedRun(args.output_dir).cards("train")
    assert card.void[:4] == (True, True, True, False)
    failed, scored = card.verdicts["unfinished"][2:4]
    assert failed is not None
    assert scored is not None
    assert failed.status is Status.ERROR
    assert (scored.status, scored.score) == (Status.SCORED, 1.0)
    assert {sample.row["solution"] for sample in card.samples} <= set(
        sums["train"]["solution"]
    )


def test_a_plain_function_that_returns_texts_is_named_with_the_completion_and_what_to_return() -> (
    None
):
    def as_texts(completions: list[str], **_: Any) -> list[Any]:
        return [1.0, *("0.5" for _ in completions[1:])]

    (wrapped,) = wrapped_functions([as_texts], {})
    with pytest.raises(
        ValueError, match=r"'as_texts' returned '0.5', a str, for completion 1 .* numbers"
    ):
        wrapped(["a", "b"])


def test_the_time_of_a_plain_function_is_shared_by_its_verdicts(
    tiny_model: str, sums: Any, config: Make
) -> None:
    def sleepy(completions: list[Any], **_: Any) -> list[float]:
        time.sleep(0.2)
        return [0.0] * len(completions)

    for rewards in (
        [math_reward, sleepy],
        RewardMix([RewardTerm(name="sleepy", verifier=sleepy)]),
    ):
        trainer = VerifiedGRPOTrainer(
            tiny_model, rewards, config(max_steps=1), sums["train"]
        )
        cards = collected(trainer)
        trainer.train()
        verdicts = [
            verdict for verdict in cards[0].verdicts["sleepy"] if verdict is not None
        ]
        assert sum(verdict.seconds for verdict in verdicts) >= 0.2
        assert trainer.state.log_history[0]["verified/grader/share_of_step"] > 0
