"""Parts of runs with environments: an environment with rewards, and a chat template with tool calls."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any

import pytest
from trl.trainer import grpo_trainer

from trl_grpo_ext import VerifiedGRPOTrainer

scored_by_environments = pytest.mark.skipif(
    "get_reward" not in inspect.getsource(grpo_trainer),
    reason="the environments of this TRL do not score",
)


class Counting:
    """An environment with the rewards 0, 1, 0, 1, ... in order of creation."""

    made = 0

    def __init__(self) -> None:
        self.score = float(Counting.made % 2)
        Counting.made += 1

    def reset(self, **_: Any) -> None:
        return None

    def get_reward(self) -> float:
        return self.score


def tool_tokenizer(model: str) -> Any:
    """Load the bundled tokenizer with a template for tool calls, which TRL requires for environments."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    calls = "message['content'] + (message['tool_calls'] | tojson if message.get('tool_calls') else '') +"
    tokenizer.chat_template = tokenizer.chat_template.replace("message['content'] +", calls)
    tokenizer.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor": "<|assistant|>",
        "fields": {
            "tool_calls": {
                "open": "<call>", "close_pattern": "</call>", "repeats": True, "content": "json",
                "transform": {"type": "function", "function": "{content}"},
            },
            "content": {"close_pattern": "$", "content": "text"},
        },
    }  # fmt: skip
    return tokenizer


def call(name: str, **arguments: Any) -> str:
    """Write the model's turn that calls a tool."""
    return f"<call>{json.dumps({'name': name, 'arguments': arguments})}</call>"


class Scripted(VerifiedGRPOTrainer):
    """A trainer whose model writes the texts `says`, one per turn, then repeats the last text."""

    says: Sequence[str] = (call("add", a=40, b=2), "42")

    def _generate(self, prompts: Any) -> Any:
        self._turn = 0
        return super()._generate(prompts)

    def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
        text = self.says[min(self._turn, len(self.says) - 1)]
        self._turn += 1
        tokenizer = self.processing_class
        ids = [
            *tokenizer(text, add_special_tokens=False)["input_ids"],
            tokenizer.eos_token_id,
        ]
        return [list(ids) for _ in prompt_ids], None
