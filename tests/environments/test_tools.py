"""Completions of several messages, with tool calls: verifiers, records and report receive all messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    VerifiedGRPOTrainer,
    Verifier,
    verifier,
)
from trl_grpo_ext.report.write import write_report
from trl_grpo_ext.runs.recorded_run import RecordedRun

Make = Callable[..., Any]

CALL = {"name": "add", "arguments": {"a": 40, "b": 2}}
BEFORE = [
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": CALL}],
    },
    {"role": "tool", "name": "add", "content": "forty-two"},
]


@verifier
def used_a_tool(sample: Sample) -> bool:
    return any(message["role"] == "tool" for message in sample.messages or ())


class ToolTrainer(VerifiedGRPOTrainer):
    """A trainer that puts a planted tool call before every second completion."""

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, *ids: Any
    ) -> Any:
        completions = [
            [*BEFORE, *said] if place % 2 else said
            for place, said in enumerate(completions)
        ]
        return super()._calculate_rewards(inputs, prompts, completions, *ids)


@pytest.fixture
def run(one_layer: str, sums: Any, config: Make) -> Path:
    reward: Verifier = used_a_tool
    args = config(max_steps=1, record_scorecards=True)
    trainer = ToolTrainer(
        one_layer,
        RewardMix([RewardTerm(name="tools", verifier=reward)]),
        args,
        sums["train"],
    )
    trainer.train()
    return Path(args.output_dir)


def test_verifiers_see_the_messages_of_a_completion_that_called_tools_and_the_record_has_them(
    run: Path,
) -> None:
    (card,) = RecordedRun(run).cards("train")
    assert [verdict.score for verdict in card.verdicts["tools"]] == [0.0, 1.0] * (
        len(card) // 2
    )
    for alone, called in zip(card.samples[::2], card.samples[1::2], strict=True):
        assert alone.messages is None
        assert called.messages == [*BEFORE, {"role": "assistant", "content": called.text}]
    page = write_report([run]).read_text(encoding="utf-8")
    assert "forty-two" in page
    assert "arguments" in page


def test_in_plain_trl_a_reward_gets_them_too() -> None:
    said = [{"role": "assistant", "content": "42"}]
    assert used_a_tool(prompts=["40+2?"] * 2, completions=[[*BEFORE, *said], said]) == [
        1.0,
        0.0,
    ]


def test_a_run_that_was_recorded_without_messages_is_read(run: Path) -> None:
    for part in (run / "scorecards").glob("samples-*.parquet"):
        table = pq.read_table(part)
        pq.write_table(table.drop_columns(["messages"]), part)
    (card,) = RecordedRun(run).cards("train")
    assert {sample.messages for sample in card.samples} == {None}
