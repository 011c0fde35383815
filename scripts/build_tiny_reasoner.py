r"""Build the bundled tiny reasoner, and generate its dataset of sums.

The tiny reasoner is a Llama of about 0.6 million parameters that has read nothing but sums such as
`17+5+28+9`. It was taught two habits. About two times in three it answers at once, which it is bad at::

    \boxed{61}

and otherwise it first adds step by step, which it is good at::

    <think>17+5=22
    22+28=50
    50+9=59</think>\boxed{59}

Nothing tells it which habit pays. That is left to GRPO: a reward for the right answer is enough to
make it think first, within a minute or two on a laptop without a GPU.

The script writes, under `--output`:

- `sums/train.jsonl` and `sums/test.jsonl`: conversational prompts with their solutions. No two
  lines, and so no line of train and line of test, have the same numbers, in whatever order.
- `tiny_reasoner/`: the model and its tokenizer, in the Transformers format. The model has seen
  neither the train nor the test sums, in whatever order.

Building everything takes about eight minutes on one CPU core; `--data_only` writes the sums in a few
seconds. The same `--seed` gives the same sums anywhere and, with the same versions of the libraries
on the same kind of machine, the same weights.

Usage::

    python scripts/build_tiny_reasoner.py
    python scripts/build_tiny_reasoner.py --data_only
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import shutil
import string
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import BPE
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "trl_grpo_ext" / "assets"

Operands = tuple[int, ...]
Encoded = tuple[torch.Tensor, torch.Tensor]

BOS, EOS, PAD, UNK = "<|bos|>", "<|end|>", "<|pad|>", "<|unk|>"
ROLE_MARKERS = ("<|system|>", "<|user|>", "<|assistant|>")
# Single tokens keep completions short. They are not special tokens: TRL decodes completions with
# `skip_special_tokens=True`, and reward functions must see them.
WORDS = ("<think>", "</think>", "\\boxed{")
CHARACTERS = string.digits + string.ascii_letters + string.punctuation + " \n\t"

CHAT_TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
    {{- '<|' + message['role'] + '|>' + message['content'] + eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' }}
{%- endif %}
"""

# The label with which the loss skips a token.
IGNORED = -100

THINKS = re.compile(r"^<think>.*</think>", re.DOTALL)
BOXED = re.compile(r"\\boxed\{(\d+)\}")


@dataclass(frozen=True)
class SumsConfig:
    """Ranges of random sums, and sizes of the splits kept aside for GRPO."""

    min_operands: int = 3
    max_operands: int = 5
    max_operand: int = 30
    train_size: int = 2000
    test_size: int = 200


@dataclass(frozen=True)
class ModelConfig:
    """Model dimensions: a GRPO step takes under a second on a CPU core."""

    hidden_size: int = 128
    intermediate_size: int = 384
    num_layers: int = 3
    num_heads: int = 4
    max_positions: int = 256


@dataclass(frozen=True)
class SftStage:
    """A supervised fine-tuning stage with its own mix of both habits."""

    think_share: float
    steps: int
    learning_rate: float
    batch_size: int = 64
    warmup_steps: int = 50
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    log_every: int = 50


# Step-by-step addition comes first and takes most of the training. Direct answers come last and
# briefly: with longer training, even a model this small learns to compute a sum directly, and
# thinking would earn no more reward. The last `think_share` roughly sets the share of thinking
# completions at the start of GRPO: most groups of eight should contain some of either habit.
SFT_STAGES = (
    SftStage(think_share=1.0, steps=1500, learning_rate=3e-3),
    SftStage(think_share=0.36, steps=700, learning_rate=1e-3),
)


# ---------------------------------------------------------------------------------------------
# Sums
# ---------------------------------------------------------------------------------------------


def sample_operands(rng: random.Random, config: SumsConfig) -> Operands:
    """Draw the numbers of a sum."""
    count = rng.randint(config.min_operands, config.max_operands)
    return tuple(rng.randint(1, config.max_operand) for _ in range(count))


def multiset(operands: Operands) -> Operands:
    """Sort the numbers, to identify a sum regardless of their order."""
    return tuple(sorted(operands))


def sample_distinct_sums(rng: random.Random, config: SumsConfig) -> list[Operands]:
    """Draw train and test sums with distinct multisets of numbers."""
    drawn: dict[Operands, Operands] = {}
    while len(drawn) < config.train_size + config.test_size:
        operands = sample_operands(rng, config)
        drawn.setdefault(multiset(operands), operands)
    return list(drawn.values())


def question(operands: Operands) -> str:
    """Format a sum as the user's question."""
    return "+".join(map(str, operands))


def direct_answer(operands: Operands) -> str:
    """Write a direct answer, the model's bad habit."""
    return f"\\boxed{{{sum(operands)}}}"


