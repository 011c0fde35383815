"""What a run with environments needs: an environment that scores itself, and a template that renders tool calls."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any

import pytest
from trl.trainer import grpo_trainer

from trl_grpo_ext import VerifiedGRPOTrainer

scored_by_environments = pytest.mark.skipif(
    "get_reward" not in inspect.getsource(grpo_trainer), reason="the environments of this TRL do not score"
)


class Counting:
    """An environment that scores itself: 0, 1, 0, 1, ... by the order in which the environments were made."""

    made = 0

    def __init__(self) -> None:
        self.score = float(Counting.made % 2)
        Counting.made += 1

    def reset(self, **_: Any) -> None:
        return None

    def get_reward(self) -> float:
        return self.score


def tool_tokenizer(model: str) -> Any:
    """The bundled tokenizer, with a template that can render tool calls, as TRL asks of models with environments."""
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
    """A turn in which the model calls a tool."""
    return f"<call>{json.dumps({'name': name, 'arguments': arguments})}</call>"


class Scripted(VerifiedGRPOTrainer):
    """TRL's tool loop with a model that says what stands in `says`, a turn each, and its last turn again."""

    says: Sequence[str] = (call("add", a=40, b=2), "42")

    def _generate(self, prompts: Any) -> Any:
        self._turn = 0
        return super()._generate(prompts)

    def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
        text = self.says[min(self._turn, len(self.says) - 1)]
        self._turn += 1
        tokenizer = self.processing_class
        ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        return [list(ids) for _ in prompt_ids], None
