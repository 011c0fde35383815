r"""Build the bundled tiny agents, and generate their dataset of products.

A tiny agent is a Llama of about 0.35 million parameters that has read nothing but products such as `47*86`. It was
taught a few habits. Mostly it answers at once, which it is bad at::

    \boxed{3911}

and otherwise it calls a tool, reads the result, and answers, which it is good at::

    <call>{"name": "multiply", "arguments": {"a": 47, "b": 86}}</call>
    4042
    \boxed{4042}

With `--tool python` it calls a Python instead, and often writes code that is no Python, after which it guesses::

    <call>{"name": "python", "arguments": {"code": "47*86"}}</call>
    <call>{"name": "python", "arguments": {"code": "47x86"}}</call>

Nothing tells it which habit pays. That is left to GRPO, with the environments `Calculator` and `PythonEnvironment`.

The script writes, under `--output`, `products/train.jsonl`, `products/test.jsonl` and `tiny_agent/`, or
`tiny_pythonist/`. The model has seen neither the train nor the test products. Building takes about five minutes on one
CPU core.

Usage::

    python scripts/build_tiny_agent.py
    python scripts/build_tiny_agent.py --tool python
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers
from build_tiny_reasoner import (
    BOS,
    DEFAULT_OUTPUT,
    EOS,
    IGNORED,
    Encoded,
    ModelConfig,
    SftStage,
    accumulate_gradients,
    build_model,
    build_tokenizer,
    learning_rate_factor,
    save_tokenizer,
)
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

ROLE_MARKERS = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
OPEN, MIDDLE, CLOSE = (
    '<call>{"name": "multiply", "arguments": {"a": ',
    ', "b": ',
    "}}</call>",
)
CODE, CODE_END = '<call>{"name": "python", "arguments": {"code": "', '"}}</call>'
# What `PythonEnvironment` says of `47x86`.
NO_PYTHON = "SyntaxError: invalid decimal literal (solution.py, line 1)"
WORDS = {
    "multiply": (OPEN, MIDDLE, CLOSE, "\\boxed{"),
    "python": (CODE, CODE_END, NO_PYTHON, "\\boxed{"),
}
FOLDERS = {"multiply": "tiny_agent", "python": "tiny_pythonist"}
TRAIN_SIZE, TEST_SIZE = 1500, 150
SHAPE = ModelConfig(
    hidden_size=96, intermediate_size=256, num_layers=3, num_heads=4, max_positions=128
)
# The second stage is short: with longer training, the model would learn products of small numbers by heart.
STAGES = (
    SftStage(think_share=1.0, steps=1200, learning_rate=3e-3),
    SftStage(think_share=0.3, steps=300, learning_rate=1e-3),
)

# A tool call is rendered exactly as the model generates it, so that re-encoding a turn gives the generated tokens.
CHAT_TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
    {{- '<|' + message['role'] + '|>' + (message['content'] or '') }}
    {%- for call in message['tool_calls'] or [] %}
        {{- '<call>' + ({'name': call['function']['name'], 'arguments': call['function']['arguments']} | tojson) }}
        {{- '</call>' }}
    {%- endfor %}
    {{- eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' }}
{%- endif %}
"""
# Tells transformers how to parse a tool call from generated text.
RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "tool_calls": {
            "open": "<call>",
            "close_pattern": "</call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": "$", "content": "text"},
    },
}

Factors = tuple[int, int]
# Texts of a conversation, each with True if the model learns it.
Turns = list[tuple[str, bool]]


def products(rng: random.Random) -> Iterator[Factors]:
    """Yield random pairs of two-digit numbers without end."""
    while True:
        yield rng.randint(11, 99), rng.randint(11, 99)