def reasoned_answer(operands: Operands) -> str:
    """Write step-by-step additions and the answer, the model's good habit."""
    total, lines = operands[0], []
    for operand in operands[1:]:
        lines.append(f"{total}+{operand}={total + operand}")
        total += operand
    steps = "\n".join(lines)
    return f"<think>{steps}</think>\\boxed{{{total}}}"


def write_sums(path: Path, sums: list[Operands]) -> None:
    """Write sums as JSON Lines with columns `prompt` (a conversation) and `solution`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for operands in sums:
            prompt = [{"role": "user", "content": question(operands)}]
            row = {"prompt": prompt, "solution": str(sum(operands))}
            file.write(json.dumps(row) + "\n")


# ---------------------------------------------------------------------------------------------
# Tokenizer and model
# ---------------------------------------------------------------------------------------------


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save a tokenizer, also readable by transformers 4."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("backend", None)
    config["tokenizer_class"] = PreTrainedTokenizerFast.__name__
    if extra := config.pop("extra_special_tokens", None):
        config["additional_special_tokens"] = extra
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def build_tokenizer(
    config: ModelConfig,
    *,
    roles: tuple[str, ...] = ROLE_MARKERS,
    words: tuple[str, ...] = WORDS,
    chat_template: str = CHAT_TEMPLATE,
) -> PreTrainedTokenizerFast:
    """Build a character-level tokenizer with extra tokens for whole words."""
    special = [PAD, BOS, EOS, UNK, *roles]
    vocab = {token: index for index, token in enumerate([*special, *words, *CHARACTERS])}
    # Byte-pair encoding without merges is a character-level model.
    tokenizer = Tokenizer(BPE(vocab=vocab, merges=[], unk_token=UNK))
    # Without this decoder, the tokens of a decoded text would have spaces between them.
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_tokens(
        [AddedToken(word, special=False, normalized=False) for word in words]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        unk_token=UNK,
        additional_special_tokens=list(roles),
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=config.max_positions,
        model_input_names=["input_ids", "attention_mask"],
        chat_template=chat_template,
    )


def build_model(
    config: ModelConfig, tokenizer: PreTrainedTokenizerFast
) -> LlamaForCausalLM:
    """Build the model with random weights."""
    llama_config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_heads,
        max_position_embeddings=config.max_positions,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(llama_config)
    model.generation_config.do_sample = True
    return model


# ---------------------------------------------------------------------------------------------
# Supervised fine-tuning
# ---------------------------------------------------------------------------------------------


def unseen_sums(
    rng: random.Random, config: SumsConfig, kept_aside: set[Operands]
) -> Iterator[Operands]:
    """Yield random sums without end, except sums kept aside for GRPO."""
    while True:
        operands = sample_operands(rng, config)
        if multiset(operands) not in kept_aside:
            yield operands


def encode_examples(
    tokenizer: PreTrainedTokenizerFast, examples: list[tuple[str, str]]
) -> Encoded:
    """Encode question-answer pairs as padded token ids, with labels for the answers only.

    Both tensors have shape (examples, longest example).
    """
    all_ids, all_labels = [], []
    for asked, answered in examples:
        messages = [{"role": "user", "content": asked}]
        prompt = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False
        )
        prompt_ids = tokenizer.encode(prompt, add_special_tokens=False)
        answer_ids = tokenizer.encode(answered + EOS, add_special_tokens=False)
        all_ids.append(torch.tensor(prompt_ids + answer_ids))
        all_labels.append(torch.tensor([IGNORED] * len(prompt_ids) + answer_ids))
    # Padding on the right needs no attention mask: a causal model never looks there.
    return (
        pad_sequence(all_ids, batch_first=True, padding_value=tokenizer.pad_token_id),
        pad_sequence(all_labels, batch_first=True, padding_value=IGNORED),
    )


def summed_loss(
    model: LlamaForCausalLM, input_ids: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Sum the cross-entropy over labelled tokens."""
    logits = model(input_ids=input_ids, use_cache=False).logits[:, :-1]
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.size(-1)),
        labels[:, 1:].reshape(-1),
        ignore_index=IGNORED,
        reduction="sum",
    )


def learning_rate_factor(step: int, stage: SftStage) -> float:
    """Warm up linearly, then decay along a cosine."""
    if step < stage.warmup_steps:
        return (step + 1) / stage.warmup_steps
    progress = (step - stage.warmup_steps) / (stage.steps - stage.warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * progress))


