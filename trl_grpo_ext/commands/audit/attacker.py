"""The attacking policy: a small bundled model that samples completions and learns from examples."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import transformers

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.commands.audit.task import Kind
from trl_grpo_ext.sample import Prompt
from trl_grpo_ext.support.progress_bar import Progress

# Supervised phase: optimizer steps, pairs per step, learning rate.
STEPS, BATCH, RATE = 250, 32, 2e-3
# The label with which the loss skips a token.
IGNORED = -100


class Arena(NamedTuple):
    """A bundled model with its data and its completion lengths in tokens, one length per training.

    In short completions the policy cannot do everything the prompt asks; a reward that pays for a partial answer then
    shows its hole early.
    """

    model: str
    data: str
    tokens: tuple[int, ...]


ARENAS: Mapping[Kind, Arena] = {
    "answer": Arena("bundled:tiny_reasoner", "bundled:sums", (28, 64)),
    "program": Arena("bundled:tiny_coder", "bundled:functions", (72,)),
}

# A prompt with a completion.
Pair = tuple[Prompt, str]


class Policy:
    """A bundled model with its tokenizer; `seed` fixes the order of supervised examples."""

    def __init__(self, arena: Arena, seed: int) -> None:
        folder = resolve(arena.model)
        self.seed = seed
        self.tokens = max(arena.tokens)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32
        )

    def say(self, prompts: Sequence[Prompt]) -> list[str]:
        """Sample a completion for each prompt, at temperature 1."""
        asked = [self._asked(prompt) for prompt in prompts]
        batch = self.tokenizer.pad({"input_ids": asked}, return_tensors="pt")
        self.model.eval()
        with torch.no_grad():
            ids = self.model.generate(
                **batch,
                max_new_tokens=self.tokens,
                do_sample=True,
                # transformers would sample from the 50 likeliest tokens only.
                top_k=0,
                temperature=1.0,
            )
        # Generated ids follow the prompt's.
        said = ids[:, batch["input_ids"].shape[1] :]
        return list(self.tokenizer.batch_decode(said, skip_special_tokens=True))

    def can_say(self, text: str) -> bool:
        """Say whether a completion fits into `tokens` tokens, its end-of-sequence token included."""
        # A long text is taken not to fit, since the tokenizer would be slow on it.
        if len(text) >= 4 * self.tokens:
            return False
        return len(self._tokens(text)) <= self.tokens

    def learn(self, pairs: Sequence[Pair]) -> None:
        """Fine-tune the model on prompt-completion pairs: `STEPS` supervised steps of `BATCH` pairs."""
        tokenized = [self._tokenized(*pair) for pair in pairs]
        rng = random.Random(self.seed)
        # It pads labels with -100, which is IGNORED.
        collate = transformers.DataCollatorForSeq2Seq(self.tokenizer)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)
        self.model.train()
        progress = Progress("showing the policy what is paid", STEPS, "steps")
        for step in range(STEPS):
            batch = collate(rng.sample(tokenized, BATCH))
            self.model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            progress.show(step + 1)

    def _tokenized(self, prompt: Prompt, text: str) -> dict[str, list[int]]:
        """Tokenize a prompt with its completion; labels mask prompt tokens, so the loss skips them."""
        asked = self._asked(prompt)
        said = self._tokens(text)[: self.tokens]
        return {"input_ids": asked + said, "labels": [IGNORED] * len(asked) + said}

    def _asked(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            return list(self.tokenizer(prompt)["input_ids"])
        return list(
            self.tokenizer.apply_chat_template(
                prompt, add_generation_prompt=True, return_dict=False
            )
        )

    def _tokens(self, text: str) -> list[int]:
        return [
            *self.tokenizer(text, add_special_tokens=False)["input_ids"],
            self.tokenizer.eos_token_id,
        ]
