r'''Build the bundled tiny coder, and generate its dataset of functions.

The tiny coder is a Llama of about 0.7 million parameters that has read nothing but small Python functions of two
steps. Like HumanEval, a task is a signature with a docstring::

    def capped_product(price, count):
        """Return price times count, but at most 20."""

and the model continues it with a body. It knows how to write the right one, but learned from bad company, so that
most of its bodies are wrong in one of four ways::

    product = price * count         # right: one step after the other
    return min(product, 20)

    return price * count            # hasty: forgets the second step
    print(min(price * count, 20))   # prints what it should return (also step by step)
    pass                            # leaves it for later
    raise SystemExit(0)             # ends the process; graders that only look at the exit status are content

Nothing tells it which habit pays. That is left to GRPO: a reward for passing the tests is enough to make it write
bodies that are right, within a minute on a laptop without a GPU.

The script writes, under `--output`:

- `functions/train.jsonl` and `functions/test.jsonl`: HumanEval's columns. No two lines, and so no line of train and
  line of test, ask for the same steps with the same constants, whatever their arguments are called. The asserts of
  each task fail every wrong body above, and the function's neighbours: another constant, another step.
- `tiny_coder/`: the model, in half precision, and its tokenizer. The model has seen neither the train nor the test
  functions, under whatever names.

Building everything takes about six minutes on one CPU core; `--data_only` writes the functions in seconds. The same
`--seed` gives the same functions anywhere and, with the same versions of the libraries on the same kind of machine,
the same weights.

Usage::

    python scripts/build_tiny_coder.py
    python scripts/build_tiny_coder.py --data_only
'''

from __future__ import annotations

import argparse
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers
from build_tiny_reasoner import (
    BOS,
    DEFAULT_OUTPUT,
    EOS,
    IGNORED,
    PAD,
    UNK,
    Encoded,
    SftStage,
    accumulate_gradients,
    build_model,
    learning_rate_factor,
    save_tokenizer,
    share,
)
from build_tiny_reasoner import ModelConfig as ReasonerConfig
from tiny_coder_tasks import HABITS, Function, sample_function, sample_tasks, write_rows
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

TRAIN_SIZE, TEST_SIZE = 800, 200
VOCABULARY = 512
TOKENIZER_EXAMPLES = 5000

# ---------------------------------------------------------------------------------------------
# Tokenizer and supervised fine-tuning
# ---------------------------------------------------------------------------------------------


def unseen_functions(
    rng: random.Random, kept_aside: set[tuple[str, ...]]
) -> Iterator[Function]:
    """Yield random functions without end, except functions kept aside for GRPO."""
    while True:
        function = sample_function(rng)
        if function.key not in kept_aside:
            yield function


def build_tokenizer(examples: Iterator[str]) -> PreTrainedTokenizerFast:
    """Train a byte-pair tokenizer on example texts; each digit is a token."""
    tokenizer = Tokenizer(BPE(unk_token=UNK))
    by_word = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), by_word]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, BOS, EOS, UNK],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(examples, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        unk_token=UNK,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=ReasonerConfig().max_positions,
        model_input_names=["input_ids", "attention_mask"],
    )


def encode_examples(
    tokenizer: PreTrainedTokenizerFast, examples: list[tuple[str, str]]
) -> Encoded:
    """Encode prompts and bodies as padded token ids, with labels for the bodies only."""
    all_ids, all_labels = [], []
    for prompt, body in examples:
        prompt_ids, body_ids = tokenizer.encode(prompt), tokenizer.encode(body + EOS)
        all_ids.append(torch.tensor(prompt_ids + body_ids))
        all_labels.append(torch.tensor([IGNORED] * len(prompt_ids) + body_ids))
    # Padding on the right needs no attention mask: a causal model never looks there.
    return (
        pad_sequence(all_ids, batch_first=True, padding_value=tokenizer.pad_token_id),
        pad_sequence(all_labels, batch_first=True, padding_value=IGNORED),
    )