def sample_batch(
    tokenizer: PreTrainedTokenizerFast, sums: Iterator[Operands], stage: SftStage
) -> list[Encoded]:
    """Draw a batch, split by habit: answers of equal habit have similar lengths, so they need less padding."""
    batch = [next(sums) for _ in range(stage.batch_size)]
    reasoned_count = round(stage.think_share * stage.batch_size)
    reasoned = [(question(s), reasoned_answer(s)) for s in batch[:reasoned_count]]
    direct = [(question(s), direct_answer(s)) for s in batch[reasoned_count:]]
    return [
        encode_examples(tokenizer, examples) for examples in (reasoned, direct) if examples
    ]


def accumulate_gradients(model: LlamaForCausalLM, parts: list[Encoded]) -> float:
    """Accumulate gradients over parts of a batch; return the batch's loss per token."""
    token_count = sum(int((labels != IGNORED).sum()) for _, labels in parts)
    batch_loss = 0.0
    for input_ids, labels in parts:
        loss = summed_loss(model, input_ids, labels) / token_count
        loss.backward()
        batch_loss += loss.item()
    return batch_loss


def train(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    sums: Iterator[Operands],
    stage: SftStage,
) -> None:
    """Train the model for a stage."""
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=stage.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=stage.weight_decay,
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, stage)
    )
    model.train()
    started = time.perf_counter()
    for step in range(1, stage.steps + 1):
        loss = accumulate_gradients(model, sample_batch(tokenizer, sums, stage))
        torch.nn.utils.clip_grad_norm_(model.parameters(), stage.max_grad_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if step % stage.log_every == 0:
            elapsed = time.perf_counter() - started
            print(
                f"step {step}/{stage.steps}  loss {loss:.4f}  {elapsed:.0f} s", flush=True
            )
    model.eval()


# ---------------------------------------------------------------------------------------------
# What came out
# ---------------------------------------------------------------------------------------------


@torch.no_grad()
def sample_answers(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, sums: list[Operands]
) -> list[str]:
    """Sample an answer to each sum at temperature 1."""
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question(operands)}],
            add_generation_prompt=True,
            tokenize=False,
        )
        for operands in sums
    ]
    inputs = tokenizer(prompts, add_special_tokens=False, padding=True, return_tensors="pt")
    output = model.generate(
        **inputs, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=64
    )
    completions = output[:, inputs["input_ids"].size(1) :]
    answers: list[str] = tokenizer.batch_decode(completions, skip_special_tokens=True)
    return answers


def share(outcomes: list[bool]) -> str:
    """Format the share of true outcomes as a percentage."""
    return f"{sum(outcomes) / len(outcomes):.1%}" if outcomes else "-"


def report(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, sums: list[Operands]
) -> None:
    """Print how often the model thinks, and its accuracy by habit."""
    reasoned: list[bool] = []
    direct: list[bool] = []
    for operands, answer in zip(sums, sample_answers(model, tokenizer, sums), strict=True):
        boxed = BOXED.findall(answer)
        right = bool(boxed) and int(boxed[-1]) == sum(operands)
        (reasoned if THINKS.match(answer) else direct).append(right)
    print(f"parameters: {sum(p.numel() for p in model.parameters()):,}")
    print(f"accuracy on {len(sums)} sampled answers: {share(reasoned + direct)}")
    print(f"- thinks first ({len(reasoned)} answers): {share(reasoned)} right")
    print(f"- answers at once ({len(direct)} answers): {share(direct)} right")


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Build the bundled tiny reasoner and its sums."
    )
    parser.add_argument(
        "--output", type=Path, default=DEFAULT_OUTPUT, help="where to write"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the data and the weights"
    )
    parser.add_argument(
        "--data_only", action="store_true", help="write the sums, train nothing"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="CPU threads of the training"
    )
    return parser.parse_args()


def main() -> None:
    """Build everything."""
    arguments = parse_arguments()
    sums_config = SumsConfig()
    rng = random.Random(arguments.seed)
    kept_aside = sample_distinct_sums(rng, sums_config)
    test_sums = kept_aside[: sums_config.test_size]
    write_sums(arguments.output / "sums" / "test.jsonl", test_sums)
    write_sums(
        arguments.output / "sums" / "train.jsonl", kept_aside[sums_config.test_size :]
    )
    if arguments.data_only:
        return

    torch.set_num_threads(arguments.threads)
    transformers.set_seed(arguments.seed)
    model_config = ModelConfig()
    tokenizer = build_tokenizer(model_config)
    model = build_model(model_config, tokenizer)
    sums = unseen_sums(rng, sums_config, {multiset(operands) for operands in kept_aside})
    for stage in SFT_STAGES:
        train(model, tokenizer, sums, stage)

    folder = arguments.output / "tiny_reasoner"
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    # Save before the report: once it has padded a batch, a tokenizer saves its padding settings, too.
    save_tokenizer(tokenizer, folder)
    report(model, tokenizer, test_sums * 5)


if __name__ == "__main__":
    main()
