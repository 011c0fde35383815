"""The policy that attacks: a bundled model that says what it wants, and is shown what else could be said."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import transformers

from trl_grpo_ext.assets import resolve
from trl_grpo_ext.audit.task import Kind
from trl_grpo_ext.sample import Prompt
from trl_grpo_ext.support.progress import Progress

STEPS, BATCH, RATE = 250, 32, 2e-3  # of being shown
IGNORED = -100  # the label of tokens that are not learned


class Arena(NamedTuple):
    """A bundled model, its data, and how many tokens it may say in each of its trainings.

    Where there is too little room to do all that was asked for, a reward that pays for a part of it shows at once.
    """

    model: str
    data: str
    tokens: tuple[int, ...]


ARENAS: Mapping[Kind, Arena] = {
    "answer": Arena("bundled:tiny_reasoner", "bundled:sums", (28, 64)),
    "program": Arena("bundled:tiny_coder", "bundled:functions", (72,)),
}

Pair = tuple[Prompt, str]  # a prompt and a completion


class Policy:
    """The bundled model of an arena, and a seed for what it is shown."""

    def __init__(self, arena: Arena, seed: int) -> None:
        folder = resolve(arena.model)
        self.seed = seed
        self.tokens = max(arena.tokens)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def say(self, prompts: Sequence[Prompt]) -> list[str]:
        """A completion of each prompt, sampled."""
        batch = self.tokenizer.pad({"input_ids": [self._asked(prompt) for prompt in prompts]}, return_tensors="pt")
        settings = {"max_new_tokens": self.tokens, "do_sample": True, "top_k": 0, "temperature": 1.0}
        with torch.no_grad():
            ids = self.model.eval().generate(**batch, **settings)[:, batch["input_ids"].shape[1] :]
        return list(self.tokenizer.batch_decode(ids, skip_special_tokens=True))

    def can_say(self, text: str) -> bool:
        """Whether a completion is short enough."""
        return len(text) < 4 * self.tokens and len(self._tokens(text)) <= self.tokens

    def learn(self, pairs: Sequence[Pair]) -> None:
        """Learn to say completions to prompts, by supervised steps."""
        tokenized = [self._tokenized(*pair) for pair in pairs]
        rng, collate = random.Random(self.seed), transformers.DataCollatorForSeq2Seq(self.tokenizer)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)
        self.model.train()
        progress = Progress("showing the policy what is paid", STEPS, "steps")
        for step in range(STEPS):
            self.model(**collate(rng.sample(tokenized, BATCH))).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            progress.show(step + 1)

    def _tokenized(self, prompt: Prompt, text: str) -> dict[str, list[int]]:
        """Token ids, and labels, of which those of the prompt are not learned."""
        asked, said = self._asked(prompt), self._tokens(text)[: self.tokens]
        return {"input_ids": asked + said, "labels": [IGNORED] * len(asked) + said}

    def _asked(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            return list(self.tokenizer(prompt)["input_ids"])
        return list(self.tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False))

    def _tokens(self, text: str) -> list[int]:
        return [*self.tokenizer(text, add_special_tokens=False)["input_ids"], self.tokenizer.eos_token_id]