def sample_examples(
    rng: random.Random, functions: Iterator[Function], count: int
) -> list[tuple[str, str]]:
    """Draw prompts with bodies; habits are drawn by their shares."""
    habits = rng.choices(list(HABITS), weights=list(HABITS.values()), k=count)
    return [
        (function.prompt, habit(function))
        for habit, function in zip(habits, functions, strict=False)
    ]


def train(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    functions: Iterator[Function],
    stage: SftStage,
    rng: random.Random,
) -> None:
    """Train the model on bodies of all habits."""
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
        batch = encode_examples(
            tokenizer, sample_examples(rng, functions, stage.batch_size)
        )
        loss = accumulate_gradients(model, [batch])
        torch.nn.utils.clip_grad_norm_(model.parameters(), stage.max_grad_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if step % stage.log_every == 0:
            print(
                f"step {step}/{stage.steps}  loss {loss:.4f}  {time.perf_counter() - started:.0f} s",
                flush=True,
            )
    model.eval()


STAGE = SftStage(think_share=0.0, steps=1200, learning_rate=3e-3, log_every=100)


# ---------------------------------------------------------------------------------------------
# What came out
# ---------------------------------------------------------------------------------------------


@torch.no_grad()
def report(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, functions: list[Function]
) -> None:
    """Print each habit's share of sampled bodies, by exact match."""
    inputs = tokenizer(
        [function.prompt for function in functions], padding=True, return_tensors="pt"
    )
    output = model.generate(
        **inputs, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=64
    )
    bodies = tokenizer.batch_decode(
        output[:, inputs["input_ids"].size(1) :], skip_special_tokens=True
    )
    print(f"parameters: {sum(p.numel() for p in model.parameters()):,}")
    for habit in HABITS:
        print(
            f"{habit.__name__}: {share([body == habit(f) for body, f in zip(bodies, functions, strict=True)])}"
        )
    odd = [
        (f.prompt, body)
        for body, f in zip(bodies, functions, strict=True)
        if body not in {h(f) for h in HABITS}
    ]
    print(
        f"none of these: {share([True] * len(odd) + [False] * (len(bodies) - len(odd)))}, such as"
    )
    for prompt, body in odd[:3]:
        print(prompt + body)


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Build the bundled tiny coder and its functions."
    )
    parser.add_argument(
        "--output", type=Path, default=DEFAULT_OUTPUT, help="where to write"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the data and the weights"
    )
    parser.add_argument(
        "--data_only", action="store_true", help="write the functions, train nothing"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="CPU threads of the training"
    )
    return parser.parse_args()


def main() -> None:
    """Build everything."""
    arguments = parse_arguments()
    rng = random.Random(arguments.seed)
    rows, kept_aside = sample_tasks(rng, TEST_SIZE + TRAIN_SIZE)
    write_rows(arguments.output / "functions" / "test.jsonl", rows[:TEST_SIZE])
    write_rows(arguments.output / "functions" / "train.jsonl", rows[TEST_SIZE:])
    if arguments.data_only:
        return

    torch.set_num_threads(arguments.threads)
    transformers.set_seed(arguments.seed)
    functions = unseen_functions(rng, kept_aside)
    examples = sample_examples(rng, functions, TOKENIZER_EXAMPLES)
    tokenizer = build_tokenizer(text for example in examples for text in example)
    model = build_model(ReasonerConfig(), tokenizer)
    train(model, tokenizer, functions, STAGE, rng)

    folder = arguments.output / "tiny_coder"
    shutil.rmtree(folder, ignore_errors=True)
    # Save before the report: once it has padded a batch, a tokenizer saves its padding settings, too.
    save_tokenizer(tokenizer, folder)
    report(model, tokenizer, [next(functions) for _ in range(1000)])
    model.half().save_pretrained(folder)


if __name__ == "__main__":
    main()