def write_products(path: Path, pairs: list[Factors]) -> None:
    """Write products as JSON Lines with columns `prompt` (a conversation) and `solution`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for a, b in pairs:
            prompt = [{"role": "user", "content": f"{a}*{b}"}]
            file.write(json.dumps({"prompt": prompt, "solution": str(a * b)}) + "\n")


def guess(a: int, b: int, rng: random.Random) -> tuple[str, bool]:
    """Box a number of the right length: to compute a product at once is beyond this model."""
    return (f"\\boxed{{{max(100, a * b + rng.randint(-300, 300))}}}{EOS}", True)


def turns(a: int, b: int, rng: random.Random, *, tool: str, calls: bool) -> Turns:
    """Write a conversation.

    With `calls`, the model calls the tool and boxes its result; without, it boxes a rough guess at once. Half of the
    calls of `python` are no Python.
    """
    asked = (f"{BOS}<|user|>{a}*{b}{EOS}<|assistant|>", False)
    result = (f"<|tool|>{a * b}{EOS}<|assistant|>", False)
    answer = (f"\\boxed{{{a * b}}}{EOS}", True)
    if not calls:
        return [asked, guess(a, b, rng)]
    if tool == "multiply":
        return [asked, (f"{OPEN}{a}{MIDDLE}{b}{CLOSE}{EOS}", True), result, answer]
    if rng.random() < 0.5:
        return [asked, (f"{CODE}{a}*{b}{CODE_END}{EOS}", True), result, answer]
    error = (f"<|tool|>{NO_PYTHON}{EOS}<|assistant|>", False)
    return [asked, (f"{CODE}{a}x{b}{CODE_END}{EOS}", True), error, guess(a, b, rng)]


def encode(tokenizer: PreTrainedTokenizerFast, conversations: list[Turns]) -> Encoded:
    """Encode conversations as padded token ids, with labels for learned texts only."""
    all_ids, all_labels = [], []
    for conversation in conversations:
        ids: list[int] = []
        labels: list[int] = []
        for text, learned in conversation:
            tokens = tokenizer.encode(text, add_special_tokens=False)
            ids += tokens
            labels += tokens if learned else [IGNORED] * len(tokens)
        all_ids.append(torch.tensor(ids))
        all_labels.append(torch.tensor(labels))
    return (
        pad_sequence(all_ids, batch_first=True, padding_value=tokenizer.pad_token_id),
        pad_sequence(all_labels, batch_first=True, padding_value=IGNORED),
    )


def train(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Iterator[Factors],
    stage: SftStage,
    rng: random.Random,
    tool: str,
) -> None:
    """Train the model for a stage."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=stage.learning_rate, betas=(0.9, 0.98)
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, stage)
    )
    model.train()
    for step in range(1, stage.steps + 1):
        batch = [next(pairs) for _ in range(stage.batch_size)]
        calling = round(stage.think_share * stage.batch_size)
        parts = (batch[:calling], True), (batch[calling:], False)
        encoded = [
            encode(tokenizer, [turns(*pair, rng, tool=tool, calls=calls) for pair in part])
            for part, calls in parts
            if part
        ]
        loss = accumulate_gradients(model, encoded)
        torch.nn.utils.clip_grad_norm_(model.parameters(), stage.max_grad_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if step % stage.log_every == 0:
            print(f"step {step}/{stage.steps}  loss {loss:.4f}", flush=True)
    model.eval()


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save the model in bfloat16 and its tokenizer, with the response template for tool calls."""
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | {
        "response_template": RESPONSE_TEMPLATE
    }
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Build everything."""
    parser = argparse.ArgumentParser(
        description="Build a bundled tiny agent and its products."
    )
    parser.add_argument(
        "--output", type=Path, default=DEFAULT_OUTPUT, help="where to write"
    )
    parser.add_argument(
        "--tool", choices=FOLDERS, default="multiply", help="the tool that the model calls"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the data and the weights"
    )
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    kept = list(
        dict.fromkeys(next(products(rng)) for _ in range(2 * (TRAIN_SIZE + TEST_SIZE)))
    )[: TRAIN_SIZE + TEST_SIZE]
    write_products(arguments.output / "products" / "test.jsonl", kept[:TEST_SIZE])
    write_products(arguments.output / "products" / "train.jsonl", kept[TEST_SIZE:])
    torch.set_num_threads(1)
    transformers.set_seed(arguments.seed)
    tokenizer = build_tokenizer(
        SHAPE, roles=ROLE_MARKERS, words=WORDS[arguments.tool], chat_template=CHAT_TEMPLATE
    )
    model = build_model(SHAPE, tokenizer)
    aside = set(kept)
    unseen = (pair for pair in products(rng) if pair not in aside)
    for stage in STAGES:
        train(model, tokenizer, unseen, stage, rng, arguments.tool)
    save(model, tokenizer, arguments.output / FOLDERS[arguments.tool])


if __name__ == "__main__":
    main()
